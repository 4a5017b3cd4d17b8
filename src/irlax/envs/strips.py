"""Strips: a few steps of an episode, drawn side by side, with the path so far in mazes and grids."""

import functools
import os
from typing import Any

import numpy as np

from irlax import checks, storage
from irlax.demos import Demonstrations
from irlax.envs import Absorbing, Acrobot, CartPole, FixedHorizon, MountainCar, Pendulum, PointMaze, Tabular
from irlax.envs.checking import check_demos
from irlax.report.plots import COLOURS, blank
from irlax.typing import Float

_BODY, _MARK, _GOAL = COLOURS[0], COLOURS[1], COLOURS[2]
_GROUND = "#c3c8d1"


def strip(env: Any, demos: Demonstrations, *, episode: int = 0, frames: int = 6) -> Any:
    """A matplotlib figure of one episode in an environment that can be drawn."""
    check_demos(env, demos)
    checks.count("frames", frames)
    observed = demos.select([episode]).observations
    assert observed is not None
    times = np.unique(np.linspace(0, len(observed) - 1, frames).round().astype(int))
    figure, axes = blank(len(times), width=1.8 * len(times), height=2.1)
    for ax, t in zip(axes[0], times, strict=True):
        ax.set_axis_off()
        ax.set_aspect("equal")
        ax.set_title(f"t = {t}", fontsize=9)
        _draw(env, ax, observed[: t + 1])
    return figure


def save_strip(path: str | os.PathLike[str], env: Any, demos: Demonstrations, **options: Any) -> None:
    """Write `strip` to a .png file, completely or not at all."""
    path = storage.known_suffix(path, (".png",))
    figure = strip(env, demos, **options)
    with storage.replacing(path) as file:
        figure.savefig(file, format="png", dpi=120)


@functools.singledispatch
def _draw(env: Any, ax: Any, observed: Float[np.ndarray, "t obs"]) -> None:
    """Draw the last of these observations."""
    raise ValueError(
        f"{type(env).__name__} cannot be drawn. These can: CartPole, Pendulum, MountainCar, Acrobot, PointMaze, and "
        f"Tabular with the `layout` of a gridworld."
    )


@_draw.register
def _(env: FixedHorizon, ax: Any, observed: Any) -> None:
    _draw(env.env, ax, observed)


@_draw.register
def _(env: Absorbing, ax: Any, observed: Any) -> None:
    if observed[-1, -1]:
        ax.text(0.5, 0.5, "ended", transform=ax.transAxes, ha="center", va="center", color=_MARK)
    else:
        _draw(env.env, ax, observed[:, :-1])


@_draw.register
def _(env: CartPole, ax: Any, observed: Any) -> None:
    x, _, angle, _ = observed[-1]
    length = 2 * env.half_length
    ax.plot([-env.farthest_x, env.farthest_x], [0, 0], color=_GROUND, linewidth=2)
    ax.plot([x - 0.25, x + 0.25], [0, 0], color=_BODY, linewidth=6, solid_capstyle="butt")
    ax.plot([x, x + length * np.sin(angle)], [0, length * np.cos(angle)], color=_MARK, linewidth=3)
    ax.set(xlim=(-env.farthest_x - 1, env.farthest_x + 1), ylim=(-0.5, 1.3))


@_draw.register
def _(env: Pendulum, ax: Any, observed: Any) -> None:
    cos, sin, _ = observed[-1]
    ax.plot([0, -sin], [0, cos], color=_BODY, linewidth=5, solid_capstyle="round")
    ax.plot(0, 0, "o", color=_MARK)
    ax.set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))


@_draw.register
def _(env: MountainCar, ax: Any, observed: Any) -> None:
    hill = np.linspace(env.leftmost, env.rightmost, 100)
    ax.plot(hill, _height(hill), color=_GROUND, linewidth=2)
    ax.plot(env.goal, _height(env.goal), "^", color=_GOAL)
    ax.plot(observed[-1, 0], _height(observed[-1, 0]), "o", color=_BODY, markersize=9)


@_draw.register
def _(env: Acrobot, ax: Any, observed: Any) -> None:
    first, second = np.arctan2(observed[-1, 1], observed[-1, 0]), np.arctan2(observed[-1, 3], observed[-1, 2])
    x = np.cumsum([0, np.sin(first), np.sin(first + second)])
    y = np.cumsum([0, -np.cos(first), -np.cos(first + second)])
    ax.axhline(1, color=_GOAL, linestyle=":")
    ax.plot(x, y, "o-", color=_BODY, linewidth=4, markerfacecolor=_MARK, markeredgecolor=_MARK)
    ax.set(xlim=(-2.2, 2.2), ylim=(-2.2, 2.2))


@_draw.register
def _(env: PointMaze, ax: Any, observed: Any) -> None:
    left, right, bottom, top = env.barrier
    ax.fill([left, right, right, left], [bottom, bottom, top, top], color=_GROUND)
    ax.plot([-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1], color=_GROUND)
    ax.plot(*env.goal, "*", color=_GOAL, markersize=12)
    ax.plot(*observed.T, color=_BODY, linewidth=1)
    ax.plot(*observed[-1], "o", color=_BODY)


@_draw.register
def _(env: Tabular, ax: Any, observed: Any) -> None:
    if env.layout is None:
        raise ValueError(
            "A tabular environment needs a layout to be drawn: give its MDP one by `MDP.labelled(layout=...)`."
        )
    board = np.array([list(row) for row in env.layout])
    cells = np.argwhere(board != "#")
    path = cells[observed.argmax(axis=1)]
    ax.imshow(board == "#", cmap="Greys", vmin=0, vmax=3)
    for row, column in np.argwhere(np.isin(board, ["G", "X"])):
        ax.text(column, row, board[row, column], ha="center", va="center", color=_GOAL)
    ax.plot(path[:, 1], path[:, 0], color=_BODY, linewidth=1)
    ax.plot(path[-1, 1], path[-1, 0], "o", color=_BODY)


def _height(x: Any) -> Any:
    return 0.45 * np.sin(3 * x) + 0.55
