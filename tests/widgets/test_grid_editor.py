"""The drawing panel in notebooks: what Python reads from it, and a browser that draws in it."""

import base64
import json

import jax.tree_util
import numpy as np
import pytest

import irlax as ix
from tests.browser import PROGRAM, browser

pytest.importorskip("anywidget", reason="anywidget comes with `irlax[notebook]`, which is not installed")

BOARD = ["S....", "..#..", "...XG"]
WALK = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (1, 4), (2, 4)]


def test_what_is_drawn_is_an_mdp_and_demonstrations():
    editor = ix.widgets.GridEditor(BOARD, demonstrations=[WALK, WALK[:3]], slip=0.1, discount=0.8, horizon=9)
    env = ix.envs.Gridworld(BOARD, slip=0.1, discount=0.8, horizon=9, ends=True)
    assert editor.gridworld == env
    one, other = jax.tree_util.tree_leaves(editor.mdp), jax.tree_util.tree_leaves(env.mdp)
    assert all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))
    demos = editor.demos
    demos.check(editor.mdp)
    cells = [cell for cell in np.ndindex(3, 5) if BOARD[cell[0]][cell[1]] != "#"]
    assert [cells[state] for state in demos.states] == [*WALK[:-1], *WALK[:2]]
    right, down = 1, 2
    assert demos.actions.tolist() == [right, right, right, down, right, down, right, right]
    # The first reaches the goal, where episodes end.
    assert demos.terminated.tolist() == [True, False]
    assert repr(editor) == "GridEditor(3 × 5 cells, 2 demonstrations)"


def test_a_gridworld_a_size_or_rows_may_be_given():
    env = ix.envs.Gridworld(BOARD, slip=0.2, ends=True, step_reward=-0.5, hazard_reward=-3.0)
    assert ix.widgets.GridEditor(env).gridworld == env
    assert ix.widgets.GridEditor((2, 3)).scene["board"] == ["...", "..."]
    with pytest.raises(ValueError, match="no `stay`"):
        ix.widgets.GridEditor(ix.envs.Gridworld(BOARD, stay=True))
    with pytest.raises(TypeError, match="one text"):
        ix.widgets.GridEditor("..G")
    with pytest.raises(ValueError, match="rows of equal length"):
        ix.widgets.GridEditor(["..", "."])


def test_a_scene_is_checked_whenever_it_changes():
    editor = ix.widgets.GridEditor(BOARD)
    before = editor.scene
    with pytest.raises(ValueError, match="which is no neighbour"):
        editor.scene = before | {"demonstrations": [[[0, 0], [2, 0]]]}
    assert editor.scene == before
    with pytest.raises(ValueError, match="No demonstration is drawn yet"):
        _ = editor.demos
    # As the browser sends it: whole numbers for floats.
    editor.set_state({"scene": before | {"slip": 0, "demonstrations": [[[0, 0], [0, 1]]]}})
    assert editor.demos.num_steps == 1 and editor.scene["slip"] == 0


def test_a_notebook_shows_the_widget_with_text_beside_it():
    data, _ = ix.widgets.GridEditor(BOARD)._repr_mimebundle_()
    assert data["text/plain"].startswith("GridEditor(3 × 5")
    assert "application/vnd.jupyter.widget-view+json" in data


PAGE = """<!doctype html><meta charset="utf-8"><body><div id="one"></div><div id="other"></div>
<script type="module">
  const listeners = new Map();
  const values = {scene: SCENE, width: 480};
  globalThis.model = {
    get: (name) => values[name],
    set: (name, value) => { values[name] = value; (listeners.get(`change:${name}`) ?? []).forEach((call) => call()); },
    save_changes: () => { globalThis.saved = values.scene; },
    on: (name, call) => listeners.set(name, [...(listeners.get(name) ?? []), call]),
    off: (name, call) => listeners.set(name, (listeners.get(name) ?? []).filter((each) => each !== call)),
  };
  const module = await import("data:text/javascript;base64,MODULE");
  const views = ["one", "other"].map((id) => module.default.render({model, el: document.getElementById(id)}));
  globalThis.close = () => views.forEach((stop) => stop());
  globalThis.ready = true;
</script></body>"""


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_a_demonstration_that_python_reads(dark, tmp_path):
    editor = ix.widgets.GridEditor(["S...", "..#.", "...G"])
    code = base64.b64encode(ix.widgets.GridEditor._esm.encode()).decode()
    page = tmp_path / "page.html"
    page.write_text(PAGE.replace("SCENE", json.dumps(editor.scene)).replace("MODULE", code))
    with browser(tmp_path / "profile", dark=dark) as tab:
        tab.visit(page.as_uri(), width=600)
        tab.run("new Promise(done => { const wait = () => globalThis.ready ? done() : setTimeout(wait, 20); wait(); })")
        box = tab.run(
            "(() => { const box = document.querySelector('#one div').firstElementChild.shadowRoot"
            ".querySelector('svg.grid').getBoundingClientRect(); return [box.x, box.y, box.width, box.height]; })()"
        )
        drag(tab, box, (3, 4), [(0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (2, 3)])
        assert not tab.complaints()
        editor.set_state({"scene": tab.run("globalThis.saved")})
        # Both views show it.
        root = "document.querySelector('#{} div').firstElementChild.shadowRoot"
        count = f"{root}.querySelectorAll('polyline').length"
        assert [tab.run(count.format(view)) for view in ("one", "other")] == [1, 1]
        tab.run("close()")
        assert tab.run("document.querySelectorAll('#one *').length") == 0
    cells = [cell for cell in np.ndindex(3, 4) if cell != (1, 2)]
    assert [cells[state] for state in editor.demos.states] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 3)]
    assert editor.demos.terminated.tolist() == [True]


def drag(tab, box, shape, cells):
    """Press in the first cell, move over the others, and release."""
    left, top, width, height = box
    points = [(left + width * (c + 0.5) / shape[1], top + height * (r + 0.5) / shape[0]) for r, c in cells]
    for k, (x, y) in enumerate([*points, points[-1]]):
        kind = "mousePressed" if k == 0 else "mouseReleased" if k == len(points) else "mouseMoved"
        tab.send(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=int(k < len(points)), clickCount=1
        )
