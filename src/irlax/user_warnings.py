"""Warnings that point at the user's line."""

import sys
import warnings
from types import FrameType

#: Packages whose functions may lie on the stack between the user's line and the warning.
_BETWEEN = {"irlax", "equinox", "jaxtyping", "beartype", "jax", "contextlib"}


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside these packages; the depth is searched, since it depends on their versions."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _lies_between(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _lies_between(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN
