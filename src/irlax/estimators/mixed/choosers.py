"""Groups that plan by compiled programs: log π of every distinct observed choice under each of them."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.estimators.tabular.objectives import Likelihood
from irlax.estimators.tabular.problem import Flattening
from irlax.precision import StaysOnDevice
from irlax.typing import Array, Float

#: The values of each group's plan, by MDP: where the next plans start.
GroupWarmStarts = Any


class Choosers(StaysOnDevice):
    """G groups, each with the parameters of its own reward, in one or several MDPs.

    The distinct observed choices of all MDPs are numbered one after the other: they are the cells of a vector [C].
    """

    #: By class of reward, then by MDP. One class serves all groups, and their plans are made together; or each group
    #: has its own.
    likelihoods: Sequence[tuple[Likelihood, ...]]
    flattenings: Sequence[Flattening]
    #: The number of parameters of each group.
    sizes: tuple[int, ...] = eqx.field(static=True)

    @property
    def num_groups(self) -> int:
        """G."""
        return len(self.sizes)

    @property
    def num_cells(self) -> int:
        """C."""
        return sum(likelihood.weights.size for likelihood in self.likelihoods[0])

    @property
    def num_values(self) -> int:
        """About how many values the plans of all groups hold in memory."""
        return self.num_groups * sum(likelihood.num_values for likelihood in self.likelihoods[0])

    def split(self, theta: Any) -> list[Any]:
        """The parameters of each group, of the vector of all."""
        ends = np.cumsum(self.sizes)
        return [theta[end - size : end] for end, size in zip(ends, self.sizes, strict=True)]

    def initial_warm_starts(self) -> GroupWarmStarts:
        """The warm starts of the first plans, alike for all groups."""
        first = tuple(likelihood.initial_warm_start() for likelihood in self.likelihoods[0])
        if len(self.likelihoods) > 1:
            return tuple(first for _ in self.sizes)
        return jax.tree.map(lambda values: jnp.tile(values, (self.num_groups, 1)), first)

    def log_policies(
        self, theta: Float[Array, " P"], warm_starts: GroupWarmStarts
    ) -> tuple[Float[Array, "G C"], GroupWarmStarts]:
        """log π of each cell under each group, and the warm starts of the next plans."""
        if len(self.likelihoods) > 1:
            parts = [
                _of_group(*group)
                for group in zip(self.likelihoods, self.flattenings, self.split(theta), warm_starts, strict=True)
            ]
            choices, warm = zip(*parts, strict=True)
            return jnp.stack(choices), warm
        likelihoods, flattening = self.likelihoods[0], self.flattenings[0]

        def of_group(row: Float[Array, " K"], warm_start: GroupWarmStarts) -> Any:
            return _of_group(likelihoods, flattening, row, warm_start)

        return jax.vmap(of_group)(theta.reshape(self.num_groups, -1), warm_starts)

    def by_mdp(self, cells: Float[np.ndarray, " C"]) -> list[Float[np.ndarray, "T M"]]:
        """A value for each cell, as a grid of distinct choices for each MDP."""
        shapes = [likelihood.weights.shape for likelihood in self.likelihoods[0]]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        parts = np.split(np.asarray(cells), ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _of_group(
    likelihoods: tuple[Likelihood, ...], flattening: Flattening, row: Float[Array, " K"], warm_starts: GroupWarmStarts
) -> tuple[Float[Array, " C"], GroupWarmStarts]:
    tree = flattening.unflatten(row)
    parts = [
        likelihood.log_policy(tree, warm_start) for likelihood, warm_start in zip(likelihoods, warm_starts, strict=True)
    ]
    return jnp.concatenate([choices.ravel() for choices, _ in parts]), tuple(warm for _, warm in parts)
