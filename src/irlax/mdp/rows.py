"""Arithmetic over the short leading axis of [A, S] and [B, A, S] arrays, written out row by row.

XLA compiles rows of states into one contiguous, vectorised loop. The same sums as reductions over a leading axis,
or with states broadcast against actions, become several passes with index arithmetic: three to ten times slower on
CPUs. A stack at the end of one function and a slice at the start of the next cancel, so nothing is copied between.
"""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from irlax.mdp.elementary import exp, log
from irlax.typing import Array, Float

#: Axes up to this length are written out; longer ones are looped over, so that compile times stay short.
UNROLL = 32
#: Rows shorter than this are not worth it: written out they would take longer to compile than they ever run.
LONG = 512


def written_out(array: Array) -> bool:
    """Whether arithmetic over the leading axis of such an array is written out row by row."""
    return array.shape[0] <= UNROLL and array.shape[-1] >= LONG


def by_row(function: Callable[..., Array], *arrays: Array) -> Array:
    """function(row, ...) for each row of the arrays."""
    if not written_out(arrays[0]):
        return jax.vmap(function)(*arrays)
    return jnp.stack([function(*(array[n] for array in arrays)) for n in range(len(arrays[0]))])


def kept(rows: Sequence[Array]) -> Array:
    """Rows that several others will be computed from, as one array.

    On a GPU the barrier makes one kernel of them, which reads its input once; XLA would else compute each row anew
    wherever it is used, at a third of the speed. On a CPU it changes little.
    """
    return jnp.stack(jax.lax.optimization_barrier(tuple(rows)))


def looked_up(rows: Sequence[Array]) -> Array:
    """Rows that will be looked up in, as one array: `kept` on a GPU; on a CPU that would copy them once more."""
    return jnp.stack(rows) if jax.default_backend() == "cpu" else kept(rows)


def split(array: Array) -> tuple[Array, ...]:
    """The rows of an array, to be carried through a loop and added to one by one; few enough, or all in one."""
    return tuple(array) if written_out(array) else (array,)


def joined(rows: tuple[Array, ...]) -> Array:
    """The array that was `split`."""
    return jnp.stack(rows) if rows[0].ndim == 1 else rows[0]


def sum_rows(term: Callable[..., Array], *arrays: Array) -> Array:
    """Σ_n term(array[n], ...)."""
    length = arrays[0].shape[0]
    if arrays[0].shape[-1] < LONG:
        return jax.vmap(term)(*arrays).sum(axis=0)
    head = length % UNROLL or min(length, UNROLL)
    written = functools.reduce(jnp.add, (term(*(array[n] for array in arrays)) for n in range(head)))
    if head == length:
        return written

    def add_chunk(total, chunk):
        return total + sum_rows(term, *chunk), None

    chunks = [array[head:].reshape(-1, UNROLL, *array.shape[1:]) for array in arrays]
    return jax.lax.scan(add_chunk, written, chunks)[0]


def log_sum_exp(rows: Float[Array, "A *shape"]) -> Float[Array, "*shape"]:
    """log Σ_a exp(row_a), which may hold −inf."""
    shift = _largest(rows)
    return shift + log(sum_rows(lambda row: exp(row - shift), rows))


def softmax(rows: Float[Array, "A *shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "A *shape"]]:
    """log Σ_a exp(row_a), and exp(row_a) as shares of that sum: both from one exponential of each entry."""
    shift = _largest(rows)
    # XLA's exponential, which it takes for expensive: ours it would compute again for each use.
    powers = by_row(lambda row: jnp.exp(row - shift), rows)
    total = sum_rows(lambda power: power, powers)
    return shift + log(total), by_row(lambda power: power / total, powers)


def _largest(rows: Float[Array, "A *shape"]) -> Float[Array, "*shape"]:
    """The largest entries, to be subtracted."""
    largest = functools.reduce(jnp.maximum, list(rows)) if written_out(rows) else rows.max(axis=0)
    # Its derivative cancels; an infinite one is left out of the subtraction, where it would make NaN.
    return jax.lax.stop_gradient(jnp.where(jnp.isfinite(largest), largest, 0))
