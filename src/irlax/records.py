"""Records in JSON: plain values, checked one by one as they are read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from irlax import storage

#: No description is larger than this many bytes.
LARGEST = 2**28


def plain(value: Any) -> Any:
    """A value as JSON has it; what JSON does not have is kept as a table would show it."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, float) and not np.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def unplain(value: Any) -> Any:
    """The inverse of `plain`, with tuples for lists, which can be hashed."""
    if isinstance(value, dict):
        return float(field(value, "number", str))
    return tuple(unplain(item) for item in value) if isinstance(value, list) else value


def plain_map(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name as JSON has them."""
    return {name: plain(value) for name, value in values.items()}


def unplain_map(record: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `plain_map`."""
    return {name: unplain(value) for name, value in record.items()}


def as_json(record: dict[str, Any]) -> bytes:
    """A record of plain values as UTF-8."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    # Lone surrogates, which UTF-8 cannot hold, become the escapes that JSON has for them.
    return text.encode("utf-8", "backslashreplace")


def read_json(path: Path) -> dict[str, Any]:
    """The record in a file, or a ValueError."""
    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path} is too large to be read.")
    with storage.unreadable(path, "JSON"):
        record = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_refuse_constant)
    if not isinstance(record, dict):
        raise ValueError(f"{path} must hold a record, but holds a {type(record).__name__}.")
    return record


def field(record: Any, name: str, *kinds: type) -> Any:
    """An entry of a record, if it is there and of one of these types."""
    if not isinstance(record, dict) or name not in record:
        raise ValueError(f"The description lacks {name!r}.")
    value = record[name]
    # A bool is an int to Python, but not to a reader of files.
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name!r} must be of type {wanted}, but is {value!r:.60}.")
    return value


def number(record: Any, name: str) -> float:
    """A number, which may be infinite or NaN."""
    return float(unplain(field(record, name, int, float, dict)))


def number_or_none(record: Any, name: str) -> float | None:
    """A number, or None where the record says null."""
    return None if field(record, name, int, float, dict, type(None)) is None else number(record, name)


def real_or_none(record: Any, name: str) -> float | None:
    """As `number_or_none`, for what may be infinite but is never NaN."""
    value = number_or_none(record, name)
    if value is not None and np.isnan(value):
        raise ValueError(f"{name!r} must be a number, but is NaN.")
    return value


def pairs(record: Any, name: str) -> list[tuple[str, Any]]:
    """A list of names with plain values."""
    items = field(record, name, list)
    if not all(isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) for item in items):
        raise TypeError(f"{name!r} must be a list of names with values.")
    return [(key, unplain(value)) for key, value in items]


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number in JSON")
