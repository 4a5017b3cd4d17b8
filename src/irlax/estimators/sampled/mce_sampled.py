"""Maximum causal entropy IRL from samples."""

from typing import Any, ClassVar

from irlax import checks
from irlax.envs.environment import Box, Discrete
from irlax.estimators.sampled.estimator import (
    AbstractSampledIRL,
    Info,
    check_settings,
    half_square,
    refuse_second_entropy,
    rewards_of,
)
from irlax.estimators.sampled.losses import matching_loss
from irlax.estimators.sampled.rewards import ObservedReward, Over
from irlax.estimators.sampled.steps import Recent, Steps, drawn, pools
from irlax.rl.learner import AbstractLearner
from irlax.rl.networks import AbstractPolicy, Normaliser
from irlax.rl.ppo import PPO
from irlax.typing import Array, Float, PRNGKeyArray


class SampledMCEIRL(AbstractSampledIRL):
    r"""Maximum causal entropy IRL without a model of the dynamics.

    $$\theta \leftarrow \theta + \eta \Bigl( \mathbb{E}_{\mathcal D}\bigl[\textstyle\sum_t \gamma^t
      \nabla r_\theta\bigr] - \mathbb{E}_\pi\bigl[\sum_t \gamma^t \nabla r_\theta\bigr] \Bigr)$$

    while the learner keeps π close to soft-optimal for r_θ: Algorithm 1 of the Primer with samples in place of the
    forward pass, as in maximum-likelihood IRL (Zeng et al. 2022). No discriminator, no assumption that dynamics
    are deterministic, and the discount is where it belongs. `penalty` is the weight of ½E[r²] over the steps
    of expert and policy, which falls to zero along the way: while the policy lags behind, the reward would otherwise
    grow without bound.
    """

    learner: AbstractLearner = PPO(temperature=1.0, explore=0.0)
    over: Over = "sa"
    penalty: float = 1.0
    width: int = 64
    depth: int = 2
    normalise: bool = True
    rounds: int = 300
    episodes: int | None = None
    updates: int = 8
    batch_size: int = 4096
    learning_rate: float = 3e-3
    recent: int = 1
    explore: float = 0.0
    tol: float = 0.05
    patience: int = 20
    learns_reward: ClassVar[bool] = True
    whole_episodes: ClassVar[bool] = False

    def __check_init__(self) -> None:
        check_settings(self)
        refuse_second_entropy(self.learner)
        checks.count("batch_size", self.batch_size)
        checks.positive("penalty", self.penalty, zero=True)

    def begin_reward(self, normaliser: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> ObservedReward:
        return ObservedReward(normaliser, actions, over=self.over, width=self.width, depth=self.depth, key=key)

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> None:
        return None

    def look(self, policy: AbstractPolicy, expert: Steps, recent: Recent, prepared: None) -> tuple[Steps, Steps]:
        return pools(expert, recent, discounted=True)

    def loss(
        self, reward: Any, seen: tuple[Steps, Steps], *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Info]:
        theirs, ours = drawn(*seen, self.batch_size, key=key)
        rewards = rewards_of(reward, theirs), rewards_of(reward, ours)
        worth = matching_loss(*rewards, theirs.weight, ours.weight)
        return worth + rate * self.penalty * half_square(*rewards, theirs.weight, ours.weight), {}
