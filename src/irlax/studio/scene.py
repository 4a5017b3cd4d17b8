"""Scenes: a grid, walks drawn in it, and how the reward is to be inferred from them; as JSON.

A scene is a JSON object with these fields; only `format` and `board` must be there:

================== ==============================================================================================
``format``         "irlax-scene-1"
``board``          a string for each row: "." free, "#" wall, "S" start, "G" goal, "X" hazard
``demonstrations`` walks: lists of at least two cells [row, column], each a neighbour of the one before
``title``          a name for people
``slip``           the probability with which a move is drawn at random from all four
``discount``       γ
``horizon``        decisions of an episode; null: they never end
``ends``           whether goals and hazards end a walk (they are absorbing), or walks go on from them
``reward``         what the reward is a function of: "cells", "moves" (cells and moves), or "marks" (goal and hazard)
``objective``      of `MCEIRL`: "likelihood", "discounted-likelihood" or "feature-matching"
``l2``             of `MCEIRL`: the weight of the penalty
``truth``          null, or the true reward of a step, a goal and a hazard: {"step": 0, "goal": 1, "hazard": -1}
================== ==============================================================================================
"""

import itertools
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from irlax.envs import Gridworld
from irlax.estimators.tabular.mce import OBJECTIVES

FORMAT = "irlax-scene-1"
REWARDS = ("cells", "moves", "marks")
#: Bounds of what is planned for while somebody waits.
MAX_SIDE, MAX_WALKS, MAX_STEPS, MAX_HORIZON, MAX_MOVES_SIDE = 40, 200, 5000, 400, 15
MAX_TITLE = 200
#: Without a horizon, values are the sums of about 1/(1 − γ) rewards.
MAX_DISCOUNT = 0.999
#: Down and right, of the actions of `envs.Gridworld`: up, right, down, left.
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))

Cell = tuple[int, int]


class Truth(eqx.Module):
    """A reward that is known: of every step, and instead of it in goals and hazards."""

    step: float = 0.0
    goal: float = 1.0
    hazard: float = -1.0


class Scene(eqx.Module):
    """A grid, walks in it, and how the reward is to be inferred from them. Read one by `parse`, which checks it."""

    board: tuple[str, ...]
    demonstrations: tuple[tuple[Cell, ...], ...] = ()
    title: str = ""
    slip: float = 0.0
    discount: float = 0.9
    horizon: int | None = None
    ends: bool = True
    reward: str = "cells"
    objective: str = "likelihood"
    l2: float = 0.02
    truth: Truth | None = None

    FIELDS: ClassVar[tuple[str, ...]] = (
        *("format", "board", "demonstrations", "title", "slip", "discount", "horizon", "ends", "reward"),
        *("objective", "l2", "truth"),
    )

    @property
    def shape(self) -> tuple[int, int]:
        """(height, width)."""
        return len(self.board), len(self.board[0])

    @property
    def marks(self) -> np.ndarray:
        """The characters of the board, [height, width]."""
        return np.array([list(row) for row in self.board])

    @property
    def gridworld(self) -> Gridworld:
        """The problem as `envs.Gridworld`, with the true reward if there is one."""
        truth = self.truth or Truth()
        return Gridworld(
            self.board,
            slip=self.slip,
            ends=self.ends,
            step_reward=truth.step,
            goal_reward=truth.goal,
            hazard_reward=truth.hazard,
            discount=self.discount,
            horizon=self.horizon,
        )

    def is_end(self, cell: Cell) -> bool:
        """Whether a walk ends in a cell."""
        return self.ends and self.board[cell[0]][cell[1]] in "GX"

    def record(self) -> dict[str, Any]:
        """The scene as JSON has it."""
        values: dict[str, Any] = {name: getattr(self, name) for name in self.FIELDS if name != "format"}
        truth = None if self.truth is None else vars(self.truth)
        walks = [[list(cell) for cell in walk] for walk in self.demonstrations]
        return {"format": FORMAT, **values, "board": list(self.board), "demonstrations": walks, "truth": truth}


def parse(record: Any) -> Scene:
    """The scene of a JSON object, or a ValueError that says what is wrong with it."""
    fields = expect("The scene", record, dict)
    if fields.get("format") != FORMAT:
        raise ValueError(f"The scene must have format {FORMAT!r}, but has {text_of(fields.get('format'))}.")
    unknown = sorted(set(fields) - set(Scene.FIELDS))
    if unknown:
        raise ValueError(f"The scene has a field {text_of(unknown[0])}; its fields are {', '.join(Scene.FIELDS)}.")
    scene = Scene(
        board=_board(fields.get("board")),
        title=_text(fields.get("title", "")),
        slip=number("slip", fields.get("slip", 0.0), 0, 1),
        discount=number("discount", fields.get("discount", 0.9), 0, 1),
        horizon=_horizon(fields.get("horizon")),
        ends=expect("`ends`", fields.get("ends", True), bool),
        reward=choice("reward", fields.get("reward", "cells"), REWARDS),
        objective=choice("objective", fields.get("objective", "likelihood"), OBJECTIVES),
        l2=number("l2", fields.get("l2", 0.02), 0, 1e6),
        truth=_truth(fields.get("truth")),
    )
    if scene.horizon is None and scene.discount > MAX_DISCOUNT:
        raise ValueError(f"Without a horizon `discount` must be at most {MAX_DISCOUNT}, but is {scene.discount}.")
    if scene.reward == "moves" and max(scene.shape) > MAX_MOVES_SIDE:
        raise ValueError(f"A reward of moves is for grids of at most {MAX_MOVES_SIDE}×{MAX_MOVES_SIDE} cells.")
    walks = _walks(fields.get("demonstrations", []), scene)
    return eqx.tree_at(lambda scene: scene.demonstrations, scene, walks, is_leaf=lambda node: node == ())


