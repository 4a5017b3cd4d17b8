"""MDPs as .npz files."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from irlax import checks, storage
from irlax.mdp.dynamics import AbstractDynamics
from irlax.mdp.labels import num_cells
from irlax.mdp.mdp import MDP
from irlax.precision import is_traced
from irlax.typing import Shaped
from irlax.user_warnings import warn_user

FORMAT = "irlax-mdp-1"
_DYNAMICS = ("transitions", "states", "successors", "probs")
#: The array of each label.
_LABELS = {
    "layout": "layout",
    "states": "state_names",
    "actions": "action_names",
    "state_unit": "state_unit",
    "action_unit": "action_unit",
    "time_unit": "time_unit",
}
_KEYS = (
    "format",
    *_DYNAMICS,
    "initial",
    "discount",
    "horizon",
    "available",
    "ends_at_goal",
    *_LABELS.values(),
    "places",
)


def save_mdp(path: str | os.PathLike[str], mdp: MDP) -> None:
    """Write an MDP with its labels to an .npz file, whole or not at all; `load_mdp` says what is in it."""
    path = storage.known_suffix(path, (".npz",))
    if not isinstance(mdp, MDP):
        raise TypeError(f"`mdp` must be an MDP, but is a {type(mdp).__name__}.")
    if is_traced(mdp):
        raise TypeError("An MDP inside `jit`, `vmap` or `grad` has no values to write. Save it outside.")
    arrays = {
        "format": FORMAT,
        **_dynamics(mdp),
        "initial": mdp.initial,
        "discount": float(mdp.discount),
        "horizon": -1 if mdp.horizon is None else mdp.horizon,
        "available": None if mdp.mask is None or not mdp.rows.one_per_state else mdp.mask.T,
        # Left out where it is false, so that earlier versions read the file.
        "ends_at_goal": True if mdp.ends_at_goal else None,
    }
    arrays |= {array: getattr(mdp.labels, name) for name, array in _LABELS.items()}
    storage.save_arrays(path, arrays | {"places": mdp.labels.places})


def load_mdp(path: str | os.PathLike[str]) -> MDP:
    """Read an MDP from an .npz file, checked as `MDP.from_dense` and `MDP.from_successors` check it.

    Such a file may be written by `save_mdp`, or with `numpy.savez` from these arrays:

    | array | type | meaning |
    | --- | --- | --- |
    | `transitions` | float [S,A,S] | P(s' given s, a); or else: |
    | `successors` | int [S,A,B] | the next states that are possible |
    | `probs` | float [S,A,B] | their probabilities; may be left out if B = 1 |
    | `states` | int [N] | optional: a list of actions, as `MDP.from_actions` takes it; the two above are then [N,B] |
    | `initial` | float [S] | the distribution of the first state |
    | `discount` | number | γ |
    | `horizon` | integer | decisions; −1 (or left out) for none |
    | `available` | bool [S,A] | optional: which actions exist where |
    | `ends_at_goal` | bool | optional: whether every episode ends at a goal of its own, as `MDP.from_dense` says |
    | `layout` | text [rows] | optional: a gridworld, drawn; this and the rest are what `MDP.labelled` takes |
    | `state_names` | text [S] | optional |
    | `action_names` | text [A] | optional |
    | `state_unit`, `action_unit`, `time_unit` | text | optional |
    | `places` | float [S,4] | optional: x₀, y₀, x₁, y₁ of each state on a map; or [S,2], x and y |
    | `format` | text | optional: "irlax-mdp-1" |

    Nothing is ever unpickled, and no more is unpacked than the memory holds.
    """
    path = storage.existing_file(path, (".npz",))
    arrays = storage.load_arrays(path, _KEYS, "an MDP (.npz)")
    try:
        _check_keys(path, arrays)
        # Probabilities of 1e308 are refused for their sum, not with a warning about it.
        with np.errstate(over="ignore"):
            mdp = _mdp(arrays)
        # What `save_mdp` wrote in single precision is read so; numbers of unknown origin are given all the digits.
        written = [arrays[name].dtype for name in ("transitions", "probs", "initial") if name in arrays]
        if "format" in arrays and all(dtype == np.float32 for dtype in written):
            mdp = mdp.single_precision()
        return _labelled(path, mdp, arrays)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None


def _dynamics(mdp: MDP) -> dict[str, Any]:
    """The arrays of the dynamics, state-major as the constructors take them."""
    stored = _stored(mdp.dynamics)
    if mdp.rows.one_per_state:
        return stored
    cells = np.nonzero(np.asarray(mdp.available))
    states, actions = mdp.rows.states_and_actions(*cells)
    order = np.lexsort((actions, states))
    listed = {"states": states} | {name: array[cells] for name, array in stored.items()}
    return {name: array[order] for name, array in listed.items()}


def _stored(dynamics: AbstractDynamics) -> dict[str, Any]:
    """The transitions with a row for each row of a table; without `probs` where each action has one next state."""
    links, probs = dynamics.transitions()
    if links is None:
        return {"transitions": np.asarray(probs).swapaxes(0, 1)}
    successors = np.broadcast_to(np.asarray(links.successors), dynamics.aligned_shape).T
    if successors.shape[-1] == 1:
        return {"successors": successors}
    return {"successors": successors, "probs": np.broadcast_to(np.asarray(probs), dynamics.aligned_shape).T}


def _check_keys(path: Path, arrays: dict[str, np.ndarray]) -> None:
    stated = arrays.get("format", np.array(FORMAT))
    if stated.shape != () or str(stated) != FORMAT:
        raise ValueError(f"The format must be {FORMAT!r}, but is {str(stated)!r:.60}.")
    there = ", ".join(arrays) or "nothing"
    if ("transitions" in arrays) == ("successors" in arrays) or ("transitions" in arrays and "states" in arrays):
        raise ValueError(f"The file must hold `transitions` or `successors`, and not both. It holds {there}.")
    missing = [name for name in ("initial", "discount") if name not in arrays]
    if missing:
        raise ValueError(f"The file has no {' and no '.join(missing)}. It holds {there}.")
    for name, kinds, wanted in (("discount", "iuf", "number"), ("horizon", "iu", "whole number")):
        value = arrays.get(name)
        if value is not None and (value.shape != () or value.dtype.kind not in kinds):
            raise TypeError(f"`{name}` must be one {wanted}, but is {value.dtype} of shape {value.shape}.")
    ends = arrays.get("ends_at_goal")
    if ends is not None and (ends.shape != () or ends.dtype != bool):
        raise TypeError(f"`ends_at_goal` must be true or false, but is {ends.dtype} of shape {ends.shape}.")


def _mdp(arrays: dict[str, np.ndarray]) -> MDP:
    stored = arrays.get("transitions", arrays.get("successors"))
    assert stored is not None
    axes, listed = (2, True) if "states" in arrays else (3, False)
    if stored.ndim != axes or 0 in stored.shape:
        raise ValueError(
            f"Transitions must have {'two' if listed else 'three'} axes, none of them empty, but have shape "
            f"{stored.shape}."
        )
    for name in ("transitions", "probs", "initial"):
        if name in arrays and arrays[name].dtype.kind not in "iuf":
            raise TypeError(f"`{name}` must hold numbers, but has dtype {arrays[name].dtype}.")
    horizon = arrays.get("horizon", np.array(-1)).item()
    options: dict[str, Any] = {
        "discount": arrays["discount"].item(),
        "horizon": None if horizon == -1 else horizon,
        "available": arrays.get("available"),
        "ends_at_goal": bool(arrays.get("ends_at_goal", False)),
    }
    if "transitions" in arrays:
        if "probs" in arrays:
            raise ValueError("`probs` belongs to `successors`, but the file holds `transitions`.")
        return MDP.from_dense(stored, arrays["initial"], **options)
    if stored.dtype.kind not in "iu":
        raise TypeError(f"`successors` must hold integers, but has dtype {stored.dtype}.")
    if "probs" not in arrays and stored.shape[-1] != 1:
        raise ValueError(f"The file lists {stored.shape[-1]} successors for each state and action, but no `probs`.")
    probs = arrays.get("probs", np.ones(stored.shape))
    if not listed:
        return MDP.from_successors(stored, probs, arrays["initial"], **options)
    if options.pop("available") is not None:
        raise ValueError("`available` says which cells of a table exist, but the file holds a list of actions.")
    return MDP.from_actions(arrays["states"], stored, arrays["initial"], probs=probs, **options)


def _labelled(path: Path, mdp: MDP, arrays: dict[str, np.ndarray]) -> MDP:
    given = {name: _text(array, arrays[array], mdp) for name, array in _LABELS.items() if array in arrays}
    if "places" in arrays:
        if arrays["places"].dtype.kind not in "iuf":
            raise TypeError(f"`places` must hold numbers, but has dtype {arrays['places'].dtype}.")
        given["places"] = arrays["places"]
    layout = given.get("layout")
    if layout is not None and len({len(row) for row in layout}) == 1 and num_cells(layout) != mdp.num_states:
        # Files could once hold any drawing; it was not shown if it was of something else.
        warn_user(
            f"The `layout` in {path} is left out: it draws {num_cells(layout)} cells, but there are {mdp.num_states} "
            f"states."
        )
        del given["layout"]
    return mdp.labelled(**given)


def _text(name: str, array: Shaped[np.ndarray, "..."], mdp: MDP) -> Any:
    """A text, or a tuple of them."""
    if array.dtype.kind != "U":
        raise TypeError(f"`{name}` must hold text, but has dtype {array.dtype}.")
    if name.endswith("_unit"):
        checks.has_shape(name, array, (), "one text")
        return str(array)
    lengths = {"layout": None, "state_names": mdp.num_states, "action_names": mdp.num_actions}
    checks.has_shape(name, array, (lengths[name],), "a text for each")
    return tuple(str(text) for text in array)
