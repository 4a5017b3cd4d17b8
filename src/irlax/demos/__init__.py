"""Demonstrations: their store, their files, their statistics, their simulation, their likelihood."""

from irlax.demos.demonstrations import Demonstrations
from irlax.demos.likelihood import log_likelihood, trajectory_log_likelihood
from irlax.demos.minari import from_minari, to_minari
from irlax.demos.read_write import read_demos, write_demos
from irlax.demos.rollout import rollout
from irlax.demos.statistics import DemoStatistics, Endings
from irlax.demos.streaming import statistics_from_parquet
from irlax.demos.trajectories import Trajectory
from irlax.demos.types import Types, by_type

__all__ = [
    "DemoStatistics",
    "Demonstrations",
    "Endings",
    "Trajectory",
    "Types",
    "by_type",
    "from_minari",
    "log_likelihood",
    "read_demos",
    "rollout",
    "statistics_from_parquet",
    "to_minari",
    "trajectory_log_likelihood",
    "write_demos",
]
