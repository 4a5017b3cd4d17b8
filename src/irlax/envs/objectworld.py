"""Objectworld: coloured objects on a grid, and a reward that is not linear in how far away they are."""

import functools
from typing import ClassVar, Literal

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.envs.gridworld import Gridworld
from irlax.mdp import MDP
from irlax.typing import Float, Int

FeatureKind = Literal["continuous", "discrete"]


class Objectworld(eqx.Module):
    """Randomly placed objects, each with an outer and an inner colour, on a `size` × `size` grid.

    Actions are up, right, down, left and stay; with probability `slip` another of them happens instead. A
    move off the board leaves the walker in place. Walks start anywhere.

    The reward is +1 within 3 cells of an object of outer colour 0 and within 2 cells of one of outer colour
    1, −1 within 3 cells of outer colour 0 alone, and 0 elsewhere; all other colours distract. Distances are
    Euclidean, and "within" is strict, as in the authors' own toolkit, so that the reward is a function of the
    discrete features too.

    Levine, Popović and Koltun (2011); Wulfmeier, Ondruska and Posner (2015).
    """

    size: int = 32
    num_objects: int = 50
    num_colours: int = 2
    slip: float = 0.3
    seed: int = 0
    discount: float = 0.9
    horizon: int | None = None

    action_names: ClassVar[tuple[str, ...]] = Gridworld.action_names

    def __check_init__(self) -> None:
        checks.count("size", self.size)
        checks.count("num_objects", self.num_objects, 0)
        checks.count("num_colours", self.num_colours, 2)
        checks.count("seed", self.seed, 0)
        checks.discount(self.discount)
        checks.horizon(self.horizon)
        if self.num_objects > self.size**2:
            raise ValueError(
                f"`num_objects` must be at most {self.size**2}, one for each cell, but is {self.num_objects}."
            )
        if not 0 <= self.slip <= 0.8:
            raise ValueError(
                f"`slip` must lie between 0 and 0.8, at which all five moves are equally likely, but is {self.slip}."
            )

    @functools.cached_property
    def grid(self) -> Gridworld:
        """The board that is walked on, without its objects."""
        # A gridworld slips to any of the five moves, the intended one too; here it is one of the other four.
        slip = min(1.25 * self.slip, 1.0)
        return Gridworld.open(self.size, self.size, slip=slip, stay=True, discount=self.discount, horizon=self.horizon)

    @property
    def mdp(self) -> MDP:
        """The MDP, without its reward."""
        return self.grid.mdp

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width)."""
        return self.grid.shape

    @property
    def cells(self) -> Int[np.ndarray, "S 2"]:
        """(row, column) of each state."""
        return self.grid.cells

    def to_board(self, values: np.ndarray) -> np.ndarray:
        """Values over states as a picture, [height, width]."""
        return self.grid.to_board(values)

    @functools.cached_property
    def objects(self) -> Int[np.ndarray, "O 4"]:
        """Row, column, outer colour and inner colour of each object; no two share a cell."""
        rng = np.random.default_rng(self.seed)
        places = rng.choice(self.size**2, size=self.num_objects, replace=False)
        colours = rng.integers(self.num_colours, size=(self.num_objects, 2))
        return np.column_stack([*np.divmod(places, self.size), colours])

    @functools.cached_property
    def distances(self) -> Float[np.ndarray, "S K"]:
        """How far the nearest object of each colour is, outer colours first; the board's diagonal if there is none."""
        apart = np.linalg.norm(self.cells[:, None, :] - self.objects[:, :2], axis=-1)
        has = (self.objects[:, 2:, None] == np.arange(self.num_colours)).reshape(-1, 2 * self.num_colours)
        far = np.hypot(self.size, self.size)
        return np.where(has, apart[..., None], far).min(axis=1, initial=far)

    @functools.cached_property
    def reward(self) -> Float[np.ndarray, " S"]:
        """The true reward, over states."""
        first, second = self.distances[:, 0] < 3, self.distances[:, 1] < 2
        return np.where(first, np.where(second, 1.0, -1.0), 0.0)

    def features(self, kind: FeatureKind = "continuous") -> Float[np.ndarray, "S K"]:
        """What a learner sees of each state.

        "continuous": the distance to the nearest object of each outer, then of each inner colour, K = 2C.
        "discrete": for each of these in turn, whether it is below 1, 2, ..., `size`, K = 2C·size.
        """
        checks.one_of("kind", kind, ("continuous", "discrete"))
        if kind == "continuous":
            return self.distances.copy()
        below = self.distances[..., None] < np.arange(1, self.size + 1)
        return below.reshape(len(below), -1).astype(float)

    def feature_names(self, kind: FeatureKind = "continuous") -> list[str]:
        """A name for each feature: "outer 0", or "outer 0 < 3"."""
        checks.one_of("kind", kind, ("continuous", "discrete"))
        names = [f"{which} {colour}" for which in ("outer", "inner") for colour in range(self.num_colours)]
        if kind == "continuous":
            return names
        return [f"{name} < {below}" for name in names for below in range(1, self.size + 1)]
