"""Demonstrations as .npz archives: the one format that holds all of their fields."""

import dataclasses
from pathlib import Path

import numpy as np

from irlax import checks, storage
from irlax.demos.demonstrations import Demonstrations, from_rows
from irlax.typing import Int

FORMAT = "irlax-demos-1"
FIELDS = tuple(field.name for field in dataclasses.fields(Demonstrations))
_REQUIRED = ("actions", "offsets", "terminated")
_KIND = "an archive of demonstrations (.npz)"


def save(path: Path, demos: Demonstrations) -> None:
    """Write every field that is there."""
    storage.save_arrays(path, {"format": FORMAT} | {name: getattr(demos, name) for name in FIELDS})


def load(path: Path) -> Demonstrations:
    """Read and check an archive that `save` or another program wrote.

    ===================  =============  ==========================================================
    ``actions``          int [n]        or float [n, ...] with observations
    ``offsets``          int [N+1]      episode k owns rows offsets[k]:offsets[k+1]
    ``terminated``       bool [N]       whether an absorbing state follows
    ``states``           int [n]        unless there are ``observations``
    ``observations``     float [n,...]  unless there are ``states``
    ``times``            int [n]        optional; 0, 1, 2, … in each episode if left out
    ``weights``          float [N]      optional; 1 if left out
    ``next_states``      int [n]        optional
    ``next_observations``  as observations  optional
    ``rewards``          float [n]      optional
    ``labels``           int or text [N]  optional
    ``goals``            int [N]        optional: the state at which each episode ends
    ``row_weights``      float [n]      optional: how often each row counts within its episode
    ``format``           text           optional: "irlax-demos-1"
    ===================  =============  ==========================================================
    """
    arrays = storage.load_arrays(path, ("format", *FIELDS), _KIND)
    stated = arrays.pop("format", np.array(FORMAT))
    if stated.shape != () or str(stated) != FORMAT:
        raise ValueError(f"{path} must have the format {FORMAT!r}, but says {str(stated)!r:.60}.")
    missing = [name for name in _REQUIRED if name not in arrays]
    if missing or not {"states", "observations"} & set(arrays):
        needed = missing or ["states (or observations)"]
        raise ValueError(f"{path} has no {', '.join(needed)}; it holds {', '.join(arrays) or 'nothing'}.")
    try:
        return _checked(arrays)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None


def _checked(arrays: dict[str, np.ndarray]) -> Demonstrations:
    native = {name: _of_kind(name, array, arrays) for name, array in arrays.items()}
    num_rows, lengths = len(native["actions"]), _lengths(native["offsets"], len(native["actions"]))
    for name in ("states", "next_states", "times", "rewards", "row_weights"):
        if name in native:
            checks.has_shape(name, native[name], (num_rows,), "(n,)")
    for name in ("observations", "next_observations"):
        if name in native:
            checks.has_shape(name, native[name], (num_rows, *native[name].shape[1:]), "(n, ...)")
    if "next_observations" in native:
        shape = native.get("observations", native["next_observations"]).shape
        checks.has_shape("next_observations", native["next_observations"], shape, "as `observations`")
    for name in ("terminated", "labels", "goals"):
        if name in native:
            checks.has_shape(name, native[name], lengths.shape, "(N,)")
    if "states" in native or native["actions"].dtype.kind == "i":
        checks.has_shape("actions", native["actions"], (num_rows,), "(n,)")
    return from_rows(
        native.get("states"),
        native["actions"],
        lengths,
        times=native.get("times"),
        next_states=native.get("next_states"),
        terminated=native["terminated"],
        weights=native.get("weights"),
        labels=native.get("labels"),
        observations=native.get("observations"),
        next_observations=native.get("next_observations"),
        rewards=native.get("rewards"),
        goals=native.get("goals"),
        row_weights=native.get("row_weights"),
    )


def _lengths(offsets: Int[np.ndarray, "..."], num_rows: int) -> Int[np.ndarray, " N"]:
    if offsets.ndim != 1 or len(offsets) < 2:
        raise ValueError(f"`offsets` must have shape (N + 1,) with at least one episode, but has {offsets.shape}.")
    # Compared, not subtracted: the difference of two extreme integers wraps round.
    if offsets[0] != 0 or offsets[-1] != num_rows or (offsets[1:] <= offsets[:-1]).any():
        raise ValueError(
            f"`offsets` must rise from 0 to the number of rows, {num_rows}, but is {checks.some(offsets.tolist())}."
        )
    return np.diff(offsets)


_INTEGERS = {"offsets", "times", "states", "next_states", "goals"}
_FLOATS = {"weights", "row_weights", "rewards", "observations", "next_observations"}


def _of_kind(name: str, array: np.ndarray, others: dict[str, np.ndarray]) -> np.ndarray:
    """The array in native byte order, if its type is one that this field may have."""
    whole, real = array.dtype.kind in "iu", array.dtype.kind == "f" and array.dtype.itemsize <= 8
    if name in _INTEGERS or (name == "actions" and "states" in others):
        fits, wanted = whole, "integers"
    elif name == "actions":
        fits, wanted = whole or real, "integers or floats"
    elif name in _FLOATS:
        fits, wanted = real, "floats"
    elif name == "labels":
        fits, wanted = array.dtype.kind in "iuU", "integers or text"
    else:
        fits, wanted = array.dtype == bool, "booleans"
    if not fits:
        raise TypeError(f"`{name}` must hold {wanted}, but has dtype {array.dtype}.")
    if name in ("actions", *_FLOATS) and real:
        checks.finite(name, array)
    if not array.ndim:
        raise ValueError(f"`{name}` must be an array, but is the single value {array}.")
    if whole and name != "labels":
        return _as_int64(name, array)
    return array.astype(array.dtype.newbyteorder("="))


def _as_int64(name: str, array: np.ndarray) -> Int[np.ndarray, "..."]:
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"`{name}` must fit 64-bit integers, but has {array.max()}.")
    return array.astype(np.int64)