def parse_text(text: str | bytes) -> Scene:
    """The scene in a text of JSON."""
    return parse(parse_json(text))


def parse_json(text: str | bytes) -> Any:
    """The value of a text of JSON, or a ValueError."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"This is not JSON: {str(error)[:100] or 'too deep'}.") from None


def expect(name: str, value: Any, kind: type) -> Any:
    """The value, if it is of this kind; else a ValueError."""
    if not isinstance(value, kind):
        names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a whole number"}
        raise ValueError(f"{name} must be {names[kind]}, but is {text_of(value)}.")
    return value


def whole(name: str, value: Any, low: int, high: int) -> int:
    """A whole number within bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"`{name}` must be a whole number from {low} to {high}, but is {text_of(value)}.")
    return value


def number(name: str, value: Any, low: float, high: float) -> float:
    """A finite number within bounds."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not fits or not math.isfinite(value):
        raise ValueError(f"`{name}` must be a number from {low:g} to {high:g}, but is {text_of(value)}.")
    return float(value)


def choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """One of several texts."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}, but is {text_of(value)}.")
    return value


def text_of(value: Any) -> str:
    """A value of a message, shortened, for an error."""
    shown = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return shown if len(shown) <= 60 else shown[:60] + "…"


def listed(name: str, value: Any, most: int, parse_one: Callable[[Any], Any]) -> tuple[Any, ...]:
    """A list of at most so many things."""
    if len(expect(name, value, list)) > most:
        raise ValueError(f"{name} may have at most {most} entries, but has {len(value)}.")
    return tuple(map(parse_one, value))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it holds {name}")


def _text(value: Any) -> str:
    text = expect("`title`", value, str)
    if len(text) > MAX_TITLE or not text.isprintable():
        raise ValueError(f"`title` must be a line of at most {MAX_TITLE} characters.")
    return text


def _horizon(value: Any) -> int | None:
    return None if value is None else whole("horizon", value, 1, MAX_HORIZON)


def _truth(value: Any) -> Truth | None:
    if value is None:
        return None
    fields: Mapping[str, Any] = expect("`truth`", value, dict)
    if set(fields) != {"step", "goal", "hazard"}:
        raise ValueError("`truth` must have the fields step, goal and hazard.")
    return Truth(**{name: number(name, each, -1000, 1000) for name, each in fields.items()})


def _board(value: Any) -> tuple[str, ...]:
    board = listed("`board`", value, MAX_SIDE, lambda row: expect("A row of `board`", row, str))
    widths = {len(row) for row in board}
    if len(widths) != 1 or not 1 <= widths.pop() <= MAX_SIDE:
        raise ValueError(f"`board` must have rows of equal length, from 1 to {MAX_SIDE} cells.")
    unknown = set("".join(board)) - set(".#SGX")
    if unknown:
        raise ValueError(f"`board` may use the characters . # S G X, but has {text_of(min(unknown))}.")
    if set("".join(board)) == {"#"}:
        raise ValueError("`board` must have at least one cell that is not a wall.")
    return board


def _walks(value: Any, scene: Scene) -> tuple[tuple[Cell, ...], ...]:
    walks = listed("`demonstrations`", value, MAX_WALKS, lambda walk: _walk(walk, scene))
    steps = sum(len(walk) - 1 for walk in walks)
    if steps > MAX_STEPS:
        raise ValueError(f"`demonstrations` may have at most {MAX_STEPS} steps in all, but have {steps}.")
    return walks


def _walk(value: Any, scene: Scene) -> tuple[Cell, ...]:
    cells = listed("A walk", value, MAX_STEPS + 1, lambda cell: _cell(cell, scene))
    if len(cells) < 2:
        raise ValueError("A walk must have at least two cells.")
    for (row, column), after in itertools.pairwise(cells):
        if (after[0] - row, after[1] - column) not in STEPS:
            raise ValueError(f"A walk jumps from {(row, column)} to {after}, which is no neighbour.")
        if scene.is_end((row, column)):
            raise ValueError(f"A walk goes on from {(row, column)}, where walks end. Set `ends` to false.")
    if scene.horizon is not None and len(cells) - 1 > scene.horizon:
        raise ValueError(
            f"A walk has {len(cells) - 1} steps, but the horizon is {scene.horizon}. Choose a longer horizon, or "
            "remove the walk."
        )
    return cells


def _cell(value: Any, scene: Scene) -> Cell:
    pair = listed("A cell", value, 2, lambda place: whole("cell", place, 0, MAX_SIDE - 1))
    height, width = scene.shape
    if len(pair) != 2 or pair[0] >= height or pair[1] >= width:
        raise ValueError(f"A cell must be [row, column] on the board of {height}×{width}, but is {list(pair)}.")
    if scene.board[pair[0]][pair[1]] == "#":
        raise ValueError(f"A walk passes the wall at {pair}.")
    return pair
