"""A scene as the files and the Python code of its fit."""

from pathlib import Path

from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.rewards import AbstractReward, TabularReward
from irlax.studio.grid import marks_reward
from irlax.studio.learning import estimator_of
from irlax.studio.scene import Scene
from irlax.studio.walks import demos_of

_CODE = """\
import numpy as np

import irlax as ix

env = ix.envs.Gridworld(
    [
{board}
    ],
    slip={slip!r},
    ends={ends!r},
    discount={discount!r},
    horizon={horizon!r},
)
walks = [
{walks}
]
moves = {{(-1, 0): 0, (0, 1): 1, (1, 0): 2, (0, -1): 3}}
episodes = [
    (env.state_at[tuple(np.transpose(walk))], [moves[tuple(step)] for step in np.diff(walk, axis=0).tolist()])
    for walk in walks
]
ended = np.array([env.ends and env.board[walk[-1]] in "GX" for walk in walks])
demos = ix.Demonstrations.from_episodes(episodes, terminated=ended)

reward = {reward}
fit = ix.MCEIRL(objective={objective!r}, l2={l2!r}, tol=1e-6).fit(env.mdp, reward, demos)
print(fit.summary())
{shown}
"""
_REWARDS = {
    "cells": 'ix.TabularReward("s")',
    "moves": 'ix.TabularReward("sa")',
    "marks": 'ix.LinearReward((env.marks[:, None] == ["G", "X"]).astype(float), names=["goal", "hazard"])',
}
_SHOWN = {
    "cells": "print(env.to_board(fit.reward.parameters).round(2))",
    "moves": "print(env.to_board(fit.reward.parameters.max(axis=1)).round(2))",
    "marks": "print(fit.reward.weights)",
}


def python_code(scene: Scene) -> str:
    """Python that makes the fit of a scene: its grid, its walks, and the call."""
    _require_walks(scene)
    walks = [f"    {[tuple(cell) for cell in walk]!r}," for walk in scene.demonstrations]
    return _CODE.format(
        board="\n".join(f"        {row!r}," for row in scene.board),
        slip=scene.slip,
        ends=scene.ends,
        discount=scene.discount,
        horizon=scene.horizon,
        walks="\n".join(walks),
        reward=_REWARDS[scene.reward],
        objective=scene.objective,
        l2=scene.l2,
        shown=_SHOWN[scene.reward],
    )


def plain_fit(scene: Scene) -> TabularFit:
    """The fit that the code makes: in an MDP without states for walls, from rewards of 0."""
    _require_walks(scene)
    env = scene.gridworld
    return estimator_of(scene).fit(env.mdp, _plain_reward(scene), demos_of(scene))


def _require_walks(scene: Scene) -> None:
    if not scene.demonstrations:
        raise ValueError("There is no walk to learn from. Draw one first.")


def save_fit(scene: Scene, path: Path) -> Path:
    """Fit a scene, and write the folder that `irlax show`, `irlax report` and `irlax.load` read.

    It holds mdp.npz and demos.npz, which `irlax fit` reads.
    """
    return plain_fit(scene).save(path)


def _plain_reward(scene: Scene) -> AbstractReward:
    if scene.reward == "marks":
        return marks_reward(scene.gridworld.marks)
    return TabularReward("s" if scene.reward == "cells" else "sa")
