"""Dynamics with every probability stored."""

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.scipy.special import entr, logsumexp

from irlax.mdp.dynamics import AbstractDynamics, tilted
from irlax.mdp.sampling import inverse_cdf
from irlax.typing import Array, Float, Int, Shaped


class Dense(AbstractDynamics):
    """Every probability stored: for small problems and for those in which anything can follow anything."""

    probs: Float[Array, "A S S"]

    @property
    def num_states(self) -> int:
        return self.probs.shape[-1]

    @property
    def num_actions(self) -> int:
        return self.probs.shape[-3]

    def backward(self, value: Float[Array, " S"]) -> Float[Array, "A S"]:
        return self.probs @ value

    def forward(self, mass: Float[Array, "A S"]) -> Float[Array, " S"]:
        return jnp.einsum("as,ast->t", mass, self.probs)

    def matrix(self, policy: Float[Array, "A S"]) -> Float[Array, "S S"]:
        return jnp.einsum("as,ast->st", policy, self.probs)

    def under(self, policy: Float[Array, "A S"]) -> "Dense":
        return Dense(self.matrix(policy)[None])

    def align(self, table: Shaped[Array, "S A S"]) -> Shaped[Array, "A S S"]:
        return jnp.swapaxes(jnp.asarray(table), 0, 1)

    def ahead(self, value: Float[Array, " S"]) -> Float[Array, "..."]:
        return value[None, None, :]

    def over_next(self, table: Float[Array, "A S"]) -> Float[Array, "..."]:
        return table[..., None]

    def aligned_probs(self) -> Float[Array, "..."]:
        return self.probs

    def mean(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        return (self.probs * aligned).sum(axis=-1)

    def log_mean_exp(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        return logsumexp(jnp.broadcast_to(aligned, self.probs.shape), axis=-1, b=self.probs)

    def tilt(self, log_weight: Float[Array, "..."]) -> "Dense":
        return type(self)(tilted(self.probs, log_weight))

    def entropy(self) -> Float[Array, "A S"]:
        return entr(self.probs).sum(axis=-1)

    def sample(
        self, state: Int[Array, " N"], action: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        return inverse_cdf(jnp.cumsum(self.probs, axis=-1), (action, state), uniform)

    def probability(
        self, state: Int[Array, " n"], action: Int[Array, " n"], next_state: Int[Array, " n"]
    ) -> Float[Array, " n"]:
        return self.probs[action, state, next_state]

    def to_scipy(self) -> list[sp.csr_array]:
        return [sp.csr_array(matrix) for matrix in np.asarray(self.probs)]
