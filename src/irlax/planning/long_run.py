"""Where a policy is in the long run: the stationary distribution of its chain, undiscounted."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.csgraph import connected_components

from irlax import checks
from irlax.mdp import MDP
from irlax.planning.chain import Chain
from irlax.planning.occupancy import checked_policy, refuse_other_problem
from irlax.planning.plan import Plan
from irlax.precision import exact, is_traced
from irlax.typing import Array, Float


@exact
def long_run(mdp: MDP, policy: Any) -> Float[Array, "R A"]:
    r"""The share of time spent in each state and action in the long run, by a policy π[S,A] or a plan.

    $$\mu(s,a) = \lim_{n\to\infty}\frac1n\sum_{t<n} P(S_t = s, A_t = a), \quad
      \mu(s') = \textstyle\sum_{s,a}\mu(s)\,\pi(a|s)\,P(s'|s,a)$$

    Nothing is discounted: it is what an observer of many periods counts. It must not depend on the start, so the
    policy's chain must have one closed class of states. For infinite horizons.
    """
    if mdp.horizon is not None:
        raise ValueError(
            f"There is no long run over a horizon of {mdp.horizon} decisions. Use `occupancy`, or an MDP without one."
        )
    if isinstance(policy, Plan):
        refuse_other_problem(mdp, policy)
        policy = policy.policy
    by_state = jnp.asarray(checked_policy(mdp, policy))
    if not is_traced(mdp, by_state):
        refuse_several_classes(mdp, np.asarray(by_state))
    return _long_run(mdp, by_state.T).T


@jax.jit
def _long_run(mdp: MDP, policy: Float[Array, "A R"]) -> Float[Array, "A R"]:
    chain = Chain(policy, mdp.dynamics, 1.0, rows=mdp.rows)
    return policy * mdp.rows.repeat(chain.long_run(jnp.asarray(mdp.initial)))


def refuse_several_classes(mdp: MDP, policy: Float[np.ndarray, "R A"]) -> None:
    """A ValueError if where the chain ends up depends on where it starts."""
    chain = mdp.successor_graph(policy > 0)
    chain.eliminate_zeros()
    num, label = connected_components(chain, directed=True, connection="strong")
    row, column = chain.nonzero()
    leaves = label[row] != label[column]
    closed = np.setdiff1d(np.arange(num), label[row[leaves]])
    if len(closed) > 1:
        examples = [int(np.argmax(label == one)) for one in closed]
        raise ValueError(
            f"The long run depends on the start: {len(closed)} sets of states are never left once entered (states "
            f"{checks.some(examples)} are in different ones). Leave all but one of them out of the MDP."
        )
