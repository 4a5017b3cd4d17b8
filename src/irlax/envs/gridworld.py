"""Gridworlds, drawn as text."""

import functools
from collections.abc import Sequence
from typing import ClassVar, Literal

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.typing import Float, Int

_FREE, _WALL, _START, _GOAL, _HAZARD = ".#SGX"


class Gridworld(eqx.Module):
    """Cells to walk between; `layout` draws them, a string a row.

    | drawn | meaning |
    | --- | --- |
    | `.` | a free cell |
    | `#` | a wall: no cell at all |
    | `S` | a start; several share the start equally (none: every free cell) |
    | `G` | a goal, with reward `goal_reward` |
    | `X` | a hazard, with reward `hazard_reward` |

    Actions are up, right, down and left, and stay if `stay`. With probability `slip` the move is drawn at
    random from all of them instead. A move into a wall or off the board leaves the walker in place
    (`bump="stay"`), or does not exist (`bump="unavailable"`, which needs slip = 0). With `ends` goals and
    hazards are absorbing, with one action; else the walk goes on from them.
    """

    layout: tuple[str, ...] = eqx.field(converter=tuple)
    slip: float = 0.0
    stay: bool = False
    bump: Literal["stay", "unavailable"] = "stay"
    ends: bool = False
    step_reward: float = 0.0
    goal_reward: float = 1.0
    hazard_reward: float = -1.0
    discount: float = 0.9
    horizon: int | None = None

    action_names: ClassVar[tuple[str, ...]] = ("up", "right", "down", "left", "stay")
    _moves: ClassVar[np.ndarray] = np.array([[-1, 0], [0, 1], [1, 0], [0, -1], [0, 0]])

    @classmethod
    def open(cls, height: int, width: int, *, goals: Sequence[tuple[int, int]] = (), **options) -> "Gridworld":
        """An empty board of the given size, with goals at (row, column)."""
        board = np.full((checks.count("height", height), checks.count("width", width)), _FREE)
        for row, column in goals:
            if not (0 <= row < height and 0 <= column < width):
                raise ValueError(f"The goal ({row}, {column}) is not on the {height}×{width} board.")
            board[row, column] = _GOAL
        return cls(["".join(row) for row in board], **options)

    def __check_init__(self) -> None:
        if not self.layout or not self.layout[0]:
            raise ValueError("`layout` must have at least one row of cells.")
        widths = {len(row) for row in self.layout}
        if len(widths) > 1:
            raise ValueError(f"`layout` must have rows of equal length, but they have {sorted(widths)}.")
        unknown = sorted(set("".join(self.layout)) - set(_FREE + _WALL + _START + _GOAL + _HAZARD))
        if unknown:
            raise ValueError(f"`layout` may use the characters '.#SGX', but has {checks.some(unknown)}.")
        if set("".join(self.layout)) == {_WALL}:
            raise ValueError("`layout` must have at least one cell that is not a wall.")
        if not 0 <= self.slip <= 1:
            raise ValueError(f"`slip` must lie between 0 and 1, but is {self.slip}.")
        checks.one_of("bump", self.bump, ("stay", "unavailable"))
        if self.bump == "unavailable" and self.slip:
            raise ValueError("`bump='unavailable'` needs slip = 0: a slip could not be kept from the wall.")

    @property
    def board(self) -> np.ndarray:
        """The characters of the layout, [height, width]."""
        return np.array([list(row) for row in self.layout])

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width)."""
        return len(self.layout), len(self.layout[0])

    @functools.cached_property
    def cells(self) -> Int[np.ndarray, "S 2"]:
        """(row, column) of each state."""
        return np.argwhere(self.board != _WALL)

    @functools.cached_property
    def state_at(self) -> Int[np.ndarray, "height width"]:
        """The state in each cell; −1 in walls."""
        states = np.full(self.shape, -1)
        states[tuple(self.cells.T)] = np.arange(len(self.cells))
        return states

    @functools.cached_property
    def mdp(self) -> MDP:
        """The MDP, without its reward."""
        num_moves = 5 if self.stay else 4
        target, bumps = self._targets(num_moves)
        num_states = len(self.cells)
        available = ~bumps if self.bump == "unavailable" else np.ones((num_states, num_moves), bool)
        successors, probs = target[..., None], np.ones((num_states, num_moves, 1))
        if self.slip:
            anywhere = np.broadcast_to(target[:, None, :], (num_states, num_moves, num_moves))
            successors = np.concatenate([successors, anywhere], axis=-1)
            slipped = np.full(anywhere.shape, self.slip / num_moves)
            probs = np.concatenate([(1 - self.slip) * probs, slipped], axis=-1)
        if self.ends:
            ended = np.isin(self.marks, [_GOAL, _HAZARD])
            successors = np.where(ended[:, None, None], np.arange(num_states)[:, None, None], successors)
            available = np.where(ended[:, None], np.arange(num_moves) == 0, available)
        alone = ~available.any(axis=1)
        if alone.any():
            raise ValueError(f"No move is possible from cells {checks.some(self.cells[alone].tolist())}.")
        mdp = MDP.from_successors(
            successors,
            probs,
            self._start(),
            discount=self.discount,
            horizon=self.horizon,
            available=available,
        )
        return mdp.labelled(layout=self.layout, actions=self.action_names[:num_moves])

    @property
    def marks(self) -> np.ndarray:
        """The character of each state's cell."""
        return self.board[tuple(self.cells.T)]

    @functools.cached_property
    def reward(self) -> Float[np.ndarray, " S"]:
        """The true reward, over states."""
        reward = np.full(len(self.cells), self.step_reward)
        reward[self.marks == _GOAL] = self.goal_reward
        reward[self.marks == _HAZARD] = self.hazard_reward
        return reward

    def to_board(self, values: np.ndarray, fill: float = np.nan) -> np.ndarray:
        """Values over states as a picture, [height, width], with `fill` in walls."""
        picture = np.full(self.shape, fill)
        picture[tuple(self.cells.T)] = values
        return picture

    def _targets(self, num_moves: int) -> tuple[np.ndarray, np.ndarray]:
        """Where each move leads, [S, moves], and which of them bump."""
        beyond = self.cells[:, None, :] + self._moves[:num_moves]
        inside = ((beyond >= 0) & (beyond < self.shape)).all(axis=-1)
        clipped = np.clip(beyond, 0, np.array(self.shape) - 1)
        target = np.where(inside, self.state_at[clipped[..., 0], clipped[..., 1]], -1)
        return np.where(target < 0, np.arange(len(self.cells))[:, None], target), target < 0

    def _start(self) -> Float[np.ndarray, " S"]:
        starts = self.marks == _START
        if not starts.any():
            starts = self.marks == _FREE
        if not starts.any():
            starts = np.ones(len(self.cells), bool)
        return starts / starts.sum()


def cliff(
    *, height: int = 4, width: int = 12, slip: float = 0.0, discount: float = 0.9, horizon: int | None = None
) -> Gridworld:
    """The cliff walk: along the bottom lies a cliff between start and goal.

    A step costs 1, the cliff 100; both the goal, with reward 0, and the foot of the cliff end the walk. After
    Sutton and Barto (2018), Example 6.6, where a fall sends the walker back to the start instead.
    """
    checks.count("height", height, 2)
    checks.count("width", width, 3)
    rows = ["." * width] * (height - 1) + ["S" + "X" * (width - 2) + "G"]
    return Gridworld(
        rows,
        slip=slip,
        ends=True,
        step_reward=-1.0,
        goal_reward=0.0,
        hazard_reward=-100.0,
        discount=discount,
        horizon=horizon,
    )
