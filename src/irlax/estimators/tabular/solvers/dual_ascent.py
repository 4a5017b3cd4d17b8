"""Dual ascent: the Primer's Algorithm 1."""

from typing import ClassVar

import numpy as np

from irlax import checks
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation
from irlax.estimators.tabular.solvers.solver import AbstractSolver, SolverState, assess_step, converged, evaluated
from irlax.registry import stored
from irlax.status import Status
from irlax.typing import Float

#: No step shorter than this is tried.
MIN_LENGTH = 1e-12


@stored("dual-ascent")
class DualAscent(AbstractSolver):
    r"""The Primer's Algorithm 1: θ ← θ + α_k·(features of the demonstrator − features of the model).

    Step k has length α_k = step_size / (1 + decay·k); with `step_size` None each length is found by backtracking
    until the objective falls enough (Armijo 1966). It stops when no feature gap is above the
    tolerance, or after `max_steps`.
    """

    step_size: float | None = None
    decay: float = 0.0
    max_steps: int = 10_000
    only_evaluates: ClassVar[bool] = True

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)
        checks.positive("decay", self.decay, zero=True)
        if self.step_size is not None:
            checks.positive("step_size", self.step_size)

    def init(self, problem: AbstractProblem, start: Float[np.ndarray, " K"] | Evaluation, tol: float) -> SolverState:
        at = evaluated(problem, start)
        # The inner state is k for a given step size, else the last accepted length.
        return SolverState(at, at, converged(problem, at, tol), 1.0 if self.step_size is None else 0)

    def step(self, problem: AbstractProblem, state: SolverState, tol: float) -> SolverState:
        if self.step_size is None:
            return self._backtrack(problem, state, tol)
        at, k = state.at, state.inner
        new = problem.evaluate(at.x - self.step_size / (1 + self.decay * k) * at.gradient, at.warm_starts)
        if not np.isfinite(new.loss):
            return SolverState(new, new, Status.STALLED, k + 1, visited=())
        return SolverState(new, new, converged(problem, new, tol), k + 1)

    def _backtrack(self, problem: AbstractProblem, state: SolverState, tol: float) -> SolverState:
        at, length = state.at, 2 * state.inner
        squared_gradient = float(at.gradient @ at.gradient)
        while True:
            new = problem.evaluate(at.x - length * at.gradient, at.warm_starts)
            trial = assess_step(problem, at, new, length * squared_gradient, share=0.5, shrinkage=1.0)
            if trial.accepted:
                return SolverState(new, new, converged(problem, new, tol), length)
            if length < MIN_LENGTH:
                return SolverState(at, at, Status.ROUNDING_FLOOR, length, visited=())
            length /= 2
