"""Seconds, as the median of repeats: the machine is not alone, and a mean would follow its neighbours."""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any


def once(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of one call, and what it returned, waited for."""
    began = time.perf_counter()
    result = waited(function())
    return time.perf_counter() - began, result


def several(function: Callable[[], Any], *, budget: float = 2.0, least: int = 3, most: int = 200) -> list[float]:
    """Seconds of each of as many calls as the budget (in seconds) holds."""
    seconds: list[float] = []
    while len(seconds) < least or (sum(seconds) < budget and len(seconds) < most):
        seconds.append(once(function)[0])
    return seconds


def compiled(function: Callable[[], Any], **options: Any) -> dict[str, float]:
    """The first call, which compiles, apart from the median and the best of those that follow."""
    first, _ = once(function)
    seconds = several(function, **options)
    return {"first": first, "seconds": statistics.median(seconds), "best": min(seconds)}


def in_turns(
    functions: dict[str, Callable[[], Any]], *, budget: float = 10.0, least: int = 5
) -> dict[str, list[float]]:
    """Seconds of each of several calls, round by round: what slows the machine down for a while slows all of them."""
    for function in functions.values():
        once(function)
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    while min(map(len, seconds.values())) < least or sum(map(sum, seconds.values())) < budget:
        for name, function in functions.items():
            seconds[name].append(once(function)[0])
    return seconds


def waited(result: Any) -> Any:
    """JAX answers before it is done. A peer's process may have no JAX."""
    jax = sys.modules.get("jax")
    return result if jax is None else jax.block_until_ready(result)
