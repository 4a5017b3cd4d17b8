"""Draw the pictures of the README and of the documentation, with the figures of irlax's own reports.

.venv/bin/python -m docs.tools.pictures
"""

import base64
import contextlib
import io
import json
import re
import runpy
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from docs.tools.pages import blocks_of
from tests.browser import PROGRAM, browser

import irlax as ix
from irlax.estimators.tabular.scene import Scene
from irlax.mdp.grid import MOVES
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


def plots_of_a_grid() -> Any:
    """The figure that the page on notebooks makes."""
    blocks = blocks_of((ROOT / "docs" / "notebooks.md").read_text())
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for block in blocks[:2]:
            exec(block.code, names)  # the page is ours
    return names["figure"]


#: A notebook's cell on its side: tables on the left, the drawing panel beside them.
_NOTEBOOK = """<!doctype html><meta charset="utf-8"><style>
body { margin: 12px; display: flex; gap: 2rem; font-family: system-ui; } #panel { flex: 0 0 430px; }
</style><body>SHOWN<div id="panel"></div><script type="module">
const { default: widget } = await import("data:text/javascript;base64,MODULE");
const model = { get: (name) => ({ scene: SCENE, width: 430 })[name], on() {}, off() {}, set() {}, save_changes() {} };
widget.render({ model, el: document.querySelector("#panel") });
</script></body>"""


def shown_in_a_notebook() -> bytes:
    """What the page on notebooks shows in its first and third block, as a browser draws it."""
    names: dict[str, Any] = {}
    blocks = blocks_of((ROOT / "docs" / "notebooks.md").read_text())
    with contextlib.redirect_stdout(io.StringIO()):
        for block in (blocks[0], blocks[2]):
            exec(block.code, names)
    editor, things = names["editor"], (names["env"].mdp, names["plan"], names["demos"])
    filled = {
        "SHOWN": "".join(each._repr_html_() for each in things),
        "SCENE": json.dumps(editor.scene),
        "MODULE": base64.b64encode(editor._esm.encode()).decode(),
    }
    page = re.sub("|".join(filled), lambda found: filled[found[0]], _NOTEBOOK)
    with tempfile.TemporaryDirectory() as folder, browser(folder, dark=False) as tab:
        path = Path(folder) / "page.html"
        path.write_text(page)
        tab.visit(path.as_uri(), width=1440)
        box = {"x": 0, "y": 0, "width": 1440, "height": tab.run("document.body.scrollHeight") + 24, "scale": 1}
        return base64.b64decode(tab.send("Page.captureScreenshot", clip=box)["data"])


if __name__ == "__main__":
    routes().savefig(ROOT / "docs" / "images" / "routes.png", dpi=90, facecolor="white")
    plots_of_a_grid().savefig(ROOT / "docs" / "images" / "plots.png", dpi=90, facecolor="white")
    if PROGRAM is not None:
        (ROOT / "docs" / "images" / "notebook.png").write_bytes(shown_in_a_notebook())
    overview().savefig(ROOT / "docs" / "images" / "overview.png", dpi=110, facecolor="white")
