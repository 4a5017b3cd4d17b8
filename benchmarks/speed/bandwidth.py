"""The machine's own memory bandwidth, in the run in which it is compared with: the yardstick for a sweep.

The triad a = b + s·c of McCalpin's STREAM, and the copy a = b, in JAX itself, on arrays much larger than any cache and
on all cores (or the whole card). On a CPU also a = b + c by NumPy on as many threads as there are cores, which asks for
the same bytes; the faster of the two is the machine's. Counted are the bytes that the program asks for: two arrays read
and one written, or one and one. The result goes where the last one was (a donated buffer): fresh memory would first be
cleared by the system, at several times the cost. Best of several, as STREAM does.
"""

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from benchmarks.speed import timing

#: Entries of an array: 512 MiB in float64.
ENTRIES = 2**26


def measured(dtype: str = "float64", entries: int = ENTRIES) -> dict[str, float]:
    """Bytes a second of the triad and of the copy."""
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        moved = entries * np.dtype(dtype).itemsize
        copy = _overwriting(lambda a, b: jnp.copy(b), jnp.ones(entries, dtype))
        return {"triad": 3 * moved / _best(fastest_triad(dtype, entries)), "copy": 2 * moved / _best(copy)}


def fastest_triad(dtype: str = "float64", entries: int = ENTRIES) -> Callable[[], Any]:
    """The faster of the two triads, to be called with `jax.enable_x64`."""
    import jax
    import jax.numpy as jnp

    b, c, s = jnp.ones(entries, dtype), jnp.full(entries, 2, dtype), jnp.asarray(3, dtype)
    ours = _overwriting(lambda a, b, c: b + s * c, b, c)
    return min(ours, _by_threads(dtype, entries), key=_best) if jax.default_backend() == "cpu" else ours


def _best(function: Callable[[], Any]) -> float:
    return timing.compiled(function, budget=3.0, least=10)["best"]


def _overwriting(function: Callable[..., Any], *arrays: Any) -> Callable[[], Any]:
    """A call whose result goes where that of the last one was."""
    import jax

    into = jax.jit(function, donate_argnums=0, keep_unused=True)
    place = [jax.numpy.zeros_like(arrays[0])]

    def overwrite() -> Any:
        place[0] = into(place[0], *arrays)
        return place[0]

    return overwrite


def _by_threads(dtype: str, entries: int) -> Callable[[], Any]:
    """a = b + c by NumPy, each thread on its part."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    a, b, c = (np.full(entries, x, dtype) for x in (0, 1, 2))
    cuts = np.linspace(0, entries, threads + 1).astype(int)
    parts = [slice(*cut) for cut in itertools.pairwise(cuts)]

    def add(part: slice) -> None:
        np.add(b[part], c[part], out=a[part])

    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(add, parts))
