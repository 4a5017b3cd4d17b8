"""The problem that the solvers minimise: a loss, its gradient, and second derivatives on demand.

Its variables are the scaled parameters x = θ·scale, so that the units of features do not matter: a column in
thousandths converges as a column in units does.
"""

import abc
import functools
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.estimators.tabular.objectives import AbstractObjective
from irlax.typing import Array, Float

#: Of each objective: a `WarmStart`, or several in a tree for an objective that makes several plans.
WarmStarts = tuple[Any, ...]

#: Up to this many states times horizon, a few dozen gradients in one batch cost little more than one gradient.
SMALL_PROBLEM = 50_000


class Flattening(eqx.Module):
    """Turns a vector into a tree of parameters.

    Two flattenings of the same structure are equal. The function that `ravel_pytree` returns is equal only to itself,
    so every fit would be compiled again.
    """

    treedef: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @classmethod
    def of(cls, parameters: Any) -> "Flattening":
        """The flattening of trees with the structure and shapes of this one."""
        leaves, treedef = jax.tree.flatten(parameters)
        return cls(treedef, tuple(np.shape(leaf) for leaf in leaves))

    def unflatten(self, vector: Float[Array, " K"]) -> Any:
        """The tree of a vector, on the host if the vector is."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes]).tolist()
        parts = zip([0, *ends], ends, self.shapes, strict=False)
        return jax.tree.unflatten(self.treedef, [vector[start:end].reshape(shape) for start, end, shape in parts])


class AbstractProblem(eqx.Module):
    """What solvers minimise: a loss in the scaled parameters x = θ·scale."""

    flattening: eqx.AbstractVar[Flattening]
    scale: eqx.AbstractVar[Float[Array, " K"]]
    l2: eqx.AbstractVar[Float[Array, ""]]

    @abc.abstractmethod
    def evaluate(self, x: Float[np.ndarray, " K"], warm_starts: WarmStarts | None = None) -> "Evaluation":
        """The loss and its gradient in x."""

    @abc.abstractmethod
    def hessian(self, at: "Evaluation") -> Float[np.ndarray, "K K"]:
        """Second derivatives in x, as a matrix."""

    @abc.abstractmethod
    def hessian_product(self, at: "Evaluation", v: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Second derivatives in x, times a vector."""

    @property
    @abc.abstractmethod
    def resolution(self) -> float:
        """Decreases below this share of the loss cannot be distinguished from errors of planning."""

    def raw_gradient(self, gradient: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """A gradient in x as a gradient in θ."""
        return gradient * np.asarray(self.scale)

    def size(self, gradient: Float[Array, " K"]) -> Float[Array, ""]:
        """The largest absolute entry of a gradient in x, or of the same gradient in θ if that is larger."""
        return largest(gradient, self.scale)


class Problem(AbstractProblem):
    """Minimise Σ_i share_i · objective_i(θ) + ½·l2·‖θ‖² over x = θ·scale."""

    objectives: tuple[AbstractObjective, ...]
    shares: Float[Array, " M"]
    flattening: Flattening
    scale: Float[Array, " K"]
    l2: Float[Array, ""]
    #: Whether all leaves are arrays; a user's own reward may hold a function.
    only_arrays: bool = eqx.field(static=True, init=False)

    def __post_init__(self) -> None:
        leaves = jax.tree.leaves((self.objectives, self.shares, self.scale, self.l2))
        self.only_arrays = all(map(eqx.is_array_like, leaves))

    def loss(self, x: Float[Array, " K"], warm_starts: WarmStarts) -> tuple[Float[Array, ""], WarmStarts]:
        """The penalised objective per episode, and the warm start of the next evaluation."""
        theta = x / self.scale
        tree = self.flattening.unflatten(theta)
        fits, warm_starts = zip(
            *(objective(tree, warm_start) for objective, warm_start in zip(self.objectives, warm_starts, strict=True)),
            strict=True,
        )
        fit = sum(share * fit for share, fit in zip(self.shares, fits, strict=True))
        return fit + 0.5 * self.l2 * (theta @ theta), warm_starts

    def initial_warm_starts(self) -> WarmStarts:
        """The warm starts of the first evaluation."""
        return tuple(objective.initial_warm_start() for objective in self.objectives)

    def evaluate(self, x: Float[np.ndarray, " K"], warm_starts: WarmStarts | None = None) -> "Evaluation":
        first = self.initial_warm_starts() if warm_starts is None else warm_starts
        evaluate = _evaluate_arrays if self.only_arrays else _evaluate_any
        (value, following), gradient = evaluate(self, x, first)
        return Evaluation(x, float(value), np.asarray(gradient), following)

    def hessian(self, at: "Evaluation") -> Float[np.ndarray, "K K"]:
        matrix = np.asarray(_hessian(self, at.x, at.warm_starts))
        return (matrix + matrix.T) / 2

    def hessian_product(self, at: "Evaluation", v: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        return np.asarray(_hessian_product(self, at.x, at.warm_starts, v))

    @property
    def resolution(self) -> float:
        # Planning is accurate to 1e-10.
        return 1e-6 if self._is_narrow else 1e-10

    @property
    def rounding(self) -> float:
        """From one point to one nearby, rounding changes the loss by this share of it."""
        return 1e-6 if self._is_narrow else 1e-13

    @property
    def _is_narrow(self) -> bool:
        """Whether any MDP is in single precision."""
        mdps = (getattr(objective, "mdp", None) for objective in self.objectives)
        return any(mdp is not None and mdp.initial.dtype == np.float32 for mdp in mdps)


def largest(gradient: Any, scale: Any) -> Any:
    """The largest absolute entry of a gradient in x, or of the same gradient in θ if larger; on host and device."""
    return abs(gradient * scale.clip(1)).max()


class Evaluation(NamedTuple):
    """The loss and its gradient at a point, and the warm start of the next evaluation."""

    x: Float[np.ndarray, " K"]
    loss: float
    gradient: Float[np.ndarray, " K"]
    warm_starts: WarmStarts


def _value_and_gradient(problem: Problem, x: Float[Array, " K"], warm_starts: WarmStarts) -> Any:
    return jax.value_and_grad(problem.loss, has_aux=True)(x, warm_starts)


# `filter_jit` needs a tenth of a millisecond to sort its arguments, and a small gradient takes only a few.
_evaluate_arrays = jax.jit(_value_and_gradient)
_evaluate_any = eqx.filter_jit(_value_and_gradient)


@eqx.filter_jit
def _hessian(problem: Problem, x: Float[Array, " K"], warm_starts: WarmStarts) -> Float[Array, "K K"]:
    product = functools.partial(_product, problem, x, warm_starts)
    # A few directions at a time: all of them at once would hold K copies of every intermediate array.
    values = max(objective.num_values for objective in problem.objectives)
    batch = max(1, min(len(x), 64, 64 * SMALL_PROBLEM // values))
    return jax.lax.map(product, jnp.eye(len(x)), batch_size=batch)


@eqx.filter_jit
def _hessian_product(
    problem: Problem, x: Float[Array, " K"], warm_starts: WarmStarts, v: Float[Array, " K"]
) -> Float[Array, " K"]:
    return _product(problem, x, warm_starts, v)


def _product(
    problem: Problem, x: Float[Array, " K"], warm_starts: WarmStarts, v: Float[Array, " K"]
) -> Float[Array, " K"]:
    return jax.jvp(lambda x: jax.grad(problem.loss, has_aux=True)(x, warm_starts)[0], (x,), (v,))[1]
