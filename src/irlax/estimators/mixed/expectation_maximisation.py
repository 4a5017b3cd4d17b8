"""Expectation and maximisation for choosers whose group is hidden (Dempster, Laird and Rubin 1977)."""

from typing import NamedTuple

import numpy as np

from irlax.estimators.mixed.hidden_problem import HiddenProblem
from irlax.estimators.tabular.problem import Evaluation
from irlax.estimators.tabular.solvers import LBFGS, Newton, minimise
from irlax.estimators.tabular.solvers.solver import minimisation_iterate
from irlax.iteration import AbstractIteration, Iterate
from irlax.status import Status
from irlax.typing import Float

#: Steps of each weighted fit: they must increase the likelihood, but need not maximise it.
NEWTON_STEPS, LBFGS_STEPS = 3, 15


class EMState(NamedTuple):
    """The current point, and the increase of the mean log likelihood of a unit by the last step."""

    at: Evaluation
    gain: float


class EM(AbstractIteration[EMState]):
    """Expectation and maximisation, until a step increases the log likelihood of a unit by less than `min_gain`."""

    problem: HiddenProblem
    start: Float[np.ndarray, " P"]
    tol: float
    min_gain: float

    def init(self) -> EMState:
        return EMState(self.problem.to_problem().evaluate(self.start), np.inf)

    def step(self, state: EMState) -> EMState:
        x = em_step(self.problem, state.at, self.tol)
        at = self.problem.to_problem().evaluate(x, state.at.warm_starts)
        return EMState(at, state.at.loss - at.loss)

    def status(self, state: EMState) -> Status | None:
        # Newton's method takes over from here.
        return Status.STEPS_TAKEN if state.gain < self.min_gain else None

    def iterates(self, state: EMState) -> list[Iterate]:
        return [minimisation_iterate(self.problem.to_problem(), state.at)]


def em_step(problem: HiddenProblem, at: Evaluation, tol: float) -> Float[np.ndarray, " P"]:
    """The parameters after one step: who chose what at this point, then weighted fits of the groups given that."""
    expected = problem.expected(at)
    thetas, rest = problem.parts(at.x)
    total = expected.counts.sum()
    fitted = []
    for g, theta in enumerate(thetas):
        # Weights per choice of the group, so that a rare group is fitted as exactly as a frequent one.
        share = max(float(expected.counts[g].sum() / total), 1e-300)
        weighted = problem.cells.weighted(g, expected.counts[g] / share, problem.l2 / share)
        few = problem.cells.by_newton(len(theta))
        solver = Newton(max_steps=NEWTON_STEPS) if few else LBFGS(max_steps=LBFGS_STEPS, report_every=60.0)
        fitted.append(minimise(solver, weighted, theta, tol / 10).at.x)
    rest = problem.hidden.maximised(expected.choices, rest, problem.loss.weights)
    return problem.vector(fitted, rest)
