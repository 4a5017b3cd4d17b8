"""CartPole: a pole to be balanced on a cart that is pushed left or right."""

import math
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from irlax.envs.timed import AbstractTimedEnvironment
from irlax.spaces import Discrete
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray


class CartPole(AbstractTimedEnvironment):
    r"""Observations (x, ẋ, θ, θ̇); actions 0 and 1 push left and right with 10 N for 0.02 s (Euler).

    $$\ddot\theta = \frac{g\sin\theta - u\cos\theta}{l\,(4/3 - m\cos^2\theta/M)}, \quad
      \ddot x = u - \frac{ml}{M}\,\ddot\theta\cos\theta, \quad u = \frac{F + ml\,\dot\theta^2\sin\theta}{M}$$

    with M the mass of cart and pole together and l half the pole's length. Each step has reward 1, and |x| > 2.4 or
    |θ| > 12° ends the episode. Barto, Sutton and Anderson (1983), without friction; Gymnasium's CartPole-v1.

    `FixedHorizon` gives it a fixed horizon, with the same returns: after the fall nothing changes, and rewards are 0.
    """

    horizon: int = eqx.field(static=True, default=500)
    fixed_horizon: bool = eqx.field(static=True, init=False, default=False)

    gravity: ClassVar[float] = 9.8
    mass_pole: ClassVar[float] = 0.1
    mass_total: ClassVar[float] = 1.1
    half_length: ClassVar[float] = 0.5
    force: ClassVar[float] = 10.0
    seconds: ClassVar[float] = 0.02
    farthest_x: ClassVar[float] = 2.4
    farthest_angle: ClassVar[float] = math.radians(12)

    @property
    def observation_size(self) -> int:
        return 4

    @property
    def actions(self) -> Discrete:
        return Discrete(2)

    def start(self, *, key: PRNGKeyArray) -> Float[Array, " 4"]:
        return jr.uniform(key, (4,), minval=-0.05, maxval=0.05)

    def move(self, inner: Float[Array, " 4"], action: Int[Array, ""], *, key: PRNGKeyArray) -> Float[Array, " 4"]:
        _, speed, angle, spin = inner
        push = jnp.where(action == 1, self.force, -self.force)
        sin, cos, moment = jnp.sin(angle), jnp.cos(angle), self.mass_pole * self.half_length
        shared = (push + moment * spin**2 * sin) / self.mass_total
        inertia = self.half_length * (4 / 3 - self.mass_pole * cos**2 / self.mass_total)
        turning = (self.gravity * sin - cos * shared) / inertia
        driving = shared - moment * turning * cos / self.mass_total
        return inner + self.seconds * jnp.stack([speed, driving, spin, turning])

    def observe(self, inner: Float[Array, " 4"]) -> Float[Array, " 4"]:
        return inner

    def reward_of(
        self, inner: Float[Array, " 4"], action: Int[Array, ""], after: Float[Array, " 4"]
    ) -> Float[Array, ""]:
        return jnp.ones(())

    def ended(self, inner: Float[Array, " 4"]) -> Bool[Array, ""]:
        return (jnp.abs(inner[0]) > self.farthest_x) | (jnp.abs(inner[2]) > self.farthest_angle)
