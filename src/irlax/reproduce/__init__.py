"""Published results compared with those of irlax: one file for each, found by its name.

To add one, add a file here that defines `RESULT`, a `Result`.
"""

import importlib
import pkgutil

from irlax.reproduce.result import Line, Outcome, Result

__all__ = ["Line", "Outcome", "Result", "catalogue"]


def catalogue() -> dict[str, Result]:
    """Every result by its name, in alphabetical order."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    results = [module.RESULT for module in modules if hasattr(module, "RESULT")]
    return {result.name: result for result in sorted(results, key=lambda result: result.name)}
