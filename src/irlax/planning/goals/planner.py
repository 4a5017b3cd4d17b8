"""Values for many goals, block by block, by the method that fits the MDP."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from irlax.mdp import MDP
from irlax.planning.fixed_point import NoFixedPointError
from irlax.planning.goals.options import Options
from irlax.planning.goals.separate import SeparateBlock, SeparatePattern, goal_system
from irlax.planning.goals.shared import SharedBlock, SharedPattern, alone, shared_blocks, solved_block
from irlax.typing import Float, Int

GoalBlock = SharedBlock | SeparateBlock
#: The arrays of one block over states and goals, or over options and goals, hold at most this many numbers (32 MB).
BLOCK_SIZE = 4_000_000


class Needed(NamedTuple):
    """States whose values are needed, each for the goal of an index."""

    states: Int[np.ndarray, " n"]
    goals: Int[np.ndarray, " n"]

    def among(self, members: Int[np.ndarray, " g"], num_goals: int) -> "Needed":
        """Those of some goals, with indices among them."""
        place = np.full(num_goals, -1)
        place[members] = np.arange(len(members))
        column = place[self.goals]
        return Needed(self.states[column >= 0], column[column >= 0])


class GoalPlanner(NamedTuple):
    """An MDP whose episodes end at goals, ready to be solved for rewards of its options."""

    options: Options
    pattern: SharedPattern | SeparatePattern

    @classmethod
    def of(cls, mdp: MDP, scale: Float[np.ndarray, " S"] | None = None) -> "GoalPlanner":
        """The planner of an MDP; `scale` is μ(s), by default 1 everywhere."""
        if mdp.horizon is not None:
            raise ValueError(
                f"Episodes that end at goals need an MDP without a horizon, but it has horizon {mdp.horizon}. Build it "
                f"with `horizon=None`."
            )
        return cls.of_options(Options.of(mdp, scale))

    @classmethod
    def of_options(cls, options: Options) -> "GoalPlanner":
        """The planner of options."""
        pattern = SharedPattern.of(options) if options.shares_factors else SeparatePattern.of(options)
        return cls(options, pattern)

    def blocks(
        self,
        reward: Float[np.ndarray, " J"],
        goals: Int[np.ndarray, " G"],
        needed: Needed | None = None,
        guess: Float[np.ndarray, "S G"] | None = None,
    ) -> Iterator[tuple[Int[np.ndarray, " g"], GoalBlock]]:
        """Indices of goals with their solution, block by block; a NoFixedPointError where values do not exist.

        Values are right in the `needed` states (by default in all that reach a goal). `guess` is where the search
        for a solution may start.
        """
        if isinstance(self.pattern, SeparatePattern):
            yield from _separate_blocks(self.pattern, reward, goals, guess)
            return
        yield from _shared_blocks(self.pattern, reward, goals, self._all_reaching(goals) if needed is None else needed)

    def _all_reaching(self, goals: Int[np.ndarray, " G"]) -> Needed:
        edges = self.options.graph
        pairs = [np.flatnonzero(self.options.reaching(int(goal), edges)) for goal in goals]
        return Needed(np.concatenate(pairs), np.repeat(np.arange(len(goals)), [len(states) for states in pairs]))


def _shared_blocks(
    pattern: SharedPattern, reward: Float[np.ndarray, " J"], goals: Int[np.ndarray, " G"], needed: Needed
) -> Iterator[tuple[Int[np.ndarray, " g"], GoalBlock]]:
    if pattern.options.scale[0] != 1:
        raise ValueError("Scales that are all equal cannot be told from the size of rewards: leave them at 1.")
    width = max(1, BLOCK_SIZE // max(pattern.options.num_states, 1))
    try:
        groups = shared_blocks(pattern, reward, goals)
    except RuntimeError:
        groups = [(np.arange(len(goals)), None)]
    for members, factors in groups:
        for start in range(0, len(members), width):
            some = members[start : start + width]
            sound = np.zeros(len(some), bool)
            if factors is not None:
                block = solved_block(factors, goals[some])
                sound = block.sound(*needed.among(some, len(goals)))
                if sound.all():
                    yield some, block
                elif sound.any():
                    yield some[sound], block.only_columns(np.flatnonzero(sound))
            for index in some[~sound]:
                yield np.array([index]), _alone(pattern, reward, int(index), goals, needed)


def _alone(
    pattern: SharedPattern, reward: Float[np.ndarray, " J"], index: int, goals: Int[np.ndarray, " G"], needed: Needed
) -> SharedBlock:
    goal = goals[index : index + 1]
    try:
        block = solved_block(alone(pattern, reward, int(goal[0])), goal)
    except RuntimeError:
        raise no_values(int(goal[0])) from None
    if not block.sound(*needed.among(np.array([index]), len(goals))).all():
        raise no_values(int(goal[0]))
    return block


def _separate_blocks(
    pattern: SeparatePattern,
    reward: Float[np.ndarray, " J"],
    goals: Int[np.ndarray, " G"],
    guess: Float[np.ndarray, "S G"] | None,
) -> Iterator[tuple[Int[np.ndarray, " g"], GoalBlock]]:
    # The factors of each goal are kept while its block is in use, and take some ten numbers for each option.
    width = max(1, BLOCK_SIZE // (10 * max(len(pattern.options.state), 1)))
    for start in range(0, len(goals), width):
        some = np.arange(start, min(start + width, len(goals)))
        systems = []
        for index in some:
            system = goal_system(pattern, reward, int(goals[index]), None if guess is None else guess[:, index])
            if system is None:
                raise no_values(int(goals[index]))
            systems.append(system)
        yield some, SeparateBlock(pattern, reward, goals[some], tuple(systems))


def no_values(goal: int) -> NoFixedPointError:
    """The error where values do not exist."""
    return NoFixedPointError(
        f"Values for goal {goal} do not exist: at discount = 1 the reward and the entropy of some cycle outweigh the "
        f"way to the goal, so that they grow without bound. Lower the rewards, or discount."
    )
