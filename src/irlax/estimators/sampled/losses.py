"""The objectives of Section 4 of the Primer, as functions of arrays.

Expectations are weighted means, so that exact ones can stand in for samples: give every step, or every path, with
its probability as its weight.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from irlax.estimators.sampled.steps import mean
from irlax.typing import Array, Float


def airl_logits(f: Float[Array, "*n"], log_policy: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """log D − log(1 − D) = f(s,a,s') − log π(a|s): also what the policy is paid. Primer, 4.4."""
    return f - log_policy


def classification_loss(
    expert_logits: Float[Array, "*n"],
    policy_logits: Float[Array, "*m"],
    expert_weight: Float[Array, "*n"],
    policy_weight: Float[Array, "*m"],
) -> Float[Array, ""]:
    r"""$-\mathbb{E}_{\mathcal D}[\log D] - \mathbb{E}_\pi[\log(1 - D)]$ of logits. Primer, 4.3."""
    return mean(jax.nn.softplus(-expert_logits), expert_weight) + mean(jax.nn.softplus(policy_logits), policy_weight)


def matching_loss(
    expert_reward: Float[Array, "*n"],
    policy_reward: Float[Array, "*m"],
    expert_weight: Float[Array, "*n"],
    policy_weight: Float[Array, "*m"],
) -> Float[Array, ""]:
    r"""$\mathbb{E}_\pi[r] - \mathbb{E}_{\mathcal D}[r]$ under occupancies: minus the slope of the likelihood.

    Where π is soft-optimal for r, its gradient is that of the negative log likelihood of MCE IRL. Primer, 3.2.
    """
    return mean(policy_reward, policy_weight) - mean(expert_reward, expert_weight)


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
    return share @ sample_return - mean(expert_return, expert_weight)


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
    """The constant c at which logits − c are classified best, as many taken for the expert's as are: log Z."""
    # Beyond all logits by a margin one class is empty, so that the answer lies between.
    everything = jnp.concatenate([expert_logits, policy_logits])

    def halve(bounds: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        low, high = bounds
        middle = (low + high) / 2
        taken = mean(jax.nn.sigmoid(expert_logits - middle), expert_weight)
        taken += mean(jax.nn.sigmoid(policy_logits - middle), policy_weight)
        return (jnp.where(taken > 1, middle, low), jnp.where(taken > 1, high, middle)), None

    (low, high), _ = jax.lax.scan(halve, (everything.min() - 10.0, everything.max() + 10.0), length=40)
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
