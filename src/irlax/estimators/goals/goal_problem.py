"""The problem that solvers minimise, where episodes end at goals: computed on the host, by sparse factorisations."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from irlax.demos import Demonstrations
from irlax.estimators.goals.objective import AbstractGoalObjective
from irlax.estimators.goals.reward_of_options import RewardOfOptions
from irlax.estimators.goals.trips import Sums, Trips
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation, Flattening, WarmStarts
from irlax.mdp import MDP
from irlax.planning.fixed_point import NoFixedPointError
from irlax.planning.goals import GoalBlock, GoalPlanner, Needed
from irlax.planning.goals.options import Options
from irlax.planning.goals.planner import BLOCK_SIZE
from irlax.planning.goals.separate import SeparateBlock
from irlax.rewards import AbstractReward
from irlax.typing import Array, Float, Int

Block = tuple[Int[np.ndarray, " g"], GoalBlock]


class GoalObjective(AbstractGoalObjective):
    """The loss of an episode as a function of θ, with derivatives: all goals share one reward."""

    def __init__(self, planner: GoalPlanner, reward: RewardOfOptions, trips: Trips, sums: Sums) -> None:
        self.planner, self.reward, self.trips, self.sums = planner, reward, trips, sums
        self.needed: Needed = trips.needed(planner.options.transitions)
        self._coefficients = sums.coefficients.tocsc()
        #: The solution of the last θ, as far as it is small enough to keep, and values from which others are found.
        self._solved: tuple[bytes, list[Block]] | None = None
        self._guess: Float[np.ndarray, "S G"] | None = None
        self._hessian: tuple[bytes, Float[np.ndarray, "K K"]] | None = None

    @property
    def options(self) -> Options:
        return self.planner.options

    @property
    def is_linear(self) -> bool:
        return self.reward.features is not None

    def blocks(self, theta: Float[np.ndarray, " K"]) -> Any:
        """The solution at θ, block by block; a NoFixedPointError where values do not exist."""
        if self._solved is not None and self._solved[0] == theta.tobytes():
            return self._solved[1]
        self._solved = None
        rewards, _ = self.reward(theta)
        found = self.planner.blocks(rewards, self.trips.goals, self.needed, self._guess)
        if self.planner.options.num_states * len(self.trips.goals) > BLOCK_SIZE:
            return found
        blocks = list(found)
        self._solved = (theta.tobytes(), blocks)
        if any(isinstance(block, SeparateBlock) for _, block in blocks):
            self._guess = np.empty((self.planner.options.num_states, len(self.trips.goals)))
            for members, block in blocks:
                self._guess[:, members] = block.value
        return blocks

    def coefficients(self, members: Int[np.ndarray, " g"]) -> Float[np.ndarray, "S g"]:
        """The coefficients of the values of some goals."""
        return self._coefficients[:, members].toarray()

    def value_and_gradient(self, theta: Float[np.ndarray, " K"]) -> tuple[float, Float[np.ndarray, " K"]]:
        """The loss and its gradient in θ; infinite where values do not exist."""
        rewards, pull_back = self.reward(theta)
        total, slope = float(self.sums.uses @ rewards), self.sums.uses.copy()
        try:
            for members, block in self.blocks(theta):
                starts = self._coefficients[:, members].tocoo()
                total += float(starts.data @ block.value_at(starts.row, starts.col))
                slope += block.flow(starts.toarray())
        except NoFixedPointError:
            return np.inf, np.zeros(len(theta))
        return -total / self.sums.total, -pull_back(slope) / self.sums.total

    def hessian(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, "K K"]:
        """Second derivatives of the loss in θ; those of the last θ are kept."""
        if self._hessian is not None and self._hessian[0] == theta.tobytes():
            return self._hessian[1]
        features = self.reward.columns()
        curvature = sum(
            block.curvature(self.coefficients(members), features)[0] for members, block in self.blocks(theta)
        )
        self._hessian = (theta.tobytes(), -np.asarray(curvature) / self.sums.total)
        return self._hessian[1]

    def hessian_product(self, theta: Float[np.ndarray, " K"], v: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Second derivatives of the loss in θ, times a vector."""
        change = self.reward.direction(v)[:, None]
        _, pull_back = self.reward(theta)
        slope = np.zeros(len(change))
        for members, block in self.blocks(theta):
            slope += flow_tangents(self.planner, block, self.coefficients(members), change)[:, 0]
        return -pull_back(slope) / self.sums.total

    def scores(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, "n K"]:
        """∂ log π / ∂θ of each observed choice."""
        features, options, trips = self.reward.columns(), self.planner.options, self.trips
        scores = features[trips.option]
        place = np.empty(len(trips.goals), int)
        for members, block in self.blocks(theta):
            place[:] = -1
            place[members] = np.arange(len(members))
            rows = np.flatnonzero(place[trips.goal] >= 0)
            column, ahead = place[trips.goal[rows]], options.transitions[trips.option[rows]].tocoo()
            for k, slope in enumerate(block.tangents(features)):
                following = np.bincount(
                    ahead.row, weights=ahead.data * slope[ahead.col, column[ahead.row]], minlength=len(rows)
                )
                scores[rows, k] += options.discount * following - slope[trips.state[rows], column]
        return scores / options.scale[trips.state][:, None]

    def changes(
        self, theta: Float[np.ndarray, " K"], move: Float[np.ndarray, " K"]
    ) -> Iterator[tuple[GoalBlock, Float[np.ndarray, "J 1"]]]:
        change = self.reward.direction(move)[:, None]
        for _, block in self.blocks(theta):
            yield block, change

    def log_likelihood(self, theta: Float[np.ndarray, " K"]) -> float:
        """Σ w log π over all observed choices."""
        rewards, _ = self.reward(theta)
        options, trips = self.planner.options, self.trips
        sums = trips.likelihood(options.transitions, options.discount, discounted=False)
        total, coefficients = float(sums.uses @ rewards), sums.coefficients.tocsc()
        for members, block in self.blocks(theta):
            starts = coefficients[:, members].tocoo()
            total += float(starts.data @ block.value_at(starts.row, starts.col))
        return total


