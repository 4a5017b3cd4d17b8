"""The machine's own memory bandwidth, in the run in which it is compared with: the yardstick for a sweep.

The triad a = b + s·c of McCalpin's STREAM, and the copy a = b, in JAX itself, on arrays much larger than any cache and
on all cores (or the whole card). Counted are the bytes that the program asks for: two arrays read and one written, or
one and one. The result is written anew each time: XLA reuses no input here. Best of several, as STREAM does.
"""

from typing import Any

from benchmarks.speed import timing

#: Entries of an array: 512 MiB in float64.
ENTRIES = 2**26


def measured(dtype: str = "float64", entries: int = ENTRIES) -> dict[str, float]:
    """Bytes a second of the triad and of the copy."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        b, c = jnp.ones(entries, dtype), jnp.full(entries, 2, dtype)
        moved = entries * b.dtype.itemsize
        triad = jax.jit(lambda b, c, s: b + s * c)
        copy = jax.jit(jnp.copy)
        s = jnp.asarray(3, dtype)
        return {
            "triad": 3 * moved / _best(lambda: triad(b, c, s)),
            "copy": 2 * moved / _best(lambda: copy(b)),
        }


def _best(function: Any) -> float:
    return timing.compiled(function, budget=3.0, least=10)["best"]
