"""Environments: tabular MDPs with names."""

from irlax.envs.bus_engine import BusEngine, BusPanel
from irlax.envs.gridworld import Gridworld, cliff
from irlax.envs.objectworld import Objectworld
from irlax.envs.random_mdp import RandomMDP
from irlax.envs.risky_path import RiskyPath
from irlax.envs.two_state_cycle import TwoStateCycle

__all__ = ["BusEngine", "BusPanel", "Gridworld", "Objectworld", "RandomMDP", "RiskyPath", "TwoStateCycle", "cliff"]
