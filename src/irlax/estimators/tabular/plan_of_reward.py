"""The plan of a reward under a model of the decision maker, by which plans of stored fits are computed again."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from irlax.mdp import MDP
from irlax.planning import Plan, hard_plan, path_plan, soft_plan
from irlax.planning.backup import PathBackup, SoftBackup
from irlax.precision import scope
from irlax.rewards import AbstractReward


def model_of(plan: Plan) -> str:
    """The model of the decision maker in a plan: "soft", "path" or "hard"."""
    if isinstance(plan.backup, PathBackup):
        return "path"
    return "soft" if isinstance(plan.backup, SoftBackup) else "hard"


def plan_of(model: Any, mdp: MDP, reward: AbstractReward) -> Plan:
    """The plan of a reward under a model of the decision maker: "soft", "path" or "hard"."""
    if model not in ("soft", "path", "hard"):
        raise ValueError(f"The model must be 'soft', 'path' or 'hard', but is {model!r:.60}.")
    if model != "path":
        planner = soft_plan if model == "soft" else hard_plan
        return planner(mdp, reward.table(mdp))
    with scope():
        by_action, by_transition = reward.unfold(mdp)(reward.parameters)
    return path_plan(mdp, by_action.T if by_transition is None else reward.by_transition(mdp))


def refuse_infinite_parameters(rewards: Sequence[AbstractReward]) -> None:
    """Raise a ValueError unless all parameters are finite: a fit with others cannot be planned for again."""
    for reward in rewards:
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(reward.parameters)):
            raise ValueError("The parameters of a reward must be finite to be saved.")
