"""The replay buffer of off-policy learners."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from irlax.envs.experience import Transition
from irlax.typing import Array, Int, PRNGKeyArray


class Buffer(eqx.Module):
    """The last transitions, as a ring buffer."""

    rows: Transition
    position: Int[Array, ""]
    filled: Int[Array, ""]

    @classmethod
    def init(cls, capacity: int, observation_size: int, action: Array) -> "Buffer":
        """Empty, for so many transitions with actions such as this one."""
        observations = jnp.zeros((capacity, observation_size), jnp.float32)
        flags = jnp.zeros(capacity, bool)
        rows = Transition(
            observation=observations,
            action=jnp.zeros((capacity, *action.shape), action.dtype),
            reward=jnp.zeros(capacity, jnp.float32),
            next_observation=observations,
            terminated=flags,
            truncated=flags,
            explored=flags,
            log_prob=jnp.zeros(capacity, jnp.float32),
        )
        return cls(rows, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def add(self, new: Transition) -> "Buffer":
        """With further rows in place of the oldest; the capacity is a multiple of their number."""
        num, capacity = len(new.reward), len(self.rows.reward)
        rows = jax.tree.map(
            lambda ring, added: jax.lax.dynamic_update_slice_in_dim(ring, added.astype(ring.dtype), self.position, 0),
            self.rows,
            new,
        )
        return Buffer(rows, (self.position + num) % capacity, jnp.minimum(self.filled + num, capacity))

    def sample(self, shape: tuple[int, ...], *, key: PRNGKeyArray) -> Transition:
        """Rows at random."""
        chosen = jr.randint(key, shape, 0, self.filled)
        return jax.tree.map(lambda ring: ring[chosen], self.rows)
