"""Fits on disk, of whatever estimator."""

import os
from typing import Any

from irlax.estimators.sampled.storage import is_sampled, load_sampled
from irlax.estimators.tabular import mixture_storage


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fit that `save` wrote. A folder from a stranger runs nothing; a damaged one is a ValueError."""
    return load_sampled(path) if is_sampled(path) else mixture_storage.load(path)
