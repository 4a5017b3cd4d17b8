"""Minimisers for the tabular objectives. Each sees a `Problem`: a loss, its gradient, and curvature on demand.

The problem is posed in scaled parameters x = θ·scale, so that the units of features do not matter: a
column in thousandths converges as a column in units does.
"""

import abc
import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.estimators.base import Status
from irlax.estimators.tabular.objectives import AbstractObjective
from irlax.estimators.tabular.trust_region import exact_step, steihaug_step
from irlax.typing import Array, Float

#: Up to this many parameters curvature is kept as a matrix; above it, as Hessian-vector products.
DENSE_HESSIAN = 400


class Flattening(eqx.Module):
    """A tree of parameters as one vector, and back."""

    treedef: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @classmethod
    def of(cls, parameters: Any) -> "Flattening":
        """The flattening of trees like this one."""
        leaves, treedef = jax.tree.flatten(parameters)
        return cls(treedef, tuple(np.shape(leaf) for leaf in leaves))

    def unflatten(self, vector: Float[Array, " K"]) -> Any:
        """The tree of a vector."""
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        parts = jnp.split(vector, np.cumsum(sizes)[:-1])
        leaves = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return jax.tree.unflatten(self.treedef, leaves)


class Problem(eqx.Module):
    """Minimise Σ_i share_i · objective_i(θ) + ½·l2·‖θ‖² over x = θ·scale."""

    objectives: tuple[AbstractObjective, ...]
    shares: Float[Array, " M"]
    flattening: Flattening
    scale: Float[Array, " K"]
    l2: Float[Array, ""]

    def loss(self, x: Float[Array, " K"]) -> Float[Array, ""]:
        """The penalised objective per episode."""
        theta = x / self.scale
        tree = self.flattening.unflatten(theta)
        fit = sum(share * objective(tree) for share, objective in zip(self.shares, self.objectives, strict=True))
        return fit + 0.5 * self.l2 * (theta @ theta)

    def value_and_gradient(self, x: Float[np.ndarray, " K"]) -> tuple[float, Float[np.ndarray, " K"]]:
        """The loss and its gradient in x."""
        value, gradient = _value_and_gradient(self, jnp.asarray(x))
        return float(value), np.asarray(gradient)

    def hessian(self, x: Float[np.ndarray, " K"]) -> Float[np.ndarray, "K K"]:
        """Second derivatives in x, as a matrix."""
        matrix = np.asarray(_hessian(self, jnp.asarray(x)))
        return (matrix + matrix.T) / 2

    def hessian_product(self, x: Float[np.ndarray, " K"], v: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Second derivatives in x, times a vector."""
        return np.asarray(_hessian_product(self, jnp.asarray(x), jnp.asarray(v)))

    def raw_gradient(self, gradient: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """A gradient in x as a gradient in θ."""
        return gradient * np.asarray(self.scale)

    def size(self, gradient: Float[np.ndarray, " K"]) -> float:
        """The largest entry of the gradient, in θ and in units of the features alike."""
        return float(np.abs(gradient * np.maximum(1, np.asarray(self.scale))).max())


@eqx.filter_jit
def _value_and_gradient(problem: Problem, x: Float[Array, " K"]) -> tuple[Float[Array, ""], Float[Array, " K"]]:
    return jax.value_and_grad(problem.loss)(x)


@eqx.filter_jit
def _hessian(problem: Problem, x: Float[Array, " K"]) -> Float[Array, "K K"]:
    product = functools.partial(_product, problem, x)
    # A few directions at a time: all of them at once would hold K copies of every intermediate array.
    return jax.lax.map(product, jnp.eye(len(x)), batch_size=min(len(x), 64))


@eqx.filter_jit
def _hessian_product(problem: Problem, x: Float[Array, " K"], v: Float[Array, " K"]) -> Float[Array, " K"]:
    return _product(problem, x, v)


def _product(problem: Problem, x: Float[Array, " K"], v: Float[Array, " K"]) -> Float[Array, " K"]:
    return jax.jvp(jax.grad(problem.loss), (x,), (v,))[1]


class Iterate(NamedTuple):
    """Where a solver is: passed to callbacks, and kept in the history."""

    step: int
    parameters: Float[np.ndarray, " K"]
    loss: float
    gradient: float


class Minimum(NamedTuple):
    """Where a solver stopped, and why."""

    x: Float[np.ndarray, " K"]
    status: Status
    history: list[Iterate]


class Watch:
    """Counts steps, keeps the history, and tells whoever listens."""

    def __init__(self, problem: Problem, tol: float, listeners: tuple[Callable[[Iterate], None], ...]) -> None:
        self.problem = problem
        self.tol = tol
        self.history: list[Iterate] = []
        self._listeners = listeners

    def saw(self, x: np.ndarray, loss: float, gradient: np.ndarray) -> bool:
        """Note an iterate; true if its gradient is within the tolerance."""
        theta = x / np.asarray(self.problem.scale)
        iterate = Iterate(len(self.history), theta, loss, self.problem.size(gradient))
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
        radius, stalled = 10.0, 0
        loss, gradient = problem.value_and_gradient(x)
        for _ in range(self.max_steps + 1):
            if watch.saw(x, loss, gradient):
                return Minimum(x, Status.CONVERGED, watch.history)
            if len(watch.history) > self.max_steps:
                break
            step, predicted = _trust_region_step(problem, x, gradient, radius)
            new_loss, new_gradient = problem.value_and_gradient(x + step)
            # Below the resolution of the loss only the gradient can tell whether a step was good.
            blind = predicted <= 1e-13 * max(1.0, abs(loss))
            gained = loss - new_loss
            shrinks = np.abs(new_gradient).max() < 0.9 * np.abs(gradient).max()
            good = np.isfinite(new_loss) and (shrinks if blind else gained >= 0.05 * predicted)
            if good:
                if gained > 0.75 * predicted and np.linalg.norm(step) > 0.8 * radius:
                    radius *= 3
                x, loss, gradient, stalled = x + step, new_loss, new_gradient, 0
                continue
            if blind:
                # Nothing left to gain that float64 could show: that is the rounding floor.
                return Minimum(x, Status.ROUNDING_FLOOR, watch.history)
            radius = min(radius, float(np.linalg.norm(step))) / 4
            stalled += 1
            if stalled > 30:
                return Minimum(x, Status.STALLED, watch.history)
        return Minimum(x, Status.MAX_STEPS, watch.history)


class LBFGS(AbstractSolver):
    """Limited-memory BFGS (SciPy's), finished by Newton steps where it cannot reach the tolerance itself."""

    max_steps: int = 2000
    memory: int = 20

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)
        checks.count("memory", self.memory)

    def minimise(self, problem: Problem, x: Float[np.ndarray, " K"], watch: Watch) -> Minimum:
        from scipy.optimize import minimize

        latest: dict[str, Any] = {}

        def evaluate(x):
            value, gradient = problem.value_and_gradient(x)
            latest.update(x=x.copy(), value=value, gradient=gradient)
            return value, gradient

        def callback(intermediate_result):
            at_x = np.array_equal(latest["x"], intermediate_result.x)
            value, gradient = (latest["value"], latest["gradient"]) if at_x else evaluate(intermediate_result.x)
            if watch.saw(intermediate_result.x, value, gradient):
                raise StopIteration

        if self.max_steps:
            options = {"maxiter": self.max_steps, "maxcor": self.memory, "ftol": 0.0, "gtol": 0.0, "maxls": 40}
            found = minimize(evaluate, x, jac=True, method="L-BFGS-B", callback=callback, options=options)
            x = np.asarray(found.x)
            if watch.history and watch.history[-1].gradient <= watch.tol:
                return Minimum(x, Status.CONVERGED, watch.history)
            if len(watch.history) >= self.max_steps:
                return Minimum(x, Status.MAX_STEPS, watch.history)
        return Newton(max_steps=len(watch.history) + min(self.max_steps, 50)).minimise(problem, x, watch)


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
        loss, gradient = problem.value_and_gradient(x)
        length = 1.0
        for k in range(self.max_steps + 1):
            if watch.saw(x, loss, gradient):
                return Minimum(x, Status.CONVERGED, watch.history)
            if k == self.max_steps:
                break
            if self.step_size is not None:
                x = x - self.step_size / (1 + self.decay * k) * gradient
                loss, gradient = problem.value_and_gradient(x)
                if not np.isfinite(loss):
                    return Minimum(x, Status.STALLED, watch.history)
                continue
            steep, length = gradient @ gradient, 2 * length
            while True:
                new_loss, new_gradient = problem.value_and_gradient(x - length * gradient)
                # Below the resolution of the loss only the gradient can tell whether a step was good.
                blind = length * steep <= 1e-13 * max(1.0, abs(loss))
                falls = new_loss <= loss - 0.5 * length * steep
                shrinks = np.linalg.norm(new_gradient) < np.linalg.norm(gradient)
                if (shrinks if blind else falls) or length < 1e-12:
                    break
                length /= 2
            if not (shrinks if blind else falls):
                return Minimum(x, Status.ROUNDING_FLOOR, watch.history)
            x, loss, gradient = x - length * gradient, new_loss, new_gradient
        return Minimum(x, Status.MAX_STEPS, watch.history)


class Adam(AbstractSolver):
    """Adam (Kingma and Ba 2015) with a cosine schedule, for networks; ends on a plateau or after `max_steps`.

    The best iterate is returned, not the last.
    """

    learning_rate: float = 1e-2
    max_steps: int = 1000
    #: Steps between looks at the loss; a plateau is one look in which the best loss fell by less than 1e-7 of it.
    patience: int = 100

    def __check_init__(self) -> None:
        checks.count("max_steps", self.max_steps, 0)
        checks.count("patience", self.patience)
        checks.positive("learning_rate", self.learning_rate)

    def minimise(self, problem: Problem, x: Float[np.ndarray, " K"], watch: Watch) -> Minimum:
        import optax

        optimiser = optax.adam(optax.cosine_decay_schedule(self.learning_rate, max(self.max_steps, 1), alpha=0.01))
        state = optimiser.init(jnp.asarray(x))
        best_x, best_loss, before = x, np.inf, np.inf
        for k in range(self.max_steps + 1):
            loss, gradient = problem.value_and_gradient(x)
            if loss < best_loss:
                best_x, best_loss = x, loss
            if watch.saw(x, loss, gradient):
                return Minimum(x, Status.CONVERGED, watch.history)
            if not np.isfinite(loss):
                return Minimum(best_x, Status.STALLED, watch.history)
            if k and k % self.patience == 0:
                if before - best_loss < 1e-7 * max(1.0, abs(best_loss)):
                    return Minimum(best_x, Status.PLATEAU, watch.history)
                before = best_loss
            updates, state = optimiser.update(jnp.asarray(gradient), state)
            x = np.asarray(x + updates)
        return Minimum(best_x, Status.MAX_STEPS, watch.history)


SolverName = Literal["auto", "newton", "lbfgs", "dual-ascent", "adam"]
SOLVERS: dict[str, type[AbstractSolver]] = {
    "newton": Newton,
    "lbfgs": LBFGS,
    "dual-ascent": DualAscent,
    "adam": Adam,
}


def chosen(solver: SolverName | AbstractSolver, *, linear: bool, num_parameters: int) -> AbstractSolver:
    """The solver that is meant: as given, by name, or the fastest that can be certified."""
    if isinstance(solver, AbstractSolver):
        return solver
    if solver != "auto":
        return SOLVERS[checks.one_of("solver", solver, ("auto", *SOLVERS))]()
    if not linear:
        return Adam()
    return Newton() if num_parameters <= 200 else LBFGS()


def _trust_region_step(
    problem: Problem, x: np.ndarray, gradient: np.ndarray, radius: float
) -> tuple[Float[np.ndarray, " K"], float]:
    """The minimiser of the quadratic model within the radius, and the decrease that it predicts."""
    if len(x) <= DENSE_HESSIAN:
        return exact_step(problem.hessian(x), gradient, radius)
    return steihaug_step(lambda v: problem.hessian_product(x, v), gradient, radius)
