"""The observed choices of demonstrators, of the kind that their demonstrations are."""

from irlax.estimators.mixed.cells import AbstractCells
from irlax.estimators.mixed.goal_cells import GoalCells
from irlax.estimators.mixed.observed_cells import ObservedCells
from irlax.estimators.tabular.expert import Expert
from irlax.rewards import AbstractReward


def cells_of(
    rewards: list[tuple[AbstractReward, ...]], experts: tuple[Expert, ...], *, num_groups: int
) -> AbstractCells:
    """The cells of all experts' choices; `rewards` has one class for all groups, or one for each, by MDP."""
    kind = GoalCells if experts[0].has_goals else ObservedCells
    return kind.of(rewards, experts, num_groups=num_groups)
