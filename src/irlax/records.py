"""Records in JSON: plain values, each validated when it is read."""

import json
from collections.abc import Mapping
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


def plain_map(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name as JSON has them."""
    return {name: plain(value) for name, value in values.items()}


def from_plain_map(record: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `plain_map`."""
    return {name: from_plain(value) for name, value in record.items()}


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


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")
