"""The rows of a panel in order, and the choices that there are: what its transitions are estimated from."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from irlax.typing import Bool, Float, Int


class Rows(NamedTuple):
    """The rows of a panel in order of individual and period."""

    levels: Int[np.ndarray, "n V"]
    actions: Int[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]
    #: The rows that are followed by the next period of the same individual, which is the row after them.
    followed: Int[np.ndarray, " m"]
    #: The rows after which the individual has left for good, and those after which it was seen again.
    exits: Bool[np.ndarray, " n"]
    survived: Bool[np.ndarray, " n"]
    #: Increments that were observed, by the name of their column.
    increments: Mapping[str, Float[np.ndarray, " n"]]


class Choices(NamedTuple):
    """The actions, and in which combinations of levels each exists."""

    labels: tuple[str, ...]
    available: Callable[[Int[np.ndarray, "m V"]], Bool[np.ndarray, "m A"]]
