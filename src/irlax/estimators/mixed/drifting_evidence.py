"""The size of the drift that makes the choices most probable, with the rewards integrated out."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from irlax.estimators.mixed.drifting_model import (
    Drift,
    Mode,
    Slope,
    find_mode,
    log_evidence,
    quadratic_evidence,
    slope,
)
from irlax.iteration import NEXT, AbstractIteration, Iterate, Session
from irlax.status import Status
from irlax.typing import Float, Int

#: Sizes of a step's standard deviation, in units of the reward, from which the search starts at the best.
CANDIDATES = np.logspace(-2.5, 0.5, 7)
LOWEST, HIGHEST = np.log(1e-4), np.log(1e2)
#: A size whose removal lowers the log evidence by less than this is 0.
NOTHING = 0.01
#: The largest change of a logarithm of a size in one step.
LONGEST = 1.5
#: The change of the logarithm of a size in differences of the slope, for second derivatives.
PROBE = 0.1
#: Up to this standard error of its logarithm a size is well known, and far from 0.
WELL_KNOWN = 0.3
#: Where the log evidence is lower by this, a size is not considered; the search for it starts at SMALLEST.
NEGLIGIBLE, SMALLEST, MAX_DOUBLINGS = 4.0, 0.02, 12
NUM_POINTS = 9


class Sized(NamedTuple):
    """Sizes of drift, by group of parameters, with the mode and the evidence that go with them."""

    #: Standard deviations of a period's change, of scaled parameters.
    sizes: Float[np.ndarray, " G"]
    mode: Mode
    evidence: float


class Search(NamedTuple):
    """The state of the search: the best sizes so far, the slope there, and an estimate of the inverse curvature."""

    best: Sized
    slope: Slope
    inverse: Float[np.ndarray, "G G"]
    stuck: bool = False


class EvidenceAscent(AbstractIteration[Search]):
    """Maximises the Laplace evidence over the logarithms of the sizes that are `free`, by BFGS."""

    drift: Drift
    group: Int[np.ndarray, " K"]
    free: tuple[int, ...]
    start: Sized
    tol: float

    def init(self) -> Search:
        found = slope(self.drift, self.start.mode, self.group, self.free)
        # A first step of length one in the direction of the steepest ascent.
        return Search(self.start, found, np.eye(len(self.free)) / max(1.0, np.abs(found.evidence).max(initial=0.0)))

    def step(self, state: Search) -> Search:
        free, gradient = list(self.free), state.slope.evidence
        ahead = state.inverse @ gradient
        ahead *= min(1.0, LONGEST / np.abs(ahead).max())
        logs = np.log(state.best.sizes[free])
        for share in 0.5 ** np.arange(10.0):
            moved = np.clip(logs + share * ahead, LOWEST, HIGHEST)
            sizes = state.best.sizes.copy()
            sizes[free] = np.exp(moved)
            trial = at_sizes(self.drift, self.group, sizes, state.best.mode)
            if trial.mode.converged and trial.evidence >= state.best.evidence + 1e-4 * share * gradient @ ahead:
                break
        else:
            return state._replace(stuck=True)
        found = slope(self.drift, trial.mode, self.group, self.free)
        return Search(trial, found, _bfgs(state.inverse, moved - logs, gradient - found.evidence))

    def status(self, state: Search) -> Status | None:
        if self._size(state) <= self.tol:
            return Status.CONVERGED
        return Status.STALLED if state.stuck else None

    def iterates(self, state: Search) -> Sequence[Iterate]:
        numbers = {"loss": -state.best.evidence, "gradient": self._size(state)}
        return [Iterate(NEXT, numbers, state.best.sizes[self.group])]

    def _size(self, state: Search) -> float:
        """The largest entry of the slope, where a size may still grow or shrink."""
        logs, gradient = np.log(state.best.sizes[list(self.free)]), state.slope.evidence
        held = ((logs <= LOWEST + 1e-9) & (gradient < 0)) | ((logs >= HIGHEST - 1e-9) & (gradient > 0))
        return float(np.abs(np.where(held, 0.0, gradient)).max(initial=0.0))


def _bfgs(inverse: Float[np.ndarray, "G G"], step: Float[np.ndarray, " G"], change: Float[np.ndarray, " G"]):
    """The inverse curvature after a step, by Broyden, Fletcher, Goldfarb and Shanno's formula."""
    along = step @ change
    if along <= 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
        return inverse
    turned = np.eye(len(step)) - np.outer(step, change) / along
    return turned @ inverse @ turned.T + np.outer(step, step) / along


def at_sizes(
    drift: Drift, group: Int[np.ndarray, " K"], sizes: Float[np.ndarray, " G"], start: Mode | Float[np.ndarray, " r"]
) -> Sized:
    """The mode and the evidence at given sizes; an evidence that is not a number is minus infinity."""
    mode = find_mode(drift, drift.root(sizes[group]), start)
    found = log_evidence(drift, mode)
    return Sized(sizes, mode, found if np.isfinite(found) else -np.inf)


