"""One function call in a process of its own, so that compilation, imports and peak memory are its own.

    python -m benchmarks.speed.fresh MODULE FUNCTION '{"argument": 1}'

prints what the function returns as JSON, on the last line. Linux lets a process inherit the peak memory of the one
that started it, so whoever calls `call` must stay small: import neither JAX nor data before it.
"""

import importlib
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.record import ROOT


def call(module: str, function: str, *, python: Path | str = sys.executable, **arguments: Any) -> Any:
    """`module.function(**arguments)` in a new interpreter: one like this, or that of another environment."""
    command = [python, "-m", "benchmarks.speed.fresh", module, function, json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{module}.{function} failed ({done.returncode}):\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def peak_bytes() -> int:
    """The largest memory that this process ever had. Linux counts kilobytes, macOS bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    _, name, wanted, given = sys.argv
    print(json.dumps(getattr(importlib.import_module(name), wanted)(**json.loads(given))))
