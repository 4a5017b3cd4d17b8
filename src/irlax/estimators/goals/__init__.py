"""Rewards from demonstrations that each end at a goal of their own."""

from irlax.estimators.goals.components import PairFeatures
from irlax.estimators.goals.goal_fit import GoalFit
from irlax.estimators.goals.link_size import link_size
from irlax.estimators.goals.recursive_logit import RecursiveLogit

__all__ = ["GoalFit", "PairFeatures", "RecursiveLogit", "link_size"]
