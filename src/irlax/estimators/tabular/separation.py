"""Whether matching features has a finite optimum, by a search for a separating direction; for large problems.

A direction separates if the demonstrator is optimal for the reward of that direction; then the optimum is at infinity.
Each gradient of the objective is the difference between some policy's feature expectations and the demonstrator's.
(The gradients that a solver evaluated cannot be used: far from the start, their distance from the boundary of the
polytope is below the rounding error.)
"""

from typing import NamedTuple

import numpy as np

from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.problem import Evaluation, Problem
from irlax.estimators.tabular.small_problem import SmallProblem
from irlax.estimators.tabular.sparse import linprog
from irlax.estimators.tabular.undiscounted import start_where_values_exist
from irlax.rewards import AbstractReward
from irlax.typing import Float

#: Distances along a direction at which the loss is evaluated, in units of the features: from near to where policies are
#: almost deterministic.
DISTANCES = (1.0, 10.0, 100.0, 1e4, 1e8)
#: The direction of a gradient, or the sign of a slope, of at least this share of the first gradient is not an artefact
#: of errors in planning.
RELIABLE_SHARE = 1e-5


class SolvedProblem(NamedTuple):
    """A problem, the rewards and demonstrators that it came from, and the point at which the solver stopped."""

    problem: Problem | SmallProblem
    rewards: tuple[AbstractReward, ...]
    experts: tuple[Expert, ...]
    at: Evaluation
    #: Whether the gradient is within the tolerance.
    within_tol: bool

    @property
    def noise(self) -> float:
        """Gradients and curvature below this share of the largest are rounding errors of values planned to 1e-10."""
        # In single precision the error of differences is less than the resolution of the loss.
        return 1e-10 if self.problem.resolution < 1e-8 else 1e-4


def optimum_by_gradients(solved: SolvedProblem) -> bool | None:
    """Whether a finite optimum exists; None if the search cannot decide.

    Candidates are directions along which every policy found so far has more of the features than the demonstrator. Far
    enough along one, the sign of the slope must change, or the direction separates. If there is no candidate left, a
    mixture of the policies found has the demonstrator's features. The policy at the start is part of the mixture and
    gives every action a probability far above rounding, so that the features lie in the relative interior.
    """
    problem, num = solved.problem, len(solved.at.x)
    start = problem.evaluate(start_where_values_exist(problem, np.zeros(num), solved.rewards))
    size = float(np.linalg.norm(start.gradient))
    if size == 0:
        return True
    gradients = [start.gradient / size]
    for _ in range(20 + 10 * num):
        direction = _candidate(gradients)
        if direction is None:
            return True
        gradient = _gradient_after_sign_change(solved, start, direction)
        if gradient @ direction > -1000 * solved.noise * size:
            return False
        length = float(np.linalg.norm(gradient))
        if length < RELIABLE_SHARE * size:
            return None
        gradients.append(gradient / length)
    return None


def _candidate(gradients: list[Float[np.ndarray, " K"]]) -> Float[np.ndarray, " K"] | None:
    """A direction d with ∇·d ≥ 0 for all gradients and > 0 for the first; None if there is none (Farkas)."""
    first, *others = gradients
    if not others:
        return first / np.abs(first).max()
    rows = np.array(others)
    # With the default tolerances: gradients have no more digits than planning, and tighter ones would exclude all.
    found = linprog(-first, A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1))
    if found.status != 0 or -found.fun <= 1e-6:
        return None
    # Products that are almost zero are made zero: a direction along the boundary needs more digits than linprog gives.
    level = rows[np.abs(rows @ found.x) < 1e-6]
    return found.x - np.linalg.lstsq(level, level @ found.x)[0] if len(level) else found.x


def _gradient_after_sign_change(
    solved: SolvedProblem, start: Evaluation, direction: Float[np.ndarray, " K"]
) -> Float[np.ndarray, " K"]:
    """The first gradient whose slope along the direction is clearly negative, or else the one with the lowest slope."""
    problem, threshold = solved.problem, -RELIABLE_SHARE * float(np.linalg.norm(start.gradient))
    near, distances, best = 0.0, list(DISTANCES), start.gradient
    while distances and best @ direction > threshold:
        far = distances.pop(0)
        new = problem.evaluate(start.x - far * direction, start.warm_starts)
        if not (np.isfinite(new.loss) and np.isfinite(new.gradient).all()):
            # At γ = 1 values exist up to some distance only, and grow without bound before it: the sign changes there.
            distances = [(near + far) / 2] if far - near > 1e-9 * far else []
            continue
        near = far
        best = min(best, new.gradient, key=lambda gradient: gradient @ direction)
    return best
