"""Rewards linear in given features."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.precision import is_placed, is_traced, scope, staged
from irlax.registry import stored
from irlax.rewards.reward import AbstractFolded, AbstractReward, AbstractUnfolded
from irlax.typing import Array, Float

#: Tables of up to so many numbers are laid out by NumPy, and stay on the host.
FEW = 4096


@stored("linear-reward")
class LinearReward(AbstractReward):
    """r = θ · φ, for features [S,K], [S,A,K] or [S,A,S',K]; with `known`, r = θ · φ + known.

    `names` label the K features in tables and messages. `known` is a part of the reward that is not learned, such as an
    observed wage or the term of a weight that is set: an array like the features, without their last axis.
    """

    features: Float[Array, "S *rest K"]
    weights: Float[Array, " K"]
    names: tuple[str, ...] = eqx.field(static=True)
    known: Float[Array, "S *rest"] | None = None

    def __init__(
        self, features: Any, weights: Any = None, *, names: Sequence[str] | None = None, known: Any = None
    ) -> None:
        features = checks.as_floats("features", features)
        if not 2 <= jnp.ndim(features) <= 4:
            raise ValueError(
                f"`features` must have shape (S, K), (S, A, K) or (S, A, S', K), but has {jnp.shape(features)}."
            )
        checks.finite("features", features)
        num = features.shape[-1]
        if num == 0:
            raise ValueError("`features` must have at least one column.")
        weights = np.zeros(num) if weights is None else checks.as_floats("weights", weights)
        checks.has_shape("weights", weights, (num,), "(K,), one for each feature")
        checks.finite("weights", weights)
        if names is not None and len(names) != num:
            raise ValueError(f"`names` must name each of the {num} features, but there are {len(names)}.")
        if known is not None:
            known = checks.as_floats("known", known)
            checks.has_shape("known", known, features.shape[:-1], "the shape of the features without their last axis")
            checks.finite("known", known)
        self.known = known
        self.features = features
        self.weights = weights
        self.names = tuple(f"θ{k}" for k in range(num)) if names is None else tuple(map(str, names))

    @property
    def parameters(self) -> Float[Array, " K"]:
        return self.weights

    def with_parameters(self, parameters: Float[Array, " K"]) -> "LinearReward":
        return eqx.tree_at(lambda reward: reward.weights, self, parameters)

    def bind(self, mdp: MDP) -> "LinearReward":
        full = (mdp.num_states, mdp.num_actions, mdp.num_states)
        wanted = mdp.table_shape if self.features.ndim == 3 else full[: self.features.ndim - 1]
        if self.features.shape[:-1] != wanted:
            letters = ("S", "A", "S'")[: len(wanted)]
            raise ValueError(
                f"`features` must have shape ({', '.join(letters)}, K) = {(*wanted, self.features.shape[-1])} in "
                f"this MDP, but has {self.features.shape}."
            )
        return self

    def fold(self, mdp: MDP) -> "FoldedLinear":
        with scope(self, mdp):
            known = None if self.known is None else _tables(self.known[..., None], mdp)[0]
            return FoldedLinear(_tables(self.features, mdp), mdp.table_shape[1], known)

    def unfold(self, mdp: MDP) -> "UnfoldedLinear | PlainUnfolded":
        if self.features.ndim < 4:
            return PlainUnfolded(self.fold(mdp))
        with scope(self, mdp):
            known = None if self.known is None else _aligned(jnp.asarray(self.known)[..., None], mdp)[0]
            return UnfoldedLinear(_aligned(self.features, mdp), mdp.num_actions, mdp.num_states, known)

    @property
    def is_linear(self) -> bool:
        return True

    def parameter_names(self) -> list[str]:
        return list(self.names)

    def scales(self, mdp: MDP) -> Float[np.ndarray, " K"]:
        if is_traced(self.features):
            return np.ones(len(self.names))
        if is_placed(self.features):
            with scope():
                largest = np.asarray(_largest(self.features))
        else:
            largest = np.abs(self.features).reshape(-1, len(self.names)).max(axis=0)
        return np.where(largest > 0, largest, 1.0)


def _tables(features: Float[Array, "S *rest K"], mdp: MDP) -> Float[Array, "K A1 R"]:
    """A table of expectations for each feature: of few numbers by NumPy, since a program takes longer to compile."""
    simple = features.ndim == 3 or (features.ndim == 2 and mdp.rows.one_per_state)
    if not simple or features.size > FEW or not isinstance(features, np.ndarray):
        return _folded(features, mdp)
    if is_traced(mdp) or is_placed(mdp.initial) or staged():
        return _folded(features, mdp)
    columns = mdp.as_narrow(np.moveaxis(features, -1, 0))
    return columns[:, None, :] if features.ndim == 2 else columns.swapaxes(1, 2)


@jax.jit
def _folded(features: Float[Array, "S *rest K"], mdp: MDP) -> Float[Array, "K A1 R"]:
    """A table of expectations for each feature."""
    columns = mdp.as_narrow(jnp.moveaxis(features, -1, 0))
    if columns.ndim == 2:
        return jax.vmap(mdp.rows.repeat)(columns)[:, None, :]
    if columns.ndim == 3:
        return columns.swapaxes(1, 2)
    return jax.lax.map(lambda column: mdp.dynamics.mean(mdp.align(column)), columns)


@jax.jit
def _largest(features: Float[Array, "*rest K"]) -> Float[Array, " K"]:
    return jnp.abs(features).reshape(-1, features.shape[-1]).max(axis=0)


@jax.jit
def _aligned(features: Float[Array, "S A S K"], mdp: MDP) -> Float[Array, "K ..."]:
    return jax.lax.map(mdp.align, jnp.moveaxis(features, -1, 0))


class FoldedLinear(AbstractFolded):
    """θ · E[φ], and the expectation of what is known of the reward."""

    columns: Float[Array, "K A1 R"]
    width: int = eqx.field(static=True)
    known: Float[Array, "A1 R"] | None = None

    @property
    def by_state(self) -> bool:
        return self.columns.shape[-2] == 1

    @property
    def on_host(self) -> bool:
        return isinstance(self.columns, np.ndarray)

    def __call__(self, parameters: Float[Array, " K"]) -> Float[Array, "A R"]:
        if self.on_host and isinstance(parameters, np.ndarray):
            reward = np.tensordot(parameters.astype(self.columns.dtype), self.columns, 1)
            reward = reward if self.known is None else reward + self.known
            return np.broadcast_to(reward, (self.width, reward.shape[-1]))
        # In the precision of the columns: parameters in a wider one would widen all of them. Some cards would else
        # multiply with ten bits.
        parameters = parameters.astype(self.columns.dtype)
        reward = jnp.tensordot(parameters, self.columns, 1, precision=jax.lax.Precision.HIGHEST)
        reward = reward if self.known is None else reward + self.known
        return jnp.broadcast_to(reward, (self.width, reward.shape[-1]))

    def pull_back(self, parameters: Float[Array, " K"], visits: Float[np.ndarray, "A R"]) -> Float[Array, " K"]:
        if not self.on_host:
            return super().pull_back(parameters, visits)
        visits = visits.sum(axis=0, keepdims=True) if self.by_state else visits
        return np.tensordot(self.columns, visits.astype(self.columns.dtype), 2)


class UnfoldedLinear(AbstractUnfolded):
    """θ · φ(s,a,s') and what is known of the reward, aligned."""

    columns: Float[Array, "K ..."]
    num_actions: int = eqx.field(static=True)
    num_states: int = eqx.field(static=True)
    known: Float[Array, "..."] | None = None

    def __call__(self, parameters: Float[Array, " K"]) -> tuple[Float[Array, "A R"], Float[Array, "..."]]:
        nothing = jnp.zeros((self.num_actions, self.num_states))
        reward = jnp.tensordot(parameters, self.columns, 1)
        return nothing, reward if self.known is None else reward + self.known


class PlainUnfolded(AbstractUnfolded):
    """A reward that does not depend on s'."""

    folded: AbstractFolded

    def __call__(self, parameters: Any) -> tuple[Float[Array, "A R"], None]:
        return self.folded(parameters), None
