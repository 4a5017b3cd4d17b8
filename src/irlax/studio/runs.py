"""Run folders, as the page shows them: summary, curves, maps of each reward, and the log of a live one."""

import contextlib
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from irlax.estimators.fit import Fit
from irlax.estimators.mixed.mixed_fit import AbstractMixedFit
from irlax.estimators.mixed.mixture_fit import MixtureFit
from irlax.estimators.mixed.switching_fit import SwitchingFit
from irlax.estimators.store import FIT, is_run, load
from irlax.estimators.tabular.scene import Scene as Behaviour
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.mdp.grid import Grid, moves_on_grid
from irlax.planning import Plan
from irlax.run_folder import LOG
from irlax.studio.learning import plain
from irlax.studio.scene import STEPS
from irlax.studio.storing import Folder
from irlax.tables import Summary, format_value

#: A list shows at most so many things; a curve at most so many points; a list of states at most so many.
MOST_FILES, MOST_POINTS, MOST_STATES = 200, 400, 40
#: What is read of a log at a time, in bytes.
MOST_BYTES = 2**22
_PATTERNS = {
    "scenes": ("*.scene.json",),
    "tables": ("*.csv", "*.parquet", "demos*.npz"),
    "mdps": ("*.npz",),
}
#: Other arrays of a run.
_NO_MDP = re.compile(r"(arrays|checkpoint|(demos|statistics)\d*)\.npz")


def files(folder: Folder) -> dict[str, Any]:
    """The runs, live runs, scenes and data in the folder and one level below it."""
    root = folder.root
    below = [path for path in _entries(root) if path.is_dir() and not path.name.startswith(".")][:MOST_FILES]
    found: dict[str, list[str]] = {"runs": [], "live": [], "scenes": [], "tables": [], "mdps": []}
    for path in [root, *below, *(inner for each in below for inner in _entries(each)[:MOST_FILES])]:
        if not folder.holds(path):
            continue
        name = path.relative_to(root).as_posix()
        if path.is_dir():
            kind = "runs" if is_run(path) else "live" if (path / LOG).is_file() else None
            if kind:
                found[kind].append(name)
    for kind, patterns in _PATTERNS.items():
        paths = sorted(path for pattern in patterns for path in [*root.glob(pattern), *root.glob(f"*/{pattern}")])
        kept = [path for path in paths if folder.holds(path) and not (kind == "mdps" and _NO_MDP.fullmatch(path.name))]
        found[kind] = [path.relative_to(root).as_posix() for path in kept]
    return {kind: names[:MOST_FILES] for kind, names in found.items()}


def _entries(path: Path) -> list[Path]:
    """What is in a folder; nothing, if it may not be read."""
    with contextlib.suppress(OSError):
        return sorted(path.iterdir())
    return []


def open_run(path: Path) -> dict[str, Any]:
    """What the page shows of a saved fit."""
    return run_reply(load(path))


def run_reply(fit: Fit) -> dict[str, Any]:
    """What the page shows of a fit: its tables, its curves, and the rewards that it found."""
    return {
        "method": fit.method,
        "status": fit.status.name.lower(),
        "converged": fit.converged,
        "message": fit.status.value,
        "tables": tables_of(fit.summary()),
        "curves": _curves(fit),
        "maps": _maps(fit),
    }


def tables_of(summary: Summary) -> list[dict[str, Any]]:
    """Tables as lists of texts."""
    return [
        {
            "title": table.title,
            "columns": list(table.columns),
            "rows": [[_shown(cell) for cell in row] for row in table.rows],
            "notes": list(table.notes),
        }
        for table in summary.tables
    ]


def _shown(cell: Any) -> str:
    """A cell of a table as text: a dash where there is no number, as in the rest of the page."""
    return "–" if isinstance(cell, float) and math.isnan(cell) else format_value(cell)


