"""What reports show of states and actions and no computation uses: names, units, the drawing of a grid."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax

from irlax import checks
from irlax.precision import staged

#: Of a gridworld's drawing, the character of a cell that is no state.
WALL = "#"


@dataclasses.dataclass(frozen=True)
class Labels:
    """Names and units of an MDP's states and actions; each of them may be missing.

    Labels travel with an MDP through `jax.tree.map`, `eqx.tree_at` and `dataclasses.replace`, but no compiled program
    depends on them: MDPs that differ in labels alone share their programs, whatever the number of states. Inside `jit`,
    and in what a jitted function returns, an argument has therefore no labels.
    """

    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    #: A gridworld, a string a row, as `envs.Gridworld` draws it: its cells without walls are the states, row by row.
    layout: tuple[str, ...] | None = None
    #: What the names of states, and of actions, are measured in: "miles".
    state_unit: str | None = None
    action_unit: str | None = None
    #: How long a step takes: "month".
    time_unit: str | None = None

    def check(self, num_states: int, num_actions: int) -> None:
        """A TypeError or ValueError unless these are labels for so many states and actions."""
        for name, texts, number in (("states", self.states, num_states), ("actions", self.actions, num_actions)):
            if texts is not None:
                checks.has_shape(name, texts, (number,), f"a name for each of the {name}")
        if self.layout is None:
            return
        if len({len(row) for row in self.layout}) != 1:
            raise ValueError("`layout` must have rows of equal length, at least one.")
        cells = num_cells(self.layout)
        if cells != num_states:
            raise ValueError(
                f"`layout` must draw a cell for each of the {num_states} states, but draws {cells} besides walls "
                f"({WALL!r})."
            )


def num_cells(layout: Iterable[str]) -> int:
    """How many cells a drawing has besides walls."""
    return sum(len(row) - row.count(WALL) for row in layout)


def as_texts(name: str, texts: Iterable[Any]) -> tuple[str, ...]:
    """Several texts as a tuple, or a TypeError."""
    if isinstance(texts, str):
        raise TypeError(f"`{name}` must be a list of texts, but is the one text {texts!r:.60}.")
    texts = tuple(texts)
    strange = [repr(text) for text in texts if not isinstance(text, str)]
    if strange:
        raise TypeError(f"`{name}` must hold text, but holds {checks.some(strange)}.")
    return tuple(map(str, texts))


class _Alike:
    """Labels as a part of a tree's structure, which is a key of compiled programs: any are equal to any others."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Alike)

    def __hash__(self) -> int:
        return hash(_Alike)


def _unflatten(alike: _Alike, _: Iterable[Any]) -> Labels:
    # A compiled program is used again for MDPs with other labels, so the ones that it was compiled with must not
    # appear in what it returns.
    return _NONE if alike.labels is _NONE or staged() else alike.labels


_NONE = Labels()
jax.tree_util.register_pytree_node(Labels, lambda labels: ((), _Alike(labels)), _unflatten)
