"""Messages about states and actions of which it was never observed where they lead."""

from collections.abc import Sequence

import numpy as np

from irlax.panels.factors import Factor
from irlax.panels.rows import Choices
from irlax.panels.states import Space, label_of
from irlax.typing import Bool, Int


def cells_text(space: Space, codes: np.ndarray, choices: Choices, which: Bool[np.ndarray, "m A"]) -> str:
    """The first few states and actions, as text."""
    states, actions = np.nonzero(which)
    named = [
        f"{label_of(space.variables, codes[s])} & {choices.labels[a]}"
        for s, a in zip(states[:5], actions[:5], strict=True)
    ]
    more = len(states) - len(named)
    return "; ".join(named) + (f"; and {more:,} more" if more else "")


def refuse_unseen(space: Space, codes: np.ndarray, choices: Choices, missing: Bool[np.ndarray, "m A"]) -> None:
    """A ValueError that names states and actions that were never seen with a next state, and the ways out."""
    name = space.variables[0].name
    raise ValueError(
        f"It was never observed where {int(missing.sum()):,} of {missing.size:,} combinations of state and action "
        f"lead: {cells_text(space, codes, choices, missing)}. Say what to assume: "
        f"`transitions=ix.panels.Counts(unseen=...)` with 'any-action', 'stay' or 'unavailable', or `smoothing=`; a "
        f"model for each variable, such as "
        f"`transitions={{{name!r}: ix.panels.Chain()}}` or `Increments()`; fewer bins; or, where the action does not "
        f"exist, `available=`."
    )


def refuse_unseen_variable(
    space: Space, codes: np.ndarray, choices: Choices, stuck: Bool[np.ndarray, "m A"], factors: Sequence[Factor]
) -> None:
    """A ValueError that names the variable whose next level is not known."""
    for v, variable in enumerate(space.variables):
        empty = stuck & (factors[v].outcomes[factors[v].row(codes)] < 0).all(axis=-1)
        if empty.any():
            raise ValueError(
                f"It was never observed where `{variable.name}` goes from {cells_text(space, codes, choices, empty)}. "
                f"Say what to assume: `Chain(unseen=...)` with 'any-action' or 'stay', `Chain(by_action=False)`, "
                f"`Increments()`, fewer bins, or, where the action does not exist, `available=`."
            )


def refuse_taken(
    space: Space,
    codes: np.ndarray,
    choices: Choices,
    absent: Bool[np.ndarray, "S A"],
    observed: tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]],
) -> None:
    """A ValueError if an action was chosen where `unseen='unavailable'` would say that it does not exist."""
    taken = np.zeros_like(absent)
    taken[observed] = True
    if (taken & absent).any():
        raise ValueError(
            f"unseen='unavailable' cannot be: {cells_text(space, codes, choices, taken & absent)} was chosen, but "
            f"never with a next period. Use 'any-action' or 'stay', or leave these rows out."
        )
