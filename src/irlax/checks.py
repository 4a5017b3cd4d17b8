"""Validation at the door: what was expected, what came, what to do.

Values are checked on the host, once, where they enter. Traced arrays pass: their values are not known.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from irlax.precision import is_traced

_SHOWN = 5
#: What to do about numbers that do not sum to 1: about any, and about those that may be counts of transitions.
DIVIDE = "Divide it by its sum first."
COUNTS = "If it holds counts, use `MDP.from_counts`; else divide by the sum over next states first."


def some(items: Sequence[Any] | np.ndarray) -> str:
    """The first few items, for a message: '3, 7, 9 and 12 more'."""
    shown = ", ".join(str(item) for item in items[:_SHOWN])
    return shown if len(items) <= _SHOWN else f"{shown} and {len(items) - _SHOWN} more"


def places(mask: np.ndarray) -> str:
    """The indices at which `mask` is true, for a message."""
    indices = [tuple(int(i) for i in index) for index in np.argwhere(mask)]
    return some([index[0] if len(index) == 1 else index for index in indices])


def as_floats(name: str, values: Any) -> Any:
    """`values` as a float64 array (a traced one as it is), or a TypeError that names it."""
    if is_traced(values):
        return values
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"`{name}` must be an array of numbers, but {error}.") from None


def as_integers(name: str, values: Any) -> Any:
    """`values` as an integer array; floats are accepted when they are whole numbers."""
    if is_traced(values):
        return values
    array = np.asarray(values)
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind == "f":
        # Beyond 2⁵³ a float no longer tells one whole number from the next.
        fractional = ~np.isfinite(array) | (array != np.round(array)) | (np.abs(array) >= 2.0**53)
        if fractional.any():
            raise ValueError(
                f"`{name}` must hold whole numbers, but does not at {places(fractional)} "
                f"(found {some(array[fractional])})."
            )
        return array.astype(np.int64)
    raise TypeError(f"`{name}` must hold integers, but has dtype {array.dtype}.")


def has_shape(name: str, array: Any, expected: tuple[int | None, ...], meaning: str) -> None:
    """`array` has the expected shape, where None admits any length."""
    shape = tuple(np.shape(array))
    fits = len(shape) == len(expected) and all(
        want is None or want == got for got, want in zip(shape, expected, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if want is None else str(want) for want in expected)
        raise ValueError(f"`{name}` must have shape ({wanted}) = {meaning}, but has {shape}.")


def finite(name: str, array: Any) -> None:
    """No NaN and no infinity."""
    if is_traced(array):
        return
    bad = np.atleast_1d(~np.isfinite(array))
    if bad.any():
        where = f"has NaN or infinite entries at {places(bad)}" if np.ndim(array) else f"is {array}"
        raise ValueError(f"`{name}` must be finite, but {where}.")


def probabilities(name: str, values: Any, where: np.ndarray | None = None, *, advice: str = DIVIDE) -> Any:
    """`values` as float64 whose rows along the last axis sum to 1 wherever `where` (the leading axes) is true.

    Rows that came in single precision may be off by its rounding, and are divided by their sums. `advice` is what to do
    about others.
    """
    array = as_floats(name, values)
    if is_traced(array):
        return array
    single = getattr(values, "dtype", np.float64) in (np.float32, np.float16)
    distribution(name, array, where, tolerance=1e-5 if single else 1e-8, advice=advice)
    if not single:
        return array
    total = array.sum(axis=-1, keepdims=True)
    return np.divide(array, total, where=total > 0, out=array.copy())


def distribution(
    name: str, array: Any, where: np.ndarray | None = None, *, tolerance: float = 1e-8, advice: str = DIVIDE
) -> None:
    """Rows along the last axis are probabilities, wherever `where` (the leading axes) is true."""
    if is_traced(array):
        return
    relevant = np.ones(array.shape[:-1], bool) if where is None else where
    bad = ~np.isfinite(array) & relevant[..., None]
    if bad.any():
        raise ValueError(f"`{name}` must be finite, but has NaN or infinite entries at {places(bad)}.")
    negative = (array < 0) & relevant[..., None]
    if negative.any():
        raise ValueError(
            f"`{name}` must not be negative, but is at {places(negative)} (smallest {array[negative].min():.3g})."
        )
    off = np.abs(array.sum(axis=-1) - 1)
    wrong = (off > tolerance) & relevant
    if wrong.any():
        which = f" in rows {places(np.atleast_1d(wrong))}" if wrong.ndim else ""
        raise ValueError(
            f"`{name}` must sum to 1 along its last axis, but is off by up to {off[wrong].max():.3g}{which}. {advice}"
        )


def in_range(name: str, array: Any, upper: int, meaning: str) -> None:
    """Integers in [0, upper)."""
    if is_traced(array):
        return
    bad = (array < 0) | (array >= upper)
    if bad.any():
        raise ValueError(
            f"`{name}` must lie in 0..{upper - 1} ({meaning}), but does not at {places(bad)} "
            f"(found {some(array[bad])})."
        )


def nothing_after_the_end(reward: Any, terminal: Any, available: Any) -> None:
    """An undiscounted endless problem pays nothing in its absorbing states."""
    if is_traced(reward, terminal, available):
        return
    terminal, earned = np.asarray(terminal), np.asarray(reward)
    if earned.ndim == 3:
        earned = np.moveaxis(np.diagonal(earned, axis1=0, axis2=2), -1, 0)
    if earned.ndim == 2:
        earned = np.where(available, earned, 0)
        earned = np.take_along_axis(earned, np.abs(earned).argmax(axis=1)[:, None], axis=1)[: len(terminal), 0]
    paid = terminal & (earned != 0)
    if paid.any():
        raise ValueError(
            f"discount = 1 with no horizon: `reward` must be 0 in absorbing states, but is "
            f"{some(earned[paid])} in {places(paid)}, which would be earned for ever. Pay it on entry, give a "
            f"horizon, or discount."
        )


def discount(value: Any) -> Any:
    """γ in [0, 1]."""
    if is_traced(value):
        return value
    if isinstance(value, bool) or np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "iuf":
        raise TypeError(f"`discount` must be a number between 0 and 1, but is {value!r}.")
    value = float(value)
    if not 0 <= value <= 1:
        raise ValueError(f"`discount` must lie between 0 and 1, but is {value}.")
    return value


def horizon(value: Any) -> int | None:
    """A whole number of decisions, at least 1, or None for an endless problem."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        if isinstance(value, float) and np.isinf(value):
            raise TypeError("`horizon` must be a whole number or None; for an infinite horizon pass None.")
        raise TypeError(f"`horizon` must be a whole number of decisions or None, but is {value!r}.")
    if value < 1:
        raise ValueError(f"`horizon` must be at least 1 decision, but is {value}. For an endless problem pass None.")
    return int(value)


def positive(name: str, value: Any, *, zero: bool = False) -> float:
    """A finite number above zero (or not below it)."""
    if isinstance(value, bool) or np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "iuf":
        raise TypeError(f"`{name}` must be a number, but is {value!r}.")
    if not np.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ValueError(f"`{name}` must be {'at least' if zero else 'above'} 0 and finite, but is {value}.")
    return float(value)


def count(name: str, value: Any, least: int = 1) -> int:
    """A whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be a whole number, but is {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}, but is {value}.")
    return int(value)


def one_of(name: str, value: Any, choices: Sequence[str]) -> Any:
    """One of a few words."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}, but is {value!r}.")
    return value
