"""The studio's drawing panel as a widget."""

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import anywidget
import traitlets

from irlax import checks
from irlax.demos import Demonstrations
from irlax.envs import Gridworld
from irlax.mdp import MDP
from irlax.studio.scene import FORMAT, Scene, parse
from irlax.studio.walks import demos_of
from irlax.tables import counted

#: Shows a scene, sends each finished change of the user, and follows changes made in Python or in another view.
_GLUE = """
/* The colours of JupyterLab or VS Code, where there are some; else the panel has its own. */
const THEME = {
  "--paper": "var(--jp-layout-color0, var(--vscode-editor-background))",
  "--ink": "var(--jp-ui-font-color0, var(--vscode-editor-foreground))",
  "--soft": "var(--jp-ui-font-color2, var(--vscode-descriptionForeground))",
  "--line": "var(--jp-border-color2, var(--vscode-panel-border))",
};
export default {
  render({ model, el }) {
    const send = (scene) => { model.set("scene", scene); model.save_changes(); };
    const element = document.createElement("div");
    element.style.maxWidth = `${model.get("width")}px`;
    for (const [name, colour] of Object.entries(THEME)) element.style.setProperty(name, colour);
    el.append(element);
    const editor = create(element, model.get("scene"), send);
    const follow = () => {
      if (model.get("scene") !== editor.scene) editor.update(model.get("scene"), { record: true });
    };
    model.on("change:scene", follow);
    return () => { model.off("change:scene", follow); editor.destroy(); element.remove(); };
  },
};
"""


class GridEditor(anywidget.AnyWidget):
    """A grid to draw in: walls, goals, hazards and starts by painting, demonstrations by dragging from cell to cell.

    Where the cell of a notebook ends with it, it is shown; from then on these properties are what is drawn:

        editor = ix.widgets.GridEditor((6, 8), discount=0.95)     # a size, rows of text, or an `envs.Gridworld`
        editor
        fit = ix.MCEIRL(objective="likelihood", l2=0.02).fit(editor.mdp, ix.TabularReward("s"), editor.demos)

    `scene` is the value: what the studio keeps in a file, as plain values, checked whenever it changes. `fields` are
    other fields of it, such as `demonstrations`, lists of cells (row, column), `slip`, `discount`, `horizon` and
    `ends`. A Gridworld gives its own.
    """

    _esm = files("irlax.studio").joinpath("static/grid_editor.js").read_text("utf-8") + _GLUE
    scene = traitlets.Dict().tag(sync=True)
    #: The largest width, in pixels.
    width = traitlets.Int(480, min=80).tag(sync=True)

    def __init__(self, board: Any = (8, 10), *, width: int = 480, **fields: Any) -> None:
        given: dict[str, Any] = {"format": FORMAT}
        given |= _fields_of(board) if isinstance(board, Gridworld) else {"board": _rows(board)}
        walks = [[[int(place) for place in cell] for cell in walk] for walk in fields.pop("demonstrations", ())]
        super().__init__(scene=given | {"demonstrations": walks} | fields, width=width)

    @traitlets.validate("scene")
    def _checked(self, proposal: Mapping[str, Any]) -> dict[str, Any]:
        return parse(proposal["value"]).record()

    @property
    def parsed(self) -> Scene:
        """The scene as an object."""
        return parse(self.scene)

    @property
    def gridworld(self) -> Gridworld:
        """What is drawn, as a problem with a name; its cells without walls are the states."""
        return self.parsed.gridworld

    @property
    def mdp(self) -> MDP:
        """The MDP of `gridworld`."""
        return self.gridworld.mdp

    @property
    def demos(self) -> Demonstrations:
        """The walks that are drawn; one that reaches an end is terminated."""
        scene = self.parsed
        if not scene.demonstrations:
            raise ValueError("No demonstration is drawn yet. Choose Walk, and drag from cell to cell.")
        return demos_of(scene)

    def __repr__(self) -> str:
        scene = self.parsed
        height, width = scene.shape
        return f"GridEditor({height} × {width} cells, {counted(len(scene.demonstrations), 'demonstration')})"


def _fields_of(env: Gridworld) -> dict[str, Any]:
    if env.stay or env.bump != "stay":
        raise ValueError("Scenes have the moves up, right, down and left everywhere: no `stay`, and `bump='stay'`.")
    truth = {"step": env.step_reward, "goal": env.goal_reward, "hazard": env.hazard_reward}
    known = {name: getattr(env, name) for name in ("slip", "discount", "horizon", "ends")}
    return {"board": list(env.layout), "truth": truth, **known}


def _rows(board: Any) -> list[str]:
    """The rows of a board, or of an empty one of this (height, width)."""
    if isinstance(board, str):
        raise TypeError("`board` must be a list of rows, a size (height, width) or a Gridworld, but is one text.")
    board = list(board)
    if len(board) == 2 and all(isinstance(side, int) for side in board):
        return ["." * checks.count("width", board[1])] * checks.count("height", board[0])
    return board
