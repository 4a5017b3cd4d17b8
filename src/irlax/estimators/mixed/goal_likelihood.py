r"""The likelihood of groups on the way to goals, with its derivatives.

Values for goals are solved for on the host, and the likelihood of what is hidden is a compiled program of the log
policies $\ell$ of cells under the groups. So with loss L,

$$\partial_\theta L = J^\top u, \qquad \partial^2_\theta L = \sum_c u_c\,\partial^2_\theta \ell_c + J^\top D J, \qquad
  u = \partial_\ell L,\; D = \partial^2_\ell L,\; J = \partial_\theta \ell.$$

−u are the expected numbers of choices (Fisher's identity; Louis 1982), and the first terms are gradient and Hessian of
weighted likelihoods of single groups; D enters by products with the columns of J.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.demos.sizes import rounded_up
from irlax.estimators.goals.several_mdps import SeveralMDPs
from irlax.estimators.mixed.hidden import HiddenLoss
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation, Flattening, WarmStarts
from irlax.planning.fixed_point import NoFixedPointError
from irlax.typing import Array, Float

#: Directions of one batch of second derivatives.
BATCH = 8


class Group(NamedTuple):
    """The likelihood of one group, its parameters, and a number for each cell."""

    objective: SeveralMDPs
    theta: Float[np.ndarray, " K"]
    cells: Float[np.ndarray, " C"]


class GoalGroups(eqx.Module):
    """The choices of G groups towards goals; each group keeps its last solution."""

    objectives: tuple[SeveralMDPs, ...] = eqx.field(static=True)
    sizes: tuple[int, ...] = eqx.field(static=True)

    @property
    def num_observed(self) -> int:
        """The number of distinct choices."""
        return sum(self.objectives[0].sizes)

    @property
    def num_cells(self) -> int:
        """C, the same rounded up: data of about the same size share compiled programs. The other cells are empty."""
        return rounded_up(self.num_observed)

    def padded(self, values: Float[np.ndarray, "*k n"]) -> Float[np.ndarray, "*k C"]:
        """Values of choices as values of cells, 0 for empty ones."""
        missing = self.num_cells - values.shape[-1]
        return np.concatenate([values, np.zeros((*values.shape[:-1], missing))], axis=-1)

    def split(self, theta: Any) -> list[Any]:
        """The parameters of each group, of the vector of all."""
        return np.split(theta, np.cumsum(self.sizes)[:-1])

    def each(self, theta: Any, cells: Any) -> list[Group]:
        """Every group, with its part of parameters and of a table [G, C], without the empty cells."""
        values = np.asarray(cells)[:, : self.num_observed]
        parts = zip(self.objectives, self.split(np.asarray(theta)), values, strict=True)
        return [Group(*part) for part in parts]

    def log_policies(self, theta: Float[np.ndarray, " P"]) -> Float[np.ndarray, "G C"]:
        """log π of each cell under each group; a NoFixedPointError where values do not exist."""
        groups = zip(self.objectives, self.split(theta), strict=True)
        return self.padded(np.stack([objective.log_policies(of_group) for objective, of_group in groups]))


class Point(NamedTuple):
    """Log policies, and the parameters that they are of, without their scales."""

    choices: Any
    theta: Any
    rest: Any


class GoalLikelihood(AbstractProblem):
    """The likelihood in which groups are summed out, in all parameters; see the module."""

    groups: GoalGroups
    loss: HiddenLoss
    flattening: Flattening
    scale: Float[Array, " P"]
    l2: Float[Array, ""]

    def point(self, x: Float[np.ndarray, " P"]) -> Point:
        """Log policies at some parameters; a NoFixedPointError where values do not exist."""
        theta, rest = self.flattening.unflatten(jnp.asarray(np.asarray(x) / np.asarray(self.scale)))
        return Point(jnp.asarray(self.groups.log_policies(np.asarray(theta))), theta, rest)

    def evaluate(self, x: Float[np.ndarray, " P"], warm_starts: WarmStarts | None = None) -> Evaluation:
        try:
            point = self.point(x)
        except NoFixedPointError:
            return Evaluation(np.asarray(x), np.inf, np.zeros(len(x)), ())
        value, slopes = _value_and_slopes(self.loss, point)
        return Evaluation(np.asarray(x), float(value), self._pulled(point, slopes) / np.asarray(self.scale), ())

    def hessian(self, at: Evaluation) -> Float[np.ndarray, "P P"]:
        point = self.point(at.x)
        directions = self._directions(point)
        matrix = np.array(_curvature(self.loss, point, directions))
        end = 0
        for objective, theta, slopes in self._groups(point):
            some, end = slice(end, end + len(theta)), end + len(theta)
            matrix[some, some] -= objective.weighted(slopes, 1.0).hessian(theta)
        matrix = matrix / np.outer(np.asarray(self.scale), np.asarray(self.scale))
        return (matrix + matrix.T) / 2

    def hessian_product(self, at: Evaluation, v: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
        point = self.point(at.x)
        theta, rest = self.flattening.unflatten(jnp.asarray(v / np.asarray(self.scale)))
        moves = self.groups.split(np.asarray(theta))
        groups = list(zip(self._groups(point), moves, strict=True))
        changes = [objective.log_policy_changes(of_group, move) for (objective, of_group, _), move in groups]
        direction = Point(jnp.asarray(self.groups.padded(np.stack(changes))), theta, rest)
        result = self._pulled(point, _slope_changes(self.loss, point, direction))
        bent = [
            objective.weighted(slopes, 1.0).hessian_product(of_group, move)
            for (objective, of_group, slopes), move in groups
        ]
        result[: len(theta)] -= np.concatenate(bent)
        return result / np.asarray(self.scale)

    @property
    def resolution(self) -> float:
        return 1e-11

    def _groups(self, point: Point) -> list[Group]:
        """The likelihood of each group, its parameters, and the derivatives of the loss in its log policies."""
        return self.groups.each(point.theta, _value_and_slopes(self.loss, point)[1].choices)

    def _pulled(self, point: Point, slopes: Point) -> Float[np.ndarray, " P"]:
        """Derivatives in log policies and in parameters, as derivatives in parameters alone."""
        groups = self.groups.each(point.theta, slopes.choices)
        pulled = [
            -objective.weighted(of_group, 1.0).value_and_gradient(theta)[1] for objective, theta, of_group in groups
        ]
        rest = [np.ravel(leaf) for leaf in jax.tree.leaves(slopes.rest)]
        return np.concatenate([np.asarray(slopes.theta) + np.concatenate(pulled), *rest])

    def unit_scores(self, x: Float[np.ndarray, " P"]) -> Float[np.ndarray, "N P"]:
        """First derivatives of the log likelihood of each unit, in parameters without their scales."""
        point = self.point(x)
        return np.asarray(_unit_slopes(self.loss, point, self._directions(point))).T

    def _directions(self, point: Point) -> Point:
        """The change of the point with each parameter, one after the other."""
        number = len(self.scale)
        theta, rest = jax.vmap(self.flattening.unflatten)(jnp.eye(number))
        choices, end = np.zeros((number, *point.choices.shape)), 0
        for g, (objective, of_group, slopes) in enumerate(self.groups.each(point.theta, point.choices)):
            some, end = slice(end, end + len(of_group)), end + len(of_group)
            choices[some, g, : len(slopes)] = objective.scores(of_group).T
        return Point(jnp.asarray(choices), theta, rest)


@eqx.filter_jit
def _value_and_slopes(loss: HiddenLoss, point: Point) -> tuple[Float[Array, ""], Point]:
    return jax.value_and_grad(lambda point: loss(*point))(point)


@eqx.filter_jit
def _slope_changes(loss: HiddenLoss, point: Point, direction: Point) -> Point:
    return jax.jvp(jax.grad(lambda point: loss(*point)), (point,), (direction,))[1]


@eqx.filter_jit
def _curvature(loss: HiddenLoss, point: Point, directions: Point) -> Float[Array, "P P"]:
    """The second derivatives of the loss along all pairs of directions."""
    slope = jax.grad(lambda point: loss(*point))

    def along(direction: Point) -> Float[Array, " P"]:
        change = jax.jvp(slope, (point,), (direction,))[1]
        products = jax.tree.map(lambda each, by: each.reshape(len(each), -1) @ by.ravel(), directions, change)
        return sum(jax.tree.leaves(products), jnp.zeros(()))

    return jax.lax.map(along, directions, batch_size=BATCH)


@eqx.filter_jit
def _unit_slopes(loss: HiddenLoss, point: Point, directions: Point) -> Float[Array, "P N"]:
    def by_unit(choices: Any, rest: Any) -> Float[Array, " N"]:
        return loss.hidden.log_likelihoods(choices, rest)

    def along(direction: Point) -> Float[Array, " N"]:
        return jax.jvp(by_unit, (point.choices, point.rest), (direction.choices, direction.rest))[1]

    return jax.lax.map(along, directions, batch_size=BATCH)
