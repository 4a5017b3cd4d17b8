"""Labels of nodes and links: any hashable values, numbered once when a network is built."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from irlax import checks
from irlax.typing import Int, Shaped


def column_labels(name: str, column: Any) -> Shaped[np.ndarray, " n"]:
    """A column of labels as integers or objects, or an error that names the row; whole floats become integers."""
    import pandas as pd

    series = pd.Series(column).reset_index(drop=True)
    missing = series.isna().to_numpy(bool)
    if missing.any():
        raise ValueError(
            f"Column `{name}` must hold a label in every row, but row {int(np.argmax(missing))} has none (NaN or "
            f"empty). Fill it in, or leave out the row."
        )
    if pd.api.types.is_bool_dtype(series.dtype):
        raise TypeError(f"Column `{name}` must hold labels, but holds true and false.")
    if pd.api.types.is_integer_dtype(series.dtype):
        return series.to_numpy(np.int64) if series.max() <= np.iinfo(np.int64).max else series.to_numpy(object)
    if pd.api.types.is_float_dtype(series.dtype):
        return checks.as_integers(name, series.to_numpy(np.float64))
    values = series.to_numpy(object)
    for row, value in enumerate(values):
        _require_hashable(name, row, value)
    return values


def _require_hashable(name: str, row: int, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"Column `{name}` must hold labels (whole numbers, text, or tuples of these), but row {row} has the "
            f"{type(value).__name__} {value!r:.60}."
        ) from None


def numbered(
    first: Shaped[np.ndarray, " n"], second: Shaped[np.ndarray, " m"]
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"], tuple[Any, ...]]:
    """The number of each label of two columns, and the distinct labels.

    Whole numbers are numbered in their order, and so is text; other labels are numbered as they first appear.
    """
    import pandas as pd

    both = _joined(first, second)
    ordered = both.dtype != object or pd.api.types.infer_dtype(both, skipna=False) == "string"
    codes, distinct = pd.factorize(both, sort=ordered)
    codes = codes.astype(np.int64)
    return codes[: len(first)], codes[len(first) :], tuple(np.asarray(distinct).tolist())


def _joined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    if first.dtype == second.dtype:
        return np.concatenate([first, second])
    # Object arrays are filled by assignment: NumPy would make tuples into a second axis.
    both = np.empty(len(first) + len(second), object)
    both[: len(first)], both[len(first) :] = first.tolist(), second.tolist()
    return both


def as_text(label: Any) -> str:
    """A label for display: pairs as 1→2, everything else as Python prints it."""
    if isinstance(label, tuple) and len(label) == 2:
        return "→".join(as_text(part) for part in label)
    return str(label)


def examples(labels: Sequence[Any]) -> str:
    """Some labels for a message, as one would write them."""
    return checks.some([repr(label) for label in labels])
