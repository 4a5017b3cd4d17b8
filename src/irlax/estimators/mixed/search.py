"""The search for a maximum of the likelihood of hidden groups: several starts, EM, then a solver on all parameters."""

from typing import NamedTuple

import jax.random as jr
import numpy as np

from irlax.estimators.mixed.assessment import Assessment, Words, assess_groups
from irlax.estimators.mixed.expectation_maximisation import EM
from irlax.estimators.mixed.hidden_problem import HiddenProblem
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation
from irlax.estimators.tabular.solvers import DENSE_HESSIAN, LBFGS, Newton, Solution, minimise
from irlax.estimators.tabular.solvers.saddle import lower_than_saddle
from irlax.iteration import Iterate, Session
from irlax.status import Status
from irlax.typing import Float, PRNGKeyArray

#: EM steps from each random start; only the best of these runs is continued (Biernacki, Celeux and Govaert 2003).
SHORT_RUN = 15
#: A start at which values do not exist is drawn towards the estimate so many times.
HALVINGS = 20


class Search(NamedTuple):
    """How a maximum is searched for."""

    num_starts: int
    tol: float
    max_steps: int
    #: EM ends once a step increases the log likelihood of a unit by less than this; a solver takes over.
    min_gain: float
    #: Starts are spread like estimates from this share of a unit's choices.
    start_share: float
    words: Words

    def run(
        self, problem: HiddenProblem, key: PRNGKeyArray, session: Session
    ) -> tuple[Assessment, list[Iterate], HiddenProblem]:
        """The best of several short runs of EM, continued to the maximum, its history, and the problem at its end.

        If the best run has no finite maximum, the others are continued as well.
        """
        runs = []
        for start in self._starts(problem, key):
            session.history = []
            em = EM(problem, start, self.tol, self.min_gain)
            state, _ = session.run(em, limit=min(SHORT_RUN, self.max_steps) - 1)
            runs.append((state.at, session.history))
        runs.sort(key=lambda run: run[0].loss)
        ends = []
        for at, history in runs:
            session.history = history
            end, final = self.maximise(problem, at.x, session)
            ends.append((end, session.history, final))
            if ends[0][0].status not in (Status.UNBOUNDED, Status.STALLED):
                break
        return min(ends, key=lambda end: end[0].at.loss)

    def maximise(
        self, problem: HiddenProblem, x: Float[np.ndarray, " P"], session: Session
    ) -> tuple[Assessment, HiddenProblem]:
        """The assessed maximum near x, by EM and then by Newton's method, and the problem with what was held fixed."""
        # The last iterate is removed, because the next run records its start, which is the same point.
        del session.history[-1:]
        em = EM(problem, x, self.tol, self.min_gain)
        state, _ = session.run(em, limit=self.max_steps - 1)
        problem, x = problem.by_share(state.at)
        problem, x = problem.lifted(x)
        del session.history[-1:]
        found = self._minimise(problem, x, session)
        if found.status.success and len(x) <= DENSE_HESSIAN:
            lower = lower_than_saddle(problem.to_problem(), found.at)
            if lower is not None:
                found = self._minimise(problem, lower, session)
        problem, x = problem.by_share(found.at)
        at = problem.to_problem().evaluate(x)
        problem = problem.held(at)
        found = found._replace(at=problem.to_problem().evaluate(at.x))
        return assess_groups(problem, found, session, tol=self.tol, words=self.words), problem

    def _minimise(self, problem: HiddenProblem, x: Float[np.ndarray, " P"] | Evaluation, session: Session) -> Solution:
        few = problem.cells.by_newton(problem.num_rewards)
        solver = Newton(max_steps=self.max_steps) if few else LBFGS(max_steps=self.max_steps)
        return minimise(solver, problem.to_problem(), x, self.tol, session)

    def _starts(self, problem: HiddenProblem, key: PRNGKeyArray) -> list[Float[np.ndarray, " P"]]:
        """Parameters around the estimates of one group alone, spread as estimates from a few choices would be."""
        keys = jr.split(key, problem.num_groups)
        drawn = []
        for g in range(problem.num_groups):
            single = problem.cells.single(g)
            start = problem.cells.start(g)
            solver = Newton() if problem.cells.by_newton(len(start)) else LBFGS()
            x = minimise(solver, single, start, self.tol).at.x
            normal = np.asarray(jr.normal(keys[g], (self.num_starts, len(x))))
            points = _around(single, x, normal / np.sqrt(self.start_share))
            drawn.append([_where_values_exist(single, x, point) for point in points])
        rest = problem.hidden.initial_parameters()
        return [problem.vector([group[i] for group in drawn], rest) for i in range(self.num_starts)]


def _around(
    single: AbstractProblem, x: Float[np.ndarray, " K"], normal: Float[np.ndarray, "starts K"]
) -> Float[np.ndarray, "starts K"]:
    """Parameters around an estimate, with the covariance that the estimate from one unit would have."""
    if len(x) > DENSE_HESSIAN:
        # Of a network or a very large table: a part of the spread of its own parameters.
        return x + normal * (0.1 + 0.5 * np.std(x))
    sizes, axes = np.linalg.eigh(single.hessian(single.evaluate(x)))
    identified = sizes > 1e-8 * np.abs(sizes).max()
    spread = np.where(identified, 1 / np.sqrt(np.where(identified, sizes, 1.0)), 0.0)
    return x + (normal * spread) @ axes.T


def _where_values_exist(
    single: AbstractProblem, x: Float[np.ndarray, " K"], point: Float[np.ndarray, " K"]
) -> Float[np.ndarray, " K"]:
    """The point, or one on the way from it to the estimate at which values exist."""
    for _ in range(HALVINGS):
        if np.isfinite(single.evaluate(point).loss):
            return point
        point = (x + point) / 2
    return x