def flow_tangents(
    planner: GoalPlanner, block: GoalBlock, start: Float[np.ndarray, "S G"], features: Float[np.ndarray, "J K"]
) -> Float[np.ndarray, "J K"]:
    r"""∂/∂θ of the expected uses of each option, summed over goals, for episodes that start with the mass `start`.

    With visits $\rho = (I - \gamma P_\pi)^{-\top}\,\text{start}$ the uses are ρπ, and
    $\partial\rho = (I - \gamma P_\pi)^{-\top}\,\gamma\,\partial P_\pi^\top \rho$,
    $\partial\pi = \pi\,(\phi + \gamma\,\partial V' - \partial V)/\mu$.
    """
    options, policy, mass = planner.options, block.policy(), block.mass(start)
    here = mass[options.state]
    result = np.empty(features.shape)
    for k, slope in enumerate(block.tangents(features)):
        ahead = features[:, k : k + 1] + options.discount * (options.transitions @ slope)
        changed = here * policy * (ahead - slope[options.state]) / options.scale[options.state][:, None]
        arriving = block.mass(options.discount * (options.transitions.T @ changed))
        result[:, k] = (changed + arriving[options.state] * policy).sum(axis=1)
    return result


class GoalProblem(AbstractProblem):
    """Minimise the objective of an episode + ½·l2·‖θ‖² over x = θ·scale."""

    objective: AbstractGoalObjective = eqx.field(static=True)
    flattening: Flattening
    scale: Float[Array, " K"]
    l2: Float[Array, ""]
    #: The data, by which one problem is told from another when a run is resumed.
    uses: Float[np.ndarray, " J"]

    def loss(self, x: Float[Array, " K"], warm_starts: WarmStarts) -> tuple[Float[Array, ""], WarmStarts]:
        theta = x / self.scale
        return _on_host(self.objective, theta) + 0.5 * self.l2 * (theta @ theta), warm_starts

    def initial_warm_starts(self) -> WarmStarts:
        return ()

    def evaluate(self, x: Float[np.ndarray, " K"], warm_starts: WarmStarts | None = None) -> Evaluation:
        scale, l2 = np.asarray(self.scale), float(self.l2)
        theta = np.asarray(x) / scale
        value, gradient = self.objective.value_and_gradient(theta)
        return Evaluation(np.asarray(x), value + 0.5 * l2 * float(theta @ theta), (gradient + l2 * theta) / scale, ())

    def hessian(self, at: Evaluation) -> Float[np.ndarray, "K K"]:
        scale = np.asarray(self.scale)
        matrix = self.objective.hessian(at.x / scale) + float(self.l2) * np.eye(len(scale))
        matrix = matrix / np.outer(scale, scale)
        return (matrix + matrix.T) / 2

    def hessian_product(self, at: Evaluation, v: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        scale = np.asarray(self.scale)
        return (self.objective.hessian_product(at.x / scale, v / scale) + float(self.l2) * v / scale) / scale

    @property
    def resolution(self) -> float:
        return 1e-11


def _on_host(objective: AbstractGoalObjective, theta: Float[Array, " K"]) -> Float[Array, ""]:
    """The loss within a compiled program, by a callback to the host."""
    shapes = (jax.ShapeDtypeStruct((), theta.dtype), jax.ShapeDtypeStruct(theta.shape, theta.dtype))

    def evaluate(theta: Any) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = objective.value_and_gradient(np.asarray(theta, np.float64))
        return np.asarray(value, theta.dtype), np.asarray(gradient, theta.dtype)

    @jax.custom_vjp
    def loss(theta):
        return jax.pure_callback(evaluate, shapes, theta, vmap_method="sequential")[0]

    loss.defvjp(
        lambda theta: jax.pure_callback(evaluate, shapes, theta, vmap_method="sequential"),
        lambda gradient, cotangent: (cotangent * gradient,),
    )
    return loss(theta)


def objective_of(mdp: MDP, reward: AbstractReward, demos: Demonstrations) -> GoalObjective:
    """The likelihood of demonstrations that were checked, every choice counted once."""
    planner = GoalPlanner.of(mdp)
    trips = Trips.of(planner, mdp, demos)
    sums = trips.likelihood(planner.options.transitions, planner.options.discount, discounted=False)
    return GoalObjective(planner, RewardOfOptions(mdp, reward, planner.options), trips, sums)
