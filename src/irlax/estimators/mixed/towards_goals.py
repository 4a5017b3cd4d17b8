"""How a group chooses, as a plan, or on the way to goals, with a plan for each of them."""

from typing import Any

import equinox as eqx
import numpy as np

from irlax.demos import Demonstrations
from irlax.demos.likelihood import log_policy_of_choices
from irlax.estimators.goals.goal_problem import objective_of
from irlax.mdp import MDP
from irlax.planning import Plan
from irlax.planning.goals import GoalPlan, GoalPlanner, goal_plan
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.typing import Float


class TowardsGoals(eqx.Module):
    """The choices of one reward on the way to goals: values are solved for when they are asked for."""

    mdp: MDP
    reward: AbstractReward

    def plan(self, goals: Any) -> GoalPlan:
        """Values and policies for some goals."""
        return goal_plan(self.mdp, self.reward, goals)


def log_policy_under(plan: Plan | TowardsGoals, demos: Demonstrations) -> Float[np.ndarray, " n"]:
    """log π of each row of demonstrations that were checked."""
    if isinstance(plan, Plan):
        if demos.goals is not None:
            raise ValueError("This fit is to demonstrations without goals, but these have some: leave `goals` out.")
        return np.asarray(log_policy_of_choices(plan, demos))
    if demos.goals is None:
        raise ValueError("This fit is to demonstrations with goals, but these have none (`Demonstrations.goals`).")
    objective = objective_of(plan.mdp, plan.reward, demos, GoalPlanner.of(plan.mdp))
    return objective.log_policies(flat(plan.reward.parameters))
