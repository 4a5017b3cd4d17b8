"""Environments: tabular MDPs with names, control problems, and those of other libraries."""

from typing import TYPE_CHECKING, Any

from irlax.envs.absorbing import Absorbing, FixedHorizon, refuse_variable_length
from irlax.envs.acrobot import Acrobot
from irlax.envs.adapters import Brax, Gymnax
from irlax.envs.bus_engine import BusEngine, BusPanel
from irlax.envs.cartpole import CartPole
from irlax.envs.checking import check_demos
from irlax.envs.environment import AbstractEnvironment, Step
from irlax.envs.experts import expert_demos
from irlax.envs.gridworld import Gridworld, cliff
from irlax.envs.gymnasium import GymnasiumEnvironment, HostStep
from irlax.envs.make import NAMES, make
from irlax.envs.mountain_car import MountainCar
from irlax.envs.mujoco import MJX, MuJoCo, disabled_ant
from irlax.envs.objectworld import Objectworld
from irlax.envs.pendulum import Pendulum
from irlax.envs.point_maze import PointMaze
from irlax.envs.random_mdp import RandomMDP
from irlax.envs.risky_path import RiskyPath
from irlax.envs.rollout import collect, evaluate
from irlax.envs.tabular import Tabular, complete
from irlax.envs.two_state_cycle import TwoStateCycle
from irlax.spaces import Box, Discrete

if TYPE_CHECKING:
    from irlax.envs.wrappers import RewardWrapper

__all__ = [
    "MJX",
    "NAMES",
    "Absorbing",
    "AbstractEnvironment",
    "Acrobot",
    "Box",
    "Brax",
    "BusEngine",
    "BusPanel",
    "CartPole",
    "Discrete",
    "FixedHorizon",
    "Gridworld",
    "GymnasiumEnvironment",
    "Gymnax",
    "HostStep",
    "MountainCar",
    "MuJoCo",
    "Objectworld",
    "Pendulum",
    "PointMaze",
    "RandomMDP",
    "RewardWrapper",
    "RiskyPath",
    "Step",
    "Tabular",
    "TwoStateCycle",
    "check_demos",
    "cliff",
    "collect",
    "complete",
    "disabled_ant",
    "evaluate",
    "expert_demos",
    "make",
    "refuse_variable_length",
]


def __getattr__(name: str) -> Any:
    """`RewardWrapper`, when it is asked for: it cannot do without Gymnasium, most of irlax can."""
    if name == "RewardWrapper":
        from irlax.envs.wrappers import RewardWrapper

        return RewardWrapper
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
