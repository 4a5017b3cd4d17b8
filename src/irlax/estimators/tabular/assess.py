"""Whether a solver found an optimum, and how far from it the fit can be."""

import equinox as eqx
import numpy as np

from irlax.estimators.tabular.components import Certificate
from irlax.estimators.tabular.existence import Search, optimum_exists
from irlax.estimators.tabular.problem import Evaluation, largest
from irlax.estimators.tabular.solvers import DENSE_HESSIAN, Newton, Solution, minimise
from irlax.estimators.tabular.solvers.trust_region import exact_step, steihaug_step
from irlax.status import Status

#: A quasi-Newton step this short, in units of the features, tells the Newton decrement well enough.
NEAR = 0.03
#: Log units below the maximum that the noise of an efficient estimator does not explain: the maximum would reject it at
#: the 5% level (χ² with one degree of freedom, halved).
FAR_BELOW = 1.92
#: Newton steps to the maximum, where its distance is asked for.
TO_THE_TOP = 30


def assess(search: Search, found: Solution, *, l2: float, convex: bool) -> tuple[Status, Certificate]:
    """Whether an optimum was found, and how far it can be."""
    certificate = _certified(search, found, l2=l2, convex=convex)
    status = found.status
    if status is Status.STEPS_TAKEN:
        # Such an estimate is no optimum itself: whether there is one is asked where the likelihood is highest.
        top = minimise(Newton(max_steps=TO_THE_TOP), search.problem, search.at, 1e-8).at
        certificate, status = _measured(search, top, certificate)
        search = search._replace(at=top)
    linear = all(reward.is_linear for reward in search.rewards)
    if status is Status.PLATEAU and linear:
        # Where the loss hardly falls the gradient can be anything; only of networks can nothing better be asked.
        status = Status.STALLED
    if status is Status.INTERRUPTED or l2 > 0 or not linear or not np.isfinite(search.at.loss):
        return status, certificate
    exists = optimum_exists(search)
    if exists is False:
        return Status.UNBOUNDED, certificate
    return (Status.UNCERTAIN if exists is None and status.success else status), certificate


def _measured(search: Search, top: Evaluation, certificate: Certificate) -> tuple[Certificate, Status]:
    """How far below its maximum an estimate leaves the log likelihood, whose maximum it was not made for."""
    below = max(0.0, search.at.loss - top.loss) * sum(expert.weight for expert in search.experts)
    measured = eqx.tree_at(lambda it: it.below_maximum, certificate, below, is_leaf=lambda leaf: leaf is None)
    return measured, Status.FAR_BELOW if below > FAR_BELOW else Status.STEPS_TAKEN


def _certified(search: Search, found: Solution, *, l2: float, convex: bool) -> Certificate:
    problem, at, gradient = search.problem, search.at, search.at.gradient
    size, raw = float(largest(gradient, np.asarray(problem.scale))), problem.raw_gradient(gradient)
    if l2 > 0:
        return Certificate(size, duality_gap=float(raw @ raw) / (2 * l2) if convex else None)
    if not np.isfinite(at.loss) or len(gradient) > 10 * DENSE_HESSIAN:
        return Certificate(size)
    estimate = found.quasi_newton_step
    if estimate is not None and np.abs(estimate).max(initial=0.0) < NEAR:
        return Certificate(size, newton_decrement=-float(estimate @ gradient) / 2)
    if len(gradient) <= DENSE_HESSIAN:
        return Certificate(size, newton_decrement=exact_step(problem.hessian(at), gradient, np.inf)[1])
    step = steihaug_step(lambda v: problem.hessian_product(at, v), gradient, 1e6)
    return Certificate(size, newton_decrement=step[1])


def advice(status: Status, certificate: Certificate, tol: float) -> str:
    """What to do about an end that is no success."""
    if status is Status.UNBOUNDED:
        return "Pass `l2=` (say 1e-3) for a finite one."
    if status is Status.UNCERTAIN:
        return "Pass `l2=` (say 1e-6) for an objective that has one."
    if status is Status.FAR_BELOW:
        return (
            f"Its log likelihood is {certificate.below_maximum:.3g} below the maximum. Take more steps "
            f"(`iterations=None`), or maximise the likelihood with MCEIRL(objective='likelihood')."
        )
    return f"Its largest gradient is {certificate.gradient:.2g}, the tolerance {tol:.2g}."
