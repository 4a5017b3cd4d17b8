"""Networks from tables with one row for each arc."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from irlax import checks
from irlax.routes.labels import column_labels, examples, numbered
from irlax.routes.network import Network, frozen
from irlax.typing import Float, Int


def from_arcs(frame: Any, tail: str, head: str, *, nodes: Any, link: str | None, zones: Any) -> Network:
    """A network from a frame; `Network.from_arcs` says what the arguments are."""
    frame = _checked_frame(frame, [name for name in (tail, head, link) if name is not None])
    tails, heads, labels = numbered(column_labels(tail, frame[tail]), column_labels(head, frame[head]))
    split = _zone_numbers(labels, zones)
    num, is_end = len(labels), np.zeros(len(labels) + len(split), bool)
    is_end[num:] = True
    end_of = np.arange(num)
    end_of[split] = num + np.arange(len(split))
    labels = labels + tuple(labels[z] for z in split)
    attributes, ignored = _attributes(frame.drop(columns=[name for name in (tail, head, link) if name is not None]))
    return Network(
        state_labels=labels,
        tail=frozen(tails),
        head=frozen(end_of[heads]),
        attributes=MappingProxyType(attributes),
        is_end=frozen(is_end),
        coordinates=None if nodes is None else frozen(_coordinates(nodes, labels)),
        arc_labels=None if link is None else _arc_labels(link, frame[link]),
        ignored=ignored,
    )


def _checked_frame(frame: Any, needed: list[str]) -> pd.DataFrame:
    if isinstance(frame, Mapping):
        try:
            frame = pd.DataFrame(frame)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`frame` must have columns of equal length, but {error}.") from None
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"`frame` must be a pandas DataFrame, a row for each arc, but is a {type(frame).__name__}.")
    present = list(frame.columns)
    there = ", ".join(f"`{name}`" for name in present) or "no columns"
    for name in needed:
        if name not in present:
            raise ValueError(
                f"There is no column `{name}`. The table has {there}; `tail=` and `head=` name the columns of an arc's "
                f"two states, and `link=` that of its own name."
            )
    if len(set(needed)) < len(needed):
        raise ValueError(f"`tail`, `head` and `link` must be different columns, but are {', '.join(needed)}.")
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise ValueError(f"The table has more than one column `{repeated[0]}`. Rename or drop all but one.")
    if not len(frame):
        raise ValueError("The table has no rows. Give it one for each arc.")
    return frame


def _attributes(frame: pd.DataFrame) -> tuple[dict[str, Float[np.ndarray, " E"]], tuple[str, ...]]:
    """The columns of numbers or booleans as floats, and the names of the others."""
    values, ignored = {}, []
    for name in frame.columns:
        kind = frame[name].dtype
        if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
            values[str(name)] = frozen(np.array(frame[name].to_numpy(np.float64, na_value=np.nan)))
        else:
            ignored.append(str(name))
    return values, tuple(ignored)


def _zone_numbers(labels: tuple[Any, ...], zones: Any) -> Int[np.ndarray, " Z"]:
    if isinstance(zones, str) or not isinstance(zones, Iterable):
        raise TypeError(f"`zones` must be a list of labels, but is {zones!r:.60}.")
    numbers = {label: i for i, label in enumerate(labels)}
    try:
        found = [(zone, numbers.get(zone, -1)) for zone in zones]
    except TypeError:
        raise TypeError("`zones` must hold labels, but one of them is not hashable.") from None
    unknown = [repr(zone) for zone, number in found if number < 0]
    if unknown:
        raise ValueError(f"`zones` must be labels of states, but {checks.some(unknown)} have no arcs.")
    return np.unique(np.array([number for _, number in found], np.int64))


def _coordinates(nodes: Any, labels: tuple[Any, ...]) -> Float[np.ndarray, "S 2"]:
    """x and y of each state, from a frame that is indexed by labels or from a dict of pairs."""
    if isinstance(nodes, pd.DataFrame):
        missing = [name for name in ("x", "y") if name not in nodes.columns]
        if missing:
            raise ValueError(f"`nodes` must have the columns `x` and `y`, but has no {' and no '.join(missing)}.")
        xy = checks.as_floats("nodes", nodes[["x", "y"]].to_numpy())
        keys = nodes.index.tolist()
        if len(set(keys)) < len(keys):
            raise ValueError(f"`nodes` must have one row for each label, but repeats some of {examples(keys)}.")
        places = {key: i for i, key in enumerate(keys)}
    elif isinstance(nodes, Mapping):
        places = {key: i for i, key in enumerate(nodes)}
        xy = checks.as_floats("nodes", list(nodes.values())) if nodes else np.zeros((0, 2))
        checks.has_shape("nodes", xy, (len(places), 2), "(x, y) for each label")
    else:
        raise TypeError(
            f"`nodes` must be a DataFrame with `x` and `y`, indexed by labels, or a dict from label to (x, y), but is "
            f"a {type(nodes).__name__}."
        )
    unknown = [label for label in labels if label not in places]
    if unknown:
        raise ValueError(f"`nodes` must give x and y of every node, but has none for {examples(unknown)}.")
    found = xy[[places[label] for label in labels]]
    checks.finite("nodes", found)
    return found


def _arc_labels(name: str, column: Any) -> tuple[Any, ...]:
    labels = column_labels(name, column).tolist()
    if len(set(labels)) < len(labels):
        repeated = pd.Series(labels, dtype=object).duplicated().to_numpy()
        row = int(np.argmax(repeated))
        raise ValueError(
            f"Column `{name}` must name each arc differently, but row {row} repeats {labels[row]!r:.60}. Drop the "
            f"duplicates, or give the two directions of a road two names."
        )
    return tuple(labels)
