"""What a page asks for, and the answers: one JSON object each way.

A message is `{"id": number, "kind": text, …}`; its answer has the same id, and the kind of the message, "error" with a
`message` for people, or "stale" where a newer message of this kind made it superfluous. Before the answer to "fit" a
"preview" may come, with the same id and the reward of an unfinished fit.

============ =============================================== ======================================================
kind         fields                                          answer
============ =============================================== ======================================================
``hello``                                                    presets, versions, what to open first
``fit``      scene                                           reward, policy, visits, log likelihood
``doubt``    of (the id of a fit), cell                      standard errors, directions that are not identified
``move``     of, cell, sizes: {direction: number}            the reward moved along them, and the policy
``what-if``  of, scene                                       behaviour of the learned reward there, and of the truth
``models``   scene                                           what the causal and the path model learn of it
``risky``    discount, hazard, safe, risky                   both models of RiskyPath
``files``                                                    runs, scenes and data in the folder
``open``     run                                             tables, curves and maps of a saved fit
``watch``    run, offset                                     the new lines of a run's log
``table``    table, mdp, reward, objective, l2, columns      a fit to demonstrations in a table
``load``     file, or scene                                  the scene that was saved, or that one with all its fields
``save``     scene, name, what: "scene" or "fit"             the name of what was written
``code``     scene                                           Python that makes the same fit
============ =============================================== ======================================================
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from irlax.demos import read_demos
from irlax.estimators.store import check_target
from irlax.estimators.tabular.mce import MCEIRL, OBJECTIVES
from irlax.mdp.npz import load_mdp
from irlax.rewards import TabularReward
from irlax.studio import runs
from irlax.studio.code import python_code, save_fit
from irlax.studio.doubt import REACH, Doubt, doubt_of
from irlax.studio.learning import Learned, learn, learned_reply
from irlax.studio.models import model_reply, risky_curve, risky_path
from irlax.studio.presets import PRESETS
from irlax.studio.scene import MAX_SIDE, Scene, choice, expect, listed, number, parse, text_of, whole
from irlax.studio.storing import Folder
from irlax.studio.what_if import what_if
from irlax.version import __version__

#: A table may have at most so many states, so that it is fitted in seconds.
MOST_STATES = 3000
COLUMNS = ("episode", "time", "state", "action")

Fields = Mapping[str, Any]
Stop = Callable[[], bool]


class StaleError(Exception):
    """A newer message has made this one superfluous."""


class Desk:
    """The state of one page: the last fit, and what is known of its doubts."""

    #: Kinds are answered by four threads: what follows the hand; doubts about the last fit, for which the next one does
    #: not wait; what takes no time; and all others, which may take seconds.
    QUICK: ClassVar[tuple[str, ...]] = ("fit", "what-if")
    DOUBTS: ClassVar[tuple[str, ...]] = ("doubt", "move")
    LIGHT: ClassVar[tuple[str, ...]] = ("hello", "files", "watch", "load", "code")

    def __init__(
        self, folder: Folder, first: Fields | None = None, tell: Callable[[dict[str, Any]], Any] = lambda preview: None
    ) -> None:
        self._folder, self._first, self._tell = folder, dict(first or {}), tell
        # Each with the id of the fit that it belongs to, and replaced as a whole: two threads read them.
        self._last: tuple[int, Learned] | None = None
        self._doubts: tuple[int, Doubt] | None = None
        self._paths: dict[str, Learned | None] = {}

    def answer(self, number: int, kind: str, fields: Fields, stop: Stop = lambda: False) -> dict[str, Any]:
        """The answer to a message, whatever it holds."""
        try:
            handler = HANDLERS.get(kind)
            if handler is None:
                raise ValueError(f"There is no kind of message {text_of(kind)}; there are {', '.join(HANDLERS)}.")
            return {"id": number, "kind": kind, **handler(self, number, fields, stop)}
        except StaleError:
            return {"id": number, "kind": "stale"}
        # Whatever goes wrong is told to the page, and the server stays up.
        except Exception as error:
            return {"id": number, "kind": "error", "message": str(error)[:2000] or type(error).__name__}

    def hello(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """What a page needs to begin."""
        first = dict(self._first)
        if "scene" in first:
            first["scene"] = self._folder.read_scene(first["scene"]).record()
        return {
            "version": __version__,
            "presets": [scene.record() for scene in PRESETS],
            "folder": self._folder.root.name,
            "first": first,
        }

    def fit(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """A reward from the walks of a scene."""
        scene = parse(fields.get("scene"))
        if not scene.demonstrations:
            self._last = None
            return {"empty": True}

        def show(reward: Any) -> None:
            self._tell({"id": number, "kind": "preview", "reward": reward})

        learned = learn(scene, None if self._last is None else self._last[1], stop, show)
        if learned is None:
            raise StaleError
        self._last = (number, learned)
        return {"empty": False, **learned_reply(learned)}

    def doubt(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """What the walks of the last fit leave open."""
        of, learned = self._current(fields)
        cell = _cell(fields.get("cell"), learned)
        return {"of": of, **self._doubt(of, learned).reply(cell)}

    def move(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """The reward moved along directions that the walks leave open."""
        of, learned = self._current(fields)
        sizes, cell = _sizes(expect("`sizes`", fields.get("sizes"), dict)), _cell(fields.get("cell"), learned)
        return {"of": of, **self._doubt(of, learned).moved(sizes, cell)}

    def what_if(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """What the learned reward would do on a changed grid."""
        of, learned = self._current(fields)
        return {"of": of, **what_if(learned, parse(fields.get("scene")))}

    def models(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """The causal and the path model of a scene, side by side."""
        scene = parse(fields.get("scene"))
        if not scene.demonstrations:
            raise ValueError("There is no walk to learn from. Draw one first.")
        found = {}
        for name, path in {"causal": False, "path": True}.items():
            learned = learn(scene, self._paths.get(name), stop, path=path)
            if learned is None:
                raise StaleError
            self._paths[name], found[name] = learned, model_reply(learned)
        return found

    def risky(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """Both models of RiskyPath."""
        discount = _number(fields, "discount", 0.01, 0.99)
        hazard = _number(fields, "hazard", -100, 0)
        counts = [whole(name, fields.get(name), 0, 1000) for name in ("safe", "risky")]
        return {**risky_path(discount, hazard, *counts), "curve": risky_curve(hazard)}

    def files(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """What is in the folder."""
        return runs.files(self._folder)

    def open(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """A saved fit."""
        return {"run": fields.get("run"), **runs.open_run(self._folder.inside(fields.get("run")))}

    def watch(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """The new lines of a run's log."""
        path = self._folder.inside(fields.get("run"))
        offset = whole("offset", fields.get("offset"), 0, 2**53)
        log = path / runs.LOG
        if not log.is_file() or not self._folder.holds(log):
            raise ValueError(f"{text_of(fields.get('run'))} is not a run that writes a log.")
        lines, after = runs.log_lines(path, offset)
        return {"run": fields.get("run"), "lines": lines, "offset": after, "finished": runs.is_finished(path)}

    def table(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """A fit to demonstrations in a table, in the MDP of a file."""
        table, mdp_path = (self._folder.inside(fields.get(name)) for name in ("table", "mdp"))
        columns = expect("`columns`", fields.get("columns", {}), dict)
        if set(columns) - set(COLUMNS):
            raise ValueError(f"`columns` may name {', '.join(COLUMNS)}.")
        names = {name: expect(f"The column of {name}", column, str) for name, column in columns.items()}
        over: Any = choice("reward", fields.get("reward"), ("s", "sa"))
        objective: Any = choice("objective", fields.get("objective"), OBJECTIVES)
        l2 = _number(fields, "l2", 0, 1e6)
        mdp = load_mdp(mdp_path)
        if mdp.num_states > MOST_STATES:
            raise ValueError(f"The page fits MDPs of at most {MOST_STATES} states; use `irlax fit` for larger ones.")
        demos = read_demos(table, **names)
        fit = MCEIRL(objective=objective, l2=l2, progress=False).fit(
            mdp, TabularReward(over), demos, callback=lambda _: stop()
        )
        if stop():
            raise StaleError
        return runs.run_reply(fit)

    def load(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """A scene that was saved in the folder, or that a message holds, with all its fields."""
        scene = parse(fields["scene"]) if "scene" in fields else self._folder.read_scene(fields.get("file"))
        return {"scene": scene.record()}

    def save(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """Write a scene or its fit."""
        scene, name = parse(fields.get("scene")), fields.get("name")
        if choice("what", fields.get("what"), ("scene", "fit")) == "scene":
            path = self._folder.write_scene(name, scene)
        else:
            path = save_fit(scene, check_target(self._folder.new(name)))
        return {"written": path.name, "what": fields.get("what")}

    def code(self, number: int, fields: Fields, stop: Stop) -> dict[str, Any]:
        """Python that makes the same fit."""
        return {"code": python_code(parse(fields.get("scene")))}

    def _current(self, fields: Fields) -> tuple[int, Learned]:
        """The last fit with its id, if it is the one that a message is about."""
        of, last = whole("of", fields.get("of"), 0, 2**53), self._last
        if last is None or of != last[0]:
            raise StaleError
        return last

    def _doubt(self, of: int, learned: Learned) -> Doubt:
        """What the walks of a fit leave open, computed once."""
        found = self._doubts
        if found is None or found[0] != of:
            found = self._doubts = (of, doubt_of(learned))
        return found[1]


HANDLERS: dict[str, Callable[[Desk, int, Fields, Stop], dict[str, Any]]] = {
    "hello": Desk.hello,
    "fit": Desk.fit,
    "doubt": Desk.doubt,
    "move": Desk.move,
    "what-if": Desk.what_if,
    "models": Desk.models,
    "risky": Desk.risky,
    "files": Desk.files,
    "open": Desk.open,
    "watch": Desk.watch,
    "table": Desk.table,
    "load": Desk.load,
    "save": Desk.save,
    "code": Desk.code,
}


def warm_up(scene: Scene) -> None:
    """Compile what the first messages of a page with this scene need."""
    if not scene.demonstrations:
        scene = _with_some_walk(scene)
    if scene.demonstrations:
        learned = learn(scene)
        assert learned is not None
        learned_reply(learned)
        doubt_of(learned).reply(None)


def _with_some_walk(scene: Scene) -> Scene:
    """The scene with the first step that is possible, if there is one."""
    height, width = scene.shape
    for row, column in np.ndindex(height, width - 1):
        pair = ((row, column), (row, column + 1))
        if "#" not in scene.board[row][column : column + 2] and not scene.is_end(pair[0]):
            return eqx.tree_at(lambda scene: scene.demonstrations, scene, (pair,), is_leaf=lambda node: node == ())
    return scene


def _number(fields: Fields, name: str, low: float, high: float) -> float:
    return number(name, fields.get(name), low, high)


def _cell(value: Any, learned: Learned) -> tuple[int, int] | None:
    """A free cell of the grid; None if none was chosen."""
    if value is None:
        return None
    pair = listed("`cell`", value, 2, lambda place: whole("cell", place, 0, MAX_SIDE - 1))
    grid = learned.grid
    if len(pair) != 2 or pair[0] >= grid.shape[0] or pair[1] >= grid.shape[1] or not grid.free[grid.state(pair)]:
        raise ValueError(f"`cell` must be [row, column] of a free cell, but is {list(pair)}.")
    return pair


def _sizes(values: Mapping[Any, Any]) -> dict[str, float]:
    most = {"least": REACH}
    return {name: number(name, size, -most.get(name, 1e4), most.get(name, 1e4)) for name, size in values.items()}
