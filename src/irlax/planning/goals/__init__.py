"""Planning towards goals: one MDP, one reward, and many states at which episodes may end."""

from irlax.planning.goals.plan import GoalPlan, goal_plan, simulate
from irlax.planning.goals.planner import GoalBlock, GoalPlanner, Needed

__all__ = ["GoalBlock", "GoalPlan", "GoalPlanner", "Needed", "goal_plan", "simulate"]
