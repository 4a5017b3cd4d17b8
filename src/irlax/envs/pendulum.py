"""Pendulum: swing it up and hold it there with little torque."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.envs.angles import within_half_turn
from irlax.envs.timed import AbstractTimedEnvironment
from irlax.spaces import Box
from irlax.typing import Array, Bool, Float, PRNGKeyArray


class Pendulum(AbstractTimedEnvironment):
    r"""Observations (cos θ, sin θ, θ̇), θ = 0 upright; the action is a torque u in [−2, 2].

    $$\dot\theta \leftarrow \dot\theta + \Bigl(\frac{3g}{2l}\sin\theta + \frac{3}{ml^2}u\Bigr)\,\Delta t, \quad
      r = -(\theta^2 + 0.1\,\dot\theta^2 + 0.001\,u^2)$$

    with |θ̇| ≤ 8, Δt = 0.05 and the reward at the old state, θ in [−π, π]. Gymnasium's Pendulum-v1. It never
    ends, so its horizon is fixed as it is.
    """

    horizon: int = eqx.field(static=True, default=200)
    fixed_horizon: bool = eqx.field(static=True, init=False, default=True)

    gravity: ClassVar[float] = 10.0
    seconds: ClassVar[float] = 0.05
    fastest: ClassVar[float] = 8.0
    strongest: ClassVar[float] = 2.0

    @property
    def observation_size(self) -> int:
        return 3

    @property
    def actions(self) -> Box:
        bound = np.array([self.strongest], np.float32)
        return Box(-bound, bound)

    def start(self, *, key: PRNGKeyArray) -> Float[Array, " 2"]:
        return jr.uniform(key, (2,), minval=-1, maxval=1) * jnp.array([jnp.pi, 1.0])

    def move(self, inner: Float[Array, " 2"], action: Float[Array, " 1"], *, key: PRNGKeyArray) -> Float[Array, " 2"]:
        angle, spin = inner
        turning = 1.5 * self.gravity * jnp.sin(angle) + 3.0 * self._torque(action)
        spin = jnp.clip(spin + self.seconds * turning, -self.fastest, self.fastest)
        return jnp.stack([angle + self.seconds * spin, spin])

    def observe(self, inner: Float[Array, " 2"]) -> Float[Array, " 3"]:
        angle, spin = inner
        return jnp.stack([jnp.cos(angle), jnp.sin(angle), spin])

    def reward_of(
        self, inner: Float[Array, " 2"], action: Float[Array, " 1"], after: Float[Array, " 2"]
    ) -> Float[Array, ""]:
        angle, spin = inner
        return -(within_half_turn(angle) ** 2 + 0.1 * spin**2 + 0.001 * self._torque(action) ** 2)

    def ended(self, inner: Float[Array, " 2"]) -> Bool[Array, ""]:
        return jnp.zeros((), bool)

    def _torque(self, action: Float[Array, " 1"]) -> Float[Array, ""]:
        return jnp.clip(action[0], -self.strongest, self.strongest)
