"""The gridworld of the demo, and demonstrations (walks) in it."""

import functools

import jax.random as jr
import numpy as np

from irlax.demos import Demonstrations, rollout
from irlax.envs import Gridworld
from irlax.planning import soft_plan
from irlax.typing import Float

LAYOUT = ("S...#..", "..X.#.G", "....X..", ".......")
#: The features of the reward, and the marks of their cells.
NAMES, MARKS = ("goal", "hazard", "home"), "GXS"
#: The true weights: the walker likes the goal and avoids hazards; home is like any other cell.
TRUTH = np.array([2.0, -3.0, 0.0])
WALKS, STEPS = 60, 100


@functools.cache
def world() -> Gridworld:
    """The gridworld: four rows of cells; one move in ten is random."""
    return Gridworld(LAYOUT, slip=0.1, stay=True, discount=0.95)


def features() -> Float[np.ndarray, "S 3"]:
    """The features of each cell: whether it is the goal, a hazard, or home."""
    return (world().marks[:, None] == np.array(list(MARKS))).astype(float)


def reward() -> Float[np.ndarray, " S"]:
    """The true reward of each cell."""
    return features() @ TRUTH


@functools.cache
def demonstrations() -> Demonstrations:
    """Walks of the soft-optimal policy of the true reward."""
    return rollout(world().mdp, soft_plan(world().mdp, reward()), num=WALKS, length=STEPS, key=jr.key(0))
