"""Rewards by formula: terms over the names of state variables, actions, next-state variables and covariates."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from irlax import checks
from irlax.panels.variables import Variable
from irlax.rewards import LinearReward
from irlax.typing import Bool, Float, Int

#: A formula, or an expression for each parameter by its name.
Formula = str | Mapping[str, str]
#: Functions that formulae may call besides formulaic's own (C, bs, poly, …).
FUNCTIONS = {name: getattr(np, name) for name in ("log", "exp", "sqrt", "abs", "minimum", "maximum", "where")}
#: The prefix of a variable's value in the next period.
NEXT = "next_"
#: A constant for each period before the exit, where lives end.
ALIVE = "alive"
#: Features over (s, a, s') may have this many entries.
MOST_ENTRIES = 20_000_000


class Design(NamedTuple):
    """What a formula is evaluated over: states and their actions, of each type of individual."""

    variables: tuple[Variable, ...]
    codes: Int[np.ndarray, "S V"]
    available: Bool[np.ndarray, "S A"]
    successors: Int[np.ndarray, "S A B"]
    #: Which next states are possible.
    possible: Bool[np.ndarray, "S A B"]
    actions: tuple[str, ...]
    #: The name of the column of actions, and its values.
    action_column: str
    action_values: np.ndarray
    #: Covariates: a column of values for each, with an entry for each type.
    covariates: Mapping[str, np.ndarray]

    @property
    def alive(self) -> Bool[np.ndarray, " S"]:
        """The states that are not the exit."""
        return np.asarray((self.codes >= 0).all(axis=1))

    @property
    def num_types(self) -> int:
        """G: combinations of covariates, 1 without any."""
        return max((len(values) for values in self.covariates.values()), default=1)

    def names(self) -> list[str]:
        """The names that a formula may use."""
        own = [variable.name for variable in self.variables]
        more = [] if self.alive.all() else [ALIVE]
        return [*own, *self.actions, self.action_column, *self.covariates, *more, *(NEXT + name for name in own)]


class Rewards(NamedTuple):
    """A reward for each type, all with the same parameters, and the names of terms that were set to a value."""

    of_type: tuple[LinearReward, ...]
    fixed: tuple[tuple[str, float], ...]


def rewards_of(
    design: Design, formula: Formula, *, known: Formula | None, fixed: Mapping[str, float] | None
) -> Rewards:
    """The linear reward of a formula, for each type; a term that is `fixed` is part of what is known."""
    names, features = _columns(design, formula)
    if fixed is not None and not isinstance(fixed, Mapping):
        raise TypeError(f"`fixed` must map terms to values, as in {{'replace': -1.0}}, but is {fixed!r:.60}.")
    set_to = {} if fixed is None else dict(fixed)
    for name, value in set_to.items():
        checks.one_of("fixed", name, names)
        number = checks.as_floats(f"fixed[{name!r}]", value)
        checks.has_shape(f"fixed[{name!r}]", number, (), "a number")
        checks.finite(f"fixed[{name!r}]", number)
        set_to[name] = float(number)
    offset = np.zeros(features.shape[:-1]) if known or set_to else None
    if known:
        payoff = _columns(design, known)[1].sum(axis=-1)
        # One of them may depend on the next state, and the other not.
        offset, features = _same_axes(payoff, features)
    if set_to:
        assert offset is not None
        offset = offset + sum(value * features[..., names.index(name)] for name, value in set_to.items())
    kept = [k for k, name in enumerate(names) if name not in set_to]
    if not kept:
        raise ValueError("All terms of the formula are fixed, so there is nothing to estimate.")
    rewards = tuple(
        LinearReward(
            features[g][..., kept],
            names=[names[k] for k in kept],
            known=None if offset is None else offset[g],
        )
        for g in range(design.num_types)
    )
    return Rewards(rewards, tuple(set_to.items()))


def covariates_in(formula: Formula, known: Formula | None, names: Sequence[str]) -> tuple[str, ...]:
    """Which of the covariates formulae use; formulae that cannot be parsed are refused elsewhere."""
    from formulaic.errors import FormulaicError

    used: set[str] = set()
    for text in [*_checked(formula), *([] if known is None else _checked(known))] if names else []:
        with contextlib.suppress(FormulaicError):
            used |= set(map(str, _parsed(text).required_variables))
    return tuple(name for name in names if name in used)


def _same_axes(payoff: np.ndarray, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if payoff.ndim == features.ndim - 1:
        return payoff, features
    if payoff.ndim < features.ndim - 1:
        return np.broadcast_to(payoff[..., None], features.shape[:-1]), features
    return payoff, np.broadcast_to(features[..., None, :], (*payoff.shape, features.shape[-1]))


def _columns(design: Design, formula: Formula) -> tuple[list[str], Float[np.ndarray, "G S A *next K"]]:
    """The names of the terms, and their values for each type, state and action (and next state, if one needs it)."""
    texts = _checked(formula)
    ahead = any(NEXT + variable.name in _required(text, design) for text in texts for variable in design.variables)
    places, frame = _frame(design, ahead=ahead)
    names, values = _terms(design, formula, texts, frame)
    if not names:
        raise ValueError(f"The formula {formula!r} has no terms. Name some: {checks.some(design.names())}.")
    if len(set(names)) < len(names):
        raise ValueError(
            f"The formula names a term twice: {checks.some(sorted(n for n in names if names.count(n) > 1))}."
        )
    num, num_actions = design.available.shape
    sizes = (design.num_types, num, num_actions, *((num,) if ahead else ()), len(names))
    if ahead and np.prod(sizes, dtype=float) > MOST_ENTRIES:
        raise ValueError(
            f"Terms over the next state need {np.prod(sizes, dtype=float):.2g} numbers here, more than "
            f"{MOST_ENTRIES:.0e}. Use fewer bins, or terms over state and action."
        )
    table = np.zeros(sizes)
    table[places] = values
    if ahead and not design.alive.all():
        # In the exit there is no next value of a variable, so terms with one are 0 there; others are earned as well.
        (here, low), (_, high) = (_frame(design, ahead=True, fill=fill) for fill in (0, -1))
        first, last = (_terms(design, formula, texts, frame)[1] for frame in (low, high))
        table[(*here, int(np.argmin(design.alive)))] = first * (first == last).all(axis=0)
    _refuse_bad_terms(names, table)
    return names, table


def _terms(
    design: Design, formula: Formula, texts: Sequence[str], frame: Any
) -> tuple[list[str], Float[np.ndarray, "rows K"]]:
    """The names of the terms of a formula, and their values in each row of a frame."""
    names, parts = [], []
    for name, text in zip(formula if isinstance(formula, Mapping) else [None], texts, strict=True):
        found, values = _materialised(frame, text, design)
        if name is not None and len(found) != 1:
            raise ValueError(f"The expression of `{name}` must be one term, but {text!r} makes {len(found)}: {found}.")
        names += found if name is None else [str(name)]
        parts.append(values)
    return names, np.concatenate(parts, axis=1)


def _checked(formula: Formula) -> list[str]:
    if isinstance(formula, Mapping):
        if not formula or not all(isinstance(text, str) for text in formula.values()):
            raise TypeError(
                "A formula by names must map each parameter to an expression, as in {'cost': '-mileage:keep'}."
            )
        return [f"0 + {{{text}}}" for text in formula.values()]
    if not isinstance(formula, str):
        raise TypeError(f"A formula must be text, such as 'mileage:keep + replace', but is a {type(formula).__name__}.")
    for name in re.findall(r"`\s*([01])\s*`", formula):
        # The parser takes both for the constant, with which a formula has no term.
        raise ValueError(
            f"A formula cannot name {name!r}, which stands for a constant, in {formula!r}. Give actions labels, as in "
            f"`actions={{0: 'keep', 1: 'replace'}}`, and columns names that begin with a letter."
        )
    if "~" in formula:
        raise ValueError(f"A reward has no left-hand side: leave out '~' and what stands before it in {formula!r}.")
    return [formula]


def _frame(design: Design, *, ahead: bool, fill: int | None = None) -> tuple[tuple[np.ndarray, ...], Any]:
    """A row for each type, state and available action (and next state), and the place of each row in a table.

    With `fill` there is one row for each action, in which all variables have this level next.
    """
    import pandas as pd

    exists = design.available & design.alive[:, None]
    each = ahead and fill is None
    listed = design.possible & exists[..., None] & design.alive[design.successors] if each else exists
    kind, *where = np.nonzero(np.broadcast_to(listed, (design.num_types, *listed.shape)))
    state, action = where[0], where[1]
    columns: dict[str, Any] = {v.name: v.column(design.codes[state, j]) for j, v in enumerate(design.variables)}
    places = (kind, state, action)
    if each:
        after = design.successors[state, action, where[2]]
        columns |= {NEXT + v.name: v.column(design.codes[after, j]) for j, v in enumerate(design.variables)}
        places = (*places, after)
    elif fill is not None:
        columns |= {NEXT + v.name: v.column(np.full(len(state), fill % v.num)) for v in design.variables}
    columns |= {label: (action == a).astype(float) for a, label in enumerate(design.actions)}
    if design.action_column not in columns:
        columns[design.action_column] = design.action_values[action]
    columns |= {name: np.asarray(values)[kind] for name, values in design.covariates.items()}
    columns[ALIVE] = np.ones(len(state))
    return places, pd.DataFrame(columns)


def _parsed(text: str) -> Any:
    """A formula with its terms in the order in which they were written."""
    import formulaic

    parse: Any = formulaic.Formula
    return parse(text, _ordering="none")


def _required(text: str, design: Design) -> set[str]:
    with _explained(text, design):
        return set(map(str, _parsed(text).required_variables))


def _materialised(frame: Any, text: str, design: Design) -> tuple[list[str], Float[np.ndarray, "rows K"]]:
    """The terms of a formula, without its constant."""
    # Terms that are not finite are refused by name, once they are known.
    with _explained(text, design), np.errstate(all="ignore"):
        matrix = _parsed(text).get_model_matrix(frame, context=FUNCTIONS, na_action="ignore")
        names = [str(name) for name in matrix.columns]
        values = np.asarray(matrix, dtype=np.float64)
    kept = [k for k, name in enumerate(names) if name != "Intercept"]
    return [names[k] for k in kept], values[:, kept]


@contextlib.contextmanager
def _explained(text: str, design: Design) -> Iterator[None]:
    """Errors of formulaic as ones that say which names there are."""
    try:
        yield
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(
            f"The formula {text!r} could not be evaluated: {reason} Terms are made of the names "
            f"{', '.join(design.names())}; a name that is no Python name stands in `backticks`."
        ) from None


def _refuse_bad_terms(names: Sequence[str], values: Float[np.ndarray, "*shape K"]) -> None:
    for k, name in enumerate(names):
        if not np.isfinite(values[..., k]).all():
            raise ValueError(
                f"The term `{name}` is not finite in some state (log(0), or a division by 0?). Change it, or the bins."
            )
        if not values[..., k].any():
            raise ValueError(f"The term `{name}` is 0 in all states and actions, so nothing can be learned of it.")
