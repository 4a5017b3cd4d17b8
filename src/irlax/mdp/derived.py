"""Dynamics made from others: with the actions averaged over, and with other probabilities."""

import jax.numpy as jnp

from irlax.mdp.dense import Dense
from irlax.mdp.dynamics import AbstractDynamics
from irlax.mdp.sparse import Successors
from irlax.typing import Array, Float


def under_policy(dynamics: AbstractDynamics, policy: Float[Array, "A R"]) -> Dense | Successors:
    """Σ_a π(a|s) P(s'|s,a), as dynamics with one action."""
    links, _ = dynamics.transitions()
    if links is None:
        return Dense(dynamics.matrix(policy)[None])
    flows = dynamics.flows(policy)
    return Successors(links.of_one_action(), flows.reshape(-1, 1, flows.shape[-1]))


def reweighted(dynamics: AbstractDynamics, log_weight: Float[Array, "..."]) -> Dense | Successors:
    """The same transitions with each probability multiplied by exp(log_weight), which is aligned."""
    links, probs = dynamics.transitions()
    probs = jnp.broadcast_to(probs, dynamics.aligned_shape)
    # Where the probability is 0 the weight may overflow; 0 · inf must stay 0.
    probs = jnp.where(probs > 0, probs * jnp.exp(jnp.where(probs > 0, log_weight, 0)), 0)
    return Dense(probs) if links is None else Successors(links, probs)
