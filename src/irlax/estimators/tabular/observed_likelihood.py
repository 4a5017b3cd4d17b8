"""The likelihood of observed choices, with the index from rows of demonstrations to distinct choices."""

from typing import Any, NamedTuple

import numpy as np

from irlax.estimators.tabular.choices import Choices
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.objectives import Likelihood
from irlax.mdp import MDP
from irlax.precision import to_device
from irlax.rewards import AbstractReward
from irlax.rewards.reward import AbstractFolded
from irlax.typing import Float, Int


class ObservedLikelihood(NamedTuple):
    """The objective over distinct choices, grouped by time, and the index of each observed choice among them."""

    objective: Likelihood
    #: The period and the column of each row of the demonstrations; None for a policy, which has no rows.
    places: tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]] | None

    @classmethod
    def of(cls, expert: Expert, reward: AbstractReward, *, discounted: bool = False) -> "ObservedLikelihood":
        """The likelihood of a demonstrator's choices, each counted once or by γᵗ, per episode."""
        observed = expert.choices(discounted=discounted)
        return cls(likelihood_of(expert.mdp, reward.fold(expert.mdp), observed), observed.places)

    @property
    def shape(self) -> tuple[int, int]:
        """(periods, distinct choices in each)."""
        periods, width = self.objective.weights.shape
        return periods, width

    def by_row(self, cells: Any) -> Float[np.ndarray, "n *rest"]:
        """Values of distinct choices, [T, M, …], repeated for each row of the demonstrations."""
        assert self.places is not None
        return np.asarray(cells)[self.places]

    def cells(self) -> Int[np.ndarray, " n"]:
        """The index of the distinct choice of each row of the demonstrations, in the flattened grid [T, M]."""
        assert self.places is not None
        return np.ravel_multi_index(self.places, self.shape)


def likelihood_of(mdp: MDP, folded: AbstractFolded, choices: Choices) -> Likelihood:
    """The likelihood objective of choices that are grouped by time."""
    arrays = (to_device(array) for array in (choices.states, choices.actions, choices.weights))
    return Likelihood(mdp, folded, *arrays)
