"""Demonstrations from trips: sequences of labels, checked against a network."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.demos.demonstrations import from_rows
from irlax.routes.labels import examples
from irlax.routes.network import Network
from irlax.typing import Bool, Int


class Stops(eqx.Module):
    """The labels of all trips, one after the other, and how to name them in messages."""

    labels: list[Any]
    lengths: Int[np.ndarray, " N"]
    #: The user's names of the trips.
    names: Sequence[Any] | None = None
    #: Where each label stood in the user's table.
    rows: Int[np.ndarray, " n"] | None = None

    @property
    def last(self) -> Bool[np.ndarray, " n"]:
        """Whether a label is the last of its trip."""
        last = np.zeros(len(self.labels), bool)
        last[np.cumsum(self.lengths) - 1] = True
        return last

    def where(self, i: int) -> str:
        """How to name the i-th label of all in a message."""
        ends = np.cumsum(self.lengths)
        k = int(np.searchsorted(ends, i, side="right"))
        row = "" if self.rows is None else f" (row {self.rows[i]})"
        return f"trip {self.name(k)}, position {i - int(ends[k] - self.lengths[k])}{row}"

    def name(self, k: int) -> str:
        """How to name a trip in a message."""
        return str(k) if self.names is None else repr(self.names[k])


def trips(net: Network, sequences: Any, *, weights: Any, labels: Any) -> Demonstrations:
    """Demonstrations from sequences of labels of states."""
    return from_stops(net, flattened(sequences, labels), weights)


def node_trips(net: Network, sequences: Any, *, weights: Any, labels: Any) -> Demonstrations:
    """Demonstrations in a network of links, from sequences of labels of nodes."""
    return from_node_stops(net, flattened(sequences, labels), weights)


def flattened(sequences: Any, names: Any = None) -> Stops:
    """The labels of all trips in one list."""
    if isinstance(sequences, (str, bytes)) or not isinstance(sequences, Iterable):
        raise TypeError(f"Trips must be a list of sequences of labels, but are a {type(sequences).__name__}.")
    listed = []
    for k, sequence in enumerate(sequences):
        if isinstance(sequence, (str, bytes, dict, set)) or not isinstance(sequence, Iterable):
            raise TypeError(
                f"Trip {k} must be a sequence of labels, but is the {type(sequence).__name__} {sequence!r:.60}."
            )
        listed.append(sequence.tolist() if isinstance(sequence, np.ndarray) else list(sequence))
    if not listed:
        raise ValueError("There are no trips.")
    names = None if names is None else list(names)
    if names is not None and len(names) != len(listed):
        raise ValueError(f"`labels` must name each of the {len(listed)} trips, but there are {len(names)}.")
    stops = Stops(list(itertools.chain.from_iterable(listed)), np.array([len(trip) for trip in listed]), names)
    _require_arcs(stops)
    return stops


def from_stops(net: Network, stops: Stops, weights: Any = None) -> Demonstrations:
    """Demonstrations from the labels of states."""
    return _demonstrations(net, _states(net, stops), stops, weights)


def from_node_stops(net: Network, stops: Stops, weights: Any = None) -> Demonstrations:
    """Demonstrations in a network of links, from the labels of nodes."""
    base = net.base
    if base is None:
        raise ValueError("The states of this network are nodes, not links: use `trips`.")
    _require_arcs(stops)
    nodes, last = _states(base, stops), stops.last
    links = _arcs(base, nodes, stops, "links")
    _, ends = net.states_by_label
    goals = np.array([ends.get(stops.labels[i], -1) for i in np.flatnonzero(last)], np.int64)
    if (goals < 0).any():
        i = int(np.flatnonzero(last)[np.argmax(goals < 0)])
        raise ValueError(
            f"{_capital(stops.where(i))}: the trip ends at node {stops.labels[i]!r}, which is no end of this network. "
            f"Name it in `ends=` of `links_as_states`."
        )
    states = np.empty(len(nodes), np.int64)
    states[~last], states[last] = links, goals
    return _demonstrations(net, states, stops, weights)


def _require_arcs(stops: Stops) -> None:
    if (stops.lengths < 2).any():
        k = int(np.argmax(stops.lengths < 2))
        raise ValueError(
            f"A trip must have a start and a goal, at least two labels, but trip {stops.name(k)} has "
            f"{stops.lengths[k]}. Leave it out."
        )


def _states(net: Network, stops: Stops) -> Int[np.ndarray, " n"]:
    """The state of each label, or an error that names the first unknown one."""
    try:
        states = net.find(stops.labels, stops.last)
    except TypeError:
        i = next(i for i, label in enumerate(stops.labels) if not _hashable(label))
        raise TypeError(
            f"{_capital(stops.where(i))}: a label must be a number, a text or a tuple, but is the "
            f"{type(stops.labels[i]).__name__} {stops.labels[i]!r:.60}."
        ) from None
    if (states < 0).any():
        i = int(np.argmax(states < 0))
        raise ValueError(
            f"{_capital(stops.where(i))}: there is no state {stops.labels[i]!r:.60} in the network. States are called "
            f"{examples(net.state_labels)}."
        )
    return states


def _hashable(label: Any) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _arcs(net: Network, states: Int[np.ndarray, " n"], stops: Stops, kind: str) -> Int[np.ndarray, " m"]:
    """The arc from each state to the next of its trip."""
    first = np.flatnonzero(~stops.last)
    arcs, count = net.arcs_between(states[first], states[first + 1])
    if (count == 1).all():
        return arcs
    place = int(np.argmax(count != 1))
    i, two = int(first[place]), states[first[place] : first[place] + 2]
    names = " to ".join(repr(net.state_labels[state]) for state in two)
    if count[place]:
        raise ValueError(
            f"{_capital(stops.where(i))}: {count[place]} {kind} lead from {names}, so which one was taken is unknown. "
            f"Name the links (`link=` of `Network.from_arcs`), make them states (`links_as_states`), and give trips as "
            f"links (`trips`)."
        )
    _, ends = net.states_by_label
    zones = [repr(stops.labels[j]) for j in (i, i + 1) if net.is_end[ends.get(stops.labels[j], states[j])]]
    inside = zones and not stops.last[i + 1] and net.base is None
    advice = f" {zones[-1]} is a zone, which trips may not pass through." if inside else ""
    raise ValueError(f"{_capital(stops.where(i))}: no arc leads from {names}, where the trip goes next.{advice}")


def _demonstrations(net: Network, states: Int[np.ndarray, " n"], stops: Stops, weights: Any) -> Demonstrations:
    arcs = _arcs(net, states, stops, "arcs")
    last = stops.last
    goals = states[last]
    passed = ~last & (states == np.repeat(goals, stops.lengths))
    if passed.any():
        i = int(np.argmax(passed))
        raise ValueError(
            f"{_capital(stops.where(i))}: the trip is at its goal {net.state_labels[states[i]]!r} before its end. A "
            f"trip ends where it first reaches its goal: cut it there, and make a second trip of the rest."
        )
    return from_rows(
        states[~last],
        net.action[arcs],
        stops.lengths - 1,
        next_states=net.head[arcs],
        terminated=True,
        weights=weights,
        labels=None if stops.names is None else _name_array(stops.names),
        goals=goals,
    )


def _name_array(names: Sequence[Any]) -> np.ndarray:
    array = np.asarray(names)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise TypeError(
            f"`labels` must be whole numbers or text, one for each trip, but is {checks.some(list(names))}."
        )
    return array


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
