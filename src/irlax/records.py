"""Records in JSON: plain values, each validated when it is read."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from irlax import storage

#: A larger file (in bytes) was not written by irlax.
MAX_BYTES = 2**28


def plain(value: Any) -> Any:
    """A value as JSON can hold it: NaN and ±∞ as {"number": text}, what JSON has no type for as its `str`."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, float) and not np.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def from_plain(value: Any) -> Any:
    """The inverse of `plain`, with tuples for lists, which can be hashed."""
    if isinstance(value, dict):
        return float(field(value, "number", str))
    return tuple(from_plain(item) for item in value) if isinstance(value, list) else value


def as_json(record: dict[str, Any]) -> bytes:
    """A record of plain values as UTF-8."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    # Lone surrogates, which UTF-8 cannot hold, become the escapes that JSON has for them.
    return text.encode("utf-8", "backslashreplace")


def read_json(path: Path) -> dict[str, Any]:
    """The record in a file, or a ValueError."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path} is larger than {MAX_BYTES} bytes, so irlax did not write it.")
    with storage.unreadable(path, "JSON"):
        record = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_refuse_constant)
    if not isinstance(record, dict):
        raise ValueError(f"{path} must hold a JSON object, but holds a {type(record).__name__}.")
    return record


def field(record: Any, name: str, *kinds: type) -> Any:
    """An entry of a record; a ValueError if it is missing, a TypeError if it is of none of these types."""
    if not isinstance(record, dict) or name not in record:
        raise ValueError(f"The record has no entry {name!r}.")
    value = record[name]
    # In Python a bool is an int; in a file it is another type.
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name!r} must be of type {expected}, but is {value!r:.60}.")
    return value


def number(record: Any, name: str) -> float:
    """A number, which may be infinite or NaN."""
    return float(from_plain(field(record, name, int, float, dict)))


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
    return [(key, from_plain(value)) for key, value in items]


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")
