"""The likelihood of trips in several MDPs whose rewards have parameters in common."""

from collections.abc import Iterator

import numpy as np

from irlax.estimators.goals.goal_problem import GoalObjective
from irlax.estimators.goals.objective import AbstractGoalObjective
from irlax.planning.goals import GoalBlock
from irlax.planning.goals.options import Options
from irlax.typing import Float


class SeveralMDPs(AbstractGoalObjective):
    """The sum of the losses in all MDPs, whose totals must be equal; choices are one MDP's after the other's."""

    def __init__(self, parts: tuple[GoalObjective, ...]) -> None:
        self.parts = parts

    @property
    def options(self) -> Options:
        """The options of the first MDP."""
        return self.parts[0].options

    @property
    def is_linear(self) -> bool:
        return all(part.is_linear for part in self.parts)

    @property
    def sizes(self) -> list[int]:
        """The number of choices in each MDP."""
        return [len(part.trips.option) for part in self.parts]

    def value_and_gradient(self, theta: Float[np.ndarray, " K"]) -> tuple[float, Float[np.ndarray, " K"]]:
        total, slope = 0.0, np.zeros(len(theta))
        for part in self.parts:
            value, gradient = part.value_and_gradient(theta)
            total, slope = total + value, slope + gradient
        return total, slope

    def hessian(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, "K K"]:
        return np.sum([part.hessian(theta) for part in self.parts], axis=0)

    def hessian_product(self, theta: Float[np.ndarray, " K"], v: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        return np.sum([part.hessian_product(theta, v) for part in self.parts], axis=0)

    def scores(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, "n K"]:
        return np.concatenate([part.scores(theta) for part in self.parts])

    def log_likelihood(self, theta: Float[np.ndarray, " K"]) -> float:
        return sum(part.log_likelihood(theta) for part in self.parts)

    def changes(
        self, theta: Float[np.ndarray, " K"], move: Float[np.ndarray, " K"]
    ) -> Iterator[tuple[GoalBlock, Float[np.ndarray, "J 1"]]]:
        for part in self.parts:
            yield from part.changes(theta, move)

    def log_policies(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, " n"]:
        """log π of each choice; a NoFixedPointError where values do not exist."""
        return np.concatenate([part.log_policies(theta) for part in self.parts])

    def log_policy_changes(
        self, theta: Float[np.ndarray, " K"], move: Float[np.ndarray, " K"]
    ) -> Float[np.ndarray, " n"]:
        """The changes of log π of each choice, to first order in a move of the parameters."""
        return np.concatenate([part.log_policy_changes(theta, move) for part in self.parts])

    def weighted(self, weight: Float[np.ndarray, " n"], total: float) -> "SeveralMDPs":
        """The likelihood in which each choice counts so much, divided by a total; what is solved already is shared."""
        by_mdp = np.split(weight, np.cumsum(self.sizes)[:-1])
        parts = zip(self.parts, by_mdp, strict=True)
        return SeveralMDPs(tuple(part.weighted(of_mdp, total) for part, of_mdp in parts))
