"""Networks as .npz files."""

import json
import os
from types import MappingProxyType
from typing import Any

import numpy as np

from irlax import checks, storage
from irlax.routes.network import Network, frozen

FORMAT = "irlax-network-1"
_ARRAYS = ("texts", "tail", "head", "is_end", "attributes", "coordinates")
#: A network of links is stored with the network of nodes that it was made from.
_KEYS = ("format", *_ARRAYS, *(f"base_{name}" for name in _ARRAYS))


def save(path: str | os.PathLike[str], net: Network) -> None:
    """Write a network, whole or not at all."""
    path = storage.known_suffix(path, (".npz",))
    arrays = _arrays(net)
    if net.base is not None:
        arrays |= {f"base_{name}": array for name, array in _arrays(net.base).items()}
    storage.save_arrays(path, {"format": FORMAT} | arrays)


def load(path: str | os.PathLike[str]) -> Network:
    """Read a network that `save` wrote.

    | array | type | meaning |
    | --- | --- | --- |
    | `tail`, `head` | int [E] | the states that each arc leads from and to |
    | `is_end` | bool [S] | states that trips only end in |
    | `attributes` | float [K, E] | the attributes of arcs |
    | `coordinates` | float [S, 2] | optional |
    | `texts` | bytes | JSON: `states`, `attributes`, `arcs` and `ignored`, with tuples as lists |
    | `base_…` | | the same of the network of nodes, if the states are links |
    | `format` | text | "irlax-network-1" |
    """
    path = storage.existing_file(path, (".npz",))
    arrays = storage.load_arrays(path, _KEYS, "a network (.npz)")
    try:
        stated = arrays.pop("format", np.array(""))
        if stated.shape != () or str(stated) != FORMAT:
            raise ValueError(f"The format must be {FORMAT!r}, but is {str(stated)!r:.60}.")
        base = {name.removeprefix("base_"): array for name, array in arrays.items() if name.startswith("base_")}
        return _network(arrays, _network(base, None) if base else None)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None


def _arrays(net: Network) -> dict[str, Any]:
    for label in (*net.state_labels, *(net.arc_labels or ())):
        _require_plain(label)
    texts = {
        "states": net.state_labels,
        "attributes": list(net.attributes),
        "arcs": net.arc_labels,
        "ignored": net.ignored,
    }
    return {
        "texts": np.frombuffer(json.dumps(texts).encode(), np.uint8),
        "tail": net.tail,
        "head": net.head,
        "is_end": net.is_end,
        "attributes": np.array(list(net.attributes.values())).reshape(len(net.attributes), net.num_arcs),
        "coordinates": net.coordinates,
    }


def _require_plain(label: Any) -> None:
    if isinstance(label, tuple):
        for part in label:
            _require_plain(part)
    elif isinstance(label, bool) or not isinstance(label, (int, str, float)):
        raise TypeError(
            f"A file holds labels that are numbers, text or tuples of these, but {label!r:.60} is a "
            f"{type(label).__name__}."
        )


def _network(arrays: dict[str, np.ndarray], base: Network | None) -> Network:
    missing = [name for name in _ARRAYS if name not in arrays and name != "coordinates"]
    if missing:
        raise ValueError(f"The file has no {', '.join(missing)}.")
    texts = _texts(arrays["texts"])
    labels = tuple(map(_as_label, texts["states"]))
    num, tail = len(labels), arrays["tail"]
    for name in ("tail", "head"):
        if arrays[name].dtype.kind not in "iu":
            raise TypeError(f"`{name}` must hold integers, but has dtype {arrays[name].dtype}.")
        checks.has_shape(name, arrays[name], (tail.size,), "(E,), one for each arc")
        checks.in_range(name, arrays[name], num, "states")
    if not tail.size:
        raise ValueError("The network has no arcs.")
    checks.has_shape("is_end", arrays["is_end"], (num,), "(S,), one for each state")
    if arrays["is_end"].dtype != bool:
        raise TypeError(f"`is_end` must hold booleans, but has dtype {arrays['is_end'].dtype}.")
    values = _floats("attributes", arrays["attributes"])
    checks.has_shape("attributes", values, (len(texts["attributes"]), tail.size), "(K, E)")
    arcs = None if texts["arcs"] is None else tuple(map(_as_label, texts["arcs"]))
    if arcs is not None and len(arcs) != tail.size:
        raise ValueError(f"There must be a name for each of the {tail.size} arcs, but there are {len(arcs)}.")
    _check_states(labels, arrays["is_end"], base)
    return Network(
        state_labels=labels,
        tail=frozen(tail.astype(np.int64)),
        head=frozen(arrays["head"].astype(np.int64)),
        attributes=MappingProxyType(dict(zip(texts["attributes"], map(frozen, values), strict=True))),
        is_end=frozen(arrays["is_end"]),
        coordinates=_coordinates(arrays, num),
        arc_labels=arcs,
        ignored=tuple(texts["ignored"]),
        base=base,
    )


def _coordinates(arrays: dict[str, np.ndarray], num: int) -> np.ndarray | None:
    if "coordinates" not in arrays:
        return None
    places = _floats("coordinates", arrays["coordinates"])
    checks.has_shape("coordinates", places, (num, 2), "(S, 2)")
    checks.finite("coordinates", places)
    return frozen(places)


def _floats(name: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "iuf":
        raise TypeError(f"`{name}` must hold numbers, but has dtype {array.dtype}.")
    return array.astype(np.float64)


def _check_states(labels: tuple[Any, ...], is_end: np.ndarray, base: Network | None) -> None:
    named = list(zip(labels, is_end.tolist(), strict=True))
    if len(set(named)) < len(named):
        raise ValueError("Every state must have a label of its own, but some are repeated.")
    if base is not None and (~is_end).sum() != base.num_arcs:
        raise ValueError(
            f"There must be a state for each of the {base.num_arcs} links, but there are {(~is_end).sum()}."
        )


def _texts(array: np.ndarray) -> dict[str, Any]:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise TypeError(f"`texts` must hold bytes, but has dtype {array.dtype}.")
    try:
        texts = json.loads(array.tobytes().decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"`texts` must be JSON, but cannot be read: {error}.") from None
    lists = ("states", "attributes", "ignored")
    whole = isinstance(texts, dict) and all(isinstance(texts.get(name), list) for name in lists)
    if (
        not whole
        or not isinstance(texts.get("arcs"), (list, type(None)))
        or not all(isinstance(name, str) for name in texts["attributes"] + texts["ignored"])
    ):
        raise ValueError("`texts` must hold lists called states, attributes, arcs and ignored.")
    return texts


def _as_label(stored: Any) -> Any:
    if isinstance(stored, list):
        return tuple(map(_as_label, stored))
    if isinstance(stored, bool) or not isinstance(stored, (int, float, str)):
        raise TypeError(f"A label must be a number, text or a tuple of these, but is {stored!r:.60}.")
    return stored
