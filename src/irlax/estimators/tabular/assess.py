"""Assessment of a solution: whether it is an optimum, and a bound on its distance from one."""

import equinox as eqx
import numpy as np

from irlax.estimators.tabular.components import Certificate
from irlax.estimators.tabular.existence import optimum_exists
from irlax.estimators.tabular.problem import Evaluation, largest
from irlax.estimators.tabular.separation import SolvedProblem
from irlax.estimators.tabular.solvers import DENSE_HESSIAN, Newton, Solution, minimise
from irlax.estimators.tabular.solvers.trust_region import exact_step, steihaug_step
from irlax.status import Status

#: The Newton decrement is computed from the quasi-Newton step if that is shorter than this, in units of the features.
SHORT_STEP = 0.03
#: An estimate whose log likelihood is further than this below the maximum is rejected by a likelihood-ratio test at the
#: 5% level (the quantile of χ² with one degree of freedom, halved).
MAX_BELOW_MAXIMUM = 1.92
#: Newton steps to find the maximum of the likelihood, for estimators that do not maximise it.
STEPS_TO_MAXIMUM = 30


def assess(solved: SolvedProblem, found: Solution, *, l2: float, convex: bool) -> tuple[Status, Certificate]:
    """The status of a solution, and its certificate."""
    certificate = _certificate(solved, found, l2=l2, convex=convex)
    status = found.status
    if status is Status.STEPS_TAKEN:
        # Such an estimate is not an optimum itself; whether one exists is decided at the maximum of the likelihood.
        maximum = minimise(Newton(max_steps=STEPS_TO_MAXIMUM), solved.problem, solved.at, 1e-8).at
        certificate, status = _with_distance_to_maximum(solved, maximum, certificate)
        solved = solved._replace(at=maximum)
    linear = all(reward.is_linear for reward in solved.rewards)
    if status is Status.PLATEAU and linear:
        # On a plateau the gradient need not be small. That is accepted for networks only, which have no better test.
        status = Status.STALLED
    if status is Status.INTERRUPTED or l2 > 0 or not linear or not np.isfinite(solved.at.loss):
        return status, certificate
    exists = optimum_exists(solved)
    if exists is False:
        return Status.UNBOUNDED, certificate
    return (Status.UNCERTAIN if exists is None and status.success else status), certificate


def _with_distance_to_maximum(
    solved: SolvedProblem, maximum: Evaluation, certificate: Certificate
) -> tuple[Certificate, Status]:
    """The certificate with the difference between the maximum of the log likelihood and its value at the estimate."""
    below = max(0.0, solved.at.loss - maximum.loss) * sum(expert.weight for expert in solved.experts)
    measured = eqx.tree_at(lambda it: it.below_maximum, certificate, below, is_leaf=lambda leaf: leaf is None)
    return measured, Status.FAR_BELOW if below > MAX_BELOW_MAXIMUM else Status.STEPS_TAKEN


def _certificate(solved: SolvedProblem, found: Solution, *, l2: float, convex: bool) -> Certificate:
    problem, at, gradient = solved.problem, solved.at, solved.at.gradient
    size, raw = float(largest(gradient, np.asarray(problem.scale))), problem.raw_gradient(gradient)
    if l2 > 0:
        return Certificate(size, duality_gap=float(raw @ raw) / (2 * l2) if convex else None)
    if not np.isfinite(at.loss) or len(gradient) > 10 * DENSE_HESSIAN:
        return Certificate(size)
    step = found.quasi_newton_step
    if step is not None and np.abs(step).max(initial=0.0) < SHORT_STEP:
        return Certificate(size, newton_decrement=-float(step @ gradient) / 2)
    if len(gradient) <= DENSE_HESSIAN:
        return Certificate(size, newton_decrement=exact_step(problem.hessian(at), gradient, np.inf)[1])
    decrement = steihaug_step(lambda v: problem.hessian_product(at, v), gradient, 1e6)[1]
    return Certificate(size, newton_decrement=decrement)


def advice(status: Status, certificate: Certificate, tol: float) -> str:
    """What to do about a status that is not a success, for the warning."""
    if status is Status.UNBOUNDED:
        return "Pass `l2=` (say 1e-3): with a penalty the optimum is finite."
    if status is Status.UNCERTAIN:
        return "Pass `l2=` (say 1e-6): with a penalty an optimum exists."
    if status is Status.FAR_BELOW:
        return (
            f"Its log likelihood is {certificate.below_maximum:.3g} below the maximum. Take more steps "
            f"(`iterations=None`), or maximise the likelihood with MCEIRL(objective='likelihood')."
        )
    return f"Its largest gradient is {certificate.gradient:.2g}, the tolerance {tol:.2g}."
