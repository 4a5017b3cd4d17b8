"""Statistics of demonstrations as .npz archives, so that a large panel is counted once."""

import dataclasses
import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from irlax import checks, storage
from irlax.demos.statistics import DemoStatistics, Endings

FORMAT = "irlax-statistics-1"
_KIND = "statistics of demonstrations (.npz)"
_NUMBERS = ("discount", "num_steps", "max_time")
_TABLES = ("starts", "visits", "choices")
_ENDINGS = {field.name: f"endings_{field.name}" for field in dataclasses.fields(Endings)}
#: A sparse matrix as the rows, the columns and the values of its entries.
_SPARSE = ("rows", "columns", "values")
_MATRICES = ("transitions", "by_time")
_KEYS = ("format", *_NUMBERS, *_TABLES, *_ENDINGS.values(), *(f"{m}_{part}" for m in _MATRICES for part in _SPARSE))


def save_statistics(path: str | os.PathLike[str], statistics: DemoStatistics) -> None:
    """Write statistics to an .npz file, whole or not at all."""
    arrays: dict[str, Any] = {"format": FORMAT} | {name: getattr(statistics, name) for name in (*_NUMBERS, *_TABLES)}
    arrays |= {array: getattr(statistics.endings, name) for name, array in _ENDINGS.items()}
    # Row a·S + s: by action, then by state.
    arrays |= _entries("transitions", sp.vstack(statistics.transitions))
    if statistics.by_time is not None:
        shape: Any = statistics.by_time.shape
        arrays |= _entries("by_time", statistics.by_time) | {"horizon": shape[0]}
    storage.save_arrays(storage.known_suffix(path, (".npz",)), arrays)


def load_statistics(path: str | os.PathLike[str]) -> DemoStatistics:
    """Read statistics that `save_statistics` wrote."""
    path = storage.existing_file(path, (".npz",))
    arrays = storage.load_arrays(path, (*_KEYS, "horizon"), _KIND)
    try:
        return _checked(arrays)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None


def _checked(arrays: dict[str, np.ndarray]) -> DemoStatistics:
    stated = str(arrays.get("format", ""))
    if stated != FORMAT:
        raise ValueError(f"The format must be {FORMAT!r}, but is {stated!r:.60}.")
    optional = {f"by_time_{part}" for part in _SPARSE}
    missing = [name for name in _KEYS if name not in arrays and name not in optional]
    if missing or ("horizon" in arrays) != (optional <= set(arrays)):
        raise ValueError(f"The file has no {', '.join(missing or ['counts at each time'])}.")
    visits = arrays["visits"]
    checks.has_shape("visits", visits, (None, None), "(S, A)")
    states, actions = visits.shape
    shapes = {"starts": (states,), "visits": (states, actions), "choices": (states, actions)}
    tables = {name: _amounts(name, arrays[name], shape) for name, shape in shapes.items()}
    moves = _matrix("transitions", arrays, (actions * states, states))
    number = arrays[_ENDINGS["count"]].size
    endings = {name: _ending(name, arrays[array], number) for name, array in _ENDINGS.items()}
    num_steps, max_time = (checks.count(name, _single(name, arrays[name], "iu"), 0) for name in _NUMBERS[1:])
    if "horizon" in arrays:
        horizon = checks.horizon(_single("horizon", arrays["horizon"], "iu"))
        assert horizon is not None
        by_time = _matrix("by_time", arrays, (horizon, states * actions))
    else:
        by_time = None
    return DemoStatistics(
        discount=checks.discount(_single("discount", arrays["discount"], "f")),
        num_steps=num_steps,
        max_time=max_time,
        **tables,
        transitions=tuple(moves[a * states : (a + 1) * states] for a in range(actions)),
        endings=Endings(**endings),
        by_time=by_time,
    )


def _single(name: str, array: np.ndarray, kinds: str) -> Any:
    if array.shape != () or array.dtype.kind not in kinds:
        raise TypeError(f"`{name}` must be one number, but is {array.dtype} of shape {array.shape}.")
    return array.item()


def _amounts(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.dtype.kind != "f":
        raise TypeError(f"`{name}` must hold floats, but has dtype {array.dtype}.")
    checks.has_shape(name, array, shape, "as the statistics have it")
    checks.finite(name, array)
    if (array < 0).any():
        raise ValueError(f"`{name}` must not be negative, but is as low as {array.min():.3g}.")
    return array


def _ending(name: str, array: np.ndarray, number: int) -> np.ndarray:
    flags, whole = ("terminated", "starts_at_zero", "contiguous"), ("final_state", "length", "count")
    kinds = "b" if name in flags else "iu" if name in whole else "f"
    if array.dtype.kind not in kinds:
        raise TypeError(f"`endings_{name}` has dtype {array.dtype}, which it may not have.")
    checks.has_shape(f"endings_{name}", array, (number,), "one for each kind of ending")
    return array


def _entries(name: str, matrix: Any) -> dict[str, np.ndarray]:
    counted = sp.coo_array(matrix)
    return dict(zip((f"{name}_{part}" for part in _SPARSE), (counted.row, counted.col, counted.data), strict=True))


def _matrix(name: str, arrays: dict[str, np.ndarray], shape: tuple[int, int]) -> sp.csr_array:
    rows, columns, values = (arrays[f"{name}_{part}"] for part in _SPARSE)
    values = _amounts(f"{name}_values", values, (values.size,))
    for axis, index, size in (("rows", rows, shape[0]), ("columns", columns, shape[1])):
        if index.dtype.kind not in "iu":
            raise TypeError(f"`{name}_{axis}` must hold integers, but has dtype {index.dtype}.")
        checks.has_shape(f"{name}_{axis}", index, (values.size,), "one for each value")
        checks.in_range(f"{name}_{axis}", index, size, axis)
    return sp.coo_array((values, (rows, columns)), shape=shape).tocsr()
