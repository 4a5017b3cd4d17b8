"""What reports show of states and actions and no computation uses: names, units, a grid's drawing, places."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from irlax import checks
from irlax.precision import staged
from irlax.typing import Float

#: Of a gridworld's drawing, the character of a cell that is no state.
WALL = "#"


@dataclasses.dataclass(frozen=True, eq=False)
class Labels:
    """Names, units and places of an MDP's states and actions; each of them may be missing.

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
    #: Where each state lies on a map: x₀, y₀, x₁, y₁. A point has both ends in one place; a link has two.
    places: Float[np.ndarray, "S 4"] | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Labels):
            return NotImplemented
        return self._texts == other._texts and (
            self.places is other.places or np.array_equal(self.places, other.places)  # pyright: ignore[reportArgumentType]
        )

    def __hash__(self) -> int:
        return hash(self._texts)

    @property
    def _texts(self) -> tuple[Any, ...]:
        return self.states, self.actions, self.layout, self.state_unit, self.action_unit, self.time_unit

    def check(self, num_states: int, num_actions: int) -> None:
        """A TypeError or ValueError unless these are labels for so many states and actions."""
        for name, texts, number in (("states", self.states, num_states), ("actions", self.actions, num_actions)):
            if texts is not None:
                checks.has_shape(name, texts, (number,), f"a name for each of the {name}")
        if self.places is not None:
            checks.has_shape("places", self.places, (num_states, 4), "x₀, y₀, x₁, y₁ of each state")
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


def as_places(places: Any) -> Float[np.ndarray, "S 4"]:
    """Places as (x₀, y₀, x₁, y₁), from such rows or from points (x, y); or a TypeError or ValueError."""
    found = checks.as_floats("places", places)
    checks.has_shape("places", found, (None, None), "x and y of each state, or of both of its ends")
    if found.shape[1] == 2:
        found = np.concatenate([found, found], axis=1)
    if found.shape[1] != 4:
        raise ValueError(f"`places` must have 2 columns (x, y) or 4 (x₀, y₀, x₁, y₁), but has {found.shape[1]}.")
    checks.finite("places", found)
    found = np.array(found)
    found.setflags(write=False)
    return found


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
