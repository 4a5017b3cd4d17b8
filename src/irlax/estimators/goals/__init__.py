"""Rewards from demonstrations that each end at a goal of their own."""

from irlax.estimators.goals.goal_fit import GoalFit

__all__ = ["GoalFit"]
