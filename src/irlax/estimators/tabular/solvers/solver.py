"""The base class of solvers, their states, the iteration that the driver runs, and the test of a trial step."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import numpy as np

from irlax.estimators.tabular.problem import AbstractProblem, Evaluation, largest
from irlax.iteration import NEXT, AbstractResumable, Iterate, Session
from irlax.registry import to_parts
from irlax.run_folder import fingerprint
from irlax.status import Status
from irlax.typing import Float


class SolverState(NamedTuple):
    """The state of a solver."""

    #: The latest point.
    at: Evaluation
    #: The point that is returned if the search ends here: the best one, for solvers whose loss may rise; None if the
    #: latest one must first be evaluated, because the solver minimises something else than the problem's loss.
    best: Evaluation | None
    #: How the search ended; None while it goes on.
    ended: Status | None
    #: What else the solver needs for its next step.
    inner: Any = None
    #: Points that the last step visited, the latest one last; None if that is the only one.
    visited: Sequence[Evaluation] | None = None
    #: An approximation of −H⁻¹∇, from solvers that approximate the curvature.
    quasi_newton_step: Float[np.ndarray, " K"] | None = None


class AbstractSolver(eqx.Module):
    """A method to minimise a problem."""

    max_steps: eqx.AbstractVar[int]
    #: Whether its steps only evaluate the problem, so that a small one need not be compiled.
    only_evaluates: ClassVar[bool]

    @abc.abstractmethod
    def init(self, problem: AbstractProblem, start: Float[np.ndarray, " K"] | Evaluation, tol: float) -> SolverState:
        """The state at the start, which is a point or an evaluation of one."""

    @abc.abstractmethod
    def step(self, problem: AbstractProblem, state: SolverState, tol: float) -> SolverState:
        """The state after one step; it has ended once no entry of the gradient exceeds `tol`."""


class Minimisation(AbstractResumable[SolverState]):
    """The iteration of a solver on a problem."""

    solver: AbstractSolver
    problem: AbstractProblem
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
        # The approximation of the curvature is not saved: it is soon rebuilt, and the optimum is the same.
        return self.solver.init(self.problem, arrays[0], self.tol)

    def iterates(self, state: SolverState) -> list[Iterate]:
        points = (state.at,) if state.visited is None else state.visited
        return [minimisation_iterate(self.problem, at) for at in points]


def minimisation_iterate(problem: AbstractProblem, at: Evaluation) -> Iterate:
    """A point as an iterate, for callbacks and the history."""
    scale = np.asarray(problem.scale)
    return Iterate(NEXT, {"loss": at.loss, "gradient": float(largest(at.gradient, scale))}, at.x / scale)


class Solution(NamedTuple):
    """The point at which a solver stopped, and how the search ended."""

    at: Evaluation
    status: Status
    history: list[Iterate]
    quasi_newton_step: Float[np.ndarray, " K"] | None = None


def minimise(
    solver: AbstractSolver,
    problem: AbstractProblem,
    start: Float[np.ndarray, " K"] | Evaluation,
    tol: float,
    session: Session | None = None,
) -> Solution:
    """The solution of a problem; without a session nothing is reported."""
    session = Session("") if session is None else session
    state, status = session.run(Minimisation(solver, problem, start, tol), limit=solver.max_steps)
    at = problem.evaluate(state.at.x) if state.best is None else state.best
    return Solution(at, status, session.history, state.quasi_newton_step)


def evaluated(problem: AbstractProblem, start: Float[np.ndarray, " K"] | Evaluation) -> Evaluation:
    """The loss and its gradient at the start, evaluated unless they are given."""
    return start if isinstance(start, Evaluation) else problem.evaluate(start)


def converged(problem: AbstractProblem, at: Evaluation, tol: float) -> Status | None:
    """CONVERGED if no entry of the gradient exceeds the tolerance, else None."""
    return Status.CONVERGED if largest(at.gradient, np.asarray(problem.scale)) <= tol else None


class TrialStep(NamedTuple):
    """The assessment of a trial step."""

    accepted: bool
    #: Whether the predicted decrease is below the resolution of the loss, so that only the gradient can show progress.
    below_resolution: bool
    #: By how much the loss fell.
    decrease: float


def assess_step(
    problem: AbstractProblem, at: Evaluation, new: Evaluation, predicted: float, *, share: float, shrinkage: float
) -> TrialStep:
    """Whether a step is accepted: the loss falls by at least `share` of the predicted decrease.

    If the predicted decrease is below the resolution of the loss, the gradient must instead shrink to less than
    `shrinkage` of its length. A step of full length that fails this second test is at the rounding floor: in float64 no
    further decrease can be measured.
    """
    below_resolution = predicted <= problem.resolution * max(1.0, abs(at.loss))
    decrease = at.loss - new.loss
    shrinks = np.linalg.norm(new.gradient) < shrinkage * np.linalg.norm(at.gradient)
    accepted = bool(np.isfinite(new.loss) and (shrinks if below_resolution else decrease >= share * predicted))
    return TrialStep(accepted, bool(below_resolution), decrease)
