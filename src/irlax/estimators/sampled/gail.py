"""Generative adversarial imitation learning, a baseline that learns no reward."""

from typing import Any, ClassVar

import equinox as eqx
import jax

from irlax import checks
from irlax.estimators.sampled.estimator import AbstractSampledIRL, Info
from irlax.estimators.sampled.losses import accuracy, classification_loss, half_square
from irlax.estimators.sampled.rounds import Rounds
from irlax.estimators.sampled.steps import Recent, Steps, draw_both, rewards_of, step_pools
from irlax.networks import Normaliser
from irlax.registry import stored
from irlax.rewards import AbstractObservedReward, ObservedReward, RewardNet
from irlax.rewards.observed import Over
from irlax.rl.learner import AbstractLearner
from irlax.rl.policies import AbstractPolicy
from irlax.rl.ppo import PPO
from irlax.spaces import Box, Discrete
from irlax.typing import Array, Float, PRNGKeyArray


class DiscriminatorReward(AbstractObservedReward):
    """−log(1 − D), the reward of GAIL's policy; `logits` is log D − log(1 − D)."""

    over: Over = eqx.field(static=True)
    logits: ObservedReward

    def __call__(
        self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]
    ) -> Float[Array, ""]:
        return jax.nn.softplus(self.logits(observation, action, next_observation))


@stored("gail")
class GAIL(AbstractSampledIRL):
    r"""Generative adversarial imitation learning (Ho and Ermon 2016).

    $$\max_D \mathbb{E}_{\mathcal D}[\log D(s,a)] + \mathbb{E}_\pi[\log(1 - D(s,a))], \quad
      \text{policy reward } -\log(1 - D(s,a))$$

    At the optimum D is ½ everywhere: the policy imitates, and no reward is left. `reward` describes the network of
    D's logits. The learner may have any temperature. Steps are weighted by γᵗ, or all alike without `discounted`.
    `penalty` is the weight of half the mean square of the logits, which falls to zero over the rounds.
    """

    reward: RewardNet = RewardNet()
    learner: AbstractLearner = PPO(temperature=0.03, explore=0.0)
    rounds: Rounds = Rounds()
    discounted: bool = True
    penalty: float = 0.1
    updates: int = 8
    batch_size: int = 1024
    learning_rate: float = 1e-3
    recent: int = 1
    progress: bool | None = None
    learns_reward: ClassVar[bool] = False
    whole_episodes: ClassVar[bool] = False

    def __check_init__(self) -> None:
        checks.count("batch_size", self.batch_size)

    def make_reward(self, statistics: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> DiscriminatorReward:
        return DiscriminatorReward(self.reward.over, self.reward.init(statistics, actions, key=key))

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> None:
        return None

    def observe(self, policy: AbstractPolicy, expert: Steps, recent: Recent, prepared: None) -> tuple[Steps, Steps]:
        return step_pools(expert, recent, discounted=self.discounted)

    def loss(
        self, reward: DiscriminatorReward, observed: tuple[Steps, Steps], *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Info]:
        expert, policy = draw_both(*observed, self.batch_size, key=key)
        logits = rewards_of(reward.logits, expert), rewards_of(reward.logits, policy)
        weights = expert.weight, policy.weight
        loss = classification_loss(*logits, *weights) + rate * self.penalty * half_square(*logits, *weights)
        return loss, {"accuracy": accuracy(*logits)}
