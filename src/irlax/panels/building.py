"""From a user's frame to a panel: columns, levels, states, transitions, demonstrations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from irlax import checks
from irlax.demos import Demonstrations
from irlax.demos import columns as arrow
from irlax.demos import panel as tables
from irlax.mdp.arguments import checked_matrices
from irlax.mdp.build import successors_from_scipy
from irlax.panels import columns
from irlax.panels.formula import ALIVE, NEXT
from irlax.panels.history import Follows, lags_of, remembered
from irlax.panels.models import Chain, Counts, Increments
from irlax.panels.panel import Panel
from irlax.panels.states import Space, label_of, refuse_too_many
from irlax.panels.transitions import Choices, Rows, StateTransitions, count_states, variable_by_variable
from irlax.panels.variables import Discretisation, Variable, find_levels
from irlax.typing import Bool, Int


def build(
    frame: Any,
    *,
    individual: str,
    period: str,
    state: Any,
    action: str,
    actions: Any,
    transitions: Any,
    covariates: Sequence[str],
    weight: str | None,
    exit_column: str | None,
    exit_given: Sequence[str],
    available: Mapping[str, str | Callable[[Any], Any]] | None,
    history: Mapping[str, int] | None = None,
) -> Panel:
    """See `Panel.from_frame`."""
    wanted = _states_wanted(state)
    models = _models_by_name(transitions, wanted)
    covariates = _names("covariates", covariates)
    roles = {"individual": individual, "period": period, "action": action, "weight": weight, "exit": exit_column}
    roles |= {f"state: {name}": name for name in wanted} | {f"covariates: {name}": name for name in covariates}
    moving = {name: model for name, model in models.items() if isinstance(model, Increments)}
    roles |= {f"increments of {name}": model.observed for name, model in moving.items()}
    for role in ("individual", "period", "action"):
        if roles[role] is None:
            raise TypeError(f"`{role}` must be the name of a column, but is None.")
    frame = columns.checked_frame(frame, roles)
    if weight is not None:
        frame = columns.without_weightless(frame, weight)
    found = [
        find_levels(
            name,
            columns.variable_values(name, frame[name]),
            how,
            filled=name in moving,
            order=columns.categories(frame[name]),
        )
        for name, how in wanted.items()
    ]
    variables = tuple(variable for variable, _ in found)
    labels, chosen, values = columns.action_codes(action, frame[action], actions)
    levels = np.stack([codes for _, codes in found], axis=1)
    time = columns.periods(period, frame[period])
    exits = np.zeros(len(frame), bool) if exit_column is None else columns.truths(exit_column, frame[exit_column])
    lags = [] if history is None else lags_of(history, variables, action, labels)
    variables = (*variables, *(lag.variable for lag in lags))
    _refuse_equal_names(variables, labels, covariates)
    space = Space(variables)
    space.check()
    names = {"individual": individual, "period": period, "weight": weight}
    demos, order = _demonstrations(frame, **names, time=time - time.min(), chosen=chosen, exits=exits)
    without_history = 0
    if lags:
        before, known = remembered(lags, levels[order], chosen[order], demos)
        # Choices whose history is not known are left out: the others are given theirs.
        kept, without_history = order[known], int((~known).sum())
        levels = np.concatenate([levels[kept], before[known]], axis=1)
        frame, chosen, time, exits = frame.iloc[kept], chosen[kept], time[kept], exits[kept]
        demos, order = _demonstrations(frame, **names, time=time - time.min(), chosen=chosen, exits=exits)
    known = bool(models) and all(isinstance(model, Increments) and model.observed for model in models.values())
    if isinstance(transitions, (Counts, Mapping)) and not known:
        _refuse_far_apart(demos, period)
    rows = Rows(
        levels[order],
        chosen[order],
        demos.choice_weights,
        demos.followed,
        _last_only(demos, exits[order], exit_column),
        _survived(demos),
        {
            model.observed: columns.optional_numbers(model.observed, frame[model.observed])[order]
            for model in moving.values()
            if model.observed is not None
        },
    )
    choices = Choices(labels, _availability(variables, labels, available))
    models |= {lag.variable.name: lag.model for lag in lags} if models else {}
    followers = [lag.model for lag in lags]
    made = _transitions(
        space, rows, choices, models or transitions, _names("exit_given", exit_given), followers=followers
    )
    states = _states_of(space, made.codes, rows.levels)
    _refuse_unavailable(variables, made, states, rows, labels)
    demos = Demonstrations(**vars(demos) | {"states": states})
    return Panel(
        demos,
        variables,
        labels,
        made.codes,
        made.available,
        made.estimated,
        made.successors,
        made.probs,
        _covariates(frame, covariates, order, demos) if covariates else None,
        action,
        values,
        period,
        int(time.min()),
        individual,
        without_history,
    )


def _states_wanted(state: Any) -> dict[str, Discretisation]:
    wanted: Any = {state: None} if isinstance(state, str) else state
    wanted = dict(wanted) if isinstance(wanted, Mapping) else dict.fromkeys(_names("state", wanted))
    if not wanted or not all(isinstance(name, str) for name in wanted):
        raise TypeError("`state` must name at least one column, as in state=['mileage'].")
    return wanted


def _names(role: str, names: Any) -> list[str]:
    if isinstance(names, str):
        return [names]
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"`{role}` must be a list of names of columns, but is {names!r:.60}.")
    if len(set(names)) < len(names):
        raise ValueError(f"`{role}` must name each column once, but is {list(names)}.")
    return list(names)


def _models_by_name(transitions: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(transitions, Mapping):
        return {}
    for name, model in transitions.items():
        if name not in wanted:
            raise ValueError(f"`transitions` must map state variables to models, but {name!r} is none of them.")
        if not isinstance(model, (Chain, Increments)):
            raise TypeError(
                f"`transitions[{name!r}]` must be a Chain(...) or Increments(...), but is a {type(model).__name__}."
            )
    return {name: transitions.get(name, Chain()) for name in wanted}


def _refuse_equal_names(variables: Sequence[Variable], labels: Sequence[str], covariates: Sequence[str]) -> None:
    own = [variable.name for variable in variables]
    names = [*own, *labels, *covariates, ALIVE, *(NEXT + name for name in own)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"State variables, actions and covariates must have different names, because formulae name them, but "
            f"{checks.some([repr(name) for name in twice])} is one of several. Give actions other labels: `actions=`."
        )


def _demonstrations(
    frame: Any,
    *,
    individual: str,
    period: str,
    weight: str | None,
    time: Int[np.ndarray, " n"],
    chosen: Int[np.ndarray, " n"],
    exits: Bool[np.ndarray, " n"],
) -> tuple[Demonstrations, Int[np.ndarray, " n"]]:
    """Demonstrations with states still to be numbered (all 0), and the row of the frame that each row was."""
    import pandas as pd
    import pyarrow as pa

    made = {("time",): time, ("state",): np.zeros_like(time), ("action",): chosen}

    def column(name: Any) -> Any:
        if name in made:
            return pa.array(made[name])
        series = frame[name]
        if isinstance(series.dtype, pd.CategoricalDtype):
            series = series.astype(series.cat.categories.dtype)
        return arrow.from_pandas(name, series)

    names = tables.Columns(individual, ("time",), ("state",), ("action",), weight=weight)
    try:
        demos = tables.demonstrations(names, column)
    except ValueError as error:
        # The columns above are ours: in the message they have the name of the user's.
        raise ValueError(str(error).replace("('time',)", period).replace("episode", "individual")) from None
    assert demos.labels is not None
    ids = arrow.labels(individual, column(individual)).to_numpy(zero_copy_only=False)
    person = pd.Index(demos.labels.astype(ids.dtype)).get_indexer(ids)
    last = demos.offsets[1:] - 1
    order = np.lexsort((time, person))
    ends = np.zeros(demos.num_episodes, bool) if not exits.any() else exits[order][last]
    return Demonstrations(**vars(demos) | {"terminated": ends}), order


def _refuse_far_apart(demos: Demonstrations, period: str) -> None:
    """A ValueError if the same individual was never observed in two periods that follow each other."""
    if len(demos.followed) or demos.num_steps == demos.num_episodes:
        return
    inside = np.diff(demos.episode) == 0
    apart = int(np.gcd.reduce(np.diff(demos.times)[inside]))
    advice = (
        f"Number them one by one: divide `{period}` by {apart}." if apart > 1 else "Merge periods into longer ones."
    )
    raise ValueError(
        f"No individual was observed in two periods that follow each other, so no transition can be counted: the "
        f"periods of `{period}` are at least {int(np.diff(demos.times)[inside].min())} apart. {advice}"
    )


def _survived(demos: Demonstrations) -> Bool[np.ndarray, " n"]:
    """All rows but the last of each individual."""
    survived = np.ones(demos.num_steps, bool)
    survived[demos.offsets[1:] - 1] = False
    return survived


def _last_only(demos: Demonstrations, exits: Bool[np.ndarray, " n"], name: str | None) -> Bool[np.ndarray, " n"]:
    """Exits, or an error if one is not on the last row of its individual."""
    early = exits & _survived(demos)
    if early.any():
        where = demos.where(int(np.argmax(early))).replace("episode", "individual")
        raise ValueError(
            f"Column `{name}` must be true on the last row of an individual only, but is at {where}, which is not the "
            f"last. Leave out what follows, or give it another individual."
        )
    return exits


def _availability(
    variables: Sequence[Variable], labels: Sequence[str], available: Mapping[str, Any] | None
) -> Callable[[Int[np.ndarray, "m V"]], Bool[np.ndarray, "m A"]]:
    """Levels ↦ which actions exist."""
    if available is not None and not isinstance(available, Mapping):
        raise TypeError(
            f"`available` must map labels to conditions, as in {{'sell': 'stock > 0'}}, not {available!r:.60}."
        )
    conditions = {} if available is None else dict(available)
    for label in conditions:
        checks.one_of("available", label, labels)

    def of(codes: Int[np.ndarray, "m V"]) -> Bool[np.ndarray, "m A"]:
        import pandas as pd

        exists = np.ones((len(codes), len(labels)), bool)
        if conditions:
            states = pd.DataFrame({v.name: v.column(codes[:, j]) for j, v in enumerate(variables)})
            for label, condition in conditions.items():
                exists[:, labels.index(label)] = _evaluated(label, condition, states)
        return exists

    return of


def _evaluated(label: str, condition: Any, states: Any) -> Bool[np.ndarray, " m"]:
    try:
        found = np.asarray(condition(states) if callable(condition) else states.eval(condition))
    except Exception as error:
        raise ValueError(
            f"`available[{label!r}]` must be a condition on the state variables {', '.join(states.columns)}, such as "
            f"'{states.columns[0]} > 0', but {condition!r} gave: {error}."
        ) from None
    if found.dtype != bool or found.shape != (len(states),):
        raise TypeError(f"`available[{label!r}]` must be true or false for each state, but is of dtype {found.dtype}.")
    return found


def _transitions(
    space: Space,
    rows: Rows,
    choices: Choices,
    transitions: Any,
    exit_given: Sequence[str],
    *,
    followers: Sequence[Follows],
) -> StateTransitions:
    names = [variable.name for variable in space.variables]
    if isinstance(transitions, Mapping):
        given = [names.index(checks.one_of("exit_given", name, names)) for name in exit_given]
        return variable_by_variable(space, rows, choices, [transitions[name] for name in names], given)
    if exit_given:
        raise ValueError("`exit_given` is for models by variable: with `Counts` exits depend on state and action.")
    if isinstance(transitions, Counts):
        return count_states(space, rows, choices, transitions, followers)
    if followers:
        raise ValueError(
            "With `history` transitions are estimated: leave `transitions` out, or give a model for each variable. "
            "For known ones make the MDP of the panel without history, and extend it by `ix.with_history`."
        )
    return _given(space, rows, choices, transitions)


def _given(space: Space, rows: Rows, choices: Choices, transitions: Any) -> StateTransitions:
    """Transitions that the user knows, over the observed states (and the exit, if there is one)."""
    if rows.exits.any():
        raise ValueError("Known transitions have no exit of their own yet: leave `exit` out, and make it a state.")
    keys = np.unique(space.keys(rows.levels))
    refuse_too_many(len(keys))
    codes, wanted = space.codes(keys), (len(keys), len(choices.labels))
    if isinstance(transitions, (list, tuple)) and transitions and all(sp.issparse(part) for part in transitions):
        matrices = checked_matrices(list(transitions))
    else:
        table = checks.as_floats("transitions", transitions)
        meaning = "(S, A, S'), over the states and actions of the panel"
        checks.has_shape("transitions", table, (*wanted, len(keys)), meaning)
        matrices = [sp.csr_array(table[:, a]) for a in range(wanted[1])]
    successors, probs = successors_from_scipy(matrices)
    checks.has_shape("transitions", probs, (*wanted, None), "a matrix (S, S) for each action of the panel")
    available = choices.available(codes)
    checks.distribution("transitions", probs, available)
    return StateTransitions(codes, available, successors, probs, None)


def _states_of(space: Space, codes: Int[np.ndarray, "S V"], levels: Int[np.ndarray, "n V"]) -> Int[np.ndarray, " n"]:
    alive = codes[(codes >= 0).all(axis=1)]
    return np.searchsorted(space.keys(alive), space.keys(levels))


def _refuse_unavailable(
    variables: Sequence[Variable],
    made: StateTransitions,
    states: Int[np.ndarray, " n"],
    rows: Rows,
    labels: Sequence[str],
) -> None:
    wrong = ~made.available[states, rows.actions]
    if wrong.any():
        row = int(np.argmax(wrong))
        where = label_of(variables, rows.levels[row])
        raise ValueError(
            f"`available` says that `{labels[rows.actions[row]]}` does not exist in state {where!r}, but it was chosen "
            f"there {int(wrong.sum()):,} times in such states. Correct the condition, or the rows."
        )
    none = ~made.available.any(axis=1)
    if none.any():
        where = label_of(variables, made.codes[int(np.argmax(none))])
        raise ValueError(f"`available` leaves no action in state {where!r}. Every state needs at least one.")


def _covariates(frame: Any, names: Sequence[str], order: Int[np.ndarray, " n"], demos: Demonstrations) -> Any:
    """One row for each individual; an error where a covariate changes within one."""
    import pandas as pd

    table = {}
    for name in names:
        values = columns.variable_values(name, frame[name])[order]
        changes = (values[1:] != values[:-1]) & (np.diff(demos.episode) == 0)
        if changes.any():
            where = demos.where(int(np.argmax(changes)) + 1).replace("episode", "individual")
            raise ValueError(
                f"Covariate `{name}` must not change within an individual, but does at {where}. What changes is a "
                f"state variable: name it in `state=`."
            )
        table[name] = values[demos.offsets[:-1]]
    return pd.DataFrame(table)
