"""The states of a panel: combinations of levels that can occur."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from irlax.panels.variables import Variable
from irlax.typing import Int

#: More states than this are a sign of bins that are too fine.
MOST_STATES = 200_000


class Space(NamedTuple):
    """Combinations of levels, numbered in one order: the last variable changes fastest."""

    variables: tuple[Variable, ...]

    @property
    def radix(self) -> Int[np.ndarray, " V"]:
        """By how much a level of each variable moves the number of a combination."""
        sizes = np.array([variable.num for variable in self.variables])
        return np.append(np.cumprod(sizes[::-1])[::-1][1:], 1)

    def check(self) -> None:
        """A ValueError if combinations cannot be numbered."""
        if np.prod([float(variable.num) for variable in self.variables]) > 2.0**50:
            raise ValueError("The state variables have more than 2⁵⁰ combinations of levels. Use fewer, or fewer bins.")

    def keys(self, codes: Int[np.ndarray, "m V"]) -> Int[np.ndarray, " m"]:
        """The number of each combination."""
        return codes @ self.radix

    def codes(self, keys: Int[np.ndarray, " m"]) -> Int[np.ndarray, "m V"]:
        """The levels of each combination."""
        sizes = np.array([variable.num for variable in self.variables])
        return keys[:, None] // self.radix % sizes


def label_of(variables: Sequence[Variable], codes: Int[np.ndarray, " V"]) -> str:
    """The name of a state: "mileage 3, region north"."""
    parts = zip(variables, codes, strict=True)
    return ", ".join(f"{variable.name} {variable.labels[code]}" for variable, code in parts)


def closure(
    keys: Int[np.ndarray, " m"],
    follow: Callable[[Int[np.ndarray, " f"]], Int[np.ndarray, " g"]],
) -> Int[np.ndarray, " S"]:
    """All combinations that can be reached from some, in order; `follow` gives what can come next."""
    found = frontier = np.unique(keys)
    while len(frontier):
        frontier = np.setdiff1d(follow(frontier), found)
        found = np.union1d(found, frontier)
        refuse_too_many(len(found))
    return found


def refuse_too_many(num: int) -> None:
    """A ValueError if so many states are a sign of bins that are too fine."""
    if num > MOST_STATES:
        raise ValueError(
            f"{num:,} different states can occur in the panel, more than {MOST_STATES:,}. Use fewer bins, or variables."
        )
