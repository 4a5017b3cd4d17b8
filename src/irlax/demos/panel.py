"""Panels: tables with one row for each observed choice."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from irlax.demos import columns
from irlax.demos.demonstrations import Demonstrations, from_rows
from irlax.typing import Bool, Float, Int

if TYPE_CHECKING:
    import pyarrow as pa

OPTIONAL = ("next_state", "terminated", "weight", "goal", "row_weight")


class Columns(eqx.Module):
    """The name of each column in a table; None for a column that it does not have."""

    episode: Any
    time: Any
    state: Any
    action: Any
    next_state: Any = None
    terminated: Any = None
    weight: Any = None
    goal: Any = None
    row_weight: Any = None

    @property
    def names(self) -> dict[str, Any]:
        """The columns to read, by their role."""
        return {role: name for role, name in vars(self).items() if name is not None}

    def found_in(self, present: Sequence[Any]) -> "Columns":
        """Optional columns that were not named are read where one has the usual name."""
        usual = {role: role for role in OPTIONAL if getattr(self, role) is None and role in present}
        return Columns(**self.names | usual)

    def check(self, present: Sequence[Any]) -> None:
        """A TypeError or ValueError unless every column is there, and only once."""
        required = [role for role in vars(self) if role not in OPTIONAL and getattr(self, role) is None]
        if required:
            raise TypeError(
                f"Say which column holds the {' and the '.join(required)}: `{required[0]}=` must be a name."
            )
        present = list(present)
        there = ", ".join(f"`{name}`" for name in present) or "no columns"
        for role, name in self.names.items():
            if name not in present:
                raise ValueError(
                    f"There is no column `{name}` for `{role}`. The table has {there}; say `{role}=` for another name."
                )
            if present.count(name) > 1:
                raise ValueError(f"The table has more than one column `{name}`. Rename or drop all but one.")


class Steps(eqx.Module):
    """Rows in order of episode and time, by column; what each may hold has been checked."""

    #: Where each row stood in the user's table.
    rows: Int[np.ndarray, " n"]
    #: Whether a row belongs to the same episode as the row before it.
    follows: Bool[np.ndarray, " n"]
    time: Int[np.ndarray, " n"]
    state: Int[np.ndarray, " n"]
    action: Int[np.ndarray, " n"]
    next_state: Int[np.ndarray, " n"] | None
    terminated: Bool[np.ndarray, " n"] | None
    weight: Float[np.ndarray, " n"] | None
    goal: Int[np.ndarray, " n"] | None
    row_weight: Float[np.ndarray, " n"] | None
    #: The user's name of the episode of the i-th step.
    label: Callable[[int], Any]

    def where(self, i: int) -> str:
        """How to name a step in a message."""
        return f"row {self.rows[i]} (episode {self.label(i)!r}, t = {self.time[i]})"

    def check(self, names: Columns) -> None:
        """A ValueError where neighbouring rows of an episode contradict each other."""
        inner, elapsed = self.follows[1:], np.diff(self.time)
        if (inner & (elapsed == 0)).any():
            i = int(np.argmax(inner & (elapsed == 0)))
            raise ValueError(
                f"Each episode and time may have one row only, but row {self.rows[i + 1]} repeats {self.where(i)}. "
                f"Drop the duplicates, or number the steps of each episode in `{names.time}`."
            )
        if (inner & (elapsed < 0)).any():
            i = int(np.argmax(inner & (elapsed < 0))) + 1
            raise ValueError(f"Time must increase within an episode, but falls at {self.where(i)}. {SORT}")
        if self.next_state is not None:
            self._check_moves(names, self.next_state)
        if self.weight is not None:
            self._check_weights(names, self.weight)
        if self.terminated is not None:
            self._check_ends(names, self.terminated)
        if self.goal is not None:
            self._check_goals(names, self.goal)

    def _check_moves(self, names: Columns, after: Int[np.ndarray, " n"]) -> None:
        follows = self.follows[1:] & (np.diff(self.time) == 1)
        wrong = follows & (after[:-1] != self.state[1:])
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(
                f"Column `{names.next_state}` must hold the state of the episode's next row where that is one step "
                f"later, but {self.where(i)} leads to state {after[i]}, and row {self.rows[i + 1]} is in state "
                f"{self.state[i + 1]}. Correct one of them, or leave the column out."
            )

    def _check_weights(self, names: Columns, weights: Float[np.ndarray, " n"]) -> None:
        varies = self.follows[1:] & (weights[1:] != weights[:-1])
        if varies.any():
            i = int(np.argmax(varies)) + 1
            raise ValueError(
                f"Column `{names.weight}` must be the same in all rows of an episode, but {self.where(i)} has "
                f"{weights[i]} after {weights[i - 1]}. An episode counts as a whole: give it one weight."
            )

    def _check_goals(self, names: Columns, goals: Int[np.ndarray, " n"]) -> None:
        varies = self.follows[1:] & (goals[1:] != goals[:-1])
        if varies.any():
            i = int(np.argmax(varies)) + 1
            raise ValueError(
                f"Column `{names.goal}` must be the same in all rows of an episode, but {self.where(i)} has {goals[i]} "
                f"after {goals[i - 1]}. An episode ends at one goal: give the rows after it another episode."
            )

    def _check_ends(self, names: Columns, terminated: Bool[np.ndarray, " n"]) -> None:
        inner = self.follows[1:]
        # False, …, false, true and true, …, true are allowed: true may neither be followed by false, nor by
        # another true once it has changed.
        falls = inner & terminated[:-1] & ~terminated[1:]
        changed = np.zeros(len(terminated), bool)
        changed[1:] = inner & ~terminated[:-1] & terminated[1:]
        early = falls | (inner & changed[:-1])
        if early.any():
            i = int(np.argmax(early))
            raise ValueError(
                f"Column `{names.terminated}` must be true on the last row of an episode only, or on all of its rows, "
                f"but {self.where(i)} is not the last. Give the rows after it another episode, or correct the column."
            )


SORT = "Sort the table by episode and time before it is written, or read it whole with `read_demos`."


def read_columns(names: Columns, column: Callable[[Any], Any], first_row: int = 0) -> tuple["pa.Array", dict[str, Any]]:
    """The labels, and by role the other columns, each checked on its own."""
    labels = columns.labels(names.episode, column(names.episode), first_row)
    values: dict[str, Any] = dict.fromkeys(columns.READERS)
    for role, name in names.names.items():
        if role != "episode":
            values[role] = columns.READERS[role](name, column(name), first_row)
    return labels, values


def demonstrations(names: Columns, column: Callable[[Any], Any]) -> Demonstrations:
    """Demonstrations from the columns of a table whose rows are in any order."""
    if not len(column(names.episode)):
        raise ValueError("The table has no rows. Give it one for each observed choice.")
    labels, values = read_columns(names, column)
    encoded = labels.dictionary_encode()
    distinct = columns.label_array(names.episode, encoded.dictionary)
    by_name = np.argsort(distinct)
    rank = np.empty(len(distinct), np.int64)
    rank[by_name] = np.arange(len(distinct))
    episode = rank[columns.as_numpy(encoded.indices)]
    order = _sorted(episode, values["time"])
    episode = episode[order]
    in_order: dict[str, Any] = {role: None if array is None else array[order] for role, array in values.items()}
    steps = Steps(
        rows=order,
        follows=np.concatenate([[False], episode[1:] == episode[:-1]]),
        **in_order,
        label=lambda i: distinct[by_name[episode[i]]].item(),
    )
    steps.check(names)
    lengths = np.bincount(episode)
    last = np.cumsum(lengths) - 1
    return from_rows(
        steps.state,
        steps.action,
        lengths,
        times=steps.time,
        next_states=steps.next_state,
        terminated=False if steps.terminated is None else steps.terminated[last],
        weights=None if steps.weight is None else steps.weight[last],
        labels=distinct[by_name],
        goals=None if steps.goal is None else steps.goal[last],
        row_weights=steps.row_weight,
    )


def _sorted(episode: Int[np.ndarray, " n"], time: Any) -> Int[np.ndarray, " n"]:
    """The order by episode and time, without sorting what is sorted already."""
    later = np.diff(episode)
    if ((later > 0) | ((later == 0) & (np.diff(time) >= 0))).all():
        return np.arange(len(episode))
    return np.lexsort((time, episode))
