"""The features of a linear reward as sparse matrices, ∂r/∂θ: one row for each cell of a table, or each transition."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.estimators.tabular.objectives import FeatureMatching, Likelihood, PathMatching
from irlax.estimators.tabular.polytope import Options
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.sparse import Sparse, sp
from irlax.mdp import MDP
from irlax.rewards.linear import FoldedLinear, PlainUnfolded
from irlax.rewards.reward import AbstractUnfolded
from irlax.rewards.tabular import FoldedTable
from irlax.typing import Array, Float

#: Objectives that plan for a reward.
Planned = FeatureMatching | PathMatching | Likelihood
#: Columns of the Jacobian that are computed in one batch.
BATCH = 256


class Features(NamedTuple):
    """∂r/∂θ of a linear reward in one MDP: the part over cells of a table, and the part over aligned transitions."""

    by_cell: Sparse
    by_transition: Sparse | None

    @classmethod
    def of(cls, objective: Planned, flattening: Flattening, num: int) -> "Features":
        """The features of the reward of an objective with `num` parameters."""
        if not isinstance(objective, PathMatching):
            return cls(jacobian(objective.folded, flattening, num), None)
        unfolded = objective.unfolded
        if isinstance(unfolded, PlainUnfolded):
            return cls(jacobian(unfolded.folded, flattening, num), None)
        shape = objective.mdp.dynamics.aligned_shape
        by_transition = jacobian(RewardPart(unfolded, shape), flattening, num)
        return cls(jacobian(RewardPart(unfolded, None), flattening, num), by_transition)

    def of_options(self, mdp: MDP, options: Options) -> Sparse:
        """The features of each option, [J, K]."""
        by_cell = sp.csr_array(self.by_cell[options.cell])
        if self.by_transition is None:
            return by_cell
        # A table that holds the index of each (s, a, s'), once aligned, says where each transition is stored.
        num = mdp.num_states
        index = np.arange(1.0, num**2 * mdp.num_actions + 1).reshape(num, mdp.num_actions, num)
        aligned = np.asarray(mdp.align(jnp.asarray(index))).ravel()
        order = np.argsort(aligned, kind="stable")
        at = order[np.searchsorted(aligned[order], options.cell * num + np.asarray(options.next_state) + 1.0)]
        return sp.csr_array(by_cell + self.by_transition[at])


class RewardPart(eqx.Module):
    """The part of a reward that does not depend on s'; with the `shape` of aligned transitions, the part that does."""

    unfolded: AbstractUnfolded
    shape: tuple[int, ...] | None = eqx.field(static=True)

    def __call__(self, parameters: Any) -> Any:
        by_cell, by_transition = self.unfolded(parameters)
        if self.shape is None:
            return by_cell
        if by_transition is None:
            return jnp.zeros((math.prod(self.shape), 1))
        return jnp.broadcast_to(by_transition, self.shape).reshape(-1, 1)


def jacobian(reward: Any, flattening: Flattening, num: int) -> Sparse:
    """∂r/∂θ of a reward [A, R] that is linear in its parameters, with a row for each cell of a table [R, A]."""
    if type(reward) is FoldedLinear:
        columns = np.asarray(reward.columns)
        shape = (num, reward.width, columns.shape[-1])
        return sp.csr_array(np.broadcast_to(columns, shape).transpose(2, 1, 0).reshape(-1, num))
    if type(reward) is FoldedTable and reward.over == "sa":
        return sp.csr_array(sp.eye_array(num))
    blocks = [np.asarray(_differences(reward, flattening, np.eye(num)[k : k + BATCH])) for k in range(0, num, BATCH)]
    return sp.csr_array(sp.vstack([sp.csr_array(block) for block in blocks], format="csr").T)


@eqx.filter_jit
def _differences(
    reward: Callable[[Any], Any], flattening: Flattening, vectors: Float[Array, "n K"]
) -> Float[Array, "n cells"]:
    """r(θ) − r(0) for each vector θ."""

    def table(vector):
        return jnp.ravel(jnp.asarray(reward(flattening.unflatten(vector))).T)

    at_zero = table(jnp.zeros_like(vectors[0]))
    return jax.vmap(lambda vector: table(vector) - at_zero)(vectors)
