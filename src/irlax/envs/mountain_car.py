"""MountainCar: a car too weak for the hill must take a run-up."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from irlax.envs.timed import AbstractTimedEnvironment
from irlax.spaces import Discrete
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray


class MountainCar(AbstractTimedEnvironment):
    r"""Observations (x, v); actions 0, 1 and 2 push left, not at all and right.

    $$v \leftarrow v + 0.001\,(a - 1) - 0.0025\cos 3x, \quad x \leftarrow x + v$$

    with |v| ≤ 0.07 and x in [−1.2, 0.6]; the left wall stops the car. Each step costs 1, and x ≥ 0.5 at v ≥ 0
    ends the episode. Moore (1990); Gymnasium's MountainCar-v0. `FixedHorizon` gives it a fixed horizon, with
    the same returns: at the goal nothing changes, and rewards are 0.
    """

    horizon: int = eqx.field(static=True, default=200)
    fixed_horizon: bool = eqx.field(static=True, init=False, default=False)

    leftmost: ClassVar[float] = -1.2
    rightmost: ClassVar[float] = 0.6
    goal: ClassVar[float] = 0.5
    fastest: ClassVar[float] = 0.07

    @property
    def observation_size(self) -> int:
        return 2

    @property
    def actions(self) -> Discrete:
        return Discrete(3)

    def start(self, *, key: PRNGKeyArray) -> Float[Array, " 2"]:
        return jnp.stack([jr.uniform(key, minval=-0.6, maxval=-0.4), jnp.zeros(())])

    def move(self, inner: Float[Array, " 2"], action: Int[Array, ""], *, key: PRNGKeyArray) -> Float[Array, " 2"]:
        x, speed = inner
        speed = speed + 0.001 * (action - 1) - 0.0025 * jnp.cos(3 * x)
        speed = jnp.clip(speed, -self.fastest, self.fastest)
        x = jnp.clip(x + speed, self.leftmost, self.rightmost)
        speed = jnp.where((x <= self.leftmost) & (speed < 0), 0, speed)
        return jnp.stack([x, speed])

    def observe(self, inner: Float[Array, " 2"]) -> Float[Array, " 2"]:
        return inner

    def reward_of(
        self, inner: Float[Array, " 2"], action: Int[Array, ""], after: Float[Array, " 2"]
    ) -> Float[Array, ""]:
        return -jnp.ones(())

    def ended(self, inner: Float[Array, " 2"]) -> Bool[Array, ""]:
        x, speed = inner
        return (x >= self.goal) & (speed >= 0)
