"""Assessment of a solution where episodes end at goals: whether it is an optimum, and how far it is from one."""

import numpy as np

from irlax.estimators.goals.goal_problem import GoalProblem
from irlax.estimators.tabular.components import Certificate
from irlax.estimators.tabular.existence import MAX_POLICY_CHANGE
from irlax.estimators.tabular.problem import Evaluation, largest
from irlax.estimators.tabular.solvers import DENSE_HESSIAN, Solution
from irlax.estimators.tabular.solvers.trust_region import exact_step, steihaug_step
from irlax.status import Status
from irlax.typing import Float

#: Distances along a direction at which the loss is evaluated, in units of the features.
DISTANCES = (10.0, 100.0, 1e4)
#: Curvature below this share of the largest is a rounding error.
NOISE = 1e-10


def assess(problem: GoalProblem, found: Solution, *, l2: float, convex: bool) -> tuple[Status, Certificate]:
    """The status of a solution, and its certificate.

    Without a penalty the optimum may be at infinity, as where a feature is avoided by all: there curvature and gradient
    vanish together. So one more Newton step must change no policy, and directions without curvature must have no
    effect on any. If one has, the loss far along it decides.
    """
    at, status = found.at, found.status
    size, raw = float(largest(at.gradient, np.asarray(problem.scale))), problem.raw_gradient(at.gradient)
    if l2 > 0:
        return status, Certificate(size, duality_gap=float(raw @ raw) / (2 * l2) if convex else None)
    if not np.isfinite(at.loss) or not problem.objective.is_linear or status is Status.INTERRUPTED:
        return status, Certificate(size)
    if len(at.x) > DENSE_HESSIAN:
        decrement = steihaug_step(lambda v: problem.hessian_product(at, v), at.gradient, 1e6)[1]
        certificate = Certificate(size, newton_decrement=decrement)
        return (Status.UNCERTAIN if status.success else status), certificate
    curvature, axes = np.linalg.eigh(problem.hessian(at))
    certificate = Certificate(size, newton_decrement=exact_step(problem.hessian(at), at.gradient, np.inf)[1])
    flat = curvature < NOISE * max(np.abs(curvature).max(initial=0.0), 1e-4)
    step = -axes[:, ~flat] @ ((axes[:, ~flat].T @ at.gradient) / curvature[~flat])
    moves = [*axes[:, flat].T, step]
    limits = [1e-6] * int(flat.sum()) + [MAX_POLICY_CHANGE]
    effective = [move for move, limit in zip(moves, limits, strict=True) if policy_change(problem, at.x, move) > limit]
    if any(_falls_along(problem, at, move) for move in effective):
        return Status.UNBOUNDED, certificate
    return (Status.UNCERTAIN if effective and status.success else status), certificate


def _falls_along(problem: GoalProblem, at: Evaluation, move: Float[np.ndarray, " K"]) -> bool:
    """Whether the loss far along a direction, either way, is no higher than at the solution."""
    length = np.abs(move).max()
    for distance in DISTANCES:
        far = [problem.evaluate(at.x + sign * distance / length * move).loss for sign in (1.0, -1.0)]
        if min(far) <= at.loss + 1e-13 * max(1.0, abs(at.loss)):
            return True
    return False


def policy_change(problem: GoalProblem, x: Float[np.ndarray, " K"], move: Float[np.ndarray, " K"]) -> float:
    """The largest change of log π, to first order in a move of x, of any option from which the goal can be reached."""
    objective, scale = problem.objective, np.asarray(problem.scale)
    options, most = objective.options, 0.0
    for block, change in objective.changes(x / scale, move / scale):
        slope = block.tangents(change)[0]
        taken = block.policy() > 0
        logs = change + options.discount * (options.transitions @ slope) - slope[options.state]
        most = max(most, float(np.abs(np.where(taken, logs, 0.0)).max(initial=0.0)))
    return most
