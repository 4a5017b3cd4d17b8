"""The walks of a scene as demonstrations."""

from typing import Any

import numpy as np

from irlax.demos import Demonstrations
from irlax.studio.scene import STEPS, Scene


def demos_of(scene: Scene) -> Demonstrations:
    """The walks of a scene that has some, in the MDP of `Scene.gridworld`; those that reach an end are terminated."""
    state_at = scene.gridworld.state_at
    episodes: list[tuple[Any, Any]] = []
    for walk in scene.demonstrations:
        actions = [STEPS.index(tuple(step)) for step in np.diff(walk, axis=0).tolist()]
        episodes.append((state_at[tuple(np.transpose(walk))], actions))
    ended = np.array([scene.is_end(walk[-1]) for walk in scene.demonstrations])
    return Demonstrations.from_episodes(episodes, terminated=ended)
