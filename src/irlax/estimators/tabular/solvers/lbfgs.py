"""Limited-memory BFGS, with iterations in compiled stretches."""

import time
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.estimators.tabular.problem import Evaluation, Problem
from irlax.estimators.tabular.solvers import lbfgs_loop
from irlax.estimators.tabular.solvers.newton import Newton, TrustRegion
from irlax.estimators.tabular.solvers.solver import AbstractSolver, SolverState, converged
from irlax.registry import stored
from irlax.typing import Array, Float, Int

#: The history of one stretch of iterations on the device holds at most this many numbers.
RECORDED_NUMBERS = 5_000_000


class Stretches(NamedTuple):
    """The compiled loop's state, and how many iterations its next stretch takes."""

    loop: lbfgs_loop.State
    limit: int


@stored("lbfgs")
class LBFGS(AbstractSolver):
    """Limited-memory BFGS, finished by Newton steps where it cannot reach the tolerance itself.

    It keeps `memory` steps, or as many as there are parameters or room: more of them cost little beside a gradient
    and save many. Iterations run on the device in stretches of about `report_every` seconds, between which progress is
    reported.
    """

    max_steps: int = 2000
    memory: int = 80
    report_every: float = 0.2

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)
        checks.count("memory", self.memory)
        checks.positive("report_every", self.report_every)

    def pairs(self, num_parameters: int) -> int:
        """How many steps are kept."""
        return max(1, min(self.memory, num_parameters, max(5, 4 * RECORDED_NUMBERS // num_parameters)))

    def init(self, problem: Problem, start: Float[np.ndarray, " K"] | Evaluation, tol: float) -> SolverState:
        x, warm_starts = start, None
        if isinstance(start, Evaluation):
            x, warm_starts = start.x, start.warm_starts
        known = problem.initial_warm_starts() if warm_starts is None else warm_starts
        loop = lbfgs_loop.State.at(jnp.asarray(x), self.pairs(len(x)), known)
        return self._stretched(problem, Stretches(loop, 1), tol)

    def step(self, problem: Problem, state: SolverState, tol: float) -> SolverState:
        if isinstance(state.inner, TrustRegion):
            return Newton().step(problem, state, tol)
        return self._stretched(problem, state.inner, tol)

    def _stretched(self, problem: Problem, before: Stretches, tol: float) -> SolverState:
        """The state after a stretch of iterations; the first of them evaluates the start."""
        began, first, num = time.perf_counter(), int(before.loop.count), len(before.loop.x)
        length = max(1, min(256, RECORDED_NUMBERS // num))
        limit = jnp.asarray(max(1, min(before.limit, self.max_steps + 1 - first)))
        stretch = _stretch(problem, before.loop, limit, jnp.asarray(tol), length)
        loop, made = stretch.state, int(stretch.state.count) - first
        at = Evaluation(np.asarray(loop.x), float(loop.loss), np.asarray(loop.gradient), loop.warm_start)
        records = [np.asarray(record)[:made] for record in stretch[1:]]
        passed = [Evaluation(x, float(loss), slope, ()) for x, loss, slope in zip(*records, strict=True)]
        ended = converged(problem, at, tol)
        if bool(loop.stuck) and ended is None:
            # Nothing was found along the last direction: Newton's method goes on from here.
            return SolverState(at, at, None, TrustRegion(), passed)
        # The first stretch includes compilation, so the second is short as well.
        pace = (time.perf_counter() - began) / max(made, 1)
        after = Stretches(loop, 2 if first == 0 else int(np.clip(self.report_every / pace, 1, length)))
        return SolverState(at, at, ended, after, passed, np.asarray(loop.quasi_newton_step))


@eqx.filter_jit
def _stretch(
    problem: Problem, state: lbfgs_loop.State, limit: Int[Array, ""], tol: Float[Array, ""], length: int
) -> lbfgs_loop.Stretch:
    evaluate = jax.value_and_grad(problem.loss, has_aux=True)
    return lbfgs_loop.advance(evaluate, problem.size, state, limit=limit, tol=tol, length=length)
