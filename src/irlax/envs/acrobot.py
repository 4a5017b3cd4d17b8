"""Acrobot: two links, driven at the joint between them, swing up."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from irlax.envs.angles import within_half_turn
from irlax.envs.timed import AbstractTimedEnvironment
from irlax.spaces import Discrete
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray


class Acrobot(AbstractTimedEnvironment):
    r"""Observations (cos θ₁, sin θ₁, cos θ₂, sin θ₂, θ̇₁, θ̇₂); actions 0, 1, 2 are torques −1, 0, 1 at the joint.

    θ₁ is the first link's angle from hanging down, θ₂ the second's from the first. Links of unit mass, length
    and inertia, centres of mass in the middle, one Runge–Kutta step of 0.2 s, |θ̇₁| ≤ 4π, |θ̇₂| ≤ 9π. Each step
    costs 1, but for the last, which lifts the tip one length above the bar: −cos θ₁ − cos(θ₁ + θ₂) > 1.

    Sutton and Barto (2018), whose equations these are; Gymnasium's Acrobot-v1. `FixedHorizon` gives it a fixed
    horizon, with the same returns: at the goal nothing changes, and rewards are 0.
    """

    horizon: int = eqx.field(static=True, default=500)
    fixed_horizon: bool = eqx.field(static=True, init=False, default=False)

    gravity: ClassVar[float] = 9.8
    centre: ClassVar[float] = 0.5
    seconds: ClassVar[float] = 0.2

    @property
    def observation_size(self) -> int:
        return 6

    @property
    def actions(self) -> Discrete:
        return Discrete(3)

    def start(self, *, key: PRNGKeyArray) -> Float[Array, " 4"]:
        return jr.uniform(key, (4,), minval=-0.1, maxval=0.1)

    def move(self, inner: Float[Array, " 4"], action: Int[Array, ""], *, key: PRNGKeyArray) -> Float[Array, " 4"]:
        torque = jnp.asarray(action - 1, inner.dtype)
        after = _runge_kutta(lambda state: self._rate(state, torque), inner, self.seconds)
        fastest = jnp.pi * jnp.array([4.0, 9.0])
        return jnp.concatenate([within_half_turn(after[:2]), jnp.clip(after[2:], -fastest, fastest)])

    def observe(self, inner: Float[Array, " 4"]) -> Float[Array, " 6"]:
        first, second, *spins = inner
        return jnp.stack([jnp.cos(first), jnp.sin(first), jnp.cos(second), jnp.sin(second), *spins])

    def reward_of(
        self, inner: Float[Array, " 4"], action: Int[Array, ""], after: Float[Array, " 4"]
    ) -> Float[Array, ""]:
        return jnp.where(self.ended(after), 0.0, -1.0)

    def ended(self, inner: Float[Array, " 4"]) -> Bool[Array, ""]:
        return -jnp.cos(inner[0]) - jnp.cos(inner[0] + inner[1]) > 1

    def _rate(self, state: Float[Array, " 4"], torque: Float[Array, ""]) -> Float[Array, " 4"]:
        r"""The equations of motion with unit masses, lengths and inertias, and centres of mass at c = 1/2.

        $$d_1 = 3 + 2c^2 + 2c\cos\theta_2,\; d_2 = 1 + c^2 + c\cos\theta_2,\; \phi_2 = cg\sin(\theta_1 + \theta_2)$$
        $$\phi_1 = -c\sin\theta_2\,(\dot\theta_2^2 + 2\dot\theta_1\dot\theta_2) + (c + 1)\,g\sin\theta_1 + \phi_2$$
        $$\ddot\theta_2 = \frac{\tau + \phi_1 d_2/d_1 - c\,\dot\theta_1^2\sin\theta_2 - \phi_2}{1 + c^2 - d_2^2/d_1},
          \quad \ddot\theta_1 = -(d_2\ddot\theta_2 + \phi_1)/d_1$$
        """
        first, second, first_spin, second_spin = state
        c, sin, cos = self.centre, jnp.sin(second), jnp.cos(second)
        d1 = 3 + 2 * c**2 + 2 * c * cos
        d2 = 1 + c**2 + c * cos
        phi2 = c * self.gravity * jnp.sin(first + second)
        swing = c * sin * (second_spin**2 + 2 * first_spin * second_spin)
        phi1 = -swing + (c + 1) * self.gravity * jnp.sin(first) + phi2
        second_turning = (torque + phi1 * d2 / d1 - c * first_spin**2 * sin - phi2) / (1 + c**2 - d2**2 / d1)
        first_turning = -(d2 * second_turning + phi1) / d1
        return jnp.stack([first_spin, second_spin, first_turning, second_turning])


def _runge_kutta(
    rate: Callable[[Float[Array, " n"]], Float[Array, " n"]], state: Float[Array, " n"], seconds: float
) -> Float[Array, " n"]:
    """One step of the classical fourth order."""
    k1 = rate(state)
    k2 = rate(state + seconds / 2 * k1)
    k3 = rate(state + seconds / 2 * k2)
    k4 = rate(state + seconds * k3)
    return state + seconds / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
