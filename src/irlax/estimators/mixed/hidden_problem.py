"""The likelihood of choosers whose group is hidden, with what a search for its maximum needs."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.estimators.mixed.cells import AbstractCells
from irlax.estimators.mixed.hidden import AbstractHidden, HiddenLoss, expected_counts, log_likelihoods
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation
from irlax.typing import Array, Float


class HiddenProblem(eqx.Module):
    """The likelihood of choosers whose group is hidden, and what fits of single groups need."""

    cells: AbstractCells
    loss: HiddenLoss
    #: The sum of the weights of units before they were normalised.
    total: float

    @classmethod
    def of(
        cls, cells: AbstractCells, hidden: AbstractHidden, weights: Float[np.ndarray, " N"], l2: float
    ) -> "HiddenProblem":
        """With a weight for each unit."""
        total = float(weights.sum())
        return cls(cells, HiddenLoss(hidden, jnp.asarray(weights / total), jnp.asarray(l2)), total)

    @property
    def hidden(self) -> AbstractHidden:
        """The model of which group chooses when."""
        return self.loss.hidden

    @property
    def num_groups(self) -> int:
        """G."""
        return self.cells.num_groups

    @property
    def num_rewards(self) -> int:
        """The number of parameters of all groups' rewards; those of the hidden model follow them."""
        return sum(self.cells.sizes)

    @property
    def l2(self) -> float:
        """The weight of the penalty on rewards."""
        return float(self.loss.l2)

    def with_hidden(self, hidden: AbstractHidden) -> "HiddenProblem":
        """The same with another hidden model of the same structure."""
        return eqx.tree_at(lambda problem: problem.loss.hidden, self, hidden)

    def with_weights(self, weights: Float[np.ndarray, " N"], total: float) -> "HiddenProblem":
        """The same with other weights of units, whose sum is taken to be `total`."""
        shares = jnp.asarray(weights / weights.sum())
        return eqx.tree_at(lambda problem: (problem.loss.weights, problem.total), self, (shares, total))

    def with_l2(self, l2: float) -> "HiddenProblem":
        """The same with another penalty on rewards."""
        return eqx.tree_at(lambda problem: problem.loss.l2, self, jnp.asarray(l2))

    def to_problem(self) -> AbstractProblem:
        """What solvers minimise, in all parameters; rewards are scaled as in the problems of single groups."""
        return self.cells.problem(self.loss)

    def vector(self, thetas: Any, rest: Any) -> Float[np.ndarray, " P"]:
        """The scaled parameters of all groups, and those of the hidden model, as one vector."""
        leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(rest)]
        return np.concatenate([*(np.asarray(theta) for theta in thetas), *leaves])

    def parts(self, x: Float[np.ndarray, " P"]) -> tuple[list[Float[np.ndarray, " K"]], Any]:
        """The scaled parameters of each group, and the tree of those of the hidden model."""
        return self.cells.split(x), self.rest(x)

    def rest(self, x: Float[np.ndarray, " P"]) -> Any:
        """The parameters of the hidden model."""
        leaves, structure = jax.tree.flatten(self.hidden.initial_parameters())
        ends = self.num_rewards + np.cumsum([np.size(leaf) for leaf in leaves])
        parts = [
            np.asarray(x)[end - np.size(leaf) : end].reshape(np.shape(leaf))
            for leaf, end in zip(leaves, ends, strict=True)
        ]
        return jax.tree.unflatten(structure, parts)

    def expected(self, at: Evaluation) -> "Expected":
        """Log policies and the expected choices of each group."""
        choices = self.cells.log_policies(at)
        return Expected(choices, np.asarray(expected_counts(self.loss, choices, self.rest(at.x))))

    def shares(self, at: Evaluation) -> Float[np.ndarray, " G"]:
        """The share of each group."""
        return self.hidden.shares(self.rest(at.x), self.expected(at).counts)

    def by_share(self, at: Evaluation) -> tuple["HiddenProblem", Float[np.ndarray, " P"]]:
        """The same problem and point with groups in order of their shares, the largest first.

        Groups with rewards of their own keep the order in which these were given.
        """
        thetas, rest = self.parts(at.x)
        if len(self.cells.singles) > 1:
            return self, at.x
        order = np.argsort(-self.shares(at), kind="stable")
        hidden, rest = self.hidden.reordered(rest, order)
        return self.with_hidden(hidden), self.vector([thetas[g] for g in order], rest)

    def lifted(self, x: Float[np.ndarray, " P"]) -> tuple["HiddenProblem", Float[np.ndarray, " P"]]:
        """The problem and a point from which a solver can start; see `AbstractHidden.lifted`."""
        thetas, rest = self.parts(x)
        hidden, rest = self.hidden.lifted(rest, self.total)
        return self.with_hidden(hidden), self.vector(thetas, rest)

    def held(self, at: Evaluation) -> "HiddenProblem":
        """The problem in which probabilities whose maximum is 0 are held there; see `AbstractHidden.held`."""
        weights = self.loss.weights * self.total
        return self.with_hidden(self.hidden.held(self.expected(at).choices, self.rest(at.x), weights))

    def log_likelihoods(self, at: Evaluation) -> Float[np.ndarray, " N"]:
        """The log likelihood of each unit."""
        return np.asarray(log_likelihoods(self.loss, self.cells.log_policies(at), self.rest(at.x)))

    def scores(self, at: Evaluation) -> Float[np.ndarray, "N P"]:
        """First derivatives of the log likelihood of each unit, in parameters without their scales."""
        return self.cells.scores(self.loss, at)


class Expected(eqx.Module):
    """The expectation step at a point."""

    #: log π of each cell under each group.
    choices: Float[Array, "G C"]
    #: The expected number of choices in each cell by each group, per unit of weight.
    counts: Float[np.ndarray, "G C"]