def maximise_evidence(
    drift: Drift, group: Int[np.ndarray, " K"], constant: Sized, session: Session, *, tol: float, max_steps: int
) -> tuple[Sized, Status]:
    """The best sizes; sizes that add nothing are 0."""
    sizes = np.full(int(group.max()) + 1, _first_size(drift, group, constant))
    best, free = at_sizes(drift, group, sizes, constant.mode), tuple(range(len(sizes)))
    while True:
        state, status = session.run(EvidenceAscent(drift, group, free, best, tol), limit=max_steps)
        best = state.best
        if status in (Status.MAX_STEPS, Status.INTERRUPTED):
            return best, status
        best, kept = _without_idle(drift, group, best, free)
        if not kept:
            return constant, Status.CONVERGED
        if kept == free:
            break
        free = kept
    # With all of them in hand, none must be worse than no drift.
    if best.evidence <= constant.evidence + NOTHING:
        return constant, Status.CONVERGED
    return best, status


def _first_size(drift: Drift, group: Int[np.ndarray, " K"], constant: Sized) -> float:
    """The best of the candidates for all parameters, with a quadratic approximation of the likelihood."""
    found = [quadratic_evidence(drift, constant.mode, drift.root(np.full(len(group), size))) for size in CANDIDATES]
    best = CANDIDATES[int(np.argmax(np.where(np.isfinite(found), found, -np.inf)))]
    # The slope in log σ vanishes with σ: a search that starts too low would end there.
    return max(float(best), 0.03)


def _without_idle(
    drift: Drift, group: Int[np.ndarray, " K"], best: Sized, free: tuple[int, ...]
) -> tuple[Sized, tuple[int, ...]]:
    """The sizes with those set to 0 that add nothing, the smallest first, and the ones that are left."""
    kept = list(free)
    for g in sorted(free, key=lambda g: best.sizes[g]):
        trial = _with_size(drift, group, best, g, 0.0)
        if trial.mode.converged and trial.evidence >= best.evidence - NOTHING:
            best = trial
            kept.remove(g)
    return best, tuple(kept)


def log_size_errors(
    drift: Drift, group: Int[np.ndarray, " K"], best: Sized, free: tuple[int, ...]
) -> Float[np.ndarray, " G"]:
    """Standard errors of the logarithms of the sizes, by the curvature of the log evidence.

    NaN for sizes that are 0, and for all if the evidence is not curved downwards.
    """
    errors, curvature = np.full(len(best.sizes), np.nan), np.zeros((len(free), len(free)))
    for row, g in enumerate(free):
        ends = []
        for way in (PROBE, -PROBE):
            moved = _with_size(drift, group, best, g, best.sizes[g] * np.exp(way))
            ends.append(slope(drift, moved.mode, group, free).evidence)
        curvature[row] = (ends[1] - ends[0]) / (2 * PROBE)
    curvature = (curvature + curvature.T) / 2
    if free and np.isfinite(curvature).all() and np.linalg.eigvalsh(curvature).min() > 0:
        errors[list(free)] = np.sqrt(np.diag(np.linalg.inv(curvature)))
    return errors


def sizes_and_weights(
    drift: Drift, group: Int[np.ndarray, " K"], best: Sized, g: int, log_error: float
) -> list[tuple[float, Sized]]:
    """Sizes of one group, the others as they are, weighted by their posterior under a flat prior of the size.

    A size that is well known has three points, of Gauss–Hermite quadrature in its logarithm. One that is not, or is
    estimated as 0, has points from 0 up to where the evidence is negligible (as in INLA: Rue, Martino and Chopin 2009).
    """
    if log_error < WELL_KNOWN:
        away = np.sqrt(3) * log_error
        points = [best, *(_with_size(drift, group, best, g, best.sizes[g] * np.exp(way)) for way in (-away, away))]
        return list(zip((2 / 3, 1 / 6, 1 / 6), points, strict=True))
    largest = max(float(best.sizes[g]), SMALLEST)
    for _ in range(MAX_DOUBLINGS):
        if _with_size(drift, group, best, g, largest).evidence < best.evidence - NEGLIGIBLE:
            break
        largest *= 2
    points = [_with_size(drift, group, best, g, share * largest) for share in np.linspace(0, 1, NUM_POINTS)]
    logs = np.array([point.evidence if point.mode.converged else -np.inf for point in points])
    weights = np.exp(logs - logs.max())
    # The trapezoid rule.
    weights[[0, -1]] /= 2
    weights /= weights.sum()
    return [(float(weight), point) for weight, point in zip(weights, points, strict=True) if weight > 0]


def _with_size(drift: Drift, group: Int[np.ndarray, " K"], best: Sized, g: int, size: float) -> Sized:
    """The best sizes with that of one group replaced."""
    sizes = best.sizes.copy()
    sizes[g] = size
    return at_sizes(drift, group, sizes, best.mode)
