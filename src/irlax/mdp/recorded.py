"""Demonstrations whose states are extended by their history, row by row."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from irlax.mdp.mdp import MDP
from irlax.mdp.memory import NO_MEMORY, Codes
from irlax.typing import Bool, Int


@runtime_checkable
class Recorded(Protocol):
    """What is needed of `irlax.Demonstrations`."""

    actions: Any
    times: Any
    next_states: Any
    goals: Any
    offsets: Any

    @property
    def tabular_states(self) -> Int[np.ndarray, " n"]:
        """The state of each row."""
        ...

    @property
    def followed(self) -> Int[np.ndarray, " m"]:
        """The rows whose next row is of the same episode, and one step of time later."""
        ...

    def check(self, mdp: MDP) -> None:
        """A ValueError unless every row is possible."""
        ...

    def select(self, episodes: Sequence[int] | np.ndarray) -> Any:
        """Some of the episodes."""
        ...

    def where(self, row: int) -> str:
        """How to name a row in a message."""
        ...


#: The fields of demonstrations that hold something for each episode; all others hold something for each row.
OF_EPISODES = frozenset({"offsets", "terminated", "weights", "labels", "goals"})


class CodedRows(NamedTuple):
    """The extended state of each row, and the one that followed; rows whose history is not known are not `known`."""

    codes: Int[np.ndarray, " n"]
    next_codes: Int[np.ndarray, " n"] | None
    known: Bool[np.ndarray, " n"]


def coded_rows(codes: Codes, mdp: MDP, demos: Any, unknown: str) -> CodedRows:
    """The codes of demonstrations, which are checked to be possible in the original MDP."""
    if not isinstance(demos, Recorded):
        raise TypeError(f"`demos` must be ix.Demonstrations, but is a {type(demos).__name__}.")
    demos.check(mdp)
    if demos.goals is not None:
        raise ValueError("`with_history` needs demonstrations without goals of their own.")
    states, position = demos.tabular_states, _position_in_run(demos)
    first_row = np.arange(len(states)) - position
    from_the_start = (demos.times[first_row] == 0) | (unknown == "start")
    found = _along_runs(codes, demos, position)
    # What happened before the run is forgotten once the run is longer than what is remembered.
    forgets = codes.memory is NO_MEMORY
    known = from_the_start | ((position >= codes.last) & forgets) | codes.absorbing[states]
    if not known.all() and unknown == "error":
        row = int(np.argmin(known))
        raise ValueError(
            f"The history of {int((~known).sum())} rows is not known, because their episodes are observed from a later "
            f"time on or have gaps: the first is row {row} ({demos.where(row)}). Say `unknown='drop'` to leave these "
            f"rows out, or `unknown='start'` to treat them as starts."
        )
    if not known.any():
        raise ValueError("`unknown='drop'` leaves no row: of none of them is the history known.")
    after = demos.next_states
    return CodedRows(found, None if after is None else codes.after(found, demos.actions, after), known)


def with_rows(
    demos: Any, kept: Bool[np.ndarray, " n"], states: Int[np.ndarray, " n"], next_states: Int[np.ndarray, " n"] | None
) -> Any:
    """The demonstrations in other states, without the rows that are not kept; episodes without rows are left out."""
    changed = dataclasses.replace(demos, states=states, next_states=next_states)
    if kept.all():
        return changed
    lengths = np.add.reduceat(kept.astype(np.int64), demos.offsets[:-1])
    fields = {field.name: getattr(changed, field.name) for field in dataclasses.fields(changed)}
    rows = {
        name: value[kept] for name, value in fields.items() if name not in OF_EPISODES and isinstance(value, np.ndarray)
    }
    # An episode whose last row is left out is not known to have ended after the rows that are kept.
    ended = demos.terminated & kept[demos.offsets[1:] - 1]
    shorter = dataclasses.replace(changed, offsets=np.concatenate([[0], np.cumsum(lengths)]), terminated=ended, **rows)
    return shorter.select(np.flatnonzero(lengths))


def _position_in_run(demos: Recorded) -> Int[np.ndarray, " n"]:
    """How many rows before each one were observed without a gap."""
    starts = np.ones(len(demos.times), bool)
    starts[demos.followed + 1] = False
    row = np.arange(len(starts))
    return row - np.maximum.accumulate(np.where(starts, row, 0))


def _along_runs(codes: Codes, demos: Recorded, position: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The code of each row if every run without a gap started with an empty history."""
    states, actions = demos.tabular_states, demos.actions
    found = np.zeros(len(states), np.int64)
    # Rows of equal position are consecutive in this order: a step of time for all runs at once.
    order = np.argsort(position, kind="stable")
    edges = np.concatenate([[0], np.cumsum(np.bincount(position))])
    for step, (low, high) in enumerate(itertools.pairwise(edges)):
        rows = order[low:high]
        if step == 0:
            found[rows] = codes.start(states[rows])
        else:
            found[rows] = codes.after(found[rows - 1], actions[rows - 1], states[rows])
    return found
