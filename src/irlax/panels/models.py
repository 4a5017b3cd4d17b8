"""How the transitions of a panel are estimated: by counts of states, or variable by variable."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx

from irlax import checks
from irlax.panels.multinomials import Unseen

UNSEEN = ("error", "any-action", "stay", "unavailable")


class Counts(eqx.Module):
    r"""Relative frequencies of next states, given state and action: $\hat P(s'|s,a) = n(s,a,s') / n(s,a)$.

    `smoothing` is added to the count of every next state that followed the state after any action. `unseen` says what
    to assume of a state and action of which no next state was observed: refuse ("error"), that it leads where other
    actions led from there ("any-action"), that nothing changes ("stay"), or that the action does not exist
    ("unavailable").
    """

    smoothing: float = 0.0
    unseen: Unseen = "error"

    def __check_init__(self) -> None:
        checks.positive("smoothing", self.smoothing, zero=True)
        checks.one_of("unseen", self.unseen, UNSEEN)


class Chain(eqx.Module):
    r"""One variable as a Markov chain of its own: $\hat P(x'|x,a)$, independent of the other variables.

    With `by_action=False` it moves in the same way whatever is chosen; `given` names other variables that its next
    value depends on as well. `smoothing` and `unseen` are as for `Counts`, with the variable in place of the state.
    """

    by_action: bool = True
    given: tuple[str, ...] = eqx.field(converter=tuple, default=())
    smoothing: float = 0.0
    unseen: Unseen = "error"

    def __check_init__(self) -> None:
        checks.positive("smoothing", self.smoothing, zero=True)
        checks.one_of("unseen", self.unseen, UNSEEN[:-1])


class Increments(eqx.Module):
    r"""One variable that moves by a random number of levels: $x' = x + j$, with probabilities $p_j$ for all levels.

    `restart` maps labels of actions to the value from which the variable moves on after them, as a replaced engine does
    from mileage 0. The first and the last level absorb. With `by_action` each action has probabilities of its own.
    `observed` names a column with the increment, in levels, that led to each row; without it increments are differences
    of levels, where the ends cannot have cut them off. Rust (1987).
    """

    restart: Mapping[str, Any] = eqx.field(default_factory=dict)
    by_action: bool = False
    observed: str | None = None

    def __check_init__(self) -> None:
        if not isinstance(self.restart, Mapping):
            raise TypeError(
                f"`restart` must map labels of actions to values, as in {{'replace': 0}}, but is {self.restart!r:.60}."
            )


Model = Chain | Increments
