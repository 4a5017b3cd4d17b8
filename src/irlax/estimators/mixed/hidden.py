"""Models of which group chooses when, and the likelihood in which that is summed out."""

import abc
from typing import Any

import equinox as eqx
import jax
import numpy as np

from irlax.precision import StaysOnDevice
from irlax.typing import Array, Float, Int


class AbstractHidden(StaysOnDevice):
    """What is not observed: which group makes each choice. Its units are independent: individuals, or episodes.

    The log policies of the choices come from an `AbstractCells`; the derivative in these is the probability that a
    group made a choice, so expectation and maximisation needs no formulae of its own for each model.
    """

    num_groups: eqx.AbstractVar[int]

    @abc.abstractmethod
    def log_likelihoods(self, choices: Float[Array, "G C"], parameters: Any) -> Float[Array, " N"]:
        """The log likelihood of each unit, with the groups summed out, given log π of each cell under each group."""

    @abc.abstractmethod
    def initial_parameters(self) -> Any:
        """The parameters at which a search starts, as a tree of NumPy arrays."""

    @abc.abstractmethod
    def maximised(self, choices: Float[Array, "G C"], parameters: Any, weights: Float[Array, " N"]) -> Any:
        """The parameters after one M-step, given log policies: the likelihood at them is at least as high."""

    @abc.abstractmethod
    def penalty(self, parameters: Any) -> Any:
        """A penalty on the parameters, per unit of weight."""

    @abc.abstractmethod
    def shares(self, parameters: Any, expected: Float[np.ndarray, "G C"]) -> Float[np.ndarray, " G"]:
        """The share of each group, given the expected number of choices of each."""

    @abc.abstractmethod
    def reordered(self, parameters: Any, order: Int[np.ndarray, " G"]) -> tuple["AbstractHidden", Any]:
        """The model and its parameters after the groups were put in another order."""

    @abc.abstractmethod
    def log_probabilities(self, parameters: Any) -> Float[np.ndarray, "G ..."]:
        """The logarithms of the probabilities that the parameters stand for, a row for each group."""

    @abc.abstractmethod
    def lifted(self, parameters: Any, total: float) -> tuple["AbstractHidden", Any]:
        """The model and its parameters with probabilities that are almost 0 raised a little, for the start of a solver.

        The gradient in the log-odds of a tiny probability is tiny too, so that a search would end there; a larger one
        falls or grows. `total` is the weight of all units.
        """

    @abc.abstractmethod
    def held(self, choices: Float[Array, "G C"], parameters: Any, weights: Float[Array, " N"]) -> "AbstractHidden":
        """The model in which parameters whose maximum is at infinity, for a probability of 0, are held there.

        `weights` are those of units, not normalised.
        """

    @property
    def num_values(self) -> int:
        """About how many values one evaluation holds in memory."""
        return 1


class HiddenLoss(StaysOnDevice):
    """Minus the mean log likelihood of a unit with its penalties, given log policies and all parameters."""

    hidden: AbstractHidden
    #: Of each unit; they sum to 1.
    weights: Float[Array, " N"]
    l2: Float[Array, ""]

    def __call__(self, choices: Float[Array, "G C"], theta: Float[Array, " P"], rest: Any) -> Float[Array, ""]:
        penalty = 0.5 * self.l2 * (theta @ theta) + self.hidden.penalty(rest)
        return penalty - self.weights @ self.hidden.log_likelihoods(choices, rest)

    @property
    def num_hidden(self) -> int:
        """The number of parameters of the hidden model."""
        return sum(np.size(leaf) for leaf in jax.tree.leaves(self.hidden.initial_parameters()))


@eqx.filter_jit
def log_likelihoods(loss: HiddenLoss, choices: Float[Array, "G C"], rest: Any) -> Float[Array, " N"]:
    """The log likelihood of each unit."""
    return loss.hidden.log_likelihoods(choices, rest)


@eqx.filter_jit
def expected_counts(loss: HiddenLoss, choices: Float[Array, "G C"], rest: Any) -> Float[Array, "G C"]:
    """The expected number of choices in each cell by each group, per unit of weight."""
    return jax.grad(lambda choices: loss.weights @ loss.hidden.log_likelihoods(choices, rest))(choices)
