"""The columns of a user's frame, each read and validated by its role."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from irlax import checks
from irlax.typing import Bool, Float, Int, Shaped


def checked_frame(frame: Any, names: Mapping[str, str | None]) -> Any:
    """The frame, or an error if it is none, is empty, or lacks one of the columns (their roles are the keys)."""
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise TypeError(
            f"`frame` must be a pandas DataFrame, but is a {type(frame).__name__}. For files: `Panel.read`."
        )
    present = list(frame.columns)
    there = ", ".join(f"`{name}`" for name in present[:20]) or "no columns"
    for role, name in names.items():
        if name is None:
            continue
        if not isinstance(name, str):
            raise TypeError(f"`{role}` must be the name of a column, but is {name!r:.60}.")
        if present.count(name) != 1:
            found = "no column" if name not in present else "more than one column"
            raise ValueError(f"There is {found} `{name}` for `{role}`. The frame has {there}.")
    if not len(frame):
        raise ValueError("The frame has no rows. Give it one for each individual and period.")
    return frame


def without_weightless(frame: Any, weight: str) -> Any:
    """The rows whose weight is not 0, unless that is none of them; other weights are validated elsewhere."""
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(frame[weight].dtype):
        return frame
    nothing = (frame[weight] == 0).to_numpy(dtype=bool, na_value=False)
    return frame if nothing.all() or not nothing.any() else frame[~nothing]


def categories(series: Any) -> list[str] | None:
    """The categories of a column of text in the order that the user gave them; None if it has none."""
    import pandas as pd

    if not isinstance(series.dtype, pd.CategoricalDtype):
        return None
    found = series.cat.categories.tolist()
    return found if all(isinstance(value, str) for value in found) else None


def variable_values(name: str, series: Any) -> Shaped[np.ndarray, " n"]:
    """A column of numbers, booleans or text, without missing values."""
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    _refuse_missing(name, series)
    if pd.api.types.is_bool_dtype(series.dtype):
        return series.to_numpy(bool)
    if pd.api.types.is_numeric_dtype(series.dtype) and series.dtype.kind != "c":
        values = series.to_numpy(np.float64 if series.dtype.kind == "f" else np.int64)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise ValueError(f"Column `{name}` must hold finite numbers, but row {row} has {values[row]}. Correct it.")
        return values
    if pd.api.types.is_string_dtype(series.dtype) or series.dtype == object:
        kinds = {type(value) for value in series.tolist()}
        if kinds <= {str, np.str_}:
            return series.to_numpy(dtype=str)
        if kinds <= {bool, np.bool_}:
            return series.to_numpy(bool)
        if kinds <= {int, float, np.int64, np.float64}:
            return variable_values(name, series.astype(np.float64))
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
    else:
        found = f"dtype {series.dtype}"
    raise TypeError(
        f"Column `{name}` must hold numbers, text, or true and false, but holds {found}. Convert it, for example with "
        f"`.astype(str)`; dates as counts of months or days."
    )


def periods(name: str, series: Any) -> Int[np.ndarray, " n"]:
    """Whole numbers of any sign."""
    values = variable_values(name, series)
    if values.dtype.kind not in "iuf":
        raise TypeError(
            f"Column `{name}` must number the periods by whole numbers, but holds {str(values[0])!r:.60}. Convert it: "
            f"dates, for instance, by `12 * date.dt.year + date.dt.month`."
        )
    wrong = (np.abs(values.astype(np.float64)) >= 2.0**53) | (values != np.round(values))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"Column `{name}` must number the periods by whole numbers, but row {row} has {values[row]}.")
    return values.astype(np.int64)


def optional_numbers(name: str, series: Any) -> Float[np.ndarray, " n"]:
    """Whole numbers, NaN where there is none."""
    import pandas as pd

    missing = series.isna().to_numpy()
    if missing.all():
        raise ValueError(f"Column `{name}` has no value in any row.")
    values = variable_values(name, series[~missing])
    if values.dtype.kind not in "iuf" or not pd.api.types.is_numeric_dtype(values.dtype):
        raise TypeError(f"Column `{name}` must hold whole numbers (or nothing), but holds {str(values[0])!r:.60}.")
    if (values != np.round(values)).any():
        raise ValueError(
            f"Column `{name}` must hold whole numbers (or nothing), but holds {values[values % 1 != 0][0]}."
        )
    found = np.full(len(series), np.nan)
    found[~missing] = values
    return found


def truths(name: str, series: Any) -> Bool[np.ndarray, " n"]:
    """True or false, or 1 and 0."""
    values = variable_values(name, series)
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        wrong = values[~np.isin(values, (0, 1))] if values.dtype.kind in "biuf" else values
        raise ValueError(f"Column `{name}` must hold true or false (or 1 or 0), but holds {str(wrong[0])!r:.60}.")
    return values.astype(bool)


def action_codes(
    name: str, series: Any, given: Mapping[Any, str] | Sequence[Any] | None
) -> tuple[tuple[str, ...], Int[np.ndarray, " n"], Shaped[np.ndarray, " A"]]:
    """The labels of actions, the action of each row, and the values of the column that stand for them.

    `given` maps values of the column to labels, in the order that actions are to have, or lists the values.
    """
    column = variable_values(name, series)
    values, codes = np.unique(column, return_inverse=True)
    labels = {value.item(): _text(value.item()) for value in values}
    if given is not None:
        if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
            raise TypeError(f"`actions` must map values of `{name}` to labels, or list them, but is {given!r:.60}.")
        named = dict(given) if isinstance(given, Mapping) else {value: _text(value) for value in given}
        unknown = [value for value in labels if value not in named]
        if unknown:
            raise ValueError(
                f"`actions` must name every value of `{name}`, but not {checks.some(list(map(repr, unknown)))}."
            )
        if len(set(named.values())) < len(named) or not all(isinstance(text, str) for text in named.values()):
            raise ValueError(f"`actions` must give each value of `{name}` a label of its own, but is {named}.")
        places = {value: place for place, value in enumerate(named)}
        codes = np.array([places[value.item()] for value in values])[codes]
        values, labels = np.array(list(named)), named
    if len(labels) < 2:
        raise ValueError(
            f"Column `{name}` must hold at least two different actions, but all rows have {values[0]!s:.60}. If others "
            f"were possible, name them: `actions=`."
        )
    if len(labels) > 1000:
        raise ValueError(f"Column `{name}` has {len(labels):,} different actions. Group them: a choice is among a few.")
    return tuple(labels.values()), codes.ravel(), values


def _text(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _refuse_missing(name: str, series: Any) -> None:
    missing = series.isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"Column `{name}` must have a value in every row, but row {int(np.argmax(missing))} has none (NaN or "
            f"empty). Fill it in, or leave out the row."
        )
