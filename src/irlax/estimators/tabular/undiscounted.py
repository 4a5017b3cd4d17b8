r"""A start at which values exist, for γ = 1 without a horizon.

If a cycle has a positive reward, entropy included, values are infinite. They exist if some h satisfies

$$\phi(s,a)^\top\theta + \mathbb{E}[h(S')] - h(s) \le -\log A(s), \quad h = 0 \text{ at the end}$$

with A(s) actions in state s, since then $h \ge \log\sum_a e^{Q_h(s,a)}$ bounds the values from above. If values exist
for any θ at all, some multiple of it satisfies this, so that a linear programme in (θ, h) finds a start, or shows that
there is none. Under the path model there is one inequality for each next state.
"""

from collections.abc import Sequence

import numpy as np

from irlax import checks
from irlax.estimators.tabular.objectives import PathMatching
from irlax.estimators.tabular.polytope import Options
from irlax.estimators.tabular.problem import Problem
from irlax.estimators.tabular.reward_features import Features, Planned
from irlax.estimators.tabular.small_problem import SmallProblem
from irlax.estimators.tabular.sparse import Sparse, linprog, sp
from irlax.rewards import AbstractReward
from irlax.typing import Float

#: The cost of each step exceeds its largest entropy by this much.
MARGIN = 0.5


def start_where_values_exist(
    problem: Problem | SmallProblem, x: Float[np.ndarray, " K"], rewards: Sequence[AbstractReward]
) -> Float[np.ndarray, " K"]:
    """`x`, or, if values do not exist there, parameters as small as possible at which they do."""
    planned = [objective for objective in problem.objectives if isinstance(objective, Planned)]
    if all(objective.mdp.terminal is None for objective in planned) or np.isfinite(problem.evaluate(x).loss):
        return x
    if not all(reward.is_linear for reward in rewards):
        raise ValueError(
            "discount = 1 with no horizon: at the initial parameters of the reward a cycle has a positive reward "
            "(entropy included), so values are infinite. Start where every step has a negative reward, give a horizon, "
            "or discount."
        )
    parts = [_costs(objective, problem, len(x)) for objective in planned if objective.mdp.terminal is not None]
    features = sp.vstack([part[0] for part in parts], format="csr")
    potentials = sp.block_diag([part[1] for part in parts], format="csr")
    entropy = np.concatenate([part[2] for part in parts])
    # The unknowns are x, h, and the largest |x|, which is minimised.
    size, states = len(x), potentials.shape[1]
    steps = sp.hstack([features, potentials, sp.csr_array((len(entropy), 1))])
    bounded = sp.hstack([sp.vstack([sp.eye_array(size), -sp.eye_array(size)]), sp.csr_array((2 * size, states))])
    bounded = sp.hstack([bounded, sp.csr_array(-np.ones((2 * size, 1)))])
    found = linprog(
        np.append(np.zeros(size + states), 1.0),
        A_ub=sp.vstack([steps, bounded], format="csr"),
        b_ub=np.concatenate([-entropy - MARGIN, np.zeros(2 * size)]),
        bounds=(None, None),
    )
    if found.status != 0:
        names = checks.some(rewards[0].parameter_names())
        raise ValueError(
            f"discount = 1 with no horizon: for all weights of {names} some cycle has a positive reward (entropy "
            f"included), so values are infinite. Add a feature that can make every step costly, give a horizon, or "
            f"discount."
        )
    return found.x[:size]


def _costs(
    objective: Planned, problem: Problem | SmallProblem, num: int
) -> tuple[Sparse, Sparse, Float[np.ndarray, " J"]]:
    """For each option: its features in x, the coefficients of E[h(S')] − h(s), and the largest entropy of its state."""
    mdp = objective.mdp
    options = Options.of(mdp, path=isinstance(objective, PathMatching))
    by_option = Features.of(objective, problem.flattening, num).of_options(mdp, options)
    here = sp.csr_array(
        (np.ones(len(options.state)), (np.arange(len(options.state)), options.state)), options.transitions.shape
    )
    not_terminal = sp.diags_array((~np.asarray(mdp.terminal)).astype(float))
    actions = mdp.num_available[options.state]
    by_option = sp.csr_array(by_option @ sp.diags_array(1 / np.asarray(problem.scale)))
    return by_option, sp.csr_array((options.transitions - here) @ not_terminal), np.log(actions)
