"""Adam, for rewards that are networks."""

import math
from typing import ClassVar, NamedTuple

import numpy as np

from irlax import checks
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation
from irlax.estimators.tabular.solvers.solver import AbstractSolver, SolverState, converged, evaluated
from irlax.registry import stored
from irlax.status import Status
from irlax.typing import Float

#: The best loss must fall by this share of it within `patience` steps, or the search ends.
MIN_DECREASE = 1e-7
#: It ends on a plateau if no step along the gradient lowers the loss by more than this share of it.
PLATEAU_DECREASE = 1e-5
#: Kingma and Ba's settings, and the share of the learning rate that is left in the end.
DECAY, SQUARE_DECAY, EPSILON, LAST_RATE = 0.9, 0.999, 1e-8, 0.01


class Moments(NamedTuple):
    """Decaying sums of gradients and of their squares, the number of steps, and the best loss `patience` steps ago."""

    mean: Float[np.ndarray, " K"]
    square: Float[np.ndarray, " K"]
    step: int = 0
    previous_best: float = np.inf

    def with_gradient(self, gradient: Float[np.ndarray, " K"]) -> "Moments":
        """After another step."""
        mean = DECAY * self.mean + (1 - DECAY) * gradient
        square = SQUARE_DECAY * self.square + (1 - SQUARE_DECAY) * gradient**2
        return Moments(mean, square, self.step + 1, self.previous_best)

    @property
    def direction(self) -> Float[np.ndarray, " K"]:
        """The mean gradient, over the root of the mean square."""
        mean, square = self.mean / (1 - DECAY**self.step), self.square / (1 - SQUARE_DECAY**self.step)
        return mean / (np.sqrt(square) + EPSILON)


@stored("adam")
class Adam(AbstractSolver):
    """Adam (Kingma and Ba 2015) with a cosine schedule, for networks; ends on a plateau or after `max_steps`.

    The best iterate is returned, not the last. Every `patience` steps the best loss must have fallen by at least 1e-7
    of it. If it has not, and no step along the gradient, long or short, lowers the loss by more than 1e-5 of it, the
    status is PLATEAU: a success for networks, while linear rewards need a gradient within the tolerance. If some step
    does lower it, the learning rate was too small, and the status is STALLED.
    """

    learning_rate: float = 1e-2
    max_steps: int = 1000
    patience: int = 100
    only_evaluates: ClassVar[bool] = True

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)
        checks.count("patience", self.patience)
        checks.positive("learning_rate", self.learning_rate)

    def init(self, problem: AbstractProblem, start: Float[np.ndarray, " K"] | Evaluation, tol: float) -> SolverState:
        at = evaluated(problem, start)
        zero = np.zeros_like(at.gradient)
        return SolverState(at, at, _ended(problem, at, tol), Moments(zero, zero))

    def step(self, problem: AbstractProblem, state: SolverState, tol: float) -> SolverState:
        at, before = state.at, state.inner
        # On the host: each operation of a few numbers would be a program to compile.
        moments, previous_best = before.with_gradient(at.gradient), before.previous_best
        new = _take_step(problem, at, -self._rate(before.step) * moments.direction)
        best = new if state.best is None or new.loss < state.best.loss else state.best
        ended = _ended(problem, new, tol)
        if ended is Status.CONVERGED:
            best = new
        elif ended is None and moments.step % self.patience == 0:
            if previous_best - best.loss < MIN_DECREASE * max(1.0, abs(best.loss)):
                ended = Status.PLATEAU if _is_plateau(problem, best) else Status.STALLED
            previous_best = best.loss
        return SolverState(new, best, ended, moments._replace(previous_best=previous_best))

    def _rate(self, step: int) -> float:
        """The learning rate of a step, along a half of a cosine."""
        share = min(step / max(self.max_steps, 1), 1.0)
        return self.learning_rate * (LAST_RATE + (1 - LAST_RATE) * (1 + math.cos(math.pi * share)) / 2)


def _ended(problem: AbstractProblem, at: Evaluation, tol: float) -> Status | None:
    return converged(problem, at, tol) or (None if np.isfinite(at.loss) else Status.STALLED)


def _take_step(problem: AbstractProblem, at: Evaluation, step: Float[np.ndarray, " K"]) -> Evaluation:
    """The point one step on, or a shorter step if the loss is not finite there: at γ = 1 values may not exist."""
    for halvings in range(30):
        new = problem.evaluate(at.x + step / 2**halvings, at.warm_starts)
        if np.isfinite(new.loss) and np.isfinite(new.gradient).all():
            return new
    return problem.evaluate(at.x + step, at.warm_starts)


def _is_plateau(problem: AbstractProblem, at: Evaluation) -> bool:
    """Whether no step along the gradient lowers the loss."""
    direction = at.gradient / max(np.abs(at.gradient).max(), 1e-300)
    losses = [problem.evaluate(at.x - length * direction, at.warm_starts).loss for length in np.logspace(-6, 1, 15)]
    return at.loss - min(losses, default=np.inf) <= PLATEAU_DECREASE * max(1.0, abs(at.loss))
