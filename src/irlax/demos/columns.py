"""Columns of a table, each checked on its own.

Columns arrive as Arrow arrays, whether from pandas, CSV or Parquet, because Arrow keeps types and missing
values apart where NumPy would make both into objects. Messages name the column, the row (counted from 0,
without the heading), its value, and what to do.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from irlax.typing import Bool, Float, Int

if TYPE_CHECKING:
    import pyarrow as pa

#: Beyond this a float64 no longer holds every whole number.
_WHOLE_FLOATS = 2.0**53
#: So that one more than a time still fits 64 bits.
LARGEST = 2**62
#: Labels are stored at the width of the longest.
_LABEL_BYTES = 2**30


def decoded(name: Any, column: Any, first_row: int) -> "pa.Array":
    """One plain Arrow array without missing values."""
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    missing = np.zeros(0, bool)
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
    elif pa.types.is_floating(column.type):
        missing = np.isnan(as_numpy(column))
    if missing.any():
        raise ValueError(
            f"Column `{name}` must have a value in every row, but row {first_row + int(np.argmax(missing))} has none "
            f"(NaN or empty). Fill it in, or leave out its episode."
        )
    return column


def as_numpy(column: "pa.Array") -> np.ndarray:
    """Numbers or truth values, none of them missing. `to_numpy` would import pandas, which takes a quarter second."""
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        return np.from_dlpack(column.cast(pa.uint8())).astype(bool)
    return np.from_dlpack(column)


def integers(name: Any, column: "pa.Array", first_row: int = 0) -> Int[np.ndarray, " n"]:
    """Whole numbers from 0 on; floats are accepted when they are whole."""
    import pyarrow as pa

    column = decoded(name, column, first_row)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise TypeError(
            f"Column `{name}` must hold whole numbers, but holds {_described(column, first_row)}. Number the values "
            f"0, 1, 2, … first, for example with `pandas.factorize`."
        )
    values = as_numpy(column)
    if values.dtype.kind == "f":
        values = _whole(name, values, first_row)
    wrong = (values < 0) | (values > LARGEST)
    _refuse(
        name,
        values,
        wrong,
        first_row=first_row,
        rule="must hold whole numbers from 0 on",
        advice="Number the values 0, 1, 2, ….",
    )
    return values.astype(np.int64, copy=False)


def booleans(name: Any, column: "pa.Array", first_row: int = 0) -> Bool[np.ndarray, " n"]:
    """True and false, or 1 and 0."""
    import pyarrow as pa

    column = decoded(name, column, first_row)
    if pa.types.is_boolean(column.type):
        return as_numpy(column)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise TypeError(
            f"Column `{name}` must hold true or false (or 1 or 0), but holds {_described(column, first_row)}."
        )
    values = as_numpy(column)
    _refuse(
        name, values, (values != 0) & (values != 1), first_row=first_row, rule="must hold true or false (or 1 or 0)"
    )
    return values == 1


def weights(name: Any, column: "pa.Array", first_row: int = 0) -> Float[np.ndarray, " n"]:
    """Finite numbers that are not negative."""
    import pyarrow as pa

    column = decoded(name, column, first_row)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise TypeError(f"Column `{name}` must hold numbers, but holds {_described(column, first_row)}.")
    values = as_numpy(column).astype(np.float64, copy=False)
    wrong = ~np.isfinite(values) | (values < 0)
    _refuse(
        name,
        values,
        wrong,
        first_row=first_row,
        rule="must hold finite weights, none below 0",
        advice="A weight of 0 leaves one out.",
    )
    return values


def labels(name: Any, column: "pa.Array", first_row: int = 0) -> "pa.Array":
    """The names of episodes: whole numbers or text, as Arrow integers or strings."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column, types = decoded(name, column, first_row), pa.types
    if types.is_integer(column.type):
        return column if types.is_uint64(column.type) else column.cast(pa.int64())
    if types.is_floating(column.type):
        return pa.array(_whole(name, as_numpy(column), first_row))
    if not (types.is_string(column.type) or types.is_large_string(column.type) or types.is_string_view(column.type)):
        raise TypeError(
            f"Column `{name}` must name episodes by whole numbers or text, but holds {_described(column, first_row)}. "
            f"Convert it, for example with `.astype(str)`."
        )
    column = column.cast(pa.large_string())
    empty = pc.call_function("index", [column], pc.IndexOptions(pa.scalar("", pa.large_string()))).as_py()
    if empty >= 0:
        raise ValueError(f"Column `{name}` must name every episode, but row {first_row + empty} has an empty name.")
    return column


def label_array(name: Any, distinct: "pa.Array") -> np.ndarray:
    """Labels as NumPy keeps them: int64, uint64 or fixed-width text, never objects."""
    import pyarrow as pa

    if not pa.types.is_large_string(distinct.type):
        return as_numpy(distinct)
    texts = distinct.to_pylist()
    width = max(map(len, texts), default=0)
    if width * len(texts) * np.dtype("U1").itemsize > _LABEL_BYTES:
        raise ValueError(f"Column `{name}` has a label of {width:,} characters. Use shorter names, or numbers.")
    if any("\0" in text for text in texts):
        raise ValueError(f"Column `{name}` has a label with a null character in it. Use another name.")
    return np.array(texts, dtype=str)


def from_pandas(name: Any, series: Any) -> "pa.Array":
    """A column of a pandas frame as Arrow, or a TypeError that says what it holds."""
    import pyarrow as pa

    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TypeError(
            f"Column `{name}` must hold values of one simple type, but has dtype {series.dtype} ({reason}). Convert "
            f"it, for example with `.astype(int)`."
        ) from None


#: How each optional or numeric column is read.
READERS: dict[str, Callable[[Any, Any, int], Any]] = {
    "time": integers,
    "state": integers,
    "action": integers,
    "next_state": integers,
    "terminated": booleans,
    "weight": weights,
    "goal": integers,
    "row_weight": weights,
}


def _whole(name: Any, values: np.ndarray, first_row: int) -> Int[np.ndarray, " n"]:
    values = values.astype(np.float64, copy=False)
    wrong = ~(np.abs(values) < _WHOLE_FLOATS) | (values != np.round(values))
    _refuse(
        name,
        values,
        wrong,
        first_row=first_row,
        rule="must hold whole numbers",
        advice="Round it, or number the values 0, 1, 2, ….",
    )
    return values.astype(np.int64)


def _refuse(name: Any, values: np.ndarray, wrong: np.ndarray, *, first_row: int, rule: str, advice: str = "") -> None:
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ValueError(f"Column `{name}` {rule}, but row {first_row + place} has {values[place]}. {advice}".strip())


def _described(column: "pa.Array", first_row: int) -> str:
    """What a column of the wrong type holds, with the first value that is no number if it holds text."""
    import pyarrow as pa

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return f"values of type {column.type}"
    for place, text in enumerate(column):
        if not _is_number(text.as_py()):
            return f"text: row {first_row + place} has {text.as_py()!r:.60}"
    return "numbers written as text"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
