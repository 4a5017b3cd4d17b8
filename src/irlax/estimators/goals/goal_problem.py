"""The problem that solvers minimise, where episodes end at goals: computed on the host, by sparse factorisations."""

import copy
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import equinox as eqx
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
        self._kept_flows: tuple[list[Block], list[BlockFlows]] | None = None
        self._hessian: tuple[bytes, Float[np.ndarray, "K K"]] | None = None

    @property
    def options(self) -> Options:
        return self.planner.options

    @property
    def is_linear(self) -> bool:
        return self.reward.features is not None

    def blocks(self, theta: Float[np.ndarray, " K"]) -> Iterable[Block]:
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
        for flows in self._flows(theta):
            slope += flow_tangents(self.planner, flows, change)[:, 0]
        return -pull_back(slope) / self.sums.total

    def _flows(self, theta: Float[np.ndarray, " K"]) -> Iterable["BlockFlows"]:
        """Policies and visits at θ; those of the last θ are kept if its solution is, for the next product."""
        blocks = self.blocks(theta)
        if not isinstance(blocks, list):
            return (BlockFlows.of(block, self.coefficients(members)) for members, block in blocks)
        if self._kept_flows is None or self._kept_flows[0] is not blocks:
            flows = [BlockFlows.of(block, self.coefficients(members)) for members, block in blocks]
            self._kept_flows = (blocks, flows)
        return self._kept_flows[1]

    def scores(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, "n K"]:
        """∂ log π / ∂θ of each observed choice."""
        return self._log_policy_tangents(theta, self.reward.columns())

    def log_policy_changes(
        self, theta: Float[np.ndarray, " K"], move: Float[np.ndarray, " K"]
    ) -> Float[np.ndarray, " n"]:
        """The changes of log π of each observed choice, to first order in a move of the parameters."""
        return self._log_policy_tangents(theta, self.reward.direction(move)[:, None])[:, 0]

    def _log_policy_tangents(
        self, theta: Float[np.ndarray, " K"], features: Float[np.ndarray, "J k"]
    ) -> Float[np.ndarray, "n k"]:
        options, trips = self.planner.options, self.trips
        slopes = features[trips.option]
        for rows, column, block in self._by_block(theta, trips.goal):
            ahead = options.transitions[trips.option[rows]].tocoo()
            for k, slope in enumerate(block.tangents(features)):
                following = np.bincount(
                    ahead.row, weights=ahead.data * slope[ahead.col, column[ahead.row]], minlength=len(rows)
                )
                slopes[rows, k] += options.discount * following - slope[trips.state[rows], column]
        return slopes / options.scale[trips.state][:, None]

    def log_policies(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, " n"]:
        """log π of each observed choice; a NoFixedPointError where values do not exist."""
        return self.log_policies_of(theta, self.trips.option, self.trips.goal)

    def log_policies_of(
        self, theta: Float[np.ndarray, " K"], option: Int[np.ndarray, " n"], goal: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """log π of some options on the way to the goals of some indices; −∞ where they never lead there."""
        options, rewards = self.planner.options, self.reward(theta)[0]
        result = np.empty(len(option))
        for rows, column, block in self._by_block(theta, goal):
            chosen, state = option[rows], options.state[option[rows]]
            ahead = options.transitions[chosen].tocoo()
            values = ahead.data * block.value_at(ahead.col, column[ahead.row])
            following = np.bincount(ahead.row, weights=values, minlength=len(rows))
            gain = rewards[chosen] + options.discount * following - block.value_at(state, column)
            result[rows] = gain / options.scale[state]
        return result

    def _by_block(
        self, theta: Float[np.ndarray, " K"], goal: Int[np.ndarray, " n"]
    ) -> Iterator[tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], GoalBlock]]:
        """For each block its rows, given the goal of each, and the column of their goals in the block."""
        place = np.empty(len(self.trips.goals), int)
        for members, block in self.blocks(theta):
            place[:] = -1
            place[members] = np.arange(len(members))
            rows = np.flatnonzero(place[goal] >= 0)
            yield rows, place[goal[rows]], block

    def weighted(self, weight: Float[np.ndarray, " n"], total: float) -> "GoalObjective":
        """The likelihood in which each choice counts so much, divided by a total; what is solved already is shared."""
        transitions, discount = self.options.transitions, self.options.discount
        other = copy.copy(self)
        other.trips = self.trips._replace(weight=weight)
        other.sums = other.trips.likelihood(transitions, discount, discounted=False)._replace(total=total)
        other._coefficients = other.sums.coefficients.tocsc()
        other._kept_flows = other._hessian = None
        return other

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


class BlockFlows(NamedTuple):
    """The solution of some goals, with policies, and the expected visits of episodes that start with some mass."""

    block: GoalBlock
    policy: Float[np.ndarray, "J G"]
    mass: Float[np.ndarray, "S G"]

    @classmethod
    def of(cls, block: GoalBlock, start: Float[np.ndarray, "S G"]) -> "BlockFlows":
        """Policies, and the visits from `start`."""
        return cls(block, block.policy(), block.mass(start))


def flow_tangents(
    planner: GoalPlanner, flows: BlockFlows, features: Float[np.ndarray, "J K"]
) -> Float[np.ndarray, "J K"]:
    r"""∂/∂θ of the expected uses of each option, summed over goals.

    With visits $\rho = (I - \gamma P_\pi)^{-\top}\,\text{start}$ the uses are ρπ, and
    $\partial\rho = (I - \gamma P_\pi)^{-\top}\,\gamma\,\partial P_\pi^\top \rho$,
    $\partial\pi = \pi\,(\phi + \gamma\,\partial V' - \partial V)/\mu$.
    """
    options, (block, policy, mass) = planner.options, flows
    used = mass[options.state] * policy / options.scale[options.state][:, None]
    result = np.empty(features.shape)
    for k, slope in enumerate(block.tangents(features)):
        ahead = features[:, k : k + 1] + options.discount * (options.transitions @ slope)
        changed = used * (ahead - slope[options.state])
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


def objective_of(mdp: MDP, reward: AbstractReward, demos: Demonstrations, planner: GoalPlanner) -> GoalObjective:
    """The likelihood of demonstrations that were checked, every choice counted once."""
    trips = Trips.of(planner, mdp, demos)
    sums = trips.likelihood(planner.options.transitions, planner.options.discount, discounted=False)
    return GoalObjective(planner, RewardOfOptions(mdp, reward, planner.options), trips, sums)
