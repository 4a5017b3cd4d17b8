"""Generative adversarial imitation learning, a baseline that learns no reward."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from irlax import checks
from irlax.estimators.sampled.control import LEARNER, WHOLE_REPLAY, control_settings, regularisation
from irlax.estimators.sampled.estimator import AbstractSampledIRL, Info
from irlax.estimators.sampled.losses import accuracy, classification_loss
from irlax.estimators.sampled.rounds import Rounds
from irlax.estimators.sampled.steps import Pool, Steps, Window, draw_both, rewards_of, step_pools
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
    """The reward of GAIL's policy: −log(1 − D) or, as `log_odds`, log D − log(1 − D), which `logits` is."""

    over: Over = eqx.field(static=True)
    logits: ObservedReward
    log_odds: bool = eqx.field(static=True, default=False)

    @property
    def after_end(self) -> Float[Array, ""]:
        """The reward of every step after the end of an episode."""
        return self._of(jnp.asarray(self.logits.after_end))

    def __call__(
        self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]
    ) -> Float[Array, ""]:
        return self._of(self.logits(observation, action, next_observation))

    def _of(self, logit: Float[Array, ""]) -> Float[Array, ""]:
        return logit if self.log_odds else jax.nn.softplus(logit)


@stored("gail")
class GAIL(AbstractSampledIRL):
    r"""Generative adversarial imitation learning (Ho and Ermon 2016).

    $$\max_D \mathbb{E}_{\mathcal D}[\log D(s,a)] + \mathbb{E}_\pi[\log(1 - D(s,a))], \quad
      \text{policy reward } -\log(1 - D(s,a))$$

    At the optimum D is ½ everywhere: the policy imitates, and no reward is left. `reward` describes the network of
    D's logits. With `log_odds` the policy's reward is log D − log(1 − D), as in discriminator-actor-critic (Kostrikov
    et al. 2019), and no bonus for every further step. The learner may have any temperature. Steps are weighted by γᵗ,
    or all alike without `discounted`.
    `penalty` is the weight of half the mean square of the logits, which falls to zero over the rounds.
    """

    reward: RewardNet = RewardNet()
    learner: AbstractLearner = PPO(temperature=0.03, explore=0.0)
    rounds: Rounds = Rounds()
    discounted: bool = True
    penalty: float = 0.1
    keep_penalty: bool = False
    smoothness: float = 0.0
    log_odds: bool = False
    updates: int = 8
    batch_size: int = 1024
    learning_rate: float = 1e-3
    recent: int = 1
    progress: bool | None = None
    learns_reward: ClassVar[bool] = False
    whole_episodes: ClassVar[bool] = False
    needs_actions: ClassVar[bool] = False

    def __check_init__(self) -> None:
        checks.count("batch_size", self.batch_size)
        checks.positive("smoothness", self.smoothness, zero=True)

    @classmethod
    def for_control(cls, **settings: Any) -> "GAIL":
        """For continuous control over long episodes: SAC learns from a replay, in many small rounds."""
        learner = dataclasses.replace(LEARNER, temperature="auto", keep_entropy=False)
        own = control_settings(learner=learner, recent=WHOLE_REPLAY, penalty=0.0, smoothness=0.015, log_odds=True)
        return cls(**own | settings)

    def make_reward(self, statistics: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> DiscriminatorReward:
        logits = self.reward.init(statistics, actions, key=key)
        return DiscriminatorReward(self.reward.over, logits, self.log_odds)

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> None:
        return None

    def observe(
        self, policy: AbstractPolicy, expert: Steps, recent: Pool, prepared: None
    ) -> tuple[Steps, Steps | Window]:
        return step_pools(expert, recent, discounted=self.discounted)

    def loss(
        self, reward: DiscriminatorReward, observed: tuple[Steps, Steps | Window], *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Info]:
        expert, policy = steps = draw_both(*observed, self.batch_size, key=key)
        logits = rewards_of(reward.logits, expert), rewards_of(reward.logits, policy)
        loss = classification_loss(*logits, expert.weight, policy.weight)
        loss += regularisation(self, reward.logits, steps, logits, rate=rate, key=key)
        return loss, {"accuracy": accuracy(*logits)}
