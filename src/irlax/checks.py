"""Validation of arguments; each error says what was expected, what came and what to do.

Values are validated on the host, once, where they enter the library. Traced arrays pass: their values are not known.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from irlax.precision import is_placed, is_traced

#: A message lists at most this many items.
_MAX_LISTED = 5
#: Advice for probabilities that do not sum to 1: for any, and for those that may be counts of transitions.
DIVIDE = "Divide it by its sum first."
COUNTS = "If it holds counts, use `MDP.from_counts`; else divide by the sum over next states first."


def some(items: Sequence[Any] | np.ndarray) -> str:
    """The first few items as text for a message: '3, 7, 9 and 12 more'."""
    listed = ", ".join(str(item) for item in items[:_MAX_LISTED])
    return listed if len(items) <= _MAX_LISTED else f"{listed} and {len(items) - _MAX_LISTED} more"


def places(mask: np.ndarray) -> str:
    """The first few indices at which `mask` is true, as text for a message."""
    indices = [tuple(int(i) for i in index) for index in np.argwhere(mask)]
    return some([index[0] if len(index) == 1 else index for index in indices])


def as_floats(name: str, values: Any) -> Any:
    """`values` as a float64 array, or a TypeError that names the argument.

    Traced arrays, and floats on a mesh of devices, are returned as they are.
    """
    if is_traced(values) or (is_placed(values) and jnp.issubdtype(values.dtype, jnp.floating)):
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
        # From 2⁵³ on, float64 cannot represent every whole number.
        fractional = ~np.isfinite(array) | (array != np.round(array)) | (np.abs(array) >= 2.0**53)
        if fractional.any():
            raise ValueError(
                f"`{name}` must hold whole numbers, but does not at {places(fractional)} "
                f"(found {some(array[fractional])})."
            )
        return array.astype(np.int64)
    raise TypeError(f"`{name}` must hold integers, but has dtype {array.dtype}.")


def has_shape(name: str, array: Any, expected: tuple[int | None, ...], meaning: str) -> None:
    """Raise a ValueError unless `array` has the expected shape, where None allows any length."""
    shape = tuple(np.shape(array))
    fits = len(shape) == len(expected) and all(
        length is None or length == found for found, length in zip(shape, expected, strict=True)
    )
    if not fits:
        lengths = ", ".join("any" if length is None else str(length) for length in expected)
        raise ValueError(f"`{name}` must have shape ({lengths}) = {meaning}, but has {shape}.")


def finite(name: str, array: Any) -> None:
    """Raise a ValueError if `array` has a NaN or an infinity."""
    if is_traced(array):
        return
    if is_placed(array) and _all_finite(array):
        return
    bad = np.atleast_1d(~np.isfinite(array))
    if bad.any():
        where = f"has NaN or infinite entries at {places(bad)}" if np.ndim(array) else f"is {array}"
        raise ValueError(f"`{name}` must be finite, but {where}.")


@jax.jit
def _all_finite(array: Any) -> Any:
    return jnp.isfinite(array).all()


def probabilities(name: str, values: Any, where: np.ndarray | None = None, *, advice: str = DIVIDE) -> Any:
    """`values` as float64 whose rows along the last axis sum to 1 wherever `where` (the leading axes) is true.

    Rows given in single precision may be off by its rounding, and are divided by their sums. `advice` ends the message
    about rows that do not sum to 1.
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
    """Raise a ValueError unless rows along the last axis are probabilities where `where` (the leading axes) is true."""
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
    """Raise a ValueError unless all integers lie in [0, upper)."""
    if is_traced(array):
        return
    bad = (array < 0) | (array >= upper)
    if bad.any():
        raise ValueError(
            f"`{name}` must lie in 0..{upper - 1} ({meaning}), but does not at {places(bad)} "
            f"(found {some(array[bad])})."
        )


def zero_reward_when_absorbed(reward: Any, terminal: Any, available: Any) -> None:
    """Raise a ValueError if an undiscounted problem without a horizon has a reward in an absorbing state."""
    if is_traced(reward, terminal, available):
        return
    terminal, by_state = np.asarray(terminal), np.asarray(reward)
    if by_state.ndim == 3:
        by_state = np.moveaxis(np.diagonal(by_state, axis1=0, axis2=2), -1, 0)
    if by_state.ndim == 2:
        by_state = np.where(available, by_state, 0)
        by_state = np.take_along_axis(by_state, np.abs(by_state).argmax(axis=1)[:, None], axis=1)[: len(terminal), 0]
    wrong = terminal & (by_state != 0)
    if wrong.any():
        raise ValueError(
            f"discount = 1 with no horizon: `reward` must be 0 in absorbing states, but is "
            f"{some(by_state[wrong])} in {places(wrong)}, which would be earned for ever. Give the reward on entering "
            f"the state, give a horizon, or discount."
        )


def discount(value: Any) -> Any:
    """γ as a float in [0, 1], or an error; traced values are returned as they are."""
    if is_traced(value):
        return value
    if isinstance(value, bool) or np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "iuf":
        raise TypeError(f"`discount` must be a number between 0 and 1, but is {value!r}.")
    value = float(value)
    if not 0 <= value <= 1:
        raise ValueError(f"`discount` must lie between 0 and 1, but is {value}.")
    return value


def horizon(value: Any) -> int | None:
    """The number of decisions, at least 1, or None for an infinite horizon; else an error."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        if isinstance(value, float) and np.isinf(value):
            raise TypeError("`horizon` must be a whole number or None; for an infinite horizon pass None.")
        raise TypeError(f"`horizon` must be a whole number of decisions or None, but is {value!r}.")
    if value < 1:
        raise ValueError(f"`horizon` must be at least 1 decision, but is {value}. For an infinite horizon pass None.")
    return int(value)


def positive(name: str, value: Any, *, zero: bool = False) -> float:
    """`value` as a float if it is finite and above 0 (with `zero`, at least 0); else an error."""
    if isinstance(value, bool) or np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "iuf":
        raise TypeError(f"`{name}` must be a number, but is {value!r}.")
    if not np.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ValueError(f"`{name}` must be {'at least' if zero else 'above'} 0 and finite, but is {value}.")
    return float(value)


def count(name: str, value: Any, least: int = 1) -> int:
    """`value` as an int if it is a whole number and at least `least`; else an error."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be a whole number, but is {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}, but is {value}.")
    return int(value)


def one_of(name: str, value: Any, choices: Sequence[str]) -> Any:
    """`value` if it is one of the choices; else a ValueError that lists them."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, choices))}, but is {value!r}.")
    return value
