"""Standard errors, the bootstrap and tests of nested rewards, for fits under the likelihood objective."""

from typing import TYPE_CHECKING, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.analysis.standard_errors import (
    Kind,
    covariance,
    identified_part_errors,
    likelihood_ratio_test,
    summed_by,
)
from irlax.demos import Demonstrations
from irlax.estimators.tabular.objectives import Likelihood
from irlax.estimators.tabular.problem import Flattening
from irlax.precision import scope
from irlax.rewards.base import flat
from irlax.tables import Table
from irlax.typing import Array, Float, PRNGKeyArray

if TYPE_CHECKING:
    from irlax.estimators.tabular.fit import TabularFit

Cluster = Literal["episode"] | np.ndarray | None
#: Newton steps of one bootstrap refit; from the estimate they converge quadratically.
BOOTSTRAP_STEPS = 12


def standard_errors(fit: "TabularFit", kind: Kind, cluster: Cluster) -> Float[np.ndarray, " K"]:
    """Square roots of the diagonal of `parameter_covariance`."""
    return np.sqrt(np.diag(parameter_covariance(fit, kind, cluster)))


def parameter_covariance(fit: "TabularFit", kind: Kind, cluster: Cluster) -> Float[np.ndarray, "K K"]:
    """The covariance of the estimates by one of the three estimators."""
    refuse_unless_likelihood(fit)
    return clustered_covariance(fit, kind, cluster, _curvature_and_scores(fit))


class Information(NamedTuple):
    """What the data say of the parameters."""

    #: Of minus the total log likelihood.
    hessian: Float[np.ndarray, "K K"]
    #: One for each observed choice.
    scores: Float[np.ndarray, "n K"]
    #: What a quadratic penalty added to each second derivative.
    penalty: float = 0.0


def clustered_covariance(
    fit: "TabularFit", kind: Kind, cluster: Cluster, information: Information
) -> Float[np.ndarray, "K K"]:
    """`covariance`, of scores summed within the clusters of the fit's demonstrations."""
    hessian, scores, penalty = information
    if kind == "hessian" and cluster is not None:
        raise ValueError("The inverse Hessian knows no clusters: use 'sandwich' (or 'opg') with `cluster=`.")
    if cluster is not None:
        scores = summed_by(scores, _clusters(fit, cluster))
    return covariance(kind, hessian, scores, penalty)


def identified_errors(fit: "TabularFit") -> Float[np.ndarray, " K"]:
    """Standard errors of the identified part of each parameter, by the inverse Hessian on what the data see."""
    refuse_unless_likelihood(fit)
    hessian, _, penalty = _curvature_and_scores(fit)
    return identified_part_errors(hessian, penalty)


def _clusters(fit: "TabularFit", cluster: Cluster) -> np.ndarray:
    episodes, offset = [], 0
    for demos in all_demos(fit):
        episodes.append(demos.episode + offset)
        offset += demos.num_episodes
    rows = np.concatenate(episodes)
    if isinstance(cluster, str):
        checks.one_of("cluster", cluster, ("episode",))
        return rows
    labels = np.asarray(cluster)
    checks.has_shape("cluster", labels, (offset,), "a label for each episode")
    return labels[rows]


def all_demos(fit: "TabularFit") -> list[Demonstrations]:
    """The demonstrations of each MDP that has any."""
    return [expert.demos for expert in fit.experts if expert.demos is not None]


def refuse_unless_likelihood(fit: "TabularFit") -> None:
    """Only converged fits of observed choices under the likelihood objective have standard errors."""
    settings = dict(fit.settings)
    if settings.get("objective") != "likelihood":
        raise ValueError(
            "Standard errors are those of maximum likelihood estimates: fit with MCEIRL(objective='likelihood')."
        )
    if fit.log_likelihood is None:
        raise ValueError("Standard errors need demonstrations; this fit was to a policy or an occupancy.")
    if not fit.converged:
        raise ValueError(f"The fit {fit.status.value}, so it has no standard errors.")


def _curvature_and_scores(fit: "TabularFit") -> Information:
    theta = flat(fit.reward.parameters)
    penalty = float(dict(fit.settings).get("l2", 0.0))
    total = np.zeros((len(theta), len(theta)))
    scores = []
    with scope():
        for reward, expert in zip(fit.rewards, fit.experts, strict=True):
            demos = expert.demos
            assert demos is not None
            seen = expert.choices(discounted=False)
            likelihood = Likelihood(
                expert.mdp,
                reward.fold(expert.mdp),
                *(jnp.asarray(array) for array in (seen.states, seen.actions, seen.weights)),
            )
            flattening = Flattening.of(reward.parameters)
            slopes = np.asarray(_slopes(likelihood, flattening, jnp.asarray(theta)))
            weight = np.repeat(demos.weights, demos.lengths)
            scores.append(weight[:, None] * slopes[seen.places])
            episodes = demos.weights.sum()
            curvature = np.asarray(_curvature(likelihood, flattening, jnp.asarray(theta)))
            total += episodes * curvature
    episodes = sum(demos.weights.sum() for demos in all_demos(fit))
    return Information((total + total.T) / 2, np.concatenate(scores), float(penalty * episodes))


