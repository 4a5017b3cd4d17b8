"""Dynamics that have no parameters, where a function of parameters is expected."""

from irlax.mdp import AbstractDynamics
from irlax.precision import StaysOnDevice
from irlax.typing import Array, Float


class KnownDynamics(StaysOnDevice):
    """No parameters ↦ the dynamics of an MDP."""

    dynamics: AbstractDynamics

    def __call__(self, nothing: Float[Array, " 0"]) -> AbstractDynamics:
        return self.dynamics
