"""Sampling from many discrete distributions at once."""

import jax
import jax.numpy as jnp

from irlax.typing import Array, Float, Int


def inverse_cdf(
    cumulative: Float[Array, "*rows M"], row: tuple[Int[Array, " N"], ...], uniform: Float[Array, " N"]
) -> Int[Array, " N"]:
    """The first index whose cumulative mass exceeds `uniform` of the row's total, by bisection.

    Bisection reads log M numbers a sample; comparing with the whole row would copy N·M of them.
    """
    last = cumulative.shape[-1] - 1
    target = uniform * cumulative[(*row, last)]

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) // 2
        above = cumulative[(*row, middle)] > target
        return jnp.where(above, low, middle + 1), jnp.where(above, middle, high)

    bounds = (jnp.zeros(uniform.shape, jnp.int32), jnp.full(uniform.shape, last, jnp.int32))
    return jax.lax.fori_loop(0, (last + 1).bit_length(), halve, bounds)[1]
