"""Guided cost learning as a generative adversarial network."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from irlax import checks
from irlax.envs.environment import Box, Discrete
from irlax.estimators.sampled.estimator import (
    AbstractSampledIRL,
    Info,
    check_settings,
    half_square,
    log_policies,
    refuse_second_entropy,
    rewards_of,
)
from irlax.estimators.sampled.gcl import discounted_sum, horizon_of
from irlax.estimators.sampled.losses import balance, classification_loss
from irlax.estimators.sampled.rewards import ObservedReward, Over
from irlax.estimators.sampled.steps import Recent, Steps
from irlax.rl.learner import AbstractLearner
from irlax.rl.networks import AbstractPolicy, Normaliser
from irlax.rl.ppo import PPO
from irlax.typing import Array, Float, PRNGKeyArray


class GANGCL(AbstractSampledIRL):
    r"""GAN-GCL (Finn, Christiano, Abbeel and Levine 2016; Primer, 4.3): a discriminator of whole paths.

    $$D(\tau) = \frac{e^{R(\tau)} / Z}{e^{R(\tau)} / Z + q(\tau)}, \quad
      \log D - \log(1 - D) = \sum_t \gamma^t \bigl( r(s_t,a_t,s_{t+1}) - \log\pi(a_t|s_t) \bigr) - \log Z$$

    The policy's density is inside the discriminator, so that R is all it learns, and log Z is set to its best value
    at each step. Sums are discounted like the return; at γ = 1 it is the published one. Where dynamics are
    deterministic its fixed point is GCL's.

    Sums over long paths saturate the classifier while the policy lags behind. Logits whose standard deviation
    exceeds `spread` are scaled down to it, by the factor "temper" in the log: 1 near the fixed point.
    """

    learner: AbstractLearner = PPO(temperature=1.0, explore=0.0)
    over: Over = "sa"
    spread: float = 2.0
    penalty: float = 0.1
    width: int = 64
    depth: int = 2
    normalise: bool = True
    rounds: int = 300
    episodes: int | None = None
    updates: int = 8
    learning_rate: float = 6e-3
    recent: int = 1
    explore: float = 0.0
    tol: float = 0.05
    patience: int = 20
    learns_reward: ClassVar[bool] = True
    whole_episodes: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_settings(self)
        refuse_second_entropy(self.learner)
        checks.positive("penalty", self.penalty, zero=True)
        checks.positive("spread", self.spread)

    def begin_reward(self, normaliser: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> ObservedReward:
        return ObservedReward(normaliser, actions, over=self.over, width=self.width, depth=self.depth, key=key)

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> None:
        return None

    def look(
        self, policy: AbstractPolicy, expert: Steps, recent: Recent, prepared: None
    ) -> tuple[tuple[Steps, Array], tuple[Steps, Array]]:
        ours = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), recent.steps)
        log_density = [discounted_sum(log_policies(policy, steps), steps) for steps in (expert, ours)]
        return (expert, log_density[0]), (ours, log_density[1])

    def loss(
        self, reward: Any, seen: tuple[tuple[Steps, Array], tuple[Steps, Array]], *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Info]:
        rewards = [rewards_of(reward, steps) for steps, _ in seen]
        logits = [discounted_sum(r, steps) - density for r, (steps, density) in zip(rewards, seen, strict=True)]
        weights = [steps.weight[:, 0] for steps, _ in seen]
        temper = jnp.minimum(1.0, self.spread / jax.lax.stop_gradient(_deviation(logits, weights) + 1e-6))
        logits = [temper * part for part in logits]
        constant = balance(logits[0], logits[1], weights[0], weights[1])
        # In units of the logits as they are, so that the penalty means the same at every temper.
        worth = classification_loss(logits[0] - constant, logits[1] - constant, *weights) / temper
        square = half_square(rewards[0], rewards[1], *(steps.discounted.weight for steps, _ in seen))
        worth += rate * self.penalty * square * horizon_of(seen[0][0]) / 2
        return worth, {"temper": temper}


def _deviation(logits: list[Array], weights: list[Array]) -> Float[Array, ""]:
    """The standard deviation of expert's and policy's together, each half of them."""
    half = jnp.concatenate([weight / weight.sum() for weight in weights]) / 2
    pooled = jnp.concatenate(logits)
    return jnp.sqrt(half @ (pooled - half @ pooled) ** 2)
