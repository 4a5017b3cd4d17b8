"""Arithmetic over the short leading axis of [A, S] and [B, A, S] arrays, unrolled in Python.

XLA compiles operations on vectors over states into one contiguous, vectorised loop. The same sums as reductions over a
leading axis, or with states broadcast against actions, become several passes with index arithmetic: three to ten times
slower on CPUs. A stack at the end of one function and a slice at the start of the next cancel, so nothing is copied
between. Below, an array's *items* are its slices along the leading axis.
"""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from irlax.typing import Array, Float

#: Axes up to this length are unrolled; longer ones are looped over, so that compile times stay short.
UNROLL = 32
#: Items shorter than this are not unrolled: that would take longer to compile than they ever run.
LONG = 512


def is_unrolled(array: Array) -> bool:
    """Whether arithmetic over the leading axis of such an array is unrolled."""
    return array.shape[0] <= UNROLL and array.shape[-1] >= LONG


def unrolled_map(function: Callable[..., Array], *arrays: Array) -> Array:
    """function(item, ...) for each item of the arrays."""
    if not is_unrolled(arrays[0]):
        return jax.vmap(function)(*arrays)
    return jnp.stack([function(*(array[n] for array in arrays)) for n in range(len(arrays[0]))])


def stored_once(items: Sequence[Array]) -> Array:
    """Items that several others will be computed from, as one array.

    On a GPU the barrier makes one kernel of them, which reads its input once; XLA would else compute each item anew
    wherever it is used, at a third of the speed. On a CPU it changes little.
    """
    return jnp.stack(jax.lax.optimization_barrier(tuple(items)))


def stored_for_lookup(items: Sequence[Array]) -> Array:
    """Items to be looked up in, as one array: `stored_once` on a GPU; on a CPU that would copy them once more."""
    return jnp.stack(items) if jax.default_backend() == "cpu" else stored_once(items)


def split(array: Array) -> tuple[Array, ...]:
    """The items of an array, to be carried through a loop and added to one by one; few enough, or all in one."""
    return tuple(array) if is_unrolled(array) else (array,)


def joined(items: tuple[Array, ...]) -> Array:
    """The array that was `split`."""
    return jnp.stack(items) if items[0].ndim == 1 else items[0]


def unrolled_sum(term: Callable[..., Array], *arrays: Array) -> Array:
    """Σ_n term(array[n], ...)."""
    length = arrays[0].shape[0]
    if arrays[0].shape[-1] < LONG:
        return jax.vmap(term)(*arrays).sum(axis=0)
    head = length % UNROLL or min(length, UNROLL)
    total_of_head = functools.reduce(jnp.add, (term(*(array[n] for array in arrays)) for n in range(head)))
    if head == length:
        return total_of_head

    def add_chunk(total, chunk):
        return total + unrolled_sum(term, *chunk), None

    chunks = [array[head:].reshape(-1, UNROLL, *array.shape[1:]) for array in arrays]
    return jax.lax.scan(add_chunk, total_of_head, chunks)[0]


def log_sum_exp(items: Float[Array, "A *shape"]) -> Float[Array, "*shape"]:
    """log Σ_a exp(item_a), which may hold −inf."""
    shift = _largest(items)
    return shift + jnp.log(unrolled_sum(lambda item: jnp.exp(item - shift), items))


def softmax(items: Float[Array, "A *shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "A *shape"]]:
    """log Σ_a exp(item_a), and exp(item_a) as shares of that sum: both from one exponential of each entry."""
    shift = _largest(items)
    powers = unrolled_map(lambda item: jnp.exp(item - shift), items)
    total = unrolled_sum(lambda power: power, powers)
    return shift + jnp.log(total), unrolled_map(lambda power: power / total, powers)


def _largest(items: Float[Array, "A *shape"]) -> Float[Array, "*shape"]:
    """The largest entries, to be subtracted."""
    largest = functools.reduce(jnp.maximum, list(items)) if is_unrolled(items) else items.max(axis=0)
    # Its derivative cancels; an infinite one is left out of the subtraction, where it would make NaN.
    return jax.lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0))
