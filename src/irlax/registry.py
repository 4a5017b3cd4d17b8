"""Classes by name, and their objects as records: plain values for JSON, arrays by name, and files of their own.

``@stored("linear-reward")`` registers a class, a reward of a user's own as much as one of irlax. Its objects are then
described by their fields, and built again from them by the class's own constructor, which checks them as it checks a
user's arguments; before that every field is compared with its annotation, axes of arrays included. A class whose
constructor takes something else defines `stored_fields` and `from_stored_fields`. Nothing in a record names code: only
classes that are registered in this process are ever built.

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

A field that a record lacks takes its default, so that a class may gain fields; one that is unknown is refused.
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
DEEPEST = 24


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
    """Register a class (a dataclass, such as an `eqx.Module`, or an enum) under a name that files keep for good.

    Arrays are read as NumPy arrays, or, `on_device`, as those of JAX: networks are trained further only if they are.
    """

    def register(kind: Class) -> Class:
        taken = _CLASSES.get(name)
        # A module that is run twice, as notebooks do, defines its classes again.
        if taken is not None and (taken.__module__, taken.__qualname__) != (kind.__module__, kind.__qualname__):
            raise ValueError(f"{name!r} is the name of {taken.__qualname__} already. Choose another.")
        _CLASSES[name], _NAMES[kind] = kind, name
        if on_device:
            _ON_DEVICE.add(kind)
        return kind

    return register


def stored_in_file(name: str, kind: type, write: Callable[[Path, Any], Any], read: Callable[[Path], Any]) -> None:
    """Register a class whose objects have a file format of their own (.npz); in folders the file is named `name`."""
    _FILES[kind] = FileFormat(name, write, read)


class Parts(NamedTuple):
    """An object as a record, with the arrays and the objects with files of their own that the record names."""

    record: Any
    arrays: dict[str, np.ndarray]
    files: dict[str, Any]


def to_parts(thing: Any) -> Parts:
    """Take an object apart; a TypeError names what cannot be stored."""
    parts = Parts(None, {}, {})
    return parts._replace(record=_packed(thing, "", parts))


def from_parts(record: Any, arrays: Mapping[str, np.ndarray], read: Callable[[str, FileFormat], Any]) -> Any:
    """Build what `to_parts` took apart; a ValueError or TypeError where the record is not one of ours.

    `read` gets the name and the format of each file that the record names.
    """
    return _unpacked(record, arrays, read, 0)


def file_format(thing: Any) -> FileFormat:
    """The file format of an object that has one."""
    return next(form for kind, form in _FILES.items() if isinstance(thing, kind))


def array_names(record: Any) -> list[str]:
    """The arrays that a record names."""
    if isinstance(record, list):
        return [name for item in record for name in array_names(item)]
    if not isinstance(record, dict):
        return []
    own = [record[key] for key in ("array", "key") if isinstance(record.get(key), str)]
    return own + [name for value in record.values() for name in array_names(value)]


def _packed(value: Any, path: str, parts: Parts) -> Any:
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
        fields = {name: _packed(item, _below(path, name), parts) for name, item in _fields_of(value).items()}
        return {"kind": _NAMES[type(value)], "fields": fields}
    if isinstance(value, tuple(_FILES)):
        return _packed_in_file(value, parts)
    if isinstance(value, (list, tuple)):
        return [_packed(item, _below(path, str(i)), parts) for i, item in enumerate(value)]
    if isinstance(value, dict):
        return {"map": {str(name): _packed(item, _below(path, str(name)), parts) for name, item in value.items()}}
    raise TypeError(
        f"A {type(value).__name__} cannot be stored{f' (as {path})' if path else ''}: its class is not registered. "
        f"Mark the class with `@irlax.stored('a-name-of-its-own')`."
    )


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _packed_in_file(value: Any, parts: Parts) -> dict[str, str]:
    form = file_format(value)
    same = [name for name, other in parts.files.items() if other is value]
    count = sum(file_format(other).kind == form.kind for other in parts.files.values())
    name = same[0] if same else f"{form.kind}{count or ''}.npz"
    parts.files[name] = value
    return {"kind": form.kind, "file": name}


def _fields_of(thing: Any) -> dict[str, Any]:
    if hasattr(thing, "stored_fields"):
        return thing.stored_fields()
    return {item.name: getattr(thing, item.name) for item in dataclasses.fields(thing) if item.init}


def _unpacked(record: Any, arrays: Mapping[str, np.ndarray], read: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError("The description is nested too deeply.")
    if isinstance(record, list):
        return tuple(_unpacked(item, arrays, read, depth + 1) for item in record)
    if not isinstance(record, dict):
        return record
    if "number" in record:
        return records.unplain(record)
    if "array" in record:
        return _array(arrays, field(record, "array", str))
    if "key" in record:
        return jr.wrap_key_data(jnp.asarray(_array(arrays, field(record, "key", str))))
    if "map" in record:
        items = field(record, "map", dict).items()
        return {name: _unpacked(item, arrays, read, depth + 1) for name, item in items}
    kind = field(record, "kind", str)
    if "file" in record:
        forms = [form for form in _FILES.values() if form.kind == kind]
        if not forms:
            raise ValueError(f"Files of kind {kind!r:.60} are not known here.")
        return read(field(record, "file", str), forms[0])
    if kind not in _CLASSES:
        raise ValueError(
            f"Something of kind {kind!r:.60} is not known here. If the class is yours, import it before loading; else "
            f"another version of irlax wrote this."
        )
    if issubclass(_CLASSES[kind], enum.Enum):
        return _member(_CLASSES[kind], kind, field(record, "member", str))
    fields = field(record, "fields", dict)
    return _built(_CLASSES[kind], kind, {n: _unpacked(v, arrays, read, depth + 1) for n, v in fields.items()})


def _array(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    if name not in arrays:
        raise ValueError(f"The array {name!r:.60} is missing.")
    return arrays[name]


def _member(kind: type[enum.Enum], name: str, member: str) -> enum.Enum:
    if member not in kind.__members__:
        raise ValueError(f"The {name} is {member!r:.60}, which is not known here.")
    return kind[member]


def _built(kind: type, name: str, fields: dict[str, Any]) -> Any:
    if hasattr(kind, "from_stored_fields"):
        return kind.from_stored_fields(fields)  # type: ignore[attr-defined]
    check_fields(kind, name, fields)
    return kind(**(jax.tree.map(jnp.asarray, fields) if kind in _ON_DEVICE else fields))


def check_fields(kind: type, name: str, fields: Mapping[str, Any]) -> None:
    """A ValueError or TypeError unless `fields` are those of a dataclass, each as its annotation says."""
    known = {item.name: item for item in dataclasses.fields(kind) if item.init}
    unknown = [key for key in fields if key not in known]
    if unknown:
        raise ValueError(f"{name!r} has no field {unknown[0]!r:.60}: another version of irlax wrote this.")
    required = (dataclasses.MISSING, dataclasses.MISSING)
    lacking = [k for k, item in known.items() if k not in fields and (item.default, item.default_factory) == required]
    if lacking:
        raise ValueError(f"{name!r} lacks its field {lacking[0]!r}.")
    hints = typing.get_type_hints(kind)
    # Axes of one name have one length in all fields of the object.
    with jaxtyping.jaxtyped("context"):
        for key, value in fields.items():
            if not conforms(value, hints[key]):
                raise TypeError(f"{key!r} of {name!r} must be {_spelt(hints[key])}, but is {_described(value)}.")


@typing.no_type_check  # A checked function would bind axes anew, and those of one object's fields belong together.
def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says; of annotations that cannot be asked, yes."""
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
        # A bool is an int to Python, but not to a reader of files.
        return isinstance(value, (int,) if hint is int else (int, float)) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def _spelt(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _described(value: Any) -> str:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else f"{value!r:.60}"
