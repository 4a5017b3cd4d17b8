"""A point without slope that is no minimum: what a solver that stopped there goes on from."""

import numpy as np
import pytest

from irlax.estimators.tabular.problem import AbstractProblem, Evaluation, Flattening
from irlax.estimators.tabular.solvers import Newton, minimise
from irlax.estimators.tabular.solvers.saddle import lower_than_saddle
from irlax.typing import Array, Float


class Valley(AbstractProblem):
    """x² − y² + y⁴: flat at 0, lowest at y = ±1/√2."""

    flattening: Flattening
    scale: Float[Array, " K"]
    l2: Float[Array, ""]

    @property
    def resolution(self):
        return 1e-12

    def evaluate(self, x, warm_starts=None):
        a, b = x
        return Evaluation(x, float(a**2 - b**2 + b**4), np.array([2 * a, -2 * b + 4 * b**3]), ())

    def hessian(self, at):
        return np.diag([2.0, -2.0 + 12 * at.x[1] ** 2])

    def hessian_product(self, at, v):
        return self.hessian(at) @ v


def test_a_lower_point_beside_a_saddle_leads_to_the_minimum():
    problem = Valley(Flattening.of(np.zeros(2)), np.ones(2), np.zeros(()))
    stopped = minimise(Newton(), problem, np.zeros(2), 1e-9)
    assert stopped.status.success and stopped.at.loss == 0
    lower = lower_than_saddle(problem, stopped.at)
    assert lower.loss < 0
    found = minimise(Newton(), problem, lower, 1e-9).at
    assert np.abs(found.x) == pytest.approx([0, np.sqrt(0.5)], abs=1e-8) and found.loss == pytest.approx(-0.25)
    assert lower_than_saddle(problem, found) is None
