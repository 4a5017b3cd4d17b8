"""The cells of a gridworld, and the names of states and actions."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np

from irlax.mdp import MDP
from irlax.mdp.labels import WALL
from irlax.typing import Float, Int

#: (down, right) of the actions that are arrows on a grid, in the order of `envs.Gridworld`.
MOVES = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1), "stay": (0, 0)}


class Grid(eqx.Module):
    """The drawing of a gridworld, and the cell (row, column) of each state."""

    board: np.ndarray
    cells: Int[np.ndarray, "S 2"]

    @classmethod
    def of(cls, mdp: MDP) -> "Grid | None":
        """The grid of an MDP whose labels have a layout; else None."""
        if mdp.labels.layout is None:
            return None
        board = np.array([list(row) for row in mdp.labels.layout])
        return cls(board, np.argwhere(board != WALL))

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width)."""
        return self.board.shape[0], self.board.shape[1]

    def picture(self, values: Float[np.ndarray, " S"]) -> Float[np.ndarray, "height width"]:
        """Values over states, with NaN in walls."""
        board = np.full(self.shape, np.nan)
        board[tuple(self.cells.T)] = values
        return board


def names_of(given: Sequence[str] | None, unit: str | None, number: int, letter: str) -> list[str]:
    """The given names with their unit, such as "35 miles"; if none are given, a letter with a number."""
    names = given or [f"{letter}{i}" for i in range(number)]
    return [name if given is None or unit is None else f"{name} {unit}" for name in names]
