"""What a learned reward would do on another grid of the same size, beside the truth where it is known."""

from typing import Any

import numpy as np

from irlax.planning import expected_return, soft_plan
from irlax.rewards import AbstractReward, TabularReward
from irlax.studio.grid import Grid, grid_of, marks_reward
from irlax.studio.learning import Learned, behaviour, picture
from irlax.studio.scene import Scene
from irlax.typing import Float


def what_if(learned: Learned, scene: Scene) -> dict[str, Any]:
    """Reward, policy and visits on the changed grid: of the learned reward, and of the true one if there is one.

    A reward of cells or moves stays in its cells, and is 0 in cells that were walls; a reward of marks moves with them.
    Walks start where those of the changed scene do.
    """
    before = learned.grid
    if scene.shape != before.shape or scene.reward != before.scene.reward:
        raise ValueError("The changed grid must have the size and the kind of reward of the one that was learned on.")
    grid = grid_of(scene)
    table = np.asarray(_carried(learned, grid).table(grid.mdp))
    plan = soft_plan(grid.mdp, table)
    shown = table if scene.reward == "moves" else table[:, 0]
    reply = {"learned": {"reward": picture(grid, shown), **behaviour(grid, plan)}, "truth": None}
    truth = grid.true_reward()
    if truth is not None:
        best = soft_plan(grid.mdp, truth)
        returns = {"learned": plan, "truth": best, "chance": uniform(grid)}
        reply["truth"] = {"reward": picture(grid, truth), **behaviour(grid, best)}
        reply["returns"] = {name: float(expected_return(grid.mdp, each, truth)) for name, each in returns.items()}
    return reply


def uniform(grid: Grid) -> Float[np.ndarray, "*T S A"]:
    """The policy that chooses at random."""
    exists = np.asarray(grid.mdp.available).astype(float)
    policy = exists / exists.sum(axis=1, keepdims=True)
    return policy if grid.mdp.horizon is None else np.broadcast_to(policy, (grid.mdp.horizon, *policy.shape))


def _carried(learned: Learned, grid: Grid) -> AbstractReward:
    """The learned reward on another grid."""
    parameters = learned.fit.reward.parameters
    if grid.scene.reward == "marks":
        return marks_reward(grid.scene.marks.ravel()).with_parameters(parameters)
    values = np.array(parameters, copy=True)
    values[~grid.free] = 0.0
    return TabularReward("s" if grid.scene.reward == "cells" else "sa", values)
