"""What fits with goals minimise, as a function of the parameters with derivatives."""

import abc
from collections.abc import Iterator

import numpy as np

from irlax.planning.goals import GoalBlock
from irlax.planning.goals.options import Options
from irlax.typing import Float


class AbstractGoalObjective(abc.ABC):
    """The loss of an episode as a function of the parameters, computed on the host.

    A plain class: it keeps the solution of the last parameters for the derivatives that are asked for next.
    """

    @property
    @abc.abstractmethod
    def options(self) -> Options:
        """The options of the MDP."""

    @property
    @abc.abstractmethod
    def is_linear(self) -> bool:
        """Whether rewards are linear in the parameters, so that there are second derivatives."""

    @abc.abstractmethod
    def value_and_gradient(self, theta: Float[np.ndarray, " K"]) -> tuple[float, Float[np.ndarray, " K"]]:
        """The loss and its gradient; infinite where values do not exist."""

    @abc.abstractmethod
    def hessian(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, "K K"]:
        """Second derivatives of the loss."""

    @abc.abstractmethod
    def hessian_product(self, theta: Float[np.ndarray, " K"], v: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Second derivatives of the loss, times a vector."""

    @abc.abstractmethod
    def scores(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, "n K"]:
        """∂ log π / ∂θ of each observed choice."""

    @abc.abstractmethod
    def log_likelihood(self, theta: Float[np.ndarray, " K"]) -> float:
        """Σ w log π over all observed choices."""

    @abc.abstractmethod
    def changes(
        self, theta: Float[np.ndarray, " K"], move: Float[np.ndarray, " K"]
    ) -> Iterator[tuple[GoalBlock, Float[np.ndarray, "J 1"]]]:
        """The solutions at θ, each with the change of rewards to first order in a move of the parameters."""
