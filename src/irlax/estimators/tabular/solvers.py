"""Minimisers for the tabular objectives. Each sees a `Problem`: a loss, its gradient, and curvature on demand."""

import abc
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.estimators.status import Status
from irlax.estimators.tabular import lbfgs
from irlax.estimators.tabular.problem import SMALL_PROBLEM, Evaluation, Problem, largest
from irlax.estimators.tabular.trust_region import exact_step, steihaug_step
from irlax.mdp import MDP
from irlax.rewards import AbstractReward
from irlax.typing import Array, Float, Int

#: Up to this many parameters curvature is kept as a matrix; above it, as Hessian-vector products.
DENSE_HESSIAN = 400
#: The history of one stretch of iterations on the device holds at most this many numbers.
RECORDED_NUMBERS = 5_000_000


@eqx.filter_jit
def _lbfgs_stretch(
    problem: Problem, state: lbfgs.State, limit: Int[Array, ""], tol: Float[Array, ""], length: int
) -> lbfgs.Stretch:
    evaluate = jax.value_and_grad(problem.loss, has_aux=True)
    return lbfgs.advance(evaluate, problem.size, state, limit=limit, tol=tol, length=length)


class Iterate(NamedTuple):
    """Where a solver is: passed to callbacks, and kept in the history."""

    step: int
    parameters: Float[np.ndarray, " K"]
    loss: float
    gradient: float


class Minimum(NamedTuple):
    """Where a solver stopped, and why."""

    at: Evaluation
    status: Status
    history: list[Iterate]
    #: About −H⁻¹∇, where the solver has an idea of the curvature.
    quasi_newton_step: Float[np.ndarray, " K"] | None = None


class Watch:
    """Counts steps, keeps the history, and tells whoever listens."""

    def __init__(self, problem: Problem, tol: float, listeners: tuple[Callable[[Iterate], None], ...]) -> None:
        self.problem = problem
        self.tol = tol
        self.history: list[Iterate] = []
        self._listeners = listeners
        self._scale = np.asarray(problem.scale)

    def saw(self, x: Float[np.ndarray, " K"], loss: float, gradient: Float[np.ndarray, " K"]) -> bool:
        """Note an iterate; true if its gradient is within the tolerance."""
        iterate = Iterate(len(self.history), x / self._scale, loss, float(largest(gradient, self._scale)))
        self.history.append(iterate)
        for listen in self._listeners:
            listen(iterate)
        return iterate.gradient <= self.tol


class AbstractSolver(eqx.Module):
    """A way to minimise a `Problem`."""

    @abc.abstractmethod
    def minimise(self, problem: Problem, x: Float[np.ndarray, " K"], watch: Watch) -> Minimum:
        """From x to a point where the gradient is within the tolerance, or as far as it gets."""


class Newton(AbstractSolver):
    """Trust-region Newton: a few steps, quadratic convergence, and safe where the objective is not convex.

    Curvature is a matrix up to a few hundred parameters, Hessian-vector products and conjugate gradients
    (Steihaug 1983) above.
    """

    max_steps: int = 200

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)

    def minimise(self, problem: Problem, x: Float[np.ndarray, " K"], watch: Watch) -> Minimum:
        return self.go_on(problem, problem.evaluate(x), watch)

    def go_on(self, problem: Problem, at: Evaluation, watch: Watch) -> Minimum:
        """As `minimise`, from a point that was evaluated."""
        radius, stalled = 10.0, 0
        for _ in range(self.max_steps + 1):
            if watch.saw(at.x, at.loss, at.gradient):
                return Minimum(at, Status.CONVERGED, watch.history)
            if len(watch.history) > self.max_steps:
                break
            step, predicted = _trust_region_step(problem, at, radius)
            new = problem.evaluate(at.x + step, at.memories)
            # Below the resolution of the loss only the gradient can tell whether a step was good.
            blind = predicted <= problem.resolution * max(1.0, abs(at.loss))
            gained = at.loss - new.loss
            shrinks = np.abs(new.gradient).max() < 0.9 * np.abs(at.gradient).max()
            good = np.isfinite(new.loss) and (shrinks if blind else gained >= 0.05 * predicted)
            if good:
                if gained > 0.75 * predicted and np.linalg.norm(step) > 0.8 * radius:
                    radius *= 3
                at, stalled = new, 0
                continue
            if blind and np.linalg.norm(step) < 0.99 * radius:
                # Nothing left to gain that float64 could show: that is the rounding floor. (A step that was cut short
                # promises little, wherever it is.)
                return Minimum(at, Status.ROUNDING_FLOOR, watch.history)
            radius = min(radius, float(np.linalg.norm(step))) / 4
            stalled += 1
            if stalled > 30:
                return Minimum(at, Status.STALLED, watch.history)
        return Minimum(at, Status.MAX_STEPS, watch.history)


