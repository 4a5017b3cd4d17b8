"""Demonstrations: their store, their simulation, their likelihood."""

from irlax.demos.demonstrations import Demonstrations
from irlax.demos.likelihood import log_likelihood, trajectory_log_likelihood
from irlax.demos.rollout import rollout

__all__ = ["Demonstrations", "log_likelihood", "rollout", "trajectory_log_likelihood"]
