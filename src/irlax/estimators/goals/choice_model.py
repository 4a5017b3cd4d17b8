r"""The model of choices on the way to goals, at given parameters β = (θ, η, ω).

$$r_{og}(j) = \theta^\top\phi_j + \eta^\top\psi_{og}(j), \quad \mu_s = e^{\omega^\top x_s}, \quad
  V_{og}(s) = \mu_s \log\textstyle\sum_j e^{(r_{og}(j) + \gamma\,\mathbb{E}V_{og}(S'))/\mu_s}$$

η belongs to attributes ψ that differ by start o and goal g, and ω to scales that differ by state; most fits have only
θ. By the envelope theorem
$\partial V = \gamma P_\pi\,\partial V + \sum_j \pi_j\,\partial r_j + H_s(\pi)\,\partial\mu_s$, and
$\partial\log\pi_j = (\partial r_j + \gamma\,\partial V' - \partial V - \log\pi_j\,\partial\mu_s)/\mu_s$. So to
first order a scale is one more feature, $-\log\pi_j\,\mu_s x_s$, whose mean over choices is $H_s\,\mu_s x_s$.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from irlax.estimators.goals.components import PairFeatures, StateScales
from irlax.planning.goals import GoalBlock, GoalPlanner, Needed
from irlax.planning.goals.options import Options
from irlax.planning.goals.planner import BLOCK_SIZE
from irlax.planning.goals.separate import SeparatePattern
from irlax.planning.goals.shared import SharedBlock
from irlax.typing import Float, Int


class Solved(NamedTuple):
    """Solutions for some pairs of a start and a goal."""

    #: The indices of the pairs, and the column of each in the block.
    rows: Int[np.ndarray, " n"]
    columns: Int[np.ndarray, " n"]
    block: GoalBlock
    rewards: Float[np.ndarray, " J"]
    #: ∂r/∂β with scales as features; None if the reward is not linear.
    features: Float[np.ndarray, "J K"] | None

    def starts(self, states: Int[np.ndarray, " n"], amounts: Float[np.ndarray, " n"], size: int) -> np.ndarray:
        """Amounts by state and column, [S, G]."""
        mass = np.zeros((size, len(self.block.goals)))
        np.add.at(mass, (states[self.rows], self.columns), amounts[self.rows])
        return mass


class ChoiceModel(NamedTuple):
    """Rewards and scales of options at the parameters of a fit."""

    planner: GoalPlanner
    #: θ·φ, and φ if the reward is linear.
    rewards: Float[np.ndarray, " J"]
    features: Float[np.ndarray, "J K"] | None
    scales: StateScales | None = None
    pairs: PairFeatures | None = None

    @classmethod
    def of(
        cls,
        options: Options,
        rewards: Float[np.ndarray, " J"],
        features: Float[np.ndarray, "J K"] | None,
        scales: StateScales | None = None,
        pairs: PairFeatures | None = None,
    ) -> "ChoiceModel":
        """The model in an MDP whose options have the scale 1."""
        if scales is None:
            return cls(GoalPlanner.of_options(options), rewards, features, None, pairs)
        scaled = options._replace(scale=scales.scale)
        return cls(GoalPlanner(scaled, SeparatePattern.of(scaled)), rewards, features, scales, pairs)

    @property
    def options(self) -> Options:
        """The options, with the scale of each state."""
        return self.planner.options

    def solutions(
        self,
        starts: Int[np.ndarray, " n"],
        goals: Int[np.ndarray, " n"],
        needed: Needed | None = None,
        guesses: dict[int, np.ndarray] | None = None,
    ) -> Iterator[Solved]:
        """The solution for each pair of a start and a goal, block by block; a NoFixedPointError where there is none.

        Values are right where they are `needed` (states, each for the pair of an index); by default at the starts.
        """
        needed = Needed(starts, np.arange(len(starts))) if needed is None else needed
        if self.scales is None and self.pairs is None:
            return self._by_block(goals, needed)
        return self._one_by_one(starts, goals, needed, guesses)

    def _by_block(self, goals: Int[np.ndarray, " n"], needed: Needed) -> Iterator[Solved]:
        distinct, index = np.unique(goals, return_inverse=True)
        by_goal = Needed(needed.states, index[needed.goals])
        for members, block in self._split(self.planner.blocks(self.rewards, distinct, by_goal)):
            place = np.full(len(distinct), -1)
            place[members] = np.arange(len(members))
            rows = np.flatnonzero(place[index] >= 0)
            yield Solved(rows, place[index[rows]], block, self.rewards, self.features)

    def _split(self, blocks: Any) -> Iterator[tuple[Int[np.ndarray, " g"], GoalBlock]]:
        """Blocks whose arrays over options and goals are bounded, too."""
        width = max(1, BLOCK_SIZE // max(len(self.options.state), 1))
        for members, block in blocks:
            if not isinstance(block, SharedBlock) or len(members) <= width:
                yield members, block
                continue
            for k in range(0, len(members), width):
                columns = np.arange(k, min(k + width, len(members)))
                yield members[columns], block.only_columns(columns)

    def groups(
        self, starts: Int[np.ndarray, " n"], goals: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"]]:
        """The group of each pair, and the first pair of each: those with one goal, or with one start and goal."""
        key = goals if self.pairs is None else self.pairs.index_of(starts, goals)
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        return group, first

    def _one_by_one(
        self,
        starts: Int[np.ndarray, " n"],
        goals: Int[np.ndarray, " n"],
        needed: Needed,
        guesses: dict[int, np.ndarray] | None,
    ) -> Iterator[Solved]:
        group, first = self.groups(starts, goals)
        index = np.zeros(len(starts), int) if self.pairs is None else self.pairs.index_of(starts, goals)
        order = np.argsort(group, kind="stable")
        parts = np.split(order, np.searchsorted(group[order], np.arange(1, len(first))))
        wanted = np.argsort(group[needed.goals], kind="stable")
        bounds = np.searchsorted(group[needed.goals][wanted], np.arange(len(first) + 1))
        for g, rows in enumerate(parts):
            rewards, features = self._of_pair(int(index[first[g]]))
            states = needed.states[wanted[bounds[g] : bounds[g + 1]]]
            guess = None if guesses is None or g not in guesses else guesses[g][:, None]
            goal = goals[first[g] : first[g] + 1]
            # A list: one goal has one block.
            (_, block), *_ = self.planner.blocks(rewards, goal, Needed(states, np.zeros(len(states), int)), guess)
            yield Solved(rows, np.zeros(len(rows), int), block, rewards, self._with_scales(features, block))

    def _of_pair(self, index: int) -> tuple[Float[np.ndarray, " J"], Float[np.ndarray, "J K"] | None]:
        """Rewards, and their derivatives in (θ, η), of a pair."""
        if self.pairs is None:
            return self.rewards, self.features
        extra = self.pairs.features[index][self.options.row, self.options.column]
        features = None if self.features is None else np.concatenate([self.features, extra], axis=1)
        return self.rewards + extra @ self.pairs.weights, features

    def _with_scales(
        self, features: Float[np.ndarray, "J K"] | None, block: GoalBlock
    ) -> Float[np.ndarray, "J L"] | None:
        if self.scales is None or features is None:
            return features
        policy, state = block.policy()[:, 0], self.options.state
        logs = np.log(np.where(policy > 0, policy, 1.0))
        slopes = self.scales.features * self.options.scale[:, None]
        return np.concatenate([features, -logs[:, None] * slopes[state]], axis=1)