class LBFGS(AbstractSolver):
    """Limited-memory BFGS, finished by Newton steps where it cannot reach the tolerance itself.

    It remembers `memory` steps, or as many as there are parameters or room: more of them cost little beside a gradient
    and save many. Iterations run on the device in stretches of about `report_every` seconds, between which progress is
    told.
    """

    max_steps: int = 2000
    memory: int = 80
    report_every: float = 0.2

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)
        checks.count("memory", self.memory)
        checks.positive("report_every", self.report_every)

    def pairs(self, num_parameters: int) -> int:
        """How many steps are remembered."""
        return max(1, min(self.memory, num_parameters, max(5, 4 * RECORDED_NUMBERS // num_parameters)))

    def minimise(self, problem: Problem, x: Float[np.ndarray, " K"], watch: Watch) -> Minimum:
        if not self.max_steps:
            return Newton(max_steps=0).minimise(problem, x, watch)
        state = lbfgs.State.at(jnp.asarray(x), self.pairs(len(x)), problem.first_memories())
        length = max(1, min(256, RECORDED_NUMBERS // len(x)))
        limit, done = 1, False
        while not done and len(watch.history) <= self.max_steps:
            began, before = time.perf_counter(), int(state.count)
            limit = min(limit, self.max_steps + 1 - before)
            stretch = _lbfgs_stretch(problem, state, jnp.asarray(limit), jnp.asarray(watch.tol), length)
            state, made = stretch.state, int(stretch.state.count) - before
            seen = (np.asarray(record)[:made] for record in stretch[1:])
            for point, loss, gradient in zip(*seen, strict=True):
                done = watch.saw(point, float(loss), gradient)
            if bool(state.stuck):
                break
            # The first stretch includes compilation, so the second is short as well.
            pace = (time.perf_counter() - began) / made
            limit = 2 if before == 0 else int(np.clip(self.report_every / pace, 1, length))
        at = Evaluation(np.asarray(state.x), float(state.loss), np.asarray(state.gradient), state.memory)
        if not done and len(watch.history) <= self.max_steps:
            return Newton(max_steps=len(watch.history) + min(self.max_steps, 50)).go_on(problem, at, watch)
        status = Status.CONVERGED if done else Status.MAX_STEPS
        return Minimum(at, status, watch.history, np.asarray(state.quasi_newton_step))


class Known(AbstractSolver):
    """A minimum that was found before, together with others."""

    minimum: Minimum

    def minimise(self, problem: Problem, x: Float[np.ndarray, " K"], watch: Watch) -> Minimum:
        return self.minimum


class DualAscent(AbstractSolver):
    r"""The Primer's Algorithm 1: θ ← θ + α_k·(features of the demonstrator − features of the model).

    Step k has length α_k = step_size / (1 + decay·k); with `step_size` None it is found anew each time by
    backtracking until the objective falls enough (Armijo 1966). It stops when no feature gap is above the
    tolerance, or after `max_steps`.
    """

    step_size: float | None = None
    decay: float = 0.0
    max_steps: int = 10_000

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)
        checks.positive("decay", self.decay, zero=True)
        if self.step_size is not None:
            checks.positive("step_size", self.step_size)

    def minimise(self, problem: Problem, x: Float[np.ndarray, " K"], watch: Watch) -> Minimum:
        at = problem.evaluate(x)
        length = 1.0
        for k in range(self.max_steps + 1):
            if watch.saw(at.x, at.loss, at.gradient):
                return Minimum(at, Status.CONVERGED, watch.history)
            if k == self.max_steps:
                break
            if self.step_size is not None:
                at = problem.evaluate(at.x - self.step_size / (1 + self.decay * k) * at.gradient, at.memories)
                if not np.isfinite(at.loss):
                    return Minimum(at, Status.STALLED, watch.history)
                continue
            steep, length = at.gradient @ at.gradient, 2 * length
            while True:
                new = problem.evaluate(at.x - length * at.gradient, at.memories)
                # Below the resolution of the loss only the gradient can tell whether a step was good.
                blind = length * steep <= 1e-13 * max(1.0, abs(at.loss))
                falls = new.loss <= at.loss - 0.5 * length * steep
                shrinks = np.linalg.norm(new.gradient) < np.linalg.norm(at.gradient)
                if (shrinks if blind else falls) or length < 1e-12:
                    break
                length /= 2
            if not (shrinks if blind else falls):
                return Minimum(at, Status.ROUNDING_FLOOR, watch.history)
            at = new
        return Minimum(at, Status.MAX_STEPS, watch.history)


class Adam(AbstractSolver):
    """Adam (Kingma and Ba 2015) with a cosine schedule, for networks; ends on a plateau or after `max_steps`.

    The best iterate is returned, not the last. Every `patience` steps it is asked whether the best loss fell by at
    least 1e-7 of it. If it did not, and no step along the gradient, long or short, lowers it by 1e-5 of it either, that
    is a plateau: for networks, an end; for linear rewards the gradient itself must be within the tolerance. If some
    step does, the learning rate was too small, and the fit has stalled.
    """

    learning_rate: float = 1e-2
    max_steps: int = 1000
    patience: int = 100

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)
        checks.count("patience", self.patience)
        checks.positive("learning_rate", self.learning_rate)

    def minimise(self, problem: Problem, x: Float[np.ndarray, " K"], watch: Watch) -> Minimum:
        import optax

        optimiser = optax.adam(optax.cosine_decay_schedule(self.learning_rate, max(self.max_steps, 1), alpha=0.01))
        state = optimiser.init(jnp.asarray(x))
        at = best = problem.evaluate(x)
        before = np.inf
        for k in range(self.max_steps + 1):
            if at.loss < best.loss:
                best = at
            if watch.saw(at.x, at.loss, at.gradient):
                return Minimum(at, Status.CONVERGED, watch.history)
            if not np.isfinite(at.loss):
                return Minimum(best, Status.STALLED, watch.history)
            if k and k % self.patience == 0:
                if before - best.loss < 1e-7 * max(1.0, abs(best.loss)):
                    return Minimum(best, Status.PLATEAU if _is_level(problem, best) else Status.STALLED, watch.history)
                before = best.loss
            if k < self.max_steps:
                updates, state = optimiser.update(jnp.asarray(at.gradient), state)
                at = _stepped(problem, at, np.asarray(updates))
        return Minimum(best, Status.MAX_STEPS, watch.history)


def _stepped(problem: Problem, at: Evaluation, step: Float[np.ndarray, " K"]) -> Evaluation:
    """The loss one step on, or a shorter one where it has none: at γ = 1 most rewards have no value."""
    for halvings in range(30):
        new = problem.evaluate(at.x + step / 2**halvings, at.memories)
        if np.isfinite(new.loss) and np.isfinite(new.gradient).all():
            return new
    return problem.evaluate(at.x + step, at.memories)


def _is_level(problem: Problem, at: Evaluation) -> bool:
    """Whether no step along the gradient lowers the loss by more than 1e-5 of it."""
    direction = at.gradient / max(np.abs(at.gradient).max(), 1e-300)
    losses = [problem.evaluate(at.x - length * direction, at.memories).loss for length in np.logspace(-6, 1, 15)]
    return at.loss - min(losses, default=np.inf) <= 1e-5 * max(1.0, abs(at.loss))


SolverName = Literal["auto", "newton", "lbfgs", "dual-ascent", "adam"]
SOLVERS: dict[str, type[AbstractSolver]] = {
    "newton": Newton,
    "lbfgs": LBFGS,
    "dual-ascent": DualAscent,
    "adam": Adam,
}


def check_solver(solver: SolverName | AbstractSolver) -> None:
    """A ValueError for a solver that does not exist."""
    if not isinstance(solver, AbstractSolver):
        checks.one_of("solver", solver, ("auto", *SOLVERS))


def chosen(
    solver: SolverName | AbstractSolver, rewards: Sequence[AbstractReward], mdps: Sequence[MDP]
) -> AbstractSolver:
    """The solver that is meant: as given, by name, or the fastest that can be certified."""
    if isinstance(solver, AbstractSolver):
        return solver
    if solver != "auto":
        return SOLVERS[solver]()
    if not all(reward.is_linear for reward in rewards):
        return Adam()
    # A Newton step costs about three gradients for each parameter, and there are ten; L-BFGS takes some sixty to six
    # hundred gradients, but on small problems those of a Newton step are computed side by side.
    small = max(mdp.num_states * (mdp.horizon or 1) for mdp in mdps) <= SMALL_PROBLEM
    return Newton() if rewards[0].num_parameters <= (30 if small else 2) else LBFGS()


def _trust_region_step(problem: Problem, at: Evaluation, radius: float) -> tuple[Float[np.ndarray, " K"], float]:
    """The minimiser of the quadratic model within the radius, and the decrease that it predicts."""
    if len(at.x) <= DENSE_HESSIAN:
        return exact_step(problem.hessian(at), at.gradient, radius)
    return steihaug_step(lambda v: problem.hessian_product(at, v), at.gradient, radius)
