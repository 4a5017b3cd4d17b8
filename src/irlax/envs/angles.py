"""Angles, kept small."""

import jax.numpy as jnp

from irlax.typing import Array, Float


def within_half_turn(angle: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The angle between −π and π; one that lies there already keeps its last bit."""
    turned = jnp.mod(angle + jnp.pi, 2 * jnp.pi) - jnp.pi
    return jnp.where(jnp.abs(angle) <= jnp.pi, angle, turned)
