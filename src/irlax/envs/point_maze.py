"""A point in a room with a barrier, which can be moved: the transfer task of adversarial IRL."""

from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.envs.timed import AbstractTimedEnvironment
from irlax.spaces import Box
from irlax.typing import Array, Bool, Float, PRNGKeyArray


class PointMaze(AbstractTimedEnvironment):
    """Walk from the south of the room [−1, 1]² round a barrier to the goal in the north.

    Observations are (x, y); an action moves by up to 0.05 in each coordinate, stopped by the room's walls and by
    the barrier, along which one can slide. The barrier lies across the room at y = 0, from the side that `wall`
    names up to 0.3 past the middle, so that the way round it is on the other side. The reward of a step is minus the
    distance from the goal after it. The horizon is fixed.

    A reward learned with the wall on one side should serve with the wall on the other, where the policy that was
    learned with it walks into the barrier. After Fu, Luo and Levine (2018).
    """

    wall: Literal["left", "right"] = eqx.field(static=True, default="left")
    horizon: int = eqx.field(static=True, default=100)
    fixed_horizon: bool = eqx.field(static=True, init=False, default=True)

    goal: ClassVar[tuple[float, float]] = (0.0, 0.6)
    stride: ClassVar[float] = 0.05

    def __check_init__(self) -> None:
        checks.one_of("wall", self.wall, ("left", "right"))

    @property
    def barrier(self) -> tuple[float, float, float, float]:
        """Left, right, bottom and top; thicker than a stride, so that no step crosses it."""
        left, right = (-1.0, 0.3) if self.wall == "left" else (-0.3, 1.0)
        return left, right, -0.05, 0.05

    @property
    def observation_size(self) -> int:
        return 2

    @property
    def actions(self) -> Box:
        return Box(-np.ones(2, np.float32), np.ones(2, np.float32))

    def start(self, *, key: PRNGKeyArray) -> Float[Array, " 2"]:
        return jnp.array([0.0, -0.6]) + jr.uniform(key, (2,), minval=-0.1, maxval=0.1)

    def move(self, inner: Float[Array, " 2"], action: Float[Array, " 2"], *, key: PRNGKeyArray) -> Float[Array, " 2"]:
        x, y = inner
        new_x, new_y = jnp.clip(inner + self.stride * jnp.clip(action, -1, 1), -1, 1)
        # One coordinate after the other, so that a diagonal move into the barrier slides along it.
        x = jnp.where(self._blocked(new_x, y), x, new_x)
        y = jnp.where(self._blocked(x, new_y), y, new_y)
        return jnp.stack([x, y])

    def observe(self, inner: Float[Array, " 2"]) -> Float[Array, " 2"]:
        return inner

    def reward_of(
        self, inner: Float[Array, " 2"], action: Float[Array, " 2"], after: Float[Array, " 2"]
    ) -> Float[Array, ""]:
        return -jnp.linalg.norm(after - jnp.array(self.goal))

    def ended(self, inner: Float[Array, " 2"]) -> Bool[Array, ""]:
        return jnp.zeros((), bool)

    def _blocked(self, x: Float[Array, ""], y: Float[Array, ""]) -> Bool[Array, ""]:
        left, right, bottom, top = self.barrier
        return (left <= x) & (x <= right) & (bottom <= y) & (y <= top)
