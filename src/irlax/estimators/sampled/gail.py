"""Generative adversarial imitation learning, a baseline that learns no reward."""

from typing import Any, ClassVar

import equinox as eqx
import jax

from irlax import checks
from irlax.envs.environment import Box, Discrete
from irlax.estimators.sampled.estimator import AbstractSampledIRL, Info, check_settings, half_square, rewards_of
from irlax.estimators.sampled.losses import classification_loss
from irlax.estimators.sampled.rewards import ObservedReward, Over
from irlax.estimators.sampled.steps import Recent, Steps, drawn, pools
from irlax.rl.learner import AbstractLearner
from irlax.rl.networks import AbstractPolicy, Normaliser
from irlax.rl.ppo import PPO
from irlax.typing import Array, Float, PRNGKeyArray


class Payment(eqx.Module):
    """−log(1 − D): what a policy is paid for steps that are taken for the expert's."""

    logits: Any

    def __call__(self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]) -> Any:
        return jax.nn.softplus(self.logits(observation, action, next_observation))


class GAIL(AbstractSampledIRL):
    r"""Generative adversarial imitation learning (Ho and Ermon 2016).

    $$\max_D \mathbb{E}_{\mathcal D}[\log D(s,a)] + \mathbb{E}_\pi[\log(1 - D(s,a))], \quad
      \text{paid } -\log(1 - D(s,a))$$

    At the optimum D is ½ everywhere: it imitates, but what it leaves behind is no reward. The learner may have any
    temperature. Steps are weighted by γᵗ, or all alike without `discounted`.
    """

    learner: AbstractLearner = PPO(temperature=0.03, explore=0.0)
    over: Over = "sa"
    discounted: bool = True
    penalty: float = 0.1
    width: int = 64
    depth: int = 2
    normalise: bool = True
    rounds: int = 300
    episodes: int | None = None
    updates: int = 8
    batch_size: int = 1024
    learning_rate: float = 1e-3
    recent: int = 1
    explore: float = 0.0
    tol: float = 0.05
    patience: int = 20
    learns_reward: ClassVar[bool] = False
    whole_episodes: ClassVar[bool] = False

    def __check_init__(self) -> None:
        check_settings(self)
        checks.count("batch_size", self.batch_size)
        checks.positive("penalty", self.penalty, zero=True)

    def begin_reward(self, normaliser: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> Payment:
        size: Any = {"width": self.width, "depth": self.depth}
        return Payment(ObservedReward(normaliser, actions, over=self.over, **size, key=key))

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> None:
        return None

    def look(self, policy: AbstractPolicy, expert: Steps, recent: Recent, prepared: None) -> tuple[Steps, Steps]:
        return pools(expert, recent, discounted=self.discounted)

    def loss(
        self, reward: Any, seen: tuple[Steps, Steps], *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Info]:
        theirs, ours = drawn(*seen, self.batch_size, key=key)
        logits = rewards_of(reward.logits, theirs), rewards_of(reward.logits, ours)
        accuracy = ((logits[0] > 0).mean() + (logits[1] < 0).mean()) / 2
        worth = classification_loss(*logits, theirs.weight, ours.weight)
        return worth + rate * self.penalty * half_square(*logits, theirs.weight, ours.weight), {"accuracy": accuracy}
