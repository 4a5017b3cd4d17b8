"""Exact planning in tabular MDPs."""

from irlax.planning.entropy import (
    causal_entropy,
    conditional_entropy,
    trajectory_entropy,
    transition_entropy,
)
from irlax.planning.hard import hard_plan
from irlax.planning.long_run import long_run
from irlax.planning.occupancy import expected_return, feature_expectations, occupancy, visits
from irlax.planning.path import believed_occupancy, path_plan
from irlax.planning.plan import Plan
from irlax.planning.soft import soft_plan

__all__ = [
    "Plan",
    "believed_occupancy",
    "causal_entropy",
    "conditional_entropy",
    "expected_return",
    "feature_expectations",
    "hard_plan",
    "long_run",
    "occupancy",
    "path_plan",
    "soft_plan",
    "trajectory_entropy",
    "transition_entropy",
    "visits",
]
