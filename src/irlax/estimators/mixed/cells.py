"""What is observed of choosers whose group is hidden: distinct choices, and their log policies under each group."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from irlax.estimators.mixed.hidden import HiddenLoss
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation
from irlax.typing import Bool, Float, Int

#: Only states with at least this many expected choices of a group enter the assessment of the group's policy.
MIN_CHOICES = 1e-3


class AvailableChoices(NamedTuple):
    """All choices that were available where something was observed."""

    #: log π of each of them under each group, given θ of all groups; NaN where values do not exist.
    log_policies: Callable[[Float[np.ndarray, " P"]], Float[np.ndarray, "G O"]]
    #: Whether a group is expected to choose there at all.
    used: Bool[np.ndarray, "G O"]


class AbstractCells(eqx.Module):
    """The distinct observed choices of G groups, the cells [C], each group with a reward of its own.

    Parameters x are those of all groups, times their scales, and then those of the hidden model.
    """

    #: The cell of each row of the demonstrations of all MDPs, one after the other.
    cell: eqx.AbstractVar[Int[np.ndarray, " n"]]
    #: The problem of each class of reward, in which all observed choices count by weight: one class serves all groups,
    #: or each group has its own.
    singles: eqx.AbstractVar[tuple[AbstractProblem, ...]]
    #: Where the search for each class of reward starts.
    first: eqx.AbstractVar[tuple[Float[np.ndarray, " K"], ...]]

    @property
    @abc.abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """The number of parameters of each group."""

    @property
    @abc.abstractmethod
    def num_cells(self) -> int:
        """C."""

    @abc.abstractmethod
    def weighted(self, group: int, cells: Float[np.ndarray, " C"], l2: float) -> AbstractProblem:
        """The problem of one group in which each cell has the given weight."""

    @abc.abstractmethod
    def log_policies(self, at: Evaluation) -> Any:
        """log π of each cell under each group, [G, C]."""

    @abc.abstractmethod
    def problem(self, loss: HiddenLoss) -> AbstractProblem:
        """What solvers minimise, in all parameters."""

    @abc.abstractmethod
    def scores(self, loss: HiddenLoss, at: Evaluation) -> Float[np.ndarray, "N P"]:
        """First derivatives of the log likelihood of each unit, in parameters without their scales."""

    @abc.abstractmethod
    def available(self, counts: Float[np.ndarray, "G C"]) -> AvailableChoices:
        """The choices that were available, given the expected number of choices of each group in each cell."""

    @abc.abstractmethod
    def by_newton(self, num_parameters: int) -> bool:
        """Whether Newton's method is the solver for so many parameters, and not L-BFGS."""

    @property
    def num_groups(self) -> int:
        """G."""
        return len(self.sizes)

    def split(self, theta: Any) -> list[Any]:
        """The parameters of each group, of the vector of all."""
        ends = np.cumsum(self.sizes)
        return [theta[end - size : end] for end, size in zip(ends, self.sizes, strict=True)]

    def single(self, group: int) -> AbstractProblem:
        """The problem of one group."""
        return self.singles[group if len(self.singles) > 1 else 0]

    def start(self, group: int) -> Float[np.ndarray, " K"]:
        """Where the search for one group's parameters starts."""
        return self.first[group if len(self.first) > 1 else 0]

    def scale(self, loss: HiddenLoss) -> Float[np.ndarray, " P"]:
        """The scales of all parameters: 1 for those of the hidden model."""
        scales = [np.asarray(self.single(g).scale) for g in range(self.num_groups)]
        return np.concatenate([*scales, np.ones(loss.num_hidden)])