@eqx.filter_jit
def _slopes(likelihood: Likelihood, flattening: Flattening, theta: Float[Array, " K"]) -> Float[Array, "T M K"]:
    return jax.jacfwd(lambda theta: likelihood.log_policy(flattening.unflatten(theta))[0])(theta)


@eqx.filter_jit
def _curvature(likelihood: Likelihood, flattening: Flattening, theta: Float[Array, " K"]) -> Float[Array, "K K"]:
    return jax.hessian(lambda theta: likelihood(flattening.unflatten(theta))[0])(theta)


def bootstrap(fit: "TabularFit", *, num: int, key: PRNGKeyArray) -> Float[np.ndarray, "num K"]:
    """Estimates from `num` resamples of the episodes, all refitted at once by Newton's method, as one vmap.

    A resample is a weight for each episode, so the data stay where they are. Refits that do not converge in
    a dozen steps are NaN.
    """
    refuse_unless_likelihood(fit)
    checks.count("num", num)
    if len(fit.experts) > 1:
        raise ValueError("The bootstrap is for fits to one MDP.")
    reward, expert = fit.reward, next(iter(fit.experts))
    demos = expert.demos
    assert demos is not None
    penalty = float(dict(fit.settings).get("l2", 0.0))
    with scope():
        seen = expert.choices(discounted=False)
        assert seen.places is not None
        likelihood = Likelihood(
            expert.mdp, reward.fold(expert.mdp), jnp.asarray(seen.states), jnp.asarray(seen.actions), seen.weights
        )
        drawn = jr.randint(key, (num, demos.num_episodes), 0, demos.num_episodes)
        times = jax.vmap(lambda picks: jnp.zeros(demos.num_episodes).at[picks].add(1.0))(drawn)
        by_episode = times * demos.weights
        share = (by_episode / by_episode.sum(axis=1, keepdims=True))[:, demos.episode]
        grids = jnp.zeros((num, *seen.weights.shape)).at[:, *seen.places].add(share)
        flattening = Flattening.of(reward.parameters)
        start = jnp.asarray(flat(reward.parameters))
        return np.asarray(refits(likelihood, flattening, start, grids, jnp.asarray(penalty)))


@eqx.filter_jit
def refits(
    likelihood: Likelihood,
    flattening: Flattening,
    start: Float[Array, " K"],
    grids: Float[Array, "num T M"],
    penalty: Float[Array, ""],
) -> Float[Array, "num K"]:
    """The maximum of the likelihood of each grid of weights, by Newton's method from a start that is near."""

    def refit(grid):
        def loss(theta):
            log_policy, _ = likelihood.log_policy(flattening.unflatten(theta))
            return -(grid * log_policy).sum() + 0.5 * penalty * (theta @ theta)

        def step(theta, _):
            slope, curvature = jax.grad(loss)(theta), jax.hessian(loss)(theta)
            # A whisper of damping keeps unidentified directions where they are.
            ridge = 1e-12 * jnp.trace(curvature) / len(theta) * jnp.eye(len(theta))
            return theta - jnp.linalg.solve(curvature + ridge, slope), None

        theta = jax.lax.scan(step, start, length=BOOTSTRAP_STEPS)[0]
        return jnp.where(jnp.abs(jax.grad(loss)(theta)).max() < 1e-6, theta, jnp.nan)

    return jax.lax.map(refit, grids, batch_size=64)


def compare_nested(smaller: "TabularFit", larger: "TabularFit") -> Table:
    """The likelihood-ratio test of a reward nested in another, fitted to the same demonstrations."""
    for fit in (smaller, larger):
        refuse_unless_likelihood(fit)
    if smaller.num_choices != larger.num_choices:
        raise ValueError("The two fits are to different demonstrations.")
    restrictions = larger.reward.num_parameters - smaller.reward.num_parameters
    assert smaller.log_likelihood is not None and larger.log_likelihood is not None
    return likelihood_ratio_test(smaller.log_likelihood, larger.log_likelihood, restrictions)
