"""Action spaces: one of finitely many actions, or a vector in a bounded box."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from irlax.registry import stored
from irlax.typing import Array, Float, Int, PRNGKeyArray


@stored("discrete")
class Discrete(eqx.Module):
    """Actions 0..num−1."""

    num: int = eqx.field(static=True)


@stored("box", on_device=True)
class Box(eqx.Module):
    """Actions in a box, one interval for each coordinate."""

    low: Float[Array, " n"]
    high: Float[Array, " n"]


def uniform_action(actions: Discrete | Box, *, key: PRNGKeyArray) -> Int[Array, ""] | Float[Array, " n"]:
    """An action drawn uniformly from the space."""
    if isinstance(actions, Discrete):
        return jr.randint(key, (), 0, actions.num)
    return from_unit(actions, jr.uniform(key, actions.low.shape, minval=-1.0))


def to_unit(actions: Box, action: Float[Array, " n"]) -> Float[Array, " n"]:
    """The action in coordinates in which the box is [−1, 1]ⁿ."""
    return 2 * (action - actions.low) / (actions.high - actions.low) - 1


def from_unit(actions: Box, unit: Float[Array, " n"]) -> Float[Array, " n"]:
    """The inverse of `to_unit`."""
    return actions.low + (actions.high - actions.low) * (unit + 1) / 2


def log_half_width(actions: Box) -> Float[Array, ""]:
    """Σ log (h − l)/2: what the box's scale adds to entropies."""
    return jnp.log((actions.high - actions.low) / 2).sum()


def as_single(actions: Box) -> Box:
    """The box in single precision."""
    return Box(jnp.asarray(actions.low, jnp.float32), jnp.asarray(actions.high, jnp.float32))
