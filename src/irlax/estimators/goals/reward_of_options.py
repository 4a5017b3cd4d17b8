"""Rewards as functions from parameters to the reward of each option."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.reward_features import jacobian
from irlax.mdp import MDP
from irlax.planning.goals.options import Options, Sparse
from irlax.precision import scope
from irlax.rewards import AbstractReward, LinearReward
from irlax.typing import Array, Float

#: Features of up to this many parameters are kept as a dense matrix.
DENSE = 64
PullBack = Callable[[Float[np.ndarray, " J"]], Float[np.ndarray, " K"]]


class RewardOfOptions:
    """θ ↦ the reward of each option, in one MDP, with its derivatives."""

    def __init__(self, mdp: MDP, reward: AbstractReward, options: Options) -> None:
        self._options = options
        #: ∂r/∂θ, [J, K], for rewards that are linear in their parameters; else None.
        self.features: Float[np.ndarray, "J K"] | Sparse | None = None
        self._folded: Any = None
        self._flattening = Flattening.of(reward.parameters)
        if not reward.is_linear:
            self._folded = reward.fold(mdp)
            return
        self.features = _features(mdp, reward, options, self._flattening)

    def __call__(self, theta: Float[np.ndarray, " K"]) -> tuple[Float[np.ndarray, " J"], PullBack]:
        """The rewards, and the function that pulls derivatives in them back to derivatives in θ."""
        if self.features is not None:
            features = self.features
            return features @ theta, lambda slope: features.T @ slope
        rows, columns = self._options.row, self._options.column
        with scope():
            table = np.asarray(_table(self._folded, self._flattening, jnp.asarray(theta)))

        def pull_back(slope: Float[np.ndarray, " J"]) -> Float[np.ndarray, " K"]:
            full = np.zeros(table.shape)
            full[columns, rows] = slope
            with scope():
                return np.asarray(_pulled(self._folded, self._flattening, jnp.asarray(theta), jnp.asarray(full)))

        return table[columns, rows], pull_back

    def columns(self) -> Float[np.ndarray, "J K"]:
        """∂r/∂θ as a dense matrix; a ValueError for rewards that are not linear."""
        if self.features is None:
            raise ValueError(
                "Second derivatives on the way to goals need a reward that is linear in its parameters, such as "
                "LinearReward or TabularReward. For others use solver='adam'."
            )
        features: Any = self.features
        return features.toarray() if sp.issparse(features) else np.asarray(features)

    def direction(self, theta: Float[np.ndarray, " K"]) -> Float[np.ndarray, " J"]:
        """The change of the rewards along a direction of the parameters of a linear reward."""
        if self.features is None:
            self.columns()
        return np.asarray(self.features @ theta)


def _features(
    mdp: MDP, reward: AbstractReward, options: Options, flattening: Flattening
) -> Float[np.ndarray, "J K"] | Sparse:
    if isinstance(reward, LinearReward) and reward.features.ndim == 3:
        return np.asarray(reward.features)[options.row, options.column]
    with scope():
        by_cell = jacobian(reward.fold(mdp), flattening, reward.num_parameters)
    chosen = sp.csr_array(by_cell[options.row * mdp.table_shape[1] + options.column])
    return chosen.toarray() if reward.num_parameters <= DENSE else chosen


@eqx.filter_jit
def _table(folded: Any, flattening: Flattening, theta: Float[Array, " K"]) -> Float[Array, "A R"]:
    return folded(flattening.unflatten(theta))


@eqx.filter_jit
def _pulled(
    folded: Any, flattening: Flattening, theta: Float[Array, " K"], slope: Float[Array, "A R"]
) -> Float[Array, " K"]:
    reward, pull_back = jax.vjp(lambda theta: folded(flattening.unflatten(theta)), theta)
    return pull_back(slope.astype(reward.dtype))[0]
