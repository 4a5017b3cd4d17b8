"""What all solvers share: states, the iteration that the driver runs, and the rule of the rounding floor."""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from irlax.estimators.tabular.problem import Evaluation, Problem, largest
from irlax.iteration import NEXT, AbstractResumable, Iterate, Session
from irlax.registry import to_parts
from irlax.run_folder import fingerprint
from irlax.status import Status
from irlax.typing import Float


class SolverState(NamedTuple):
    """Where a solver is."""

    #: The latest point.
    at: Evaluation
    #: What would be returned now: the best point, for solvers that may go uphill; None if the latest one is still to be
    #: evaluated, because the solver looks at something else than the problem's loss.
    found: Evaluation | None
    #: How the search ended; None while it goes on.
    ended: Status | None
    #: What the solver keeps between steps.
    inner: Any = None
    #: Points that the last step passed through, the latest one last; None if that is the only one.
    passed: Sequence[Evaluation] | None = None
    #: About −H⁻¹∇, where the solver has an idea of the curvature.
    quasi_newton_step: Float[np.ndarray, " K"] | None = None


class AbstractSolver(eqx.Module):
    """A way to minimise a `Problem`: a loss, its gradient, and curvature on demand."""

    max_steps: eqx.AbstractVar[int]

    @abc.abstractmethod
    def init(self, problem: Problem, start: Float[np.ndarray, " K"] | Evaluation, tol: float) -> SolverState:
        """The state at a point, or at one that was evaluated already."""

    @abc.abstractmethod
    def step(self, problem: Problem, state: SolverState, tol: float) -> SolverState:
        """The state one step on; it has ended once no entry of the gradient exceeds `tol`."""


class Minimisation(AbstractResumable[SolverState]):
    """A solver at work on a problem."""

    solver: AbstractSolver
    problem: Problem
    start: Float[np.ndarray, " K"] | Evaluation
    tol: float

    def init(self) -> SolverState:
        return self.solver.init(self.problem, self.start, self.tol)

    def step(self, state: SolverState) -> SolverState:
        return self.solver.step(self.problem, state, self.tol)

    def status(self, state: SolverState) -> Status | None:
        return state.ended

    def identity(self) -> dict[str, Any]:
        return {"solver": to_parts(self.solver).record, "problem": fingerprint(self.problem)}

    def snapshot(self, state: SolverState) -> list[np.ndarray]:
        return [state.at.x]

    def restore(self, arrays: list[np.ndarray]) -> SolverState:
        # What a solver has learned of the curvature is soon learned again, and the optimum is the same.
        return self.solver.init(self.problem, arrays[0], self.tol)

    def iterates(self, state: SolverState) -> list[Iterate]:
        points = (state.at,) if state.passed is None else state.passed
        return [minimisation_iterate(self.problem, at) for at in points]


def minimisation_iterate(problem: Problem, at: Evaluation) -> Iterate:
    """A point, as callbacks and the history receive it."""
    scale = np.asarray(problem.scale)
    return Iterate(NEXT, {"loss": at.loss, "gradient": float(largest(at.gradient, scale))}, at.x / scale)


class Solution(NamedTuple):
    """Where a solver stopped, and why."""

    at: Evaluation
    status: Status
    history: list[Iterate]
    quasi_newton_step: Float[np.ndarray, " K"] | None = None


def minimise(
    solver: AbstractSolver,
    problem: Problem,
    start: Float[np.ndarray, " K"] | Evaluation,
    tol: float,
    session: Session | None = None,
) -> Solution:
    """Run a solver to its end; without a session, as a part of something else that reports nothing."""
    session = Session("") if session is None else session
    state, status = session.run(Minimisation(solver, problem, start, tol), limit=solver.max_steps)
    at = problem.evaluate(state.at.x) if state.found is None else state.found
    return Solution(at, status, session.history, state.quasi_newton_step)


def evaluated(problem: Problem, start: Float[np.ndarray, " K"] | Evaluation) -> Evaluation:
    """The loss and its gradient at a point, if they are not known."""
    return start if isinstance(start, Evaluation) else problem.evaluate(start)


def converged(problem: Problem, at: Evaluation, tol: float) -> Status | None:
    """CONVERGED, if no entry of the gradient exceeds the tolerance."""
    return Status.CONVERGED if largest(at.gradient, np.asarray(problem.scale)) <= tol else None


class Judgement(NamedTuple):
    """What a trial step achieved."""

    good: bool
    #: Whether the predicted decrease is below the resolution of the loss, so that only the gradient could tell.
    blind: bool
    gained: float


def judge(
    problem: Problem, at: Evaluation, new: Evaluation, predicted: float, *, share: float, shrinkage: float
) -> Judgement:
    """Whether the loss falls by `share` of what was predicted; below its resolution, whether the gradient shrinks.

    It must shrink to less than `shrinkage` of what it was. A step of full length that is neither is the rounding floor:
    float64 shows nothing left to gain.
    """
    blind = predicted <= problem.resolution * max(1.0, abs(at.loss))
    gained = at.loss - new.loss
    shrinks = np.linalg.norm(new.gradient) < shrinkage * np.linalg.norm(at.gradient)
    good = bool(np.isfinite(new.loss) and (shrinks if blind else gained >= share * predicted))
    return Judgement(good, bool(blind), gained)
