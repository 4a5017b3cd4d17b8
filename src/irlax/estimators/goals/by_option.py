"""Predictions for each option of an MDP, as tables and in the order of a network's arcs."""

from collections.abc import Hashable
from typing import Any

import equinox as eqx
import numpy as np

from irlax.estimators.goals.predictions import ArcKey, Predictions
from irlax.mdp import MDP
from irlax.planning.goals.options import Options
from irlax.routes import Network
from irlax.routes.labels import as_text
from irlax.tables import AbstractTabulated, Table
from irlax.typing import Float, Int


class ByOption(AbstractTabulated):
    """A prediction for each option: an action in a state in which it is available."""

    mdp: MDP = eqx.field(repr=False)
    #: Row and column of each option in tables over states and actions.
    row: Int[np.ndarray, " J"] = eqx.field(repr=False)
    column: Int[np.ndarray, " J"] = eqx.field(repr=False)
    numbers: Predictions

    @property
    def estimate(self) -> Float[np.ndarray, "R A"]:
        """As a table over states and actions, 0 where an action is not available."""
        return self._table(self.numbers.estimate)

    @property
    def standard_error(self) -> Float[np.ndarray, "R A"]:
        """By the delta method."""
        return self._table(self.numbers.standard_error)

    @property
    def interval(self) -> Float[np.ndarray, "R A 2"]:
        """Estimate ± z·standard error."""
        return self._table(self.numbers.interval)

    def _table(self, values: Float[np.ndarray, "J *k"]) -> Float[np.ndarray, "R A *k"]:
        full = np.zeros((*self.mdp.table_shape, *values.shape[1:]))
        full[self.row, self.column] = values
        return full

    def by_arc(self, net: Network) -> Predictions:
        """The predictions in the order of a network's arcs; of two networks they can be subtracted (`minus`)."""
        place = option_of_arc(self.mdp, self.row, self.column, net)
        slopes = self.numbers.slopes
        keys, labels = arc_keys(net)
        return Predictions(
            self.numbers.what,
            keys,
            labels,
            np.append(self.numbers.estimate, 0.0)[place],
            None if slopes is None else np.concatenate([slopes, np.zeros((1, slopes.shape[1]))])[place],
            self.numbers.uncertainty,
            self.numbers.level,
            self.numbers.absent_is_zero,
        )

    def minus(self, other: "ByOption") -> "ByOption":
        """The differences in the same MDP; for another network subtract what `by_arc` returns."""
        if not np.array_equal(self.row, other.row) or not np.array_equal(self.column, other.column):
            raise ValueError(
                "The MDPs have other actions. Subtract by arc: `a.by_arc(net).minus(b.by_arc(other_net))`."
            )
        return ByOption(self.mdp, self.row, self.column, self.numbers.minus(other.numbers))

    def table(self, num: int | None = 20) -> Table:
        """The `num` largest, largest first."""
        return self.numbers.table(num)

    def _shown(self) -> Table:
        return self.table()


def option_keys(options: Options) -> tuple[Hashable, ...]:
    """Options by their state and their place in tables."""
    return tuple(zip(options.row.tolist(), options.column.tolist(), strict=True))


def state_labels(mdp: MDP) -> tuple[str, ...]:
    """The names of states; their numbers where they have none."""
    names = mdp.labels.states
    return tuple(map(str, range(mdp.num_states))) if names is None else tuple(names)


def option_labels(mdp: MDP, options: Options) -> tuple[str, ...]:
    """Options by the names of the states that they lead from and to; by their action where moves are random."""
    names = state_labels(mdp)
    if options.head is not None:
        ends = zip(options.state.tolist(), options.head.tolist(), strict=True)
        return tuple(f"{names[tail]} → {names[head]}" for tail, head in ends)
    _, actions = mdp.rows.states_and_actions(options.row, options.column)
    cells = zip(options.state.tolist(), np.asarray(actions).tolist(), strict=True)
    return tuple(f"{names[state]}, action {action}" for state, action in cells)


def option_of_arc(mdp: MDP, row: Any, column: Any, net: Network) -> Int[np.ndarray, " E"]:
    """The option of each arc of a network, −1 for arcs of states that end trips; an error if it is not of this MDP."""
    if net.mdp is not mdp and not _same_moves(Options.of(net.mdp), Options.of(mdp)):
        raise ValueError(
            f"`net` must be the network whose MDP this is, but another one has {net.num_states} states and "
            f"{net.num_arcs} arcs. For flows in that network pass its `mdp` and `reward` to the fit."
        )
    place = np.full(mdp.table_shape, -1)
    place[row, column] = np.arange(len(row))
    return place[net.mdp.rows.cells(net.tail, net.action)]


def _same_moves(some: Options, others: Options) -> bool:
    return all(
        np.array_equal(getattr(some, name), getattr(others, name)) for name in ("state", "row", "column", "head")
    )


def arc_keys(net: Network) -> tuple[tuple[ArcKey, ...], tuple[str, ...]]:
    """A key and a label for each arc."""
    seen: dict[tuple[Any, ...], int] = {}
    keys, labels = [], []
    for e, (tail, head) in enumerate(zip(net.tail.tolist(), net.head.tolist(), strict=True)):
        name = None if net.arc_labels is None else net.arc_labels[e]
        ends = tail, head, name
        seen[ends] = seen.get(ends, -1) + 1
        keys.append(ArcKey(*ends, seen[ends]))
        number = f" ({seen[ends] + 1})" if seen[ends] else ""
        label = f"{as_text(net.state_labels[tail])} → {as_text(net.state_labels[head])}"
        labels.append(f"{label}{number}" if name is None else f"{as_text(name)}: {label}{number}")
    return tuple(keys), tuple(labels)
