"""Soft (maximum causal entropy) planning."""

from typing import Any

from irlax.mdp import MDP
from irlax.planning.backup import SoftBackup
from irlax.planning.fixed_point import Method
from irlax.planning.plan import Plan, folded, plan_with
from irlax.precision import exact

#: Relative accuracy of infinite-horizon values unless told otherwise.
TOLERANCE = 1e-10


@exact
def soft_plan(
    mdp: MDP, reward: Any, *, tol: float = TOLERANCE, method: Method = "auto", low_memory: bool = False
) -> Plan:
    r"""The policy that maximises return plus causal entropy.

    $$Q_t(s,a) = \mathbb{E}[r(s,a,S')] + \gamma\,\mathbb{E}[V_{t+1}(S')], \quad
      V_t(s) = \log\textstyle\sum_a e^{Q_t(s,a)}, \quad V_T = 0$$

    `reward` is an array [S], [S,A] or [S,A,S'], or an object of `irlax.rewards`, such as `fit.reward`; what depends on
    s' folds into its expectation, exactly. With no horizon, V is the fixed point, to ‖V − V*‖∞ ≤ tol·max(1, ‖V‖∞), by
    `method` "newton", "value-iteration" or, by default, the cheaper of the two. Inside `jit` a value that does not
    exist is +inf; outside, an error.

    With a horizon, T·S values are kept; `low_memory` keeps √T·S and computes the others again when they are needed.

    Primer, Eq. "Soft VI" and section 4.1.
    """
    return plan_with(SoftBackup(mdp, folded(mdp, reward)), tol, method, low_memory=low_memory)
