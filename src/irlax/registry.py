"""Registered classes, and their objects as records: plain values for JSON, arrays by name, and separate files.

``@stored("linear-reward")`` registers a class of irlax or of a user. The record of its objects holds their fields. To
read it, every field is compared with its annotation, axes of arrays included, and passed to the class's constructor,
which validates it as it validates a user's arguments. A class whose constructor takes other arguments defines
`stored_fields` and `from_stored_fields`. Nothing in a record names code: only classes that are registered in this
process are ever built.

| value | in the record |
| --- | --- |
| None, bool, int, text, finite float | itself |
| NaN, ±∞ | `{"number": "nan"}` |
| tuple or list | a list, read as a tuple |
| dict | `{"map": {...}}` |
| array, random key | `{"array": NAME}`, `{"key": NAME}`: the name of an array beside the record |
| member of a registered enum | `{"kind": NAME, "member": NAME}` |
| object of a registered class | `{"kind": NAME, "fields": {...}}` |
| object with a file format of its own | `{"kind": NAME, "file": NAME}` |

A field that is missing in a record takes its default, so that a class may gain fields; an unknown field is refused.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import jaxtyping
import numpy as np

from irlax import records
from irlax.records import field

Class = TypeVar("Class", bound=type)
#: Records nested deeper than this were not written by irlax.
MAX_DEPTH = 24


class FileFormat(NamedTuple):
    """How objects of a class are written to a file of their own, and read."""

    kind: str
    write: Callable[[Path, Any], Any]
    read: Callable[[Path], Any]


_CLASSES: dict[str, type] = {}
_NAMES: dict[type, str] = {}
_FILES: dict[type, FileFormat] = {}
_ON_DEVICE: set[type] = set()


def stored(name: str, *, on_device: bool = False) -> Callable[[Class], Class]:
    """Register a class (a dataclass, such as an `eqx.Module`, or an enum) under a name.

    Files contain the name, so it must never change. Arrays are read as NumPy arrays, or, with `on_device`, as JAX
    arrays: a network that is read from a file can be trained further only if its weights are.
    """

    def register(kind: Class) -> Class:
        other = _CLASSES.get(name)
        # A module that is run twice, as notebooks do, defines its classes again.
        if other is not None and (other.__module__, other.__qualname__) != (kind.__module__, kind.__qualname__):
            raise ValueError(f"{name!r} is already the name of {other.__qualname__}. Choose another name.")
        _CLASSES[name], _NAMES[kind] = kind, name
        if on_device:
            _ON_DEVICE.add(kind)
        return kind

    return register


def stored_in_file(name: str, kind: type, write: Callable[[Path, Any], Any], read: Callable[[Path], Any]) -> None:
    """Register a class whose objects have a file format of their own (.npz); in folders the file is named `name`."""
    _FILES[kind] = FileFormat(name, write, read)


class Parts(NamedTuple):
    """An object as a record, with the arrays and the objects in separate files that the record names."""

    record: Any
    arrays: dict[str, np.ndarray]
    files: dict[str, Any]


def to_parts(thing: Any) -> Parts:
    """The record of an object, and what the record names; a TypeError names what cannot be stored."""
    parts = Parts(None, {}, {})
    return parts._replace(record=_pack(thing, "", parts))


def from_parts(record: Any, arrays: Mapping[str, np.ndarray], read: Callable[[str, FileFormat], Any]) -> Any:
    """The object that `to_parts` made a record of; a ValueError or TypeError if the record is not valid.

    `read` is called with the name and the format of each file that the record names.
    """
    return _unpack(record, arrays, read, 0)


def file_format(thing: Any) -> FileFormat:
    """The file format of an object that has one."""
    return next(form for kind, form in _FILES.items() if isinstance(thing, kind))


def knows_all(record: Any) -> bool:
    """Whether every class that a record names is registered."""
    if isinstance(record, list):
        return all(map(knows_all, record))
    if not isinstance(record, dict):
        return True
    kind = record.get("kind")
    known = not isinstance(kind, str) or "file" in record or kind in _CLASSES
    return known and all(map(knows_all, record.values()))


def array_names(record: Any) -> list[str]:
    """The names of all arrays in a record."""
    if isinstance(record, list):
        return [name for item in record for name in array_names(item)]
    if not isinstance(record, dict):
        return []
    own = [record[key] for key in ("array", "key") if isinstance(record.get(key), str)]
    return own + [name for value in record.values() for name in array_names(value)]


def _pack(value: Any, path: str, parts: Parts) -> Any:
    if isinstance(value, enum.Enum) and type(value) in _NAMES:
        return {"kind": _NAMES[type(value)], "member": value.name}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return records.plain(value)
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        parts.arrays[path] = np.asarray(jr.key_data(value))
        return {"key": path}
    if isinstance(value, (np.ndarray, jax.Array)):
        parts.arrays[path] = np.asarray(value)
        return {"array": path}
    if type(value) in _NAMES:
        fields = {name: _pack(item, _join_path(path, name), parts) for name, item in _stored_fields(value).items()}
        return {"kind": _NAMES[type(value)], "fields": fields}
    if isinstance(value, tuple(_FILES)):
        return _pack_in_file(value, parts)
    if isinstance(value, (list, tuple)):
        return [_pack(item, _join_path(path, str(i)), parts) for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {"map": {str(name): _pack(item, _join_path(path, str(name)), parts) for name, item in value.items()}}
    raise TypeError(
        f"A {type(value).__name__} cannot be stored{f' (as {path})' if path else ''}: its class is not registered. "
        f"Decorate the class with `@irlax.stored('a-name-of-its-own')`."
    )


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _pack_in_file(value: Any, parts: Parts) -> dict[str, str]:
    form = file_format(value)
    same = [name for name, other in parts.files.items() if other is value]
    count = sum(file_format(other).kind == form.kind for other in parts.files.values())
    name = same[0] if same else f"{form.kind}{count or ''}.npz"
    parts.files[name] = value
    return {"kind": form.kind, "file": name}


def _stored_fields(thing: Any) -> dict[str, Any]:
    if hasattr(thing, "stored_fields"):
        return thing.stored_fields()
    return {item.name: getattr(thing, item.name) for item in dataclasses.fields(thing) if item.init}


def _unpack(record: Any, arrays: Mapping[str, np.ndarray], read: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"The record is nested deeper than {MAX_DEPTH} levels.")
    if isinstance(record, list):
        return tuple(_unpack(item, arrays, read, depth + 1) for item in record)
    if not isinstance(record, dict):
        return record
    if "number" in record:
        return records.from_plain(record)
    if "array" in record:
        return _array(arrays, field(record, "array", str))
    if "key" in record:
        return jr.wrap_key_data(jnp.asarray(_array(arrays, field(record, "key", str))))
    if "map" in record:
        items = field(record, "map", dict).items()
        return {name: _unpack(item, arrays, read, depth + 1) for name, item in items}
    kind = field(record, "kind", str)
    if "file" in record:
        forms = [form for form in _FILES.values() if form.kind == kind]
        if not forms:
            raise ValueError(f"Files of kind {kind!r:.60} are unknown: another version of irlax wrote this.")
        return read(field(record, "file", str), forms[0])
    if kind not in _CLASSES:
        raise ValueError(
            f"No class is registered as {kind!r:.60}. If the class is yours, import it before loading; else another "
            f"version of irlax wrote this."
        )
    if issubclass(_CLASSES[kind], enum.Enum):
        return _member(_CLASSES[kind], kind, field(record, "member", str))
    fields = field(record, "fields", dict)
    return _build(_CLASSES[kind], kind, {n: _unpack(v, arrays, read, depth + 1) for n, v in fields.items()})


def _array(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise ValueError(f"The array {name!r:.60} is missing.")
    return arrays[name]


def _member(kind: type[enum.Enum], name: str, member: str) -> enum.Enum:
    if member not in kind.__members__:
        raise ValueError(f"The {name} is {member!r:.60}, which is unknown: another version of irlax wrote this.")
    return kind[member]


def _build(kind: type, name: str, fields: dict[str, Any]) -> Any:
    if hasattr(kind, "from_stored_fields"):
        return kind.from_stored_fields(fields)  # type: ignore[attr-defined]
    check_fields(kind, name, fields)
    return kind(**(jax.tree.map(jnp.asarray, fields) if kind in _ON_DEVICE else fields))


def check_fields(kind: type, name: str, fields: Mapping[str, Any]) -> None:
    """Raise a ValueError or TypeError unless `fields` are those of a dataclass, each of its annotated type."""
    known = {item.name: item for item in dataclasses.fields(kind) if item.init}
    unknown = [key for key in fields if key not in known]
    if unknown:
        raise ValueError(f"{name!r} has no field {unknown[0]!r:.60}: another version of irlax wrote this.")
    required = (dataclasses.MISSING, dataclasses.MISSING)
    missing = [k for k, item in known.items() if k not in fields and (item.default, item.default_factory) == required]
    if missing:
        raise ValueError(f"{name!r} must have a field {missing[0]!r}, but has none.")
    hints = typing.get_type_hints(kind)
    # Axes of one name have one length in all fields of the object.
    with jaxtyping.jaxtyped("context"):
        for key, value in fields.items():
            if not conforms(value, hints[key]):
                raise TypeError(f"{key!r} of {name!r} must be {_hint_text(hints[key])}, but is {_value_text(value)}.")


@typing.no_type_check  # A checked function would bind axes again, and the fields of one object share theirs.
def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type; True for annotations that cannot be checked."""
    if hint is Any:
        return True
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, one) for one in inside)
    if origin is typing.Literal:
        return any(value == one and type(value) is type(one) for one in inside)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inside[-1:] == (...,):
            return all(conforms(item, inside[0]) for item in value)
        return len(value) == len(inside) and all(map(conforms, value, inside))
    if origin is dict:
        return isinstance(value, dict) and all(conforms(item, inside[1]) for item in value.values())
    if hint in (int, float):
        # In Python a bool is an int; in a file it is another type.
        return isinstance(value, (int,) if hint is int else (int, float)) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _hint_text(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _value_text(value: Any) -> str:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else f"{value!r:.60}"
