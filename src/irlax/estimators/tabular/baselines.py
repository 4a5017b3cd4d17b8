"""What counting alone predicts, beside the score of a fit: a reward that predicts less than counts is seen at once."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.inference import all_demos
from irlax.tables import Table
from irlax.typing import Float, Int

#: Counts are smoothed by as many choices, divided as the actions' shares are.
SMOOTHING = 1.0


@runtime_checkable
class CanBeCompared(Protocol):
    """A fit to observed choices."""

    @property
    def experts(self) -> tuple[Expert, ...]:
        """The demonstrator in each MDP."""
        ...

    @property
    def log_likelihood(self) -> float | None:
        """Of all observed choices."""
        ...


def baselines(fit: CanBeCompared, num_parameters: int) -> Table:
    """What equal chances, and counts of choices by state and by previous state, predict beside a fit."""
    observed = all_demos(fit.experts)
    if not observed or fit.log_likelihood is None or any(expert.statistics is not None for expert in fit.experts):
        raise ValueError("Baselines need the demonstrations that a fit was made from.")
    weight = np.concatenate([demos.choice_weights for demos in observed])
    offsets = np.cumsum([0, *(demos.num_episodes for demos in observed)])
    person = np.concatenate([demos.episode + first for demos, first in zip(observed, offsets, strict=False)])
    action = np.concatenate([demos.actions for demos in observed])
    states = np.concatenate([demos.tabular_states for demos in observed])
    exists = np.concatenate(
        [np.asarray(e.mdp.available)[d.tabular_states] for e, d in zip(fit.experts, observed, strict=True)]
    )
    before = np.concatenate([_previous(demos.tabular_states, demos.followed) for demos in observed])
    num = int(states.max()) + 1
    pair = (before + 1) * num + states
    total = float(weight.sum())
    uniform = -float(weight @ np.log(exists.sum(axis=1))) / total
    rows: list[tuple[Any, ...]] = [("this fit", num_parameters, fit.log_likelihood / total, None)]
    rows.append(("equal chances", 0, uniform, uniform))
    for name, context in (
        ("counts of actions", np.zeros_like(states)),
        ("counts by state", states),
        ("counts by state and previous state", pair),
    ):
        rows.append((name, *_counted(context, action, weight, person, exists)))
    notes = [
        f"Log likelihood, mean over choices. Left out: each individual predicted by the counts of the others, smoothed "
        f"by {SMOOTHING:g} choice. A fit has few parameters: its score on individuals left out is much the same.",
    ]
    return Table(("model", "parameters", "log likelihood a choice", "individual left out"), rows, "Baselines", notes)


def _previous(states: Int[np.ndarray, " n"], followed: Int[np.ndarray, " m"]) -> Int[np.ndarray, " n"]:
    """The state one period before each choice; −1 where it was not observed."""
    before = np.full(len(states), -1)
    before[followed + 1] = states[followed]
    return before


def _counted(
    context: Int[np.ndarray, " n"],
    action: Int[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    person: Int[np.ndarray, " n"],
    exists: np.ndarray,
) -> tuple[int, float, float]:
    """Parameters, and the mean log likelihood of counts in each context: of all, and of all other individuals."""
    wide = exists.shape[1]
    _, context = np.unique(context, return_inverse=True)
    cell = context.ravel() * wide + action
    counts = np.bincount(cell, weights=weight, minlength=(int(context.max()) + 1) * wide)
    shares = np.bincount(action, weights=weight, minlength=wide)
    available = exists * shares
    prior = available[np.arange(len(action)), action] / available.sum(axis=1)
    totals = counts.reshape(-1, wide).sum(axis=1)[context.ravel()]
    fitted = counts[cell] / totals
    mine = _of_same(person, cell, weight)
    of_context = _of_same(person, context.ravel(), weight)
    left_out = (counts[cell] - mine + SMOOTHING * prior) / (totals - of_context + SMOOTHING)
    used = (counts > 0).reshape(-1, wide).sum(axis=1)
    means = [float(weight @ np.log(np.maximum(p, 1e-300)) / weight.sum()) for p in (fitted, left_out)]
    return int((used - 1).sum()), means[0], means[1]


def _of_same(
    person: Int[np.ndarray, " n"], cell: Int[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """The weight of all rows of the same individual in the same cell."""
    _, place = np.unique(person * (int(cell.max()) + 1) + cell, return_inverse=True)
    return np.bincount(place.ravel(), weights=weight)[place.ravel()]
