"""Counts of what followed what, as multinomials: for each row of a table the outcomes that were observed."""

from typing import Literal, NamedTuple

import numpy as np

from irlax.typing import Bool, Float, Int

#: What to do about rows of which nothing was observed.
Unseen = Literal["error", "any-action", "stay", "unavailable"]


class Multinomials(NamedTuple):
    """For each row its outcomes, padded with −1, and how often each was observed."""

    #: Where an outcome leads.
    targets: Int[np.ndarray, "R B"]
    #: Its index in `counts`; −1 pads.
    outcomes: Int[np.ndarray, "R B"]
    multinomial: Int[np.ndarray, " J"]
    counts: Float[np.ndarray, " J"]
    prior: Float[np.ndarray, " J"]
    #: The outcome of each observation.
    draws: Int[np.ndarray, " m"]

    @property
    def seen(self) -> Bool[np.ndarray, " R"]:
        """Which rows have outcomes."""
        return np.asarray((self.outcomes >= 0).any(axis=1))


def tabulate(
    row: Int[np.ndarray, " m"],
    target: Int[np.ndarray, " m"],
    weight: Float[np.ndarray, " m"],
    *,
    num_targets: int,
    base: Int[np.ndarray, " R"],
    own: Int[np.ndarray, " R"],
    smoothing: float,
    unseen: Unseen,
) -> Multinomials:
    """Multinomials of the targets in each row.

    `smoothing` is added to the count of every target that followed any row with the same `base` (the state, whatever
    the action). A row of which nothing was observed is left empty, or leads to `own` for certain ("stay"), or to what
    followed its base, as often as it did ("any-action").
    """
    keys, draws = np.unique(row * num_targets + target, return_inverse=True)
    counts = np.bincount(draws.ravel(), weights=weight, minlength=len(keys)).astype(float)
    seen = np.zeros(len(base), bool)
    seen[keys // num_targets] = True
    extra: list[tuple[np.ndarray, np.ndarray]] = []
    if smoothing or unseen == "any-action":
        filled = np.ones_like(seen) if smoothing else ~seen
        added, pooled = _followed_base(keys, counts, base, filled, num_targets)
        extra.append((added, np.full(len(added), smoothing) if smoothing else pooled))
        seen[added // num_targets] = True
    if unseen == "stay":
        extra.append(((np.arange(len(base)) * num_targets + own)[~seen], np.ones((~seen).sum())))
    every = np.unique(np.concatenate([keys, *(added for added, _ in extra)]))
    place = np.searchsorted(every, keys)
    total, prior = np.zeros(len(every)), np.zeros(len(every))
    total[place] = counts
    for added, amount in extra:
        np.add.at(prior, np.searchsorted(every, added), amount)
    return _listed(every, total, prior, place[draws.ravel()], num_rows=len(base), num_targets=num_targets)


def certain() -> Multinomials:
    """One row with one outcome, which is certain: for what is not random. Nothing is drawn from it."""
    nothing = np.zeros((1, 1), int)
    return Multinomials(nothing, nothing, np.zeros(1, int), np.zeros(1), np.ones(1), np.zeros(0, int))


def _followed_base(
    keys: np.ndarray, counts: np.ndarray, base: np.ndarray, filled: np.ndarray, num_targets: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each row to be filled, the targets of all rows with its base, and their counts together."""
    pooled_keys, place = np.unique(base[keys // num_targets] * num_targets + keys % num_targets, return_inverse=True)
    pooled = np.bincount(place.ravel(), weights=counts, minlength=len(pooled_keys))
    rows = np.flatnonzero(filled)
    first = np.searchsorted(pooled_keys, base[rows] * num_targets)
    length = np.searchsorted(pooled_keys, (base[rows] + 1) * num_targets) - first
    offset = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    which = np.repeat(first, length) + offset
    return np.repeat(rows, length) * num_targets + pooled_keys[which] % num_targets, pooled[which]


def _listed(
    keys: np.ndarray, counts: np.ndarray, prior: np.ndarray, draws: np.ndarray, *, num_rows: int, num_targets: int
) -> Multinomials:
    row = keys // num_targets
    degree = np.bincount(row, minlength=num_rows)
    column = np.arange(len(keys)) - np.repeat(np.cumsum(degree) - degree, degree)
    shape = (num_rows, max(int(degree.max(initial=0)), 1))
    targets, outcomes = np.zeros(shape, np.int64), np.full(shape, -1)
    targets[row, column], outcomes[row, column] = keys % num_targets, np.arange(len(keys))
    return Multinomials(targets, outcomes, np.unique(row, return_inverse=True)[1].ravel(), counts, prior, draws)
