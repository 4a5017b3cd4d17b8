"""States extended by their history: previous choices and previous levels as state variables."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.panels.variables import Variable
from irlax.typing import Bool, Int

#: The prefix of the level of one period before; of two periods before it is followed by _2, and so on.
LAST = "last_"


class Follows(eqx.Module):
    """A variable that is the choice, or the level of another variable, of the period before: for certain."""

    #: The state variable whose level it takes; None for the action.
    source: int | None
    #: The level that it takes for each level of the source; None if that is the same.
    table: Int[np.ndarray, " L"] | None = None


class Lag(NamedTuple):
    """A variable that remembers."""

    variable: Variable
    model: Follows
    #: The column of levels that it lags, the choices being the last one, and by how many periods.
    column: int
    periods: int


def lags_of(history: object, variables: Sequence[Variable], action: str, labels: Sequence[str]) -> list[Lag]:
    """The variables that a history adds, after those of the panel."""
    if not isinstance(history, Mapping):
        raise TypeError(
            f"`history` must map the column of the action or state variables to numbers of periods, as in "
            f"{{{action!r}: 1}}, but is {history!r:.60}."
        )
    names, found = [variable.name for variable in variables], []
    for name, number in history.items():
        checks.one_of("history", name, [action, *names])
        of_choice = name == action
        column = len(variables) if of_choice else names.index(name)
        original = Variable(name, tuple(labels), None, "") if of_choice else variables[column]
        for k in range(1, checks.count(f"history[{name!r}]", number) + 1):
            own = LAST + name + (f"_{k}" if k > 1 else "")
            before = f"`{name}` of {'the period before' if k == 1 else f'{k} periods before'}"
            variable = Variable(own, original.labels, original.values, before)
            source = (None if of_choice else column) if k == 1 else len(variables) + len(found) - 1
            found.append(Lag(variable, Follows(source), column, k))
    return found


def remembered(
    lags: Sequence[Lag], levels: Int[np.ndarray, "n V"], chosen: Int[np.ndarray, " n"], demos: Demonstrations
) -> tuple[Int[np.ndarray, "n L"], Bool[np.ndarray, " n"]]:
    """The level of each lag in each row, in order of individual and period, and the rows in which all are known.

    A row is known if the individual was observed in each of the periods before it that count.
    """
    step = np.zeros(demos.num_steps, bool)
    step[demos.followed + 1] = True
    # Of how many periods before it a row is the continuation.
    rows = np.arange(demos.num_steps)
    since = rows - np.maximum.accumulate(np.where(step, 0, rows))
    columns = np.column_stack([levels, chosen])
    known = since >= max(lag.periods for lag in lags)
    found = np.stack([columns[np.maximum(rows - lag.periods, 0), lag.column] for lag in lags], axis=1)
    if not known.any():
        raise ValueError("No row has a known history: no individual was observed for that many periods in a row.")
    return found, known
