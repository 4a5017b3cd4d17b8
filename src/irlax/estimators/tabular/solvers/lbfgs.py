"""Limited-memory BFGS, in compiled chunks of iterations."""

import time
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation, Problem
from irlax.estimators.tabular.solvers import lbfgs_loop
from irlax.estimators.tabular.solvers.newton import Newton, TrustRegion
from irlax.estimators.tabular.solvers.solver import AbstractSolver, SolverState, converged
from irlax.registry import stored
from irlax.typing import Array, Float, Int

#: The history of one chunk of iterations on the device holds at most this many numbers.
RECORDED_NUMBERS = 5_000_000


class ChunkState(NamedTuple):
    """The state of the compiled loop, and the number of iterations of its next chunk."""

    loop: lbfgs_loop.State
    limit: int


@stored("lbfgs")
class LBFGS(AbstractSolver):
    """Limited-memory BFGS, finished by Newton steps where it cannot reach the tolerance itself.

    It keeps the last `memory` steps, but at most as many as there are parameters, and fewer if they would take much
    memory: steps cost little beside a gradient, and save many gradients. Iterations run on the device in chunks of
    about `report_every` seconds, between which progress is reported.
    """

    max_steps: int = 2000
    memory: int = 80
    report_every: float = 0.2
    only_evaluates: ClassVar[bool] = False

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)
        checks.count("memory", self.memory)
        checks.positive("report_every", self.report_every)

    def pairs(self, num_parameters: int) -> int:
        """The number of steps that are kept."""
        return max(1, min(self.memory, num_parameters, max(5, 4 * RECORDED_NUMBERS // num_parameters)))

    def init(self, problem: AbstractProblem, start: Float[np.ndarray, " K"] | Evaluation, tol: float) -> SolverState:
        if not isinstance(problem, Problem):
            raise ValueError(
                "L-BFGS runs compiled programs, but episodes with goals are planned for on the host: use "
                "solver='newton', which takes many parameters too, 'dual-ascent' or 'adam'."
            )
        x, warm_starts = start, None
        if isinstance(start, Evaluation):
            x, warm_starts = start.x, start.warm_starts
        known = problem.initial_warm_starts() if warm_starts is None else warm_starts
        loop = lbfgs_loop.State.at(jnp.asarray(x), self.pairs(len(x)), known)
        return self._run_chunk(problem, ChunkState(loop, 1), tol)

    def step(self, problem: AbstractProblem, state: SolverState, tol: float) -> SolverState:
        if isinstance(state.inner, TrustRegion):
            return Newton().step(problem, state, tol)
        assert isinstance(problem, Problem)
        return self._run_chunk(problem, state.inner, tol)

    def _run_chunk(self, problem: Problem, before: ChunkState, tol: float) -> SolverState:
        """The state after a chunk of iterations; the very first iteration evaluates the start."""
        started, first, num = time.perf_counter(), int(before.loop.count), len(before.loop.x)
        length = max(1, min(256, RECORDED_NUMBERS // num))
        limit = jnp.asarray(max(1, min(before.limit, self.max_steps + 1 - first)))
        chunk = _chunk(problem, before.loop, limit, jnp.asarray(tol), length)
        loop, done = chunk.state, int(chunk.state.count) - first
        at = Evaluation(np.asarray(loop.x), float(loop.loss), np.asarray(loop.gradient), loop.warm_start)
        records = [np.asarray(record)[:done] for record in chunk[1:]]
        visited = [Evaluation(x, float(loss), gradient, ()) for x, loss, gradient in zip(*records, strict=True)]
        ended = converged(problem, at, tol)
        if bool(loop.stalled) and ended is None:
            # The last line search failed: Newton's method continues from here.
            return SolverState(at, at, None, TrustRegion(), visited)
        # The time of the first chunk includes compilation, so the second is short as well.
        seconds = (time.perf_counter() - started) / max(done, 1)
        after = ChunkState(loop, 2 if first == 0 else int(np.clip(self.report_every / seconds, 1, length)))
        return SolverState(at, at, ended, after, visited, np.asarray(loop.quasi_newton_step))


@eqx.filter_jit
def _chunk(
    problem: Problem, state: lbfgs_loop.State, limit: Int[Array, ""], tol: Float[Array, ""], length: int
) -> lbfgs_loop.Chunk:
    evaluate = jax.value_and_grad(problem.loss, has_aux=True)
    given = {"limit": limit, "tol": tol, "length": length, "rounding": problem.rounding}
    return lbfgs_loop.advance(evaluate, problem.size, state, **given)
