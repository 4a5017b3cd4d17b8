"""Links as states: the line graph of a network, whose arcs are turns."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import numpy as np

from irlax import checks
from irlax.routes.labels import examples
from irlax.routes.network import Network, frozen
from irlax.routes.turns import turn_attributes
from irlax.typing import Float, Int


def links_as_states(base: Network, ends: Any, *, uturns: bool, lonlat: bool) -> Network:
    """The network of links; `Network.links_as_states` says what it has."""
    if base.base is not None:
        raise ValueError("The states of this network are links already.")
    labels, end_nodes = _link_labels(base), _end_nodes(base, ends)
    before, after = _turns(base)
    # The origin of a zone and its end are one place.
    back = base.place[base.head[after]] == base.place[base.tail[before]]
    turning = turn_attributes(base, before, after, back, lonlat=lonlat)
    taken = [name for name in turning if name in base.attributes]
    if taken:
        raise ValueError(f"Attributes of turns are called {', '.join(turning)}: rename the links' own {taken[0]!r}.")
    if not uturns:
        before, after = before[~back], after[~back]
        turning = {name: values[~back] for name, values in turning.items()}
    arriving, end_states = _arrivals(base, end_nodes)
    padding = np.zeros(len(arriving))
    values = {name: array[after] for name, array in base.attributes.items()} | turning
    if not len(before) + len(arriving):
        raise ValueError("No link leads to another, and there are no ends: no trip could be made.")
    end_labels = tuple(base.state_labels[node] for node in end_nodes)
    _refuse_shared(labels, end_labels)
    return Network(
        state_labels=labels + end_labels,
        tail=frozen(np.concatenate([before, arriving])),
        head=frozen(np.concatenate([after, end_states])),
        attributes=MappingProxyType({name: frozen(np.concatenate([x, padding])) for name, x in values.items()}),
        is_end=frozen(np.arange(len(labels) + len(end_labels)) >= len(labels)),
        coordinates=_places(base, end_nodes),
        ignored=base.ignored,
        base=base,
    )


def _turns(base: Network) -> tuple[Int[np.ndarray, " M"], Int[np.ndarray, " M"]]:
    """All pairs of links of which the second starts where the first ends."""
    leaving = np.bincount(base.tail, minlength=base.num_states)
    by_tail = np.argsort(base.tail, kind="stable")
    start = np.cumsum(leaving) - leaving
    degree = leaving[base.head]
    before = np.repeat(np.arange(base.num_arcs), degree)
    within = np.arange(len(before)) - np.repeat(np.cumsum(degree) - degree, degree)
    return before, by_tail[start[base.head[before]] + within]


def _arrivals(base: Network, end_nodes: Int[np.ndarray, " G"]) -> tuple[Int[np.ndarray, " M"], Int[np.ndarray, " M"]]:
    """The links to each node at which trips may end, and the state that stands for its end."""
    end_of = np.full(base.num_states, -1)
    end_of[end_nodes] = base.num_arcs + np.arange(len(end_nodes))
    arriving = np.flatnonzero(end_of[base.head] >= 0)
    return arriving, end_of[base.head[arriving]]


def _link_labels(base: Network) -> tuple[Any, ...]:
    if base.arc_labels is not None:
        return base.arc_labels
    names = np.empty(base.num_states, object)
    names[:] = base.state_labels
    labels = tuple(zip(names[base.tail].tolist(), names[base.head].tolist(), strict=True))
    if len(set(labels)) < len(labels):
        _, count = base.arcs_between(base.tail, base.head)
        row = int(np.argmax(count > 1))
        raise ValueError(
            f"Links are called by the pair of their nodes, but {count[row]} lead from {labels[row][0]!r} to "
            f"{labels[row][1]!r}. Give each link a name of its own: `link=` of `Network.from_arcs`."
        )
    return labels


def _end_nodes(base: Network, ends: Any) -> Int[np.ndarray, " G"]:
    reached = np.bincount(base.head, minlength=base.num_states) > 0
    if isinstance(ends, str):
        if ends != "all":
            raise ValueError(f"`ends` must be 'all' or a list of labels of nodes, but is {ends!r}.")
        return np.flatnonzero(reached)
    if not isinstance(ends, Iterable):
        raise TypeError(f"`ends` must be 'all' or a list of labels of nodes, but is a {type(ends).__name__}.")
    nodes = np.array([base.goal_of(label) for label in ends], np.int64)
    if len(np.unique(nodes)) < len(nodes):
        raise ValueError("`ends` must name each node once.")
    if not reached[nodes].all():
        raise ValueError(
            f"`ends` must be nodes that links lead to, but none leads to "
            f"{checks.some([repr(base.state_labels[node]) for node in nodes[~reached[nodes]]])}."
        )
    return nodes


def _refuse_shared(links: tuple[Any, ...], ends: tuple[Any, ...]) -> None:
    shared = set(links) & set(ends)
    if shared:
        raise ValueError(
            f"Links and nodes must have different names, because both are states, but {examples(list(shared))} are "
            f"names of both. Name links by text, for example."
        )


def _places(base: Network, end_nodes: Int[np.ndarray, " G"]) -> Float[np.ndarray, "S 2"] | None:
    """The middle of each link, and the ends where their nodes are."""
    if base.coordinates is None:
        return None
    middle = (base.coordinates[base.tail] + base.coordinates[base.head]) / 2
    return frozen(np.concatenate([middle, base.coordinates[end_nodes]]))
