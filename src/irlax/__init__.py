"""irlax infers reward functions from demonstrations.

Start with an `MDP`, plan in it with `soft_plan`, and read `README.md` for the rest.
"""

from irlax import envs
from irlax.demos import Demonstrations, log_likelihood, rollout, trajectory_log_likelihood
from irlax.mdp import MDP
from irlax.planning import (
    Plan,
    believed_occupancy,
    causal_entropy,
    conditional_entropy,
    expected_return,
    feature_expectations,
    hard_plan,
    occupancy,
    path_plan,
    soft_plan,
    trajectory_entropy,
    transition_entropy,
    visits,
)

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "Demonstrations",
    "Plan",
    "believed_occupancy",
    "causal_entropy",
    "conditional_entropy",
    "envs",
    "expected_return",
    "feature_expectations",
    "hard_plan",
    "log_likelihood",
    "occupancy",
    "path_plan",
    "rollout",
    "soft_plan",
    "trajectory_entropy",
    "trajectory_log_likelihood",
    "transition_entropy",
    "visits",
]
