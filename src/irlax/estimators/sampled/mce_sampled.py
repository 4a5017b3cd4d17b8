"""Maximum causal entropy IRL from samples."""

import dataclasses
from typing import Any, ClassVar

from irlax import checks
from irlax.estimators.sampled.control import LEARNER, WHOLE_REPLAY, control_settings, regularisation
from irlax.estimators.sampled.estimator import AbstractSampledIRL, Info
from irlax.estimators.sampled.losses import matching_loss
from irlax.estimators.sampled.rounds import Rounds
from irlax.estimators.sampled.steps import Pool, Steps, Window, draw_both, rewards_of, step_pools
from irlax.networks import Normaliser
from irlax.registry import stored
from irlax.rewards import AbstractObservedReward, ObservedReward, RewardNet
from irlax.rl.learner import AbstractLearner
from irlax.rl.policies import AbstractPolicy
from irlax.rl.ppo import PPO
from irlax.spaces import Box, Discrete
from irlax.typing import Array, Float, PRNGKeyArray


@stored("sampled-mce-irl")
class SampledMCEIRL(AbstractSampledIRL):
    r"""Maximum causal entropy IRL without a model of the dynamics.

    $$\theta \leftarrow \theta + \eta \Bigl( \mathbb{E}_{\mathcal D}\bigl[\textstyle\sum_t \gamma^t
      \nabla r_\theta\bigr] - \mathbb{E}_\pi\bigl[\sum_t \gamma^t \nabla r_\theta\bigr] \Bigr)$$

    while the learner keeps π close to soft-optimal for r_θ: Algorithm 1 of the Primer with samples in place of the
    forward pass, as in maximum-likelihood IRL (Zeng et al. 2022). There is no discriminator, dynamics may be
    stochastic, and steps are weighted by γᵗ. `penalty` is the weight of ½E[r²] over the steps of expert and policy,
    which falls to zero over the rounds: while the policy lags behind, the reward would otherwise grow without bound.
    """

    reward: RewardNet = RewardNet()
    learner: AbstractLearner = PPO(temperature=1.0, explore=0.0)
    rounds: Rounds = Rounds()
    discounted: bool = True
    penalty: float = 1.0
    keep_penalty: bool = False
    smoothness: float = 0.0
    #: How many times faster than a weight of the network the reward after an end is learned.
    end_rate: float = 1.0
    updates: int = 8
    batch_size: int = 4096
    learning_rate: float = 3e-3
    recent: int = 1
    progress: bool | None = None
    learns_reward: ClassVar[bool] = True
    whole_episodes: ClassVar[bool] = False
    any_unit: ClassVar[bool] = True
    needs_actions: ClassVar[bool] = False

    def __check_init__(self) -> None:
        checks.count("batch_size", self.batch_size)
        checks.positive("smoothness", self.smoothness, zero=True)
        checks.positive("end_rate", self.end_rate)

    @classmethod
    def for_control(cls, **settings: Any) -> "SampledMCEIRL":
        """For continuous control over long episodes: SAC learns from a replay, in many small rounds."""
        # At temperature 1 the bound 2/`penalty` of rewards would leave the policy much noise, and a lower penalty makes
        # steps of the network too long: rewards are learned in a smaller unit.
        learner = dataclasses.replace(LEARNER, temperature=0.1)
        # Rewards grow to 2/`penalty`, and that after an end has to follow: until it has, an end looks better than steps
        # with negative rewards.
        return cls(**control_settings(learner=learner, recent=WHOLE_REPLAY, end_rate=10.0) | settings)

    def make_reward(self, statistics: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> ObservedReward:
        return self.reward.init(statistics, actions, key=key)

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> None:
        return None

    def observe(
        self, policy: AbstractPolicy, expert: Steps, recent: Pool, prepared: None
    ) -> tuple[Steps, Steps | Window]:
        return step_pools(expert, recent, discounted=self.discounted)

    def loss(
        self, reward: AbstractObservedReward, observed: tuple[Steps, Steps | Window], *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Info]:
        expert, policy = steps = draw_both(*observed, self.batch_size, key=key)
        rewards = rewards_of(reward, expert), rewards_of(reward, policy)
        bound = regularisation(self, reward, steps, rewards, rate=rate, key=key)
        return matching_loss(*rewards, expert.weight, policy.weight) + bound, {}
