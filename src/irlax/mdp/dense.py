"""Dynamics with every probability stored."""

import jax.numpy as jnp

from irlax.mdp.dynamics import AbstractDynamics, Transitions
from irlax.typing import Array, Float


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

    def transitions(self) -> Transitions:
        return Transitions(None, self.probs)
