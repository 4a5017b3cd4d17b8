"""Newton's method within a trust region."""

from typing import ClassVar, NamedTuple

import numpy as np

from irlax import checks
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation
from irlax.estimators.tabular.solvers.solver import AbstractSolver, SolverState, assess_step, converged, evaluated
from irlax.estimators.tabular.solvers.trust_region import exact_step, steihaug_step
from irlax.registry import stored
from irlax.status import Status
from irlax.typing import Float

#: Up to this many parameters curvature is kept as a matrix; above it, as Hessian-vector products.
DENSE_HESSIAN = 400
#: The first radius, in units of the features, and the number of rejected steps in a row after which the search stalls.
FIRST_RADIUS, MAX_REJECTED = 10.0, 30


class TrustRegion(NamedTuple):
    """The radius within which the quadratic model is trusted, and the number of rejected steps in a row."""

    radius: float = FIRST_RADIUS
    rejected: int = 0


@stored("newton")
class Newton(AbstractSolver):
    """Trust-region Newton: a few steps, quadratic convergence, and safe where the objective is not convex.

    Curvature is a matrix up to a few hundred parameters, Hessian-vector products and conjugate gradients
    (Steihaug 1983) above.
    """

    max_steps: int = 200
    only_evaluates: ClassVar[bool] = True

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)

    def init(self, problem: AbstractProblem, start: Float[np.ndarray, " K"] | Evaluation, tol: float) -> SolverState:
        at = evaluated(problem, start)
        return SolverState(at, at, converged(problem, at, tol), TrustRegion())

    def step(self, problem: AbstractProblem, state: SolverState, tol: float) -> SolverState:
        at, (radius, rejected) = state.at, state.inner
        step, predicted = trust_region_step(problem, at, radius)
        length = float(np.linalg.norm(step))
        new = problem.evaluate(at.x + step, at.warm_starts)
        trial = assess_step(problem, at, new, predicted, share=0.05, shrinkage=0.9)
        if trial.accepted:
            wider = trial.decrease > 0.75 * predicted and length > 0.8 * radius
            region = TrustRegion(3 * radius if wider else radius)
            return SolverState(new, new, converged(problem, new, tol), region)
        if trial.below_resolution and length < 0.99 * radius:
            # A step cut short by the radius predicts little decrease anywhere; only for a full one is this the floor.
            return SolverState(at, at, Status.ROUNDING_FLOOR, state.inner, visited=())
        if rejected + 1 > MAX_REJECTED:
            return SolverState(at, at, Status.STALLED, state.inner, visited=())
        return SolverState(at, at, None, TrustRegion(min(radius, length) / 4, rejected + 1))


def trust_region_step(problem: AbstractProblem, at: Evaluation, radius: float) -> tuple[Float[np.ndarray, " K"], float]:
    """The minimiser of the quadratic model within the radius, and the decrease that it predicts."""
    if len(at.x) <= DENSE_HESSIAN:
        return exact_step(problem.hessian(at), at.gradient, radius)
    return steihaug_step(lambda v: problem.hessian_product(at, v), at.gradient, radius)
