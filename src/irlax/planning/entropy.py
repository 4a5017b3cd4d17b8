r"""Entropies of a policy in an MDP, all discounted.

The entropy of trajectories is the sum of that of transitions and that of the policy's choices:
$H(S_{0:T-1}, A_{0:T-1}) = $ transition entropy $+ H(A_{0:T-1} \| S_{0:T-1})$. Primer, 2.3.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import entr, xlogy

from irlax.mdp import MDP
from irlax.planning.occupancy import occupancy_of, prepared
from irlax.precision import exact
from irlax.typing import Array, Float

#: H(A | S) needs P(s' | s, a) as a dense array; above this many entries that is refused.
DENSE_ENTRIES = 50_000_000


@exact
def causal_entropy(mdp: MDP, policy: Any) -> Float[Array, ""]:
    r"""$H(A_{0:T-1} \| S_{0:T-1}) = \sum_t \gamma^t H(A_t | S_t)$. Primer, Definition 2.2."""
    return _causal(*prepared(mdp, policy))


def _causal(mdp: MDP, policy: Any) -> Float[Array, ""]:
    return _causal_of(mdp, occupancy_of(mdp, policy))


@jax.jit
def _causal_of(mdp: MDP, joint: Float[Array, "*T A R"]) -> Float[Array, ""]:
    of_state = jnp.vectorize(lambda mass: mdp.rows.repeat(mdp.rows.sum(mass)), signature="(r)->(r)")
    return xlogy(joint, of_state(joint.sum(axis=-2))[..., None, :]).sum() - xlogy(joint, joint).sum()


@exact
def transition_entropy(mdp: MDP, policy: Any) -> Float[Array, ""]:
    r"""$H(S_0) + \sum_{t=1}^{T-1} \gamma^t H(S_t | S_{t-1}, A_{t-1})$: the part of random transitions.

    It is zero when dynamics and start are both deterministic. S_T, which no decision follows, is not in it.
    """
    return _transition(*prepared(mdp, policy))


def _transition(mdp: MDP, policy: Any) -> Float[Array, ""]:
    return _transition_of(mdp, occupancy_of(mdp, policy))


@jax.jit
def _transition_of(mdp: MDP, joint: Float[Array, "*T A R"]) -> Float[Array, ""]:
    before = joint if mdp.horizon is None else joint[:-1].sum(axis=0)
    start = entr(jnp.asarray(mdp.initial)).sum()
    return start + mdp.discount * (before * mdp.dynamics.entropy()).sum()


@exact
def trajectory_entropy(mdp: MDP, policy: Any) -> Float[Array, ""]:
    r"""$H(S_{0:T-1}, A_{0:T-1})$ by the chain rule, each term of time t weighted by γᵗ."""
    mdp, policy = prepared(mdp, policy)
    return _transition(mdp, policy) + _causal(mdp, policy)


@exact
def conditional_entropy(mdp: MDP, policy: Any) -> Float[Array, ""]:
    r"""$H(A_{0:T-1} | S_{0:T-1})$, the entropy of actions given all states, later ones included.

    Given the states, A_t depends on S_t and S_{t+1} alone, so this is
    $\sum_{t<T-1} \gamma^t H(A_t | S_t, S_{t+1}) + \gamma^{T-1} H(A_{T-1} | S_{T-1})$: never more than
    the causal entropy. For small problems: it uses P as a dense array.
    """
    entries = math.prod(mdp.table_shape) * mdp.num_states
    if entries > DENSE_ENTRIES:
        raise ValueError(
            f"`conditional_entropy` needs P(s'|s,a) as one array of {entries} entries; it is meant for small problems."
        )
    return _conditional(mdp, occupancy_of(*prepared(mdp, policy)))


@jax.jit
def _conditional(mdp: MDP, joint: Float[Array, "*T A R"]) -> Float[Array, ""]:
    num_rows, num_columns = mdp.table_shape
    each_action = jnp.eye(num_columns)[:, :, None] * jnp.ones(num_rows)
    transitions = jax.vmap(mdp.dynamics.matrix)(each_action)

    def given_both_states(joint):
        return _entropy_of_actions(mdp, joint[..., None] * transitions)

    if mdp.horizon is None:
        return given_both_states(joint)
    return jax.lax.map(given_both_states, joint[:-1]).sum() + _entropy_of_actions(mdp, joint[-1])


def _entropy_of_actions(mdp: MDP, mass: Float[Array, "A R *after"]) -> Float[Array, ""]:
    """−Σ mass · log(mass / Σ_a mass): the entropy of actions given the states, and what follows, if anything."""
    total = mdp.rows.repeat(mdp.rows.sum(mass.sum(axis=0)))
    return xlogy(mass, total).sum() - xlogy(mass, mass).sum()