def log_lines(path: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """The lines of a run's log from a position on, and the position after the last whole one."""
    with (path / LOG).open("rb") as file:
        file.seek(0, 2)
        # A log that is shorter than it was has been started again.
        offset = offset if offset <= file.tell() else 0
        file.seek(offset)
        text = file.read(MOST_BYTES)
    whole = text[: text.rfind(b"\n") + 1]
    lines = [json.loads(line) for line in whole.splitlines() if line.strip()]
    return [_numbers(line) for line in lines if isinstance(line, dict)], offset + len(whole)


def is_finished(path: Path) -> bool:
    """Whether the fit of a run was written."""
    return (path / FIT).is_file()


def _numbers(line: dict[str, Any]) -> dict[str, float]:
    # NaN and infinity, which other writers of logs may leave, are no points of a curve.
    return {name: value for name, value in line.items() if isinstance(value, int | float) and abs(value) < math.inf}


def _curves(fit: Fit) -> dict[str, Any]:
    """The columns of the history that are one number a step, with fewer points where there are many."""
    steps = np.unique(np.linspace(0, max(len(fit.history) - 1, 0), MOST_POINTS).astype(int))
    if not len(fit.history):
        return {}
    columns = {name: np.asarray(fit.history[name], float) for name in fit.history}
    return {"step": steps.tolist()} | {name: plain(col[steps]) for name, col in columns.items() if col.ndim == 1}


def _maps(fit: Fit) -> list[dict[str, Any]]:
    """Of each reward of the fit: what it is in each state, the policy, and the visits; on a grid as pictures."""
    if isinstance(fit, TabularFit) and fit.mdp.rows.num_rows(fit.mdp.num_states) == fit.mdp.num_states:
        return [_behaviour_map(Behaviour.of(fit, 0), "")]
    if isinstance(fit, AbstractMixedFit):
        return [
            _behaviour_map(Behaviour.between(fit.experts[0], plan, reward), _group_title(fit, g))
            for g, (plan, reward) in enumerate(zip(fit.plans, fit.rewards, strict=True))
            # Towards goals there is a plan for each of them.
            if isinstance(plan, Plan)
        ]
    return []


def _group_title(fit: AbstractMixedFit, group: int) -> str:
    """The name of a type or a motive, and how many are of it."""
    if isinstance(fit, MixtureFit):
        return f"Type {group + 1}: {fit.shares[group]:.0%} of individuals"
    if isinstance(fit, SwitchingFit):
        return f"Motive {group + 1}: {fit.shares[group]:.0%} of choices"
    return f"Reward {group + 1}"


def _behaviour_map(found: Behaviour, title: str) -> dict[str, Any]:
    expert, model = found.expert.sum(axis=1), found.model.sum(axis=1)
    reward = found.reward[:, 0] if found.over_states else np.nanmax(found.reward, axis=1)
    values = {"reward": reward, "expert": expert, "model": model}
    if found.grid is not None:
        grid = found.grid
        return {
            "title": title,
            "board": ["".join(row) for row in grid.board],
            **{name: plain(grid.picture(each)) for name, each in values.items()},
            "policy": _policy_picture(found, grid),
        }
    shown = found.shown[:MOST_STATES]
    return {
        "title": title,
        "board": None,
        "states": found.names(shown),
        **{name: plain(each[shown]) for name, each in values.items()},
    }


def _policy_picture(found: Behaviour, grid: Grid) -> Any:
    """The chance of each move of `STEPS` in each cell, null where nothing leads away; None if actions are no moves."""
    moves = moves_on_grid(found.mdp)
    if moves is None:
        return None
    chances = np.stack([found.first_policy[:, (moves == step).all(axis=1)].sum(axis=1) for step in STEPS], axis=1)
    board = np.full((*grid.shape, len(STEPS)), np.nan)
    board[tuple(grid.cells.T)] = np.where(found.mdp.absorbing[:, None], np.nan, chances)
    return plain(board)
