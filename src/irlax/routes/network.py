"""Networks: states and the arcs between them, with attributes."""

import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.mdp import MDP
from irlax.mdp.build import numbered
from irlax.notebook_html import framed
from irlax.rewards import LinearReward
from irlax.routes.labels import as_text, examples
from irlax.tables import Summary
from irlax.typing import Bool, Float, Int, PRNGKeyArray

#: Above this many states the MDP has no names and places for them: they would take more memory than the problem.
_MOST_NAMES = 100_000


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Network:
    """States, arcs from one state to another, and attributes of the arcs.

    Arc e leads from state `tail[e]` to state `head[e]`; states are numbered 0, 1, …, and `state_labels` holds their
    names. States are nodes (`from_arcs`, `read_network`), or links (`links_as_states`). In a route-choice problem an
    arc is an action, and a trip ends at its own goal (Fosgerau, Frejinger and Karlström 2013, "A link based network
    route choice model with unrestricted choice set", Transportation Research Part B 56).

        net = Network.from_arcs(pandas.DataFrame({"from": [1, 1, 2], "to": [2, 3, 3], "minutes": [4.0, 9.0, 3.0]}))
        demos = net.trips([[1, 2, 3], [1, 3]])
        reward = net.linear(["minutes"])

    For a free reward of every arc, use `TabularReward` over states and actions of `net.mdp`.
    """

    state_labels: tuple[Any, ...]
    tail: Int[np.ndarray, " E"]
    head: Int[np.ndarray, " E"]
    attributes: Mapping[str, Float[np.ndarray, " E"]]
    #: States that trips only end in: the ends of zones, and of nodes in a network of links.
    is_end: Bool[np.ndarray, " S"]
    coordinates: Float[np.ndarray, "S 2"] | None = None
    #: The user's names of the arcs, if there are any.
    arc_labels: tuple[Any, ...] | None = None
    #: Columns that were no attributes, because they do not hold numbers.
    ignored: tuple[str, ...] = ()
    #: Of a network of links, the network of nodes that it was made from: its arcs are the first states of this one.
    base: "Network | None" = None

    @classmethod
    def from_arcs(
        cls,
        frame: Any,
        tail: str = "from",
        head: str = "to",
        *,
        nodes: Any = None,
        link: str | None = None,
        zones: Any = (),
    ) -> "Network":
        """From a pandas frame (or a dict of columns) with one row for each arc.

        `tail` and `head` name the columns of the labels that an arc leads from and to; labels are whole numbers, text,
        or any other hashable values. All other columns of numbers or booleans are attributes; other columns are left
        out, and an error says so when one is asked for. Missing values are allowed in attributes that `linear` is not
        asked for.

        `nodes` gives coordinates: a frame with the columns `x` and `y`, whose index holds the labels, or a dict from
        label to (x, y). `link` names a column with a name for each arc, which `links_as_states` uses. Trips may start
        and end in a label of `zones`, but not pass through it: each zone becomes two states, an origin that no arc
        leads to, and an end that no arc leaves. Both have its label.
        """
        from irlax.routes.arcs import from_arcs

        return from_arcs(frame, tail, head, nodes=nodes, link=link, zones=zones)

    @property
    def num_states(self) -> int:
        """S."""
        return len(self.state_labels)

    @property
    def num_arcs(self) -> int:
        """E."""
        return len(self.tail)

    @property
    def dead_ends(self) -> Bool[np.ndarray, " S"]:
        """States that no arc leaves; ends are among them."""
        return np.bincount(self.tail, minlength=self.num_states) == 0

    @functools.cached_property
    def mdp(self) -> MDP:
        """The undiscounted MDP whose actions are the arcs, and whose episodes end at goals of their own.

        The actions of a state are its arcs in their order. A state without arcs has one action, back to itself, which
        is how irlax writes an end. Starts are uniform: trips say where they start.
        """
        lost = np.flatnonzero(self.dead_ends)
        tail, head = np.concatenate([self.tail, lost]), np.concatenate([self.head, lost])
        initial = np.full(self.num_states, 1 / self.num_states)
        mdp = MDP.from_actions(tail, head, initial, discount=1.0, ends_at_goal=True)
        if self.num_states > _MOST_NAMES:
            return mdp
        return mdp.labelled(states=map(as_text, self.state_labels), places=self.places)

    @functools.cached_property
    def places(self) -> Float[np.ndarray, "S 4"] | None:
        """Where each state lies: x₀, y₀, x₁, y₁, which for a link are its two nodes; None without coordinates."""
        if self.coordinates is None:
            return None
        points = np.concatenate([self.coordinates, self.coordinates], axis=1)
        if self.base is not None and self.base.coordinates is not None:
            nodes, num = self.base.coordinates, self.base.num_arcs
            points[:num] = np.concatenate([nodes[self.base.tail], nodes[self.base.head]], axis=1)
        return frozen(points)

    @functools.cached_property
    def action(self) -> Int[np.ndarray, " E"]:
        """The number of each arc among those of its tail: its action in `mdp`."""
        return numbered(self.tail)

    def attribute(self, name: str) -> Float[np.ndarray, " E"]:
        """The values of an attribute, one for each arc."""
        if name in self.attributes:
            return self.attributes[name]
        if name in self.ignored:
            raise ValueError(
                f"Column `{name}` is no attribute, because it does not hold numbers. Convert it, for example with "
                f"`pandas.get_dummies`."
            )
        raise ValueError(f"There is no attribute {name!r}. The network has {', '.join(self.attributes) or 'none'}.")

    def linear(self, names: Any, weights: Any = None) -> LinearReward:
        """A reward linear in the named attributes: r(arc) = θ · attributes(arc).

        The features, [S, A, K] as `mdp` lays out its tables, are 0 where there is no arc. `weights` are the θ.
        """
        if not isinstance(names, Iterable):
            raise TypeError(f"`names` must be a list of attributes, but is {names!r}.")
        names = [names] if isinstance(names, str) else list(names)
        if not names or len(set(map(str, names))) < len(names):
            raise ValueError(f"`names` must name one or more attributes, each once, but is {names}.")
        features = np.zeros((*self.mdp.table_shape, len(names)))
        cells = self.mdp.rows.cells(self.tail, self.action)
        for k, name in enumerate(names):
            values = self.attribute(name)
            checks.finite(f"attribute {name}", values)
            features[(*cells, np.full(self.num_arcs, k))] = values
        return LinearReward(features, weights, names=names)

    def with_attributes(self, **values: Any) -> "Network":
        """The same network with more attributes, or other values: an array with one for each arc, or a number."""
        added = {name: checks.as_floats(name, given) for name, given in values.items()}
        for name, array in added.items():
            if array.ndim:
                checks.has_shape(name, array, (self.num_arcs,), "(E,), one for each arc")
        arrays = {name: frozen(np.broadcast_to(array, self.num_arcs).copy()) for name, array in added.items()}
        ignored = tuple(name for name in self.ignored if name not in arrays)
        return dataclasses.replace(self, attributes=MappingProxyType(dict(self.attributes) | arrays), ignored=ignored)

    @functools.cached_property
    def states_by_label(self) -> tuple[dict[Any, int], dict[Any, int]]:
        """The state of each label: of those that trips pass or start in, and of the ends."""
        labels = np.empty(self.num_states, object)
        labels[:] = self.state_labels
        passed, ends = np.flatnonzero(~self.is_end), np.flatnonzero(self.is_end)
        first, second = labels[passed].tolist(), labels[ends].tolist()
        return dict(zip(first, passed.tolist(), strict=True)), dict(zip(second, ends.tolist(), strict=True))

    @functools.cached_property
    def place(self) -> Int[np.ndarray, " S"]:
        """The state with the same label that trips pass or start in; of all but the ends, the state itself."""
        place, (passed, ends) = np.arange(self.num_states), self.states_by_label
        for label, state in ends.items():
            place[state] = passed.get(label, state)
        return place

    def find(self, labels: Sequence[Any], last: Bool[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The state of each label, −1 for an unknown one; where `last`, the end with this label if there is one."""
        passed, ends = self.states_by_label
        states = np.array([passed.get(label, -1) for label in labels], np.int64)
        if ends:
            for i in np.flatnonzero(last).tolist():
                states[i] = ends.get(labels[i], int(states[i]))
        return states

    def state_of(self, label: Any) -> int:
        """The state with this label; of a zone, its origin."""
        return self._known(label, last=False)

    def goal_of(self, label: Any) -> int:
        """The state in which trips to this label end: the end of a zone or node if there is one, else the state."""
        return self._known(label, last=True)

    def _known(self, label: Any, *, last: bool) -> int:
        try:
            state = int(self.find([label], np.array([last]))[0])
        except TypeError:
            raise TypeError(f"A label must be hashable, but is the {type(label).__name__} {label!r:.60}.") from None
        if state < 0:
            raise ValueError(f"There is no state {label!r:.60}. States are called {examples(self.state_labels)}.")
        return state

    @functools.cached_property
    def _by_ends(self) -> tuple[Int[np.ndarray, " E"], Int[np.ndarray, " E"]]:
        """The pairs (tail, head) as one number each, in order, and the arcs in that order."""
        keys = self.tail * self.num_states + self.head
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def arcs_between(
        self, tails: Int[np.ndarray, " n"], heads: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """An arc between each pair of states (−1 where there is none), and how many there are."""
        keys, order = self._by_ends
        wanted = tails * self.num_states + heads
        first = np.searchsorted(keys, wanted, side="left")
        count = np.searchsorted(keys, wanted, side="right") - first
        return np.where(count > 0, order[np.minimum(first, self.num_arcs - 1)], -1), count

    def arc_of(self, tail: Any, head: Any) -> int:
        """The arc between two labels; an error if there is none, or more than one."""
        states = self.state_of(tail), self.goal_of(head)
        arcs, count = self.arcs_between(np.array(states[:1]), np.array(states[1:]))
        if count[0] != 1:
            raise ValueError(f"There are {count[0]} arcs from {tail!r} to {head!r}, where one is expected.")
        return int(arcs[0])

    def without(self, arcs: Any) -> "Network":
        """The same states with some arcs left out: their numbers (`arc_of`), or a mask over all arcs."""
        closed = np.asarray(arcs)
        if closed.dtype == bool:
            checks.has_shape("arcs", closed, (self.num_arcs,), "(E,), one for each arc")
        else:
            numbers = checks.as_integers("arcs", closed if closed.size else closed.astype(np.int64)).ravel()
            checks.in_range("arcs", numbers, self.num_arcs, "arcs")
            closed = np.bincount(numbers, minlength=self.num_arcs) > 0
        if closed.all():
            raise ValueError("`arcs` must leave at least one arc, but names all of them.")
        kept = np.flatnonzero(~closed)
        return dataclasses.replace(
            self,
            tail=frozen(self.tail[kept]),
            head=frozen(self.head[kept]),
            attributes=MappingProxyType({name: frozen(array[kept]) for name, array in self.attributes.items()}),
            arc_labels=None if self.arc_labels is None else tuple(self.arc_labels[e] for e in kept),
        )

    def links_as_states(self, ends: Any = "all", *, uturns: bool = True, lonlat: bool = False) -> "Network":
        """The network whose states are the links (arcs) of this one, and whose arcs are the turns from link to link.

        A link is called by its name (`link=` of `from_arcs`), or else by the pair of its nodes. A turn has the
        attributes of the link that is entered, and `turns` = 1, so that θ·turns is a constant for each link. `uturn` is
        1 if it leads back to the node that one came from, or turns by more than 177°. Where coordinates are known,
        `angle` is the direction of the entered link minus that of the one before, in radians between −π and π, positive
        to the left (x to the east, y to the north), and π back to a node; `left` is 1 from 40° to 177°, the thresholds
        of Fosgerau, Frejinger and Karlström (2013), `right` is the same on the other side, and `straight` is 1 below
        40°. Each turn is one of the four. Links are taken to be straight. With `lonlat`, x is longitude and y latitude
        in degrees, and x is scaled by the cosine of the latitude.

        For each node of `ends` ("all", or labels) there is a state that is called by the node, and that all links to
        the node lead to by an arc whose attributes are 0, so that trips can end at nodes. Without `uturns` there are no
        turns back to the node that one came from.
        """
        from irlax.routes.line_graph import links_as_states

        return links_as_states(self, ends, uturns=uturns, lonlat=lonlat)

    def trips(self, sequences: Any, weights: Any = None, labels: Any = None) -> Demonstrations:
        """Demonstrations from trips, each a sequence of labels of states, the last of which is its goal.

        A trip of weight w counts as w trips; `labels` are names of the trips for messages and for clustering.
        """
        from irlax.routes.trips import trips

        return trips(self, sequences, weights=weights, labels=labels)

    def node_trips(self, sequences: Any, weights: Any = None, labels: Any = None) -> Demonstrations:
        """Demonstrations in a network of links, from trips as sequences of nodes, the last of which is the goal.

        The first link is where a trip starts: it is given, not chosen.
        """
        from irlax.routes.trips import node_trips

        return node_trips(self, sequences, weights=weights, labels=labels)

    def simulate(
        self, weights: Mapping[str, float], origins: Any, destinations: Any, *, key: PRNGKeyArray
    ) -> Demonstrations:
        """Trips from known weights of attributes, one for each pair of an origin and a destination (labels).

        In a network of links, origins and destinations are nodes, and the first link is chosen by its attributes and
        by the value of what follows.
        """
        from irlax.routes.simulation import simulate

        return simulate(self, weights, origins, destinations, key=key)

    def trip_frame(self, demos: Demonstrations) -> Any:
        """Trips as a pandas frame that `read_trips` reads once it is written: trip, position, and the label.

        Of a network of links, trips are given by nodes if links are called by their nodes.
        """
        from irlax.routes.simulation import trip_frame

        return trip_frame(self, demos)

    def summary(self) -> Summary:
        """What the network has: states, arcs, parts that are connected, and the range of each attribute."""
        from irlax.routes.overview import summary

        return summary(self)

    def plot(
        self,
        values: Any = None,
        *,
        by: Literal["arc", "state"] | None = None,
        name: str = "",
        title: str = "",
        ax: Any = None,
    ) -> Any:
        """A map of the network as a matplotlib figure; coordinates must be known.

        `values` are shown by colour and width: the name of an attribute, or a number for each arc (`by="arc"`, the
        default) or each state (`by="state"`; of a network of links the only way, and the default). `name` is the
        label of the colour bar. With `ax` it is drawn on these axes, which are returned.
        """
        from irlax.routes.drawing import network_figure

        return network_figure(self, values, by=by, name=name, title=title, ax=ax)

    def __repr__(self) -> str:
        kind = "states" if self.base is None else "states (links)"
        names = ", ".join(self.attributes) or "none"
        return f"Network({self.num_states:,} {kind}, {self.num_arcs:,} arcs; attributes: {names})"

    def _repr_html_(self) -> str:
        # Without its summary, which searches for connected parts.
        return framed(text=repr(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to an .npz file; labels must be whole numbers, text, or tuples of these."""
        from irlax.routes.npz import save

        save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Network":
        """Read a network that `save` wrote. Nothing is ever unpickled."""
        from irlax.routes.npz import load

        return load(path)


def frozen(array: np.ndarray) -> np.ndarray:
    """The array, which can no longer be written to."""
    array.setflags(write=False)
    return array
