"""Maximum causal entropy IRL from samples."""

from typing import Any, ClassVar

from irlax import checks
from irlax.estimators.sampled.estimator import AbstractSampledIRL, Info
from irlax.estimators.sampled.losses import half_square, matching_loss
from irlax.estimators.sampled.rounds import Rounds
from irlax.estimators.sampled.steps import Recent, Steps, draw_both, rewards_of, step_pools
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
    penalty: float = 1.0
    updates: int = 8
    batch_size: int = 4096
    learning_rate: float = 3e-3
    recent: int = 1
    progress: bool | None = None
    learns_reward: ClassVar[bool] = True
    whole_episodes: ClassVar[bool] = False

    def __check_init__(self) -> None:
        checks.count("batch_size", self.batch_size)

    def make_reward(self, statistics: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> ObservedReward:
        return self.reward.init(statistics, actions, key=key)

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> None:
        return None

    def observe(self, policy: AbstractPolicy, expert: Steps, recent: Recent, prepared: None) -> tuple[Steps, Steps]:
        return step_pools(expert, recent, discounted=True)

    def loss(
        self, reward: AbstractObservedReward, observed: tuple[Steps, Steps], *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Info]:
        expert, policy = draw_both(*observed, self.batch_size, key=key)
        rewards = rewards_of(reward, expert), rewards_of(reward, policy)
        weights = expert.weight, policy.weight
        return matching_loss(*rewards, *weights) + rate * self.penalty * half_square(*rewards, *weights), {}
