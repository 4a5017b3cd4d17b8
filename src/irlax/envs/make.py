"""Environments by name."""

import difflib
from collections.abc import Callable
from typing import Any

from irlax import checks
from irlax.envs.absorbing import Absorbing, FixedHorizon
from irlax.envs.acrobot import Acrobot
from irlax.envs.adapters import Brax, Gymnax
from irlax.envs.cartpole import CartPole
from irlax.envs.environment import AbstractEnvironment
from irlax.envs.gridworld import Gridworld, cliff
from irlax.envs.gymnasium import GymnasiumEnvironment
from irlax.envs.mountain_car import MountainCar
from irlax.envs.mujoco import MJX, MuJoCo
from irlax.envs.objectworld import Objectworld
from irlax.envs.pendulum import Pendulum
from irlax.envs.point_maze import PointMaze
from irlax.envs.random_mdp import RandomMDP
from irlax.envs.risky_path import RiskyPath
from irlax.envs.tabular import Tabular
from irlax.envs.two_state_cycle import TwoStateCycle

#: How long an episode of a tabular environment is, unless it is said.
_TABULAR_HORIZON = 100
_ROOM = ("S....", ".....", "..X..", ".....", "....G")

_AFTER_END = {"fixed-horizon": FixedHorizon, "absorbing": Absorbing}
_CONTINUOUS: dict[str, Callable[..., AbstractEnvironment]] = {
    "cartpole": CartPole,
    "pendulum": Pendulum,
    "mountain-car": MountainCar,
    "acrobot": Acrobot,
    "point-maze": PointMaze,
}
_TABULAR: dict[str, Callable[..., Any]] = {
    "cliff": cliff,
    "gridworld": lambda layout=_ROOM, **options: Gridworld(layout, **options),
    "objectworld": Objectworld,
    "random-mdp": RandomMDP,
    "risky-path": RiskyPath,
    "two-state-cycle": TwoStateCycle,
}
_ELSEWHERE: dict[str, Callable[..., AbstractEnvironment | GymnasiumEnvironment]] = {
    "brax": Brax,
    "gymnasium": GymnasiumEnvironment,
    "gymnax": Gymnax,
    "mjx": lambda name, **options: _continued(MJX, name, **options),
    "mujoco": lambda name, **options: _continued(MuJoCo, name, **options),
}
#: The names that `make` knows, but for those of other libraries.
NAMES = (*_CONTINUOUS, *_TABULAR)


def make(name: str, **options: Any) -> AbstractEnvironment | GymnasiumEnvironment:
    """An environment by its name. The names of our own give environments with a fixed horizon.

    "cartpole", "pendulum", "mountain-car", "acrobot", "point-maze"; "risky-path", "gridworld", "cliff",
    "two-state-cycle", "random-mdp", "objectworld" (see `Tabular`); "gymnasium:ID", "mujoco:NAME", "mjx:NAME",
    "gymnax:NAME", "brax:NAME" for those of other libraries, which end as they end there. Options go to the class.

    What follows the end of the first five, where they have one, is `after_end`: "fixed-horizon" repeats the last
    observation (see `FixedHorizon`), "absorbing" has one state for every end (see `Absorbing`), which is better to
    learn a reward from. `expert_demos` takes the same option. "gymnasium:ID", "mujoco:NAME" and "mjx:NAME" have it too,
    with a third value, their default: "reset" ends the episode.
    """
    if not isinstance(name, str):
        raise TypeError(f"`name` must be the name of an environment, but is a {type(name).__name__}.")
    library, _, rest = name.partition(":")
    if rest and library in _ELSEWHERE:
        return _ELSEWHERE[library](rest, **options)
    if name in _CONTINUOUS:
        return _continuous(_CONTINUOUS[name], **options)
    if name in _TABULAR:
        return _tabular(_TABULAR[name], **options)
    wanted = name.lower().replace("_", "-")
    close = difflib.get_close_matches(wanted, [*NAMES, *(f"{library}:" for library in _ELSEWHERE)], cutoff=0.5)
    hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
    raise ValueError(
        f"There is no environment {name!r}. {hint}There are {', '.join(NAMES)}, and with a prefix those of other "
        f"libraries: gymnasium:ID, mujoco:NAME, mjx:NAME, gymnax:NAME, brax:NAME."
    )


def _continuous(
    problem: Callable[..., AbstractEnvironment], *, after_end: str = "fixed-horizon", **options: Any
) -> AbstractEnvironment:
    checks.one_of("after_end", after_end, tuple(_AFTER_END))
    made = problem(**options)
    return made if made.fixed_horizon else _AFTER_END[after_end](made)


def _continued(
    problem: Callable[..., AbstractEnvironment], name: str, *, after_end: str = "reset", **options: Any
) -> AbstractEnvironment:
    checks.one_of("after_end", after_end, ("reset", *_AFTER_END))
    made = problem(name, **options)
    return made if made.fixed_horizon or after_end == "reset" else _AFTER_END[after_end](made)


def _tabular(
    problem: Callable[..., Any], *, horizon: int = _TABULAR_HORIZON, terminates: bool = False, **options: Any
) -> Tabular:
    made = problem(**options)
    return Tabular(made.mdp, made.reward, horizon=horizon, terminates=terminates)
