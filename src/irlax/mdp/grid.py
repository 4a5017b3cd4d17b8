"""The cells of a gridworld, and the names of states and actions."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np

from irlax.mdp.labels import WALL
from irlax.mdp.mdp import MDP
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


def state_names(mdp: MDP, states: Sequence[int] | None = None) -> list[str]:
    """The names of states (all of them unless given) with their unit, such as "35 miles"; else s and their number."""
    labels, states = mdp.labels, range(mdp.num_states) if states is None else states
    if labels.states is None:
        return [f"s{state}" for state in states]
    return [_with_unit(labels.states[state], labels.state_unit) for state in states]


def action_names(mdp: MDP) -> list[str]:
    """The names of the actions with their unit: as labelled, or of the moves on a grid, or a with their number."""
    labels = mdp.labels
    if labels.actions is not None:
        return [_with_unit(name, labels.action_unit) for name in labels.actions]
    if labels.layout is not None and mdp.num_actions in (4, 5):
        return list(MOVES)[: mdp.num_actions]
    return [f"a{action}" for action in range(mdp.num_actions)]


def moves_on_grid(mdp: MDP) -> Int[np.ndarray, "A 2"] | None:
    """(down, right) of each action of a gridworld; None if there is no grid, or an action is not a move on it."""
    names = action_names(mdp)
    if mdp.labels.layout is None or not all(name in MOVES for name in names):
        return None
    return np.array([MOVES[name] for name in names])


def _with_unit(name: str, unit: str | None) -> str:
    return name if unit is None else f"{name} {unit}"
