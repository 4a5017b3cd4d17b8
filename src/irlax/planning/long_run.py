"""Where a policy is in the long run: the stationary distribution of its chain, undiscounted."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

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


def before_the_end(mdp: MDP, policy: Any) -> Float[np.ndarray, "S A"]:
    r"""The share of each state and action among all choices before an absorbing state is entered.

    $$n^\top = \rho^\top (I - P_\pi)^{-1}, \quad \mu(s,a) = n(s)\,\pi(a|s) \,/\, \textstyle\sum_s n(s)$$

    over the states that are not absorbing, from the start distribution ρ. Nothing is discounted.
    """
    from scipy.sparse.linalg import splu  # takes long to import

    if isinstance(policy, Plan):
        refuse_other_problem(mdp, policy)
        policy = policy.policy
    chosen, open_states = np.asarray(checked_policy(mdp, policy)), np.flatnonzero(~mdp.absorbing)
    refuse_several_classes(mdp, chosen)
    parts = [sp.diags_array(chosen[:, a]) @ matrix for a, matrix in enumerate(mdp.dynamics.to_scipy())]
    chain = sp.csr_array(sum(parts[1:], start=parts[0]))[open_states][:, open_states]
    start = np.asarray(mdp.initial)[open_states]
    stays: Any = sp.csc_array((sp.eye_array(len(open_states)) - chain).T)
    number = splu(stays).solve(start)
    found = np.zeros_like(chosen)
    found[open_states] = number[:, None] * chosen[open_states]
    return found / found.sum()


@jax.jit
def _long_run(mdp: MDP, policy: Float[Array, "A R"]) -> Float[Array, "A R"]:
    chain = Chain(policy, mdp.dynamics, 1.0, rows=mdp.rows)
    return policy * mdp.rows.repeat(chain.long_run(jnp.asarray(mdp.initial)))


def refuse_several_classes(mdp: MDP, policy: Float[np.ndarray, "R A"]) -> None:
    """A ValueError if where the chain ends up depends on where it starts."""
    chain = mdp.successor_graph(policy > 0)
    chain.eliminate_zeros()
    from scipy.sparse.csgraph import connected_components  # takes long to import

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
