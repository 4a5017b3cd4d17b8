"""The likelihood of a mixture of types, and the choices of each individual."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from scipy.special import log_softmax

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.objectives import AbstractObjective, Likelihood, WarmStart
from irlax.estimators.tabular.observed_likelihood import ObservedLikelihood
from irlax.estimators.tabular.problem import Evaluation, Flattening, Problem
from irlax.rewards import AbstractReward
from irlax.typing import Array, Float, Int


class Mixture(AbstractObjective):
    """Minus the mean log likelihood of an individual, as a function of (θ by type [G, K], log-odds of shares [G−1])."""

    likelihood: Likelihood
    flattening: Flattening
    #: Individual `person[j]` made the choice `cell[j]` of the grid `count[j]` times.
    person: Int[Array, " m"]
    cell: Int[Array, " m"]
    count: Float[Array, " m"]
    #: Of each individual; they sum to 1.
    weights: Float[Array, " N"]
    l2: Float[Array, ""]
    num_types: int = eqx.field(static=True)

    def __call__(self, parameters: Any, warm_start: WarmStart = None) -> tuple[Float[Array, ""], WarmStart]:
        penalty = 0.5 * self.l2 * (parameters[0] ** 2).sum()
        return penalty - self.weights @ logsumexp(self.joint(parameters), axis=1), None

    def joint(self, parameters: Any) -> Float[Array, "N G"]:
        """log s_g + log likelihood of the individual's choices under type g."""
        theta, odds = parameters
        log_policy = jax.vmap(lambda row: self.likelihood.log_policy(self.flattening.unflatten(row))[0].ravel())(theta)
        choices = jax.vmap(lambda row: jnp.zeros_like(self.weights).at[self.person].add(self.count * row[self.cell]))
        return choices(log_policy).T + jax.nn.log_softmax(jnp.concatenate([jnp.zeros(1), odds]))

    def to_problem(self, single: Problem) -> Problem:
        """The problem in all parameters, scaled as the problem of a single type."""
        tree = (np.zeros((self.num_types, len(single.scale))), np.zeros(self.num_types - 1))
        scale = jnp.concatenate([jnp.tile(single.scale, self.num_types), jnp.ones(self.num_types - 1)])
        rest: Any = {"flattening": Flattening.of(tree), "scale": scale, "l2": jnp.zeros(())}
        return Problem(objectives=(self,), shares=jnp.ones(1), **rest)

    def grid(self, posterior: Float[np.ndarray, " N"]) -> Float[np.ndarray, "T M"]:
        """The weight of each distinct choice if individuals are weighted by their posterior of a type."""
        each = (np.asarray(self.weights) * posterior)[np.asarray(self.person)] * np.asarray(self.count)
        shape = self.likelihood.weights.shape
        return np.bincount(np.asarray(self.cell), weights=each, minlength=int(np.prod(shape))).reshape(shape)

    def with_weights(self, weights: Float[np.ndarray, " N"]) -> "Mixture":
        """The mixture with other weights of individuals, and of their choices accordingly."""
        new = eqx.tree_at(lambda mixture: mixture.weights, self, jnp.asarray(weights / weights.sum()))
        grid = jnp.asarray(new.grid(np.ones(len(weights))))
        return eqx.tree_at(lambda mixture: mixture.likelihood.weights, new, grid)

    def log_shares(self, x: Float[np.ndarray, " P"]) -> Float[np.ndarray, " G"]:
        """The logarithms of the shares in a vector of all parameters."""
        return log_softmax(np.concatenate([[0.0], x[len(x) - self.num_types + 1 :]]))

    def shares(self, x: Float[np.ndarray, " P"]) -> Float[np.ndarray, " G"]:
        """The shares of types in a vector of all parameters."""
        return np.exp(self.log_shares(x))

    def by_share(self, x: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
        """The parameters of the same mixture, with its types in order of their shares."""
        log_shares = self.log_shares(x)
        order = np.argsort(-log_shares, kind="stable")
        theta = x[: len(x) - self.num_types + 1].reshape(self.num_types, -1)[order]
        return np.concatenate([theta.ravel(), log_shares[order][1:] - log_shares[order][0]])


def individuals_of(demos: Demonstrations, individual: Any) -> tuple[np.ndarray, Int[np.ndarray, " N"]]:
    """The labels of individuals, and the individual of each episode."""
    if individual is None:
        labels = np.arange(demos.num_episodes) if demos.labels is None else demos.labels
        return labels, np.arange(demos.num_episodes)
    labels = np.asarray(individual)
    checks.has_shape("individual", labels, (demos.num_episodes,), "a label for each episode")
    if labels.dtype.kind not in "iuU":
        raise TypeError(f"`individual` must hold whole numbers or text, but has dtype {labels.dtype}.")
    names, person = np.unique(labels, return_inverse=True)
    differs = demos.weights != weights_of(demos, person)[person]
    if differs.any():
        raise ValueError(
            f"The episodes of an individual must have one weight, but those of {checks.some(labels[differs])} differ."
        )
    return names, person


def weights_of(demos: Demonstrations, person: Int[np.ndarray, " N"]) -> Float[np.ndarray, " I"]:
    """The weight of each individual."""
    weights = np.zeros(person.max() + 1)
    weights[person] = demos.weights
    return weights


def mixture_of(reward: AbstractReward, expert: Expert, person: Int[np.ndarray, " N"], *, num_types: int) -> Mixture:
    """The mixture's objective; `person` is the individual of each episode."""
    demos, likelihood = expert.demos, ObservedLikelihood.of(expert, reward)
    assert demos is not None
    size = math.prod(likelihood.shape)
    distinct, count = np.unique(person[demos.episode] * size + likelihood.cells(), return_counts=True)
    chooser, cell = np.divmod(distinct, size)
    weights = weights_of(demos, person)
    return Mixture(
        likelihood.objective,
        Flattening.of(reward.parameters),
        jnp.asarray(chooser, jnp.int32),
        jnp.asarray(cell, jnp.int32),
        jnp.asarray(count, float),
        jnp.asarray(weights),
        jnp.zeros(()),
        num_types,
    ).with_weights(weights)


@eqx.filter_jit
def joint_at(mixture: Mixture, problem: Problem, x: Float[Array, " P"]) -> Float[Array, "N G"]:
    """`Mixture.joint` at a vector of all parameters."""
    return mixture.joint(problem.flattening.unflatten(x / problem.scale))


def evidence(
    mixture: Mixture, problem: Problem, at: Evaluation
) -> tuple[Float[np.ndarray, "N G"], Float[np.ndarray, "N P"], Float[np.ndarray, "P P"]]:
    """Joint log likelihoods, scores of individuals, and the Hessian of minus their mean log likelihood, in θ."""
    joint = np.asarray(joint_at(mixture, problem, jnp.asarray(at.x)))
    scale = np.asarray(problem.scale)
    scores = np.asarray(_scores(mixture, problem, jnp.asarray(at.x))) * scale
    hessian = problem.hessian(at) * np.outer(scale, scale)
    types = np.arange(len(scale)) < len(scale) - mixture.num_types + 1
    return joint, scores, hessian - np.diag(types * float(mixture.l2))


@eqx.filter_jit
def _scores(mixture: Mixture, problem: Problem, x: Float[Array, " P"]) -> Float[Array, "N P"]:
    def by_individual(x):
        return logsumexp(mixture.joint(problem.flattening.unflatten(x / problem.scale)), axis=1)

    return jax.jacfwd(by_individual)(x)
