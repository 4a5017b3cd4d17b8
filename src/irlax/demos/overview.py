"""How demonstrations show themselves: a line of text, a table, and HTML with the first rows. Cheap for many rows."""

from typing import Any

import numpy as np

from irlax.demos.demonstrations import Demonstrations
from irlax.notebook_html import framed
from irlax.precision import is_traced
from irlax.tables import Summary, Table, counted, format_value, pairs

#: So many rows are shown.
_ROWS = 8


def text(demos: Demonstrations) -> str:
    """The numbers of episodes and choices, and what else there is, in a line; also inside `jit`."""
    parts = [counted(demos.num_episodes, "episode"), counted(demos.num_steps, "choice")]
    if not is_traced(demos):
        ended = int(np.count_nonzero(demos.terminated))
        parts.append(f"{ended:,} terminated")
    names = ("observations", "rewards", "labels", "goals", "row_weights")
    return f"Demonstrations({', '.join(parts + [name for name in names if getattr(demos, name) is not None])})"


def summary(demos: Demonstrations) -> Summary:
    """What `Demonstrations.summary` returns."""
    lengths = demos.lengths
    facts: list[tuple[str, Any]] = [("episodes", demos.num_episodes), ("observed choices", demos.num_steps)]
    several = lengths.min() != lengths.max()
    middle = f", median {format_value(float(np.median(lengths)))}" if several else ""
    facts.append(("choices an episode", f"{_range(lengths)}{middle}"))
    facts.append(("terminated episodes", int(np.count_nonzero(demos.terminated))))
    late = int(np.count_nonzero(demos.first_times))
    facts += [("episodes that begin after t = 0", late)] if late else []
    if demos.observations is not None:
        facts.append(("numbers an observation", int(np.prod(np.shape(demos.observations)[1:]))))
    if (demos.weights != 1).any():
        facts.append(("weights of episodes", _range(demos.weights)))
    if demos.row_weights is not None:
        facts.append(("weights of rows", _range(demos.row_weights)))
    if demos.goals is not None:
        facts.append(("different goals", len(np.unique(demos.goals))))
    if demos.rewards is not None:
        facts.append(("return of an episode, mean", float(np.average(demos.returns, weights=demos.weights))))
    return Summary([pairs("Demonstrations", facts)])


def as_html(demos: Demonstrations) -> str:
    """The summary and the first rows."""
    return framed(summary(demos).to_html(), _first_rows(demos).to_html())


def _first_rows(demos: Demonstrations) -> Table:
    few = min(demos.num_steps, _ROWS)
    # Of these episodes alone: the arrays of all rows may be long.
    episode = np.searchsorted(demos.offsets, np.arange(few), side="right") - 1
    names = episode if demos.labels is None else demos.labels[episode]
    columns: dict[str, Any] = {"episode": [str(name) for name in names], "t": demos.times[:few].tolist()}
    columns |= {"state": demos.states, "observation": demos.observations, "action": demos.actions}
    columns |= {"next state": demos.next_states, "next observation": demos.next_observations}
    columns |= {"weight": demos.row_weights, "reward": demos.rewards}
    cells = {name: [_cell(value) for value in column[:few]] for name, column in columns.items() if column is not None}
    if demos.goals is not None:
        cells["goal"] = demos.goals[episode].tolist()
    title = f"The first {few} of {demos.num_steps:,} rows" if few < demos.num_steps else "Rows"
    return Table(tuple(cells), list(zip(*cells.values(), strict=True)), title)


def _cell(value: Any) -> Any:
    """A number, or the first few of an array."""
    if np.ndim(value) == 0:
        return value
    flat = np.ravel(value)
    return ", ".join(format_value(number) for number in flat[:4]) + (", …" if len(flat) > 4 else "")


def _range(values: np.ndarray) -> str:
    low, high = values.min().item(), values.max().item()
    return format_value(low) if low == high else f"{format_value(low)} to {format_value(high)}"
