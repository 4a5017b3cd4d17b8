"""What `import irlax` costs beyond `import jax`: medians over fresh interpreters, in turn."""

import statistics
from typing import Any

from benchmarks.speed import fresh, timing


def measure(*, quick: bool) -> dict[str, float]:
    taken: dict[str, list[float]] = {"jax": [], "irlax": []}
    for _ in range(2 if quick else 10):
        for name, seconds in taken.items():
            seconds.append(fresh.call(__name__, "imported", name=name))
    medians = {f"{name}_seconds": statistics.median(seconds) for name, seconds in taken.items()}
    return medians | {"beyond_jax_seconds": medians["irlax_seconds"] - medians["jax_seconds"]}


def imported(name: str) -> float:
    """Seconds of an import in a process that has imported nothing of the kind."""
    import importlib

    return timing.once(lambda: importlib.import_module(name) and None)[0]


def table(figures: dict[str, Any]) -> list[list[str]]:
    names = {"jax_seconds": "import jax", "irlax_seconds": "import irlax", "beyond_jax_seconds": "beyond jax"}
    return [["", "seconds"], *([shown, f"{figures[name]:.2f}"] for name, shown in names.items())]
