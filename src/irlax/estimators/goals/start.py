r"""A start at which values exist: at γ = 1 most parameters have none, because some cycle gains more than it costs.

First along one direction: every feature that is nowhere negative is a cost. On the way from 0 the values begin to exist
where I − M becomes an M-matrix, which the pivots of one factorisation tell; the start is at twice that distance. If
there is no such direction, a linear programme in (θ, h) decides:

$$\phi_j^\top\theta + h(\text{head}) - h(\text{tail}) \le -\log A(\text{tail}) - \text{margin}$$

for all options, with A options in a state, is a cost of every cycle above its entropy; h bounds all values from above.
"""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.sparse.linalg import splu

from irlax import checks
from irlax.estimators.goals.goal_problem import GoalObjective, GoalProblem
from irlax.planning.goals.shared import SharedPattern
from irlax.typing import Float

#: The cost of each step exceeds its largest entropy by this much.
MARGIN = 0.1
#: Doublings of the distance from 0 along the first direction, from 2⁻⁶ on, and halvings of the last interval.
DOUBLINGS, HALVINGS = 26, 6


def start_where_values_exist(
    problem: GoalProblem, x: Float[np.ndarray, " K"], names: list[str]
) -> Float[np.ndarray, " K"]:
    """`x`, or, if values do not exist there, other parameters at which they do."""
    if problem.objective.options.discount < 1 or np.isfinite(problem.evaluate(x).loss):
        return x
    if not problem.objective.is_linear:
        raise ValueError(
            "discount = 1: at the initial parameters of the reward a cycle has a positive reward (entropy included), "
            "so values are infinite. Start where every step has a negative reward, or discount."
        )
    found = _along_costs(problem)
    return _by_linear_programme(problem, names) if found is None else found


def _shared(problem: GoalProblem) -> GoalObjective:
    """The objective; others start at an estimate of this one."""
    assert isinstance(problem.objective, GoalObjective)
    return problem.objective


def _along_costs(problem: GoalProblem) -> Float[np.ndarray, " K"] | None:
    """Twice the distance at which values begin to exist if every feature with one sign is a cost; None if nowhere."""
    features = _shared(problem).reward.features
    assert features is not None
    low, high = (_by_column(features, side) for side in ("min", "max"))
    direction = np.where(low >= 0, -1.0, np.where(high <= 0, 1.0, 0.0))
    feasible = None
    for doubling in range(-6, DOUBLINGS - 6):
        if _exist(problem, 2.0**doubling * direction):
            feasible = doubling
            break
    if feasible is None:
        return None
    least, most = 2.0 ** (feasible - 1), 2.0**feasible
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        least, most = (least, middle) if _exist(problem, middle * direction) else (middle, most)
    for distance in (2 * most, most):
        if np.isfinite(problem.evaluate(distance * direction).loss):
            return distance * direction
    return None


def _by_column(features: object, side: str) -> Float[np.ndarray, " K"]:
    extreme = getattr(features, side)(axis=0)
    return np.asarray(extreme.toarray() if sp.issparse(extreme) else extreme, np.float64).ravel()


def _exist(problem: GoalProblem, x: Float[np.ndarray, " K"]) -> bool:
    """Whether values exist for whatever goal: quicker than to compute them for all."""
    objective, pattern = _shared(problem), _shared(problem).planner.pattern
    if not isinstance(pattern, SharedPattern):
        return bool(np.isfinite(problem.evaluate(x).loss))
    reward = objective.reward.direction(x / np.asarray(problem.scale))
    if reward.max(initial=0.0) > 300:
        return False
    entries = np.bincount(pattern.entry, weights=np.exp(reward), minlength=len(pattern.indices))
    system = sp.csc_array(sp.eye_array(pattern.options.num_states, format="csr") - pattern.matrix(entries))
    try:
        factors = splu(system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:
        return False
    return bool((factors.U.diagonal() > 0).all())


def _by_linear_programme(problem: GoalProblem, names: list[str]) -> Float[np.ndarray, " K"]:
    options = problem.objective.options
    features = sp.csr_array(_shared(problem).reward.features) @ sp.diags_array(1 / np.asarray(problem.scale))
    here = options.by_state.T
    steps = sp.csr_array(options.transitions - here)
    size, states, num = len(names), options.num_states, len(options.state)
    actions = np.bincount(options.state, minlength=states)[options.state]
    bounded = sp.hstack(
        [
            sp.vstack([sp.eye_array(size), -sp.eye_array(size)]),
            sp.csr_array((2 * size, states)),
            sp.csr_array(-np.ones((2 * size, 1))),
        ]
    )
    found = linprog(
        np.append(np.zeros(size + states), 1.0),
        A_ub=sp.vstack([sp.hstack([features, steps, sp.csr_array((num, 1))]), bounded], format="csr"),
        b_ub=np.concatenate([-np.log(actions) - MARGIN, np.zeros(2 * size)]),
        bounds=(None, None),
    )
    if found.status == 0 and np.isfinite(problem.evaluate(found.x[:size]).loss):
        return found.x[:size]
    raise ValueError(
        f"discount = 1: for all weights of {checks.some(names)} some cycle has a positive reward (entropy included), "
        f"so values are infinite. Add a feature that makes every step costly, such as its length, or discount."
    )
