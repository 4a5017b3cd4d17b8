"""Unobserved types of individuals: each individual is of one type, which it keeps."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from scipy.special import log_softmax

from irlax import checks
from irlax.demos import Demonstrations
from irlax.demos.sizes import padded
from irlax.estimators.mixed.hidden import AbstractHidden
from irlax.typing import Array, Float, Int

#: A solver starts with at least about this many individuals in each type.
MIN_INDIVIDUALS = 1e-3


class Types(AbstractHidden):
    """Individual i is of type g with probability s_g; the parameters are the log-odds of types against the first."""

    #: Individual `person[j]` made the choice `cell[j]` `count[j]` times.
    person: Int[Array, " m"]
    cell: Int[Array, " m"]
    count: Float[Array, " m"]
    num_individuals: int = eqx.field(static=True)
    num_groups: int = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        cell: Int[np.ndarray, " n"],
        person: Int[np.ndarray, " n"],
        row_weights: Float[np.ndarray, " n"],
        *,
        num_cells: int,
        num_types: int,
    ) -> "Types":
        """Of rows of demonstrations, each with its cell, its individual, and how often it counts."""
        distinct, index = np.unique(person * num_cells + cell, return_inverse=True)
        count = np.bincount(index, weights=row_weights)
        # Entries that count 0, so that data of about the same size share compiled programs.
        chooser, chosen = padded(*np.divmod(distinct, num_cells))
        return cls(
            person=jnp.asarray(chooser, jnp.int32),
            cell=jnp.asarray(chosen, jnp.int32),
            count=jnp.asarray(np.append(count, np.zeros(len(chooser) - len(count)))),
            num_individuals=int(person.max()) + 1,
            num_groups=num_types,
        )

    def log_likelihoods(self, choices: Float[Array, "G C"], parameters: Any) -> Float[Array, " N"]:
        return logsumexp(self.joint(choices, parameters), axis=1)

    def joint(self, choices: Float[Array, "G C"], parameters: Any) -> Float[Array, "N G"]:
        """log s_g + log likelihood of the individual's choices under type g."""
        zeros = jnp.zeros(self.num_individuals, choices.dtype)
        by_type = jax.vmap(lambda row: zeros.at[self.person].add(self.count * row[self.cell]))(choices)
        return by_type.T + jax.nn.log_softmax(jnp.concatenate([jnp.zeros(1), parameters]))

    def initial_parameters(self) -> Float[np.ndarray, " odds"]:
        return np.zeros(self.num_groups - 1)

    def maximised(self, choices: Float[Array, "G C"], parameters: Any, weights: Float[Array, " N"]) -> Any:
        shares = np.asarray(_mean_posterior(self, choices, jnp.asarray(parameters), weights))
        # The share of an empty type stays positive: from a share of 0 it could never grow again.
        log_shares = np.log(np.maximum(shares, 1e-12))
        return log_shares[1:] - log_shares[0]

    def penalty(self, parameters: Any) -> float:
        return 0.0

    def shares(self, parameters: Any, expected: Float[np.ndarray, "G C"]) -> Float[np.ndarray, " G"]:
        return np.exp(self.log_probabilities(parameters)[:, 0])

    def reordered(self, parameters: Any, order: Int[np.ndarray, " G"]) -> tuple["Types", Any]:
        log_shares = self.log_probabilities(parameters)[order, 0]
        return self, log_shares[1:] - log_shares[0]

    def lifted(self, parameters: Any, total: float) -> tuple["Types", Any]:
        return self, np.maximum(parameters, np.log(MIN_INDIVIDUALS / total))

    def held(self, choices: Float[Array, "G C"], parameters: Any, weights: Float[Array, " N"]) -> "Types":
        return self

    def log_probabilities(self, parameters: Any) -> Float[np.ndarray, "G 1"]:
        return log_softmax(np.concatenate([[0.0], parameters]))[:, None]


@eqx.filter_jit
def _mean_posterior(types: Types, choices: Float[Array, "G C"], odds: Any, weights: Float[Array, " N"]) -> Any:
    return weights @ jax.nn.softmax(types.joint(choices, odds), axis=1)


@eqx.filter_jit
def joint_of(types: Types, choices: Float[Array, "G C"], odds: Float[Array, " odds"]) -> Float[Array, "N G"]:
    """`Types.joint`, compiled."""
    return types.joint(choices, odds)


def individuals_of(
    demos: Sequence[Demonstrations], individual: Any
) -> tuple[np.ndarray, Int[np.ndarray, " N"], Float[np.ndarray, " I"]]:
    """The labels of individuals, the individual of each episode of all demonstrations, and individuals' weights."""
    episode_weights = np.concatenate([each.weights for each in demos])
    num = len(episode_weights)
    if individual is None:
        known = all(each.labels is not None for each in demos)
        labels = np.concatenate([each.labels for each in demos]) if known else np.arange(num)  # type: ignore[arg-type]
        return labels, np.arange(num), episode_weights
    given = individual if len(demos) == 1 else np.concatenate([np.asarray(part) for part in individual])
    labels = np.asarray(given)
    checks.has_shape("individual", labels, (num,), "a label for each episode")
    if labels.dtype.kind not in "iuU":
        raise TypeError(f"`individual` must hold whole numbers or text, but has dtype {labels.dtype}.")
    names, person = np.unique(labels, return_inverse=True)
    weights = np.zeros(len(names))
    weights[person] = episode_weights
    differs = episode_weights != weights[person]
    if differs.any():
        raise ValueError(
            f"The episodes of an individual must have one weight, but those of {checks.some(labels[differs])} differ."
        )
    return names, person, weights
