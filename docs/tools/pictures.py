"""Draw the pictures of the README and of the documentation, with the figures of irlax's own reports.

.venv/bin/python -m docs.tools.pictures
"""

import contextlib
import io
import runpy
from pathlib import Path
from typing import Any

import numpy as np

import irlax as ix
from irlax.estimators.tabular.scene import MOVES, Scene
from irlax.report import plots

ROOT = Path(__file__).parents[2]


def overview() -> Any:
    """Demonstrated visits, the weights learned from them with their intervals, and the policy that follows."""
    names = runpy.run_path(str(ROOT / "examples" / "a_grid.py"))
    env, reward, demos = names["env"], names["reward"], names["demos"]
    fit = ix.MCEIRL(objective="likelihood").fit(env.mdp, reward, demos)
    scene = Scene.of(fit, 0)
    grid = scene.grid
    assert grid is not None
    figure, axes = plots.blank(3, width=12.0, height=2.9)
    visited, weights, policy = axes[0]
    seen = grid.picture(scene.expert.sum(axis=1))
    plots.grid_heatmap(
        figure, visited, seen, title="what was seen: 200 walks", bar="discounted visits", marks=grid.board
    )
    low, high = fit.confidence_intervals().T
    plots.intervals(
        weights, reward.parameter_names(), fit.reward.weights, low, high, xlabel="weight, with 95% interval"
    )
    weights.plot([1, -1, 0], np.arange(3), "|", color=plots.COLOURS[1], markersize=16, markeredgewidth=2, label="truth")
    weights.legend(frameon=False, fontsize=9, loc="upper left")
    weights.set_title("what is learned", fontsize=10)
    plots.policy_arrows(
        figure,
        policy,
        scene.first_policy,
        cells=grid.cells,
        shape=grid.shape,
        moves=np.array(list(MOVES.values())),
        title="what follows: the policy at t = 0",
        shade=scene.model.sum(axis=1),
        bar="discounted visits",
    )
    return figure


def routes() -> Any:
    """The fit of the tutorial on route choice, on the map."""
    with contextlib.redirect_stdout(io.StringIO()):
        return runpy.run_path(str(ROOT / "examples" / "routes.py"))["fit"].plot()


if __name__ == "__main__":
    routes().savefig(ROOT / "docs" / "images" / "routes.png", dpi=90, facecolor="white")
    overview().savefig(ROOT / "docs" / "images" / "overview.png", dpi=110, facecolor="white")
