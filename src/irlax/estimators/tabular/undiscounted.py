r"""Where to start at γ = 1 without a horizon, where most rewards have no value.

If going round in circles pays, entropy included, values grow without bound. They exist where some h satisfies

$$\phi(s,a)^\top\theta + \mathbb{E}[h(S')] - h(s) \le -\log A(s), \quad h = 0 \text{ at the end}$$

with A(s) actions in state s, since then $h \ge \log\sum_a e^{Q_h(s,a)}$ bounds the values from above. If they exist
for any θ at all, some multiple of it satisfies this, so that a linear programme in (θ, h) finds a start, or shows that
there is none. Under the path model next states count one by one.
"""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from irlax import checks
from irlax.estimators.tabular.objectives import PathMatching
from irlax.estimators.tabular.polytope import Features, Options, Planned, Sparse, sp
from irlax.estimators.tabular.problem import Problem
from irlax.rewards import AbstractReward
from irlax.typing import Float

#: By how much each step must cost more than its entropy is worth.
MARGIN = 0.5


def start_where_values_exist(
    problem: Problem, x: Float[np.ndarray, " K"], rewards: Sequence[AbstractReward]
) -> Float[np.ndarray, " K"]:
    """`x`, or, if the objective has no value there, parameters of moderate size at which it has one."""
    endless = [objective for objective in problem.objectives if isinstance(objective, Planned)]
    if all(objective.mdp.terminal is None for objective in endless) or np.isfinite(problem.evaluate(x).loss):
        return x
    if not all(reward.is_linear for reward in rewards):
        raise ValueError(
            "discount = 1 with no horizon: at the parameters that the reward starts from, going round in circles pays, "
            "so values do not exist. Start it where every step costs something, give a horizon, or discount."
        )
    parts = [_costs(objective, problem, len(x)) for objective in endless if objective.mdp.terminal is not None]
    features = sp.vstack([part[0] for part in parts], format="csr")
    potentials = sp.block_diag([part[1] for part in parts], format="csr")
    entropy = np.concatenate([part[2] for part in parts])
    # The unknowns: x, h, and the largest |x|, which is made as small as can be.
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
            f"discount = 1 with no horizon: whatever the weights of {names}, it pays to go round in circles for ever, "
            f"so values do not exist. Add a feature that costs something on every step, give a horizon, or discount."
        )
    return found.x[:size]


def _costs(objective: Planned, problem: Problem, num: int) -> tuple[Sparse, Sparse, Float[np.ndarray, " J"]]:
    """Of each option: its features in x, the row of E[h(S')] − h(s), and the entropy that its state can have."""
    mdp = objective.mdp
    options = Options.of(mdp, path=isinstance(objective, PathMatching))
    by_option = Features.of(objective, problem.flattening, num).of_options(mdp, options)
    here = sp.csr_array(
        (np.ones(len(options.state)), (np.arange(len(options.state)), options.state)), options.leads.shape
    )
    going_on = sp.diags_array((~np.asarray(mdp.terminal)).astype(float))
    actions = mdp.num_available[options.state]
    by_option = sp.csr_array(by_option @ sp.diags_array(1 / np.asarray(problem.scale)))
    return by_option, sp.csr_array((options.leads - here) @ going_on), np.log(actions)
