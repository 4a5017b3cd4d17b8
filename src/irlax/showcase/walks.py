"""The small world of the demo, and walks in it."""

import functools

import jax.random as jr
import numpy as np

from irlax.demos import Demonstrations, rollout
from irlax.envs import Gridworld
from irlax.planning import soft_plan
from irlax.typing import Float

LAYOUT = ("S...#..", "..X.#.G", "....X..", ".......")
#: What may matter, and the cells that it is about.
NAMES, MARKS = ("goal", "hazard", "home"), "GXS"
#: What the walker really likes: the goal, and no hazard; home is a cell like any other.
TRUTH = np.array([2.0, -3.0, 0.0])
WALKS, STEPS = 60, 100


@functools.cache
def world() -> Gridworld:
    """Four rows of cells; one move in ten goes astray."""
    return Gridworld(LAYOUT, slip=0.1, stay=True, discount=0.95)


def features() -> Float[np.ndarray, "S 3"]:
    """Whether a cell is the goal, a hazard, or home."""
    return (world().marks[:, None] == np.array(list(MARKS))).astype(float)


def reward() -> Float[np.ndarray, " S"]:
    """The walker's own."""
    return features() @ TRUTH


@functools.cache
def walked() -> Demonstrations:
    """What is seen of it."""
    return rollout(world().mdp, soft_plan(world().mdp, reward()), num=WALKS, length=STEPS, key=jr.key(0))
