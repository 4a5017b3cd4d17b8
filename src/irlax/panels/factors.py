"""Models of single variables: where each can go, and what was observed of it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from irlax import checks
from irlax.panels.history import Follows
from irlax.panels.models import Chain, Counts, Increments, Model
from irlax.panels.multinomials import Multinomials, certain, tabulate
from irlax.panels.rows import Choices, Rows
from irlax.panels.states import Space
from irlax.typing import Int


class Factor(NamedTuple):
    """One variable's next level: where it can go from each of its rows, and the row of each combination of levels."""

    table: Multinomials
    targets: Int[np.ndarray, "R B"]
    outcomes: Int[np.ndarray, "R B"]
    row: Callable[[Int[np.ndarray, "m V"]], Int[np.ndarray, "m A"]]


def chain_factor(space: Space, rows: Rows, choices: Choices, v: int, model: Chain) -> Factor:
    """The next level of a variable that is a chain of its own, given the levels that it depends on."""
    names = [variable.name for variable in space.variables]
    others = [name for k, name in enumerate(names) if k != v]
    for name in model.given:
        if name not in others:
            there = checks.some(others) if others else "of which there are none"
            raise ValueError(f"`given` of `{names[v]}` must name other state variables, {there}, but names {name!r}.")
    given = [names.index(name) for name in model.given]
    parts = [v, *given]
    sizes = [space.variables[part].num for part in parts]
    num_actions = len(choices.labels)
    wide = num_actions if model.by_action else 1

    def base_of(codes: Int[np.ndarray, "m V"]) -> Int[np.ndarray, " m"]:
        return np.ravel_multi_index(tuple(codes[:, part] for part in parts), sizes)

    def row(codes: Int[np.ndarray, "m V"]) -> Int[np.ndarray, "m A"]:
        action = np.arange(num_actions) if model.by_action else np.zeros(num_actions, int)
        return base_of(codes)[:, None] * wide + action

    base = np.arange(int(np.prod(sizes)))
    observed = row(rows.levels[rows.followed])[np.arange(len(rows.followed)), rows.actions[rows.followed]]
    table = tabulate(
        observed,
        rows.levels[rows.followed + 1, v],
        rows.weights[rows.followed],
        num_targets=sizes[0],
        base=np.repeat(base, wide),
        own=np.repeat(base // int(np.prod(sizes[1:])), wide),
        smoothing=model.smoothing,
        unseen=model.unseen,
    )
    draws = np.full(len(rows.actions), -1)
    draws[rows.followed] = table.draws
    return Factor(table._replace(draws=draws), table.targets, table.outcomes, row)


def increment_factor(space: Space, rows: Rows, choices: Choices, v: int, model: Increments) -> Factor:
    """The next level of a variable that moves by random increments."""
    variable, num_actions = space.variables[v], len(choices.labels)
    start = np.tile(np.arange(variable.num)[:, None], num_actions)
    for label, value in model.restart.items():
        start[:, choices.labels.index(checks.one_of("restart", label, choices.labels))] = variable.level(value)
    step, draw_rows = _observed_increments(rows, v, model, start)
    if not len(draw_rows):
        raise ValueError(f"No increment of `{variable.name}` was observed, so its transitions cannot be estimated.")
    low = int(step.min())
    group = rows.actions[draw_rows] if model.by_action else np.zeros(len(draw_rows), int)
    num_groups = num_actions if model.by_action else 1
    table = tabulate(
        group,
        step - low,
        rows.weights[draw_rows],
        num_targets=int(step.max()) - low + 1,
        base=np.zeros(num_groups, int),
        own=np.full(num_groups, -low),
        smoothing=0.0,
        unseen="error",
    )
    of_action = np.arange(num_actions) if model.by_action else np.zeros(num_actions, int)
    moved = np.clip(start[..., None] + table.targets[of_action] + low, 0, variable.num - 1)
    outcomes = np.broadcast_to(table.outcomes[of_action], moved.shape)
    draws = np.full(len(rows.actions), -1)
    draws[draw_rows] = table.draws

    def row(codes: Int[np.ndarray, "m V"]) -> Int[np.ndarray, "m A"]:
        return codes[:, v, None] * num_actions + np.arange(num_actions)

    flat = (variable.num * num_actions, -1)
    return Factor(table._replace(draws=draws), moved.reshape(flat), outcomes.reshape(flat), row)


def follows_factor(space: Space, rows: Rows, choices: Choices, v: int, model: Follows) -> Factor:
    """The next level of a variable that remembers the choice, or the level of another variable."""
    num_actions = len(choices.labels)

    def row(codes: Int[np.ndarray, "m V"]) -> Int[np.ndarray, "m A"]:
        if model.source is None:
            return np.tile(np.arange(num_actions), (len(codes), 1))
        level = codes[:, model.source]
        return np.tile((level if model.table is None else model.table[level])[:, None], num_actions)

    targets = np.arange(space.variables[v].num)[:, None]
    table = certain()._replace(draws=np.full(len(rows.actions), -1))
    return Factor(table, targets, np.zeros_like(targets), row)


def _observed_increments(
    rows: Rows, v: int, model: Increments, start: Int[np.ndarray, "L A"]
) -> tuple[Int[np.ndarray, " d"], Int[np.ndarray, " d"]]:
    """Observed increments, and the row that each belongs to."""
    if model.observed is not None:
        given = rows.increments[model.observed]
        where = np.flatnonzero(np.isfinite(given))
        return given[where].astype(np.int64), where
    before = start[rows.levels[rows.followed, v], rows.actions[rows.followed]]
    step = rows.levels[rows.followed + 1, v] - before
    last = len(start) - 1
    inner = (before + step < last) & (before + step > 0)
    # What moves a variable to an end could have moved it further; only from where no increment reaches it, it is known.
    low, high = (int(step[inner].min()), int(step[inner].max())) if inner.any() else (int(step.min()), int(step.max()))
    known = inner | ((before + high <= last) & (before + low >= 0))
    return step[known], rows.followed[known]


def leaving_factor(space: Space, rows: Rows, choices: Choices, given: Sequence[int]) -> Factor | None:
    """Whether an individual stays (0) or leaves (1), given action and some of the variables; None if nobody leaves."""
    if not rows.exits.any():
        return None
    num_actions = len(choices.labels)
    sizes = [space.variables[v].num for v in given]

    def row(codes: Int[np.ndarray, "m V"]) -> Int[np.ndarray, "m A"]:
        parts = tuple(codes[:, v] for v in given)
        base = np.ravel_multi_index(parts, sizes) if parts else np.zeros(len(codes), int)
        return base[:, None] * num_actions + np.arange(num_actions)

    known = np.flatnonzero(rows.survived | rows.exits)
    base = np.arange(int(np.prod(sizes)))
    table = tabulate(
        row(rows.levels[known])[np.arange(len(known)), rows.actions[known]],
        rows.exits[known].astype(np.int64),
        rows.weights[known],
        num_targets=2,
        base=np.repeat(base, num_actions),
        own=np.zeros(len(base) * num_actions, int),
        smoothing=0.0,
        unseen="any-action",
    )
    draws = np.full(len(rows.actions), -1)
    draws[known] = table.draws
    # Among the next combinations of levels are only those of individuals that stay.
    staying = np.where(table.targets == 0, table.outcomes, -1).max(axis=1, keepdims=True)
    return Factor(table._replace(draws=draws), np.zeros_like(staying), staying, row)


def smoothed(model: Counts | Chain) -> str:
    """What was added to counts, as text; empty for nothing."""
    return f", with {model.smoothing:g} added to each" if model.smoothing else ""


def described(space: Space, v: int, model: Model | Follows) -> str:
    """How a variable moves, as text for the notes of a table."""
    name = space.variables[v].name
    if isinstance(model, Follows):
        return f"`{name}` is {space.variables[v].how}"
    if isinstance(model, Increments):
        restarts = ", ".join(f"from {value} after {label}" for label, value in model.restart.items())
        return f"`{name}` by increments{f' ({restarts})' if restarts else ''}"
    parts = " and ".join([name, *model.given, *(["action"] if model.by_action else [])])
    return f"`{name}` by frequencies given {parts}{smoothed(model)}"
