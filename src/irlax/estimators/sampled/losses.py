"""The objectives of Section 4 of the Primer, as functions of arrays.

Expectations are weighted means, so that exact ones can stand in for samples: give every step, or every path, with
its probability as its weight.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from irlax.estimators.sampled.steps import weighted_mean
from irlax.typing import Array, Float


def airl_logits(f: Float[Array, "*n"], log_policy: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log D − log(1 − D) = f(s,a,s') − log π(a|s): also the reward of the policy. Primer, 4.4."""
    return f - log_policy


def classification_loss(
    expert_logits: Float[Array, "*n"],
    policy_logits: Float[Array, "*m"],
    expert_weight: Float[Array, "*n"],
    policy_weight: Float[Array, "*m"],
) -> Float[Array, ""]:
    r"""$-\mathbb{E}_{\mathcal D}[\log D] - \mathbb{E}_\pi[\log(1 - D)]$ of logits. Primer, 4.3."""
    expert_loss = weighted_mean(jax.nn.softplus(-expert_logits), expert_weight)
    return expert_loss + weighted_mean(jax.nn.softplus(policy_logits), policy_weight)


def accuracy(expert_logits: Float[Array, " n"], policy_logits: Float[Array, " m"]) -> Float[Array, ""]:
    """The share of steps that the sign of the logits attributes rightly, half of it expert's and half policy's."""
    return ((expert_logits > 0).mean() + (policy_logits < 0).mean()) / 2


def half_square(
    expert_reward: Float[Array, "*n"],
    policy_reward: Float[Array, "*m"],
    expert_weight: Float[Array, "*n"],
    policy_weight: Float[Array, "*m"],
) -> Float[Array, ""]:
    """½ E[r²], half of the weight on the expert's steps and half on the policy's."""
    return (weighted_mean(expert_reward**2, expert_weight) + weighted_mean(policy_reward**2, policy_weight)) / 4


def matching_loss(
    expert_reward: Float[Array, "*n"],
    policy_reward: Float[Array, "*m"],
    expert_weight: Float[Array, "*n"],
    policy_weight: Float[Array, "*m"],
) -> Float[Array, ""]:
    r"""$\mathbb{E}_\pi[r] - \mathbb{E}_{\mathcal D}[r]$ under occupancies: minus the slope of the likelihood.

    Where π is soft-optimal for r, its gradient is that of the negative log likelihood of MCE IRL. Primer, 3.2.
    """
    return weighted_mean(policy_reward, policy_weight) - weighted_mean(expert_reward, expert_weight)


def log_mixture(log_densities: Float[Array, "K n"], log_shares: Float[Array, " K"]) -> Float[Array, " n"]:
    """log Σ_k share_k · density_k."""
    return logsumexp(log_densities + log_shares[:, None], axis=0)


def importance_loss(
    expert_return: Float[Array, " n"],
    sample_return: Float[Array, " m"],
    log_proposal: Float[Array, " m"],
    expert_weight: Float[Array, " n"],
    sample_weight: Float[Array, " m"],
    *,
    temper: Float[Array, ""] | float = 1.0,
) -> Float[Array, ""]:
    r"""A loss with the gradient of $\log \hat Z - \mathbb{E}_{\mathcal D}[R(\tau)]$, $\hat Z = \mathbb{E}_q[e^R / q]$.

    It weighs samples by w ∝ e^R / q, self-normalised; the value itself is a difference of mean returns. With `temper`
    β below 1 the weights are w^β: even at β = 0, exact at β = 1. Primer, 4.2; Finn, Levine and Abbeel (2016).
    """
    log_weight = temper * jax.lax.stop_gradient(sample_return - log_proposal)
    share = jax.nn.softmax(log_weight + jnp.log(sample_weight))
    return share @ sample_return - weighted_mean(expert_return, expert_weight)


def effective_share(log_weight: Float[Array, " m"], sample_weight: Float[Array, " m"]) -> Float[Array, ""]:
    """The effective share of samples, (Σw)² / (m Σw²), in (0, 1]; the given weights count as repetitions."""
    share = jax.nn.softmax(log_weight + jnp.log(sample_weight))
    even = sample_weight / sample_weight.sum()
    return 1 / jnp.where(even > 0, share**2 / jnp.where(even > 0, even, 1.0), 0.0).sum()


def balance(
    expert_logits: Float[Array, " n"],
    policy_logits: Float[Array, " m"],
    expert_weight: Float[Array, " n"],
    policy_weight: Float[Array, " m"],
) -> Float[Array, ""]:
    """The constant c with the smallest classification loss of logits − c: log Z, by bisection.

    At it the mean of D over the expert's and the mean of D over the policy's sum to 1.
    """
    # With a constant beyond all logits by a margin, all are classified alike, so that the answer lies between.
    pooled = jnp.concatenate([expert_logits, policy_logits])

    def halve(bounds: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        low, high = bounds
        middle = (low + high) / 2
        total = weighted_mean(jax.nn.sigmoid(expert_logits - middle), expert_weight)
        total += weighted_mean(jax.nn.sigmoid(policy_logits - middle), policy_weight)
        return (jnp.where(total > 1, middle, low), jnp.where(total > 1, high, middle)), None

    (low, high), _ = jax.lax.scan(halve, (pooled.min() - 10.0, pooled.max() + 10.0), length=40)
    return jax.lax.stop_gradient((low + high) / 2)


def tempering(log_weight: Float[Array, " m"], sample_weight: Float[Array, " m"], least: float) -> Float[Array, ""]:
    """The largest β ≤ 1 at which weights w^β leave an effective share of at least `least`, by bisection."""

    def halve(bounds: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        low, high = bounds
        middle = (low + high) / 2
        enough = effective_share(middle * log_weight, sample_weight) >= least
        return (jnp.where(enough, middle, low), jnp.where(enough, high, middle)), None

    one = jnp.ones((), log_weight.dtype)
    (low, _), _ = jax.lax.scan(halve, (jnp.zeros_like(one), one), length=20)
    return jnp.where(effective_share(log_weight, sample_weight) >= least, one, low)
