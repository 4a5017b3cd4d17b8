"""Guided cost learning as a generative adversarial network."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from irlax import checks
from irlax.estimators.sampled.estimator import AbstractSampledIRL, Info
from irlax.estimators.sampled.gcl import discounted_horizon, discounted_sum
from irlax.estimators.sampled.losses import balance, classification_loss, half_square
from irlax.estimators.sampled.rounds import Rounds
from irlax.estimators.sampled.steps import Recent, Steps, log_policy_of, rewards_of
from irlax.networks import Normaliser
from irlax.registry import stored
from irlax.rewards import AbstractObservedReward, ObservedReward, RewardNet
from irlax.rl.learner import AbstractLearner
from irlax.rl.policies import AbstractPolicy
from irlax.rl.ppo import PPO
from irlax.spaces import Box, Discrete
from irlax.typing import Array, Float, PRNGKeyArray


@stored("gan-gcl")
class GANGCL(AbstractSampledIRL):
    r"""GAN-GCL (Finn, Christiano, Abbeel and Levine 2016; Primer, 4.3): a discriminator of whole paths.

    $$D(\tau) = \frac{e^{R(\tau)} / Z}{e^{R(\tau)} / Z + q(\tau)}, \quad
      \log D - \log(1 - D) = \sum_t \gamma^t \bigl( r(s_t,a_t,s_{t+1}) - \log\pi(a_t|s_t) \bigr) - \log Z$$

    The policy's density is inside the discriminator, so that R is all it learns, and log Z is set to its best value
    at each step. Sums are discounted like the return; at γ = 1 it is the published one. Where dynamics are
    deterministic its fixed point is GCL's.

    Sums over long paths saturate the classifier while the policy lags behind. Logits whose standard deviation
    exceeds `spread` are scaled down to it, by the factor "temper" in the history: 1 near the fixed point. `penalty` is
    the weight of ½E[r²], which falls to zero over the rounds.
    """

    reward: RewardNet = RewardNet()
    learner: AbstractLearner = PPO(temperature=1.0, explore=0.0)
    rounds: Rounds = Rounds()
    spread: float = 2.0
    penalty: float = 0.1
    updates: int = 8
    learning_rate: float = 6e-3
    recent: int = 1
    progress: bool | None = None
    learns_reward: ClassVar[bool] = True
    whole_episodes: ClassVar[bool] = True

    def __check_init__(self) -> None:
        checks.positive("spread", self.spread)

    def make_reward(self, statistics: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> ObservedReward:
        return self.reward.init(statistics, actions, key=key)

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> None:
        return None

    def observe(self, policy: AbstractPolicy, expert: Steps, recent: Recent, prepared: None) -> tuple[Any, Any]:
        """Episodes [n, T] and Σ γᵗ log π(a_t|s_t) of each: the expert's, and those of recent policies."""
        sampled = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), recent.steps)
        log_density = [discounted_sum(log_policy_of(policy, steps), steps) for steps in (expert, sampled)]
        return (expert, log_density[0]), (sampled, log_density[1])

    def loss(
        self, reward: AbstractObservedReward, observed: tuple[Any, Any], *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Info]:
        rewards = [rewards_of(reward, steps) for steps, _ in observed]
        logits = [discounted_sum(r, steps) - density for r, (steps, density) in zip(rewards, observed, strict=True)]
        weights = [steps.weight[:, 0] for steps, _ in observed]
        temper = jnp.minimum(1.0, self.spread / jax.lax.stop_gradient(_deviation(logits, weights) + 1e-6))
        logits = [temper * part for part in logits]
        constant = balance(logits[0], logits[1], weights[0], weights[1])
        # In units of the logits before tempering, so that the penalty has the same relative weight at every temper.
        loss = classification_loss(logits[0] - constant, logits[1] - constant, *weights) / temper
        square = half_square(rewards[0], rewards[1], *(steps.discounted.weight for steps, _ in observed))
        loss += rate * self.penalty * square * discounted_horizon(observed[0][0]) / 2
        return loss, {"temper": temper}


def _deviation(logits: list[Array], weights: list[Array]) -> Float[Array, ""]:
    """The standard deviation of the logits of expert and policy together, half the weight on each."""
    half = jnp.concatenate([weight / weight.sum() for weight in weights]) / 2
    pooled = jnp.concatenate(logits)
    return jnp.sqrt(half @ (pooled - half @ pooled) ** 2)
