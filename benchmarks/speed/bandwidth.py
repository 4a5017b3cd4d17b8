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
        b, c = jnp.ones(entries, dtype), jnp.full(entries, 2, dtype)
        moved = entries * b.dtype.itemsize
        s = jnp.asarray(3, dtype)
        triad = _best(lambda a, b, c: b + s * c, b, c)
        if jax.default_backend() == "cpu":
            triad = min(triad, _by_threads(dtype, entries))
        return {
            "triad": 3 * moved / triad,
            "copy": 2 * moved / _best(lambda a, b: jnp.copy(b), b),
        }


def _best(function: Callable[..., Any], *arrays: Any) -> float:
    """Seconds of the fastest call that overwrites its first argument."""
    import jax

    into = jax.jit(function, donate_argnums=0, keep_unused=True)
    place = [jax.numpy.zeros_like(arrays[0])]

    def overwrite() -> Any:
        place[0] = into(place[0], *arrays)
        return place[0]

    return timing.compiled(overwrite, budget=3.0, least=10)["best"]


def _by_threads(dtype: str, entries: int) -> float:
    """Seconds of a = b + c by NumPy, each thread on its part."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    a, b, c = (np.full(entries, x, dtype) for x in (0, 1, 2))
    cuts = np.linspace(0, entries, threads + 1).astype(int)
    parts = [slice(*cut) for cut in itertools.pairwise(cuts)]

    def add(part: slice) -> None:
        np.add(b[part], c[part], out=a[part])

    with ThreadPoolExecutor(threads) as pool:
        return timing.compiled(lambda: list(pool.map(add, parts)), budget=3.0, least=10)["best"]
