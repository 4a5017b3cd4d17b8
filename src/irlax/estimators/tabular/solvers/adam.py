"""Adam, for rewards that are networks."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.estimators.tabular.problem import Evaluation, Problem
from irlax.estimators.tabular.solvers.solver import AbstractSolver, SolverState, converged, evaluated
from irlax.registry import stored
from irlax.status import Status
from irlax.typing import Float

#: A best loss that fell by less than this share of it over `patience` steps has not fallen.
FALLEN = 1e-7
#: A step along the gradient that lowers the loss by less than this share of it does not lower it.
LEVEL = 1e-5


class Moments(NamedTuple):
    """The optimiser's own state, the step's number, and the best loss when it was last asked whether it fell."""

    optimiser: Any
    step: int
    before: float


@stored("adam")
class Adam(AbstractSolver):
    """Adam (Kingma and Ba 2015) with a cosine schedule, for networks; ends on a plateau or after `max_steps`.

    The best iterate is returned, not the last. Every `patience` steps it is asked whether the best loss fell by at
    least 1e-7 of it. If it did not, and no step along the gradient, long or short, lowers it by 1e-5 of it either, that
    is a plateau: for networks, an end; for linear rewards the gradient itself must be within the tolerance. If some
    step does, the learning rate was too small, and the fit has stalled.
    """

    learning_rate: float = 1e-2
    max_steps: int = 1000
    patience: int = 100

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)
        checks.count("patience", self.patience)
        checks.positive("learning_rate", self.learning_rate)

    def init(self, problem: Problem, start: Float[np.ndarray, " K"] | Evaluation, tol: float) -> SolverState:
        at = evaluated(problem, start)
        inner = Moments(self._optimiser().init(jnp.asarray(at.x)), 0, np.inf)
        return SolverState(at, at, _ended(problem, at, tol), inner)

    def step(self, problem: Problem, state: SolverState, tol: float) -> SolverState:
        at, (moments, k, before) = state.at, state.inner
        updates, moments = self._optimiser().update(jnp.asarray(at.gradient), moments)
        new, k = _stepped(problem, at, np.asarray(updates)), k + 1
        best = new if state.found is None or new.loss < state.found.loss else state.found
        ended = _ended(problem, new, tol)
        if ended is Status.CONVERGED:
            best = new
        elif ended is None and k % self.patience == 0:
            if before - best.loss < FALLEN * max(1.0, abs(best.loss)):
                ended = Status.PLATEAU if _is_level(problem, best) else Status.STALLED
            before = best.loss
        return SolverState(new, best, ended, Moments(moments, k, before))

    def _optimiser(self) -> Any:
        import optax

        return optax.adam(optax.cosine_decay_schedule(self.learning_rate, max(self.max_steps, 1), alpha=0.01))


def _ended(problem: Problem, at: Evaluation, tol: float) -> Status | None:
    return converged(problem, at, tol) or (None if np.isfinite(at.loss) else Status.STALLED)


def _stepped(problem: Problem, at: Evaluation, step: Float[np.ndarray, " K"]) -> Evaluation:
    """The loss one step on, or after a shorter one where it has none: at γ = 1 most rewards have no value."""
    for halvings in range(30):
        new = problem.evaluate(at.x + step / 2**halvings, at.warm_starts)
        if np.isfinite(new.loss) and np.isfinite(new.gradient).all():
            return new
    return problem.evaluate(at.x + step, at.warm_starts)


def _is_level(problem: Problem, at: Evaluation) -> bool:
    """Whether no step along the gradient lowers the loss."""
    direction = at.gradient / max(np.abs(at.gradient).max(), 1e-300)
    losses = [problem.evaluate(at.x - length * direction, at.warm_starts).loss for length in np.logspace(-6, 1, 15)]
    return at.loss - min(losses, default=np.inf) <= LEVEL * max(1.0, abs(at.loss))
