"""Adversarial IRL."""

from typing import Any, ClassVar

import jax.random as jr

from irlax import checks
from irlax.estimators.sampled.control import control_settings, regularisation
from irlax.estimators.sampled.estimator import AbstractSampledIRL, Info
from irlax.estimators.sampled.losses import accuracy, airl_logits, classification_loss
from irlax.estimators.sampled.rounds import Rounds
from irlax.estimators.sampled.steps import Pool, Steps, Window, draw_both, log_policy_of, rewards_of, step_pools
from irlax.networks import Normaliser
from irlax.registry import stored
from irlax.rewards import AbstractObservedReward, RewardNet, ShapedObservedReward
from irlax.rewards.observed import unshaped
from irlax.rl.learner import AbstractLearner
from irlax.rl.policies import AbstractPolicy
from irlax.rl.ppo import PPO
from irlax.spaces import Box, Discrete
from irlax.typing import Array, Float, PRNGKeyArray


@stored("airl")
class AIRL(AbstractSampledIRL):
    r"""Adversarial IRL (Fu, Luo and Levine 2018; Primer, 4.4).

    $$D(s,a,s') = \frac{e^{f(s,a,s')}}{e^{f(s,a,s')} + \pi(a|s)}, \quad
      \log D - \log(1 - D) = f(s,a,s') - \log\pi(a|s)$$

    D tells the expert's steps from the policy's, and the policy's reward is f − log π, its entropy included. At the
    fixed point f is the expert's soft advantage. With a `potential` h, f = g + γh(s') − h(s); where dynamics are
    deterministic and decomposable, g over states is then the reward, up to a constant, and serves in other dynamics.

    Where there are no demonstrations the reward is extrapolated. A simple g beside a rich h leaves what is particular
    to these dynamics to h: `RewardNet(over="s", quadratic=True, depth=0)` is a paraboloid with one maximum. With
    `Rounds(explore=...)` the discriminator also gets steps where the expert might have gone, and did not.

    The discriminator's steps are weighted by γᵗ, as the policy's are when it learns, or all alike, as published,
    without `discounted`. It learns from the episodes of the last `recent` rounds. `penalty` is the weight of ½E[f²],
    which falls to zero over the rounds, and bounds f while the steps of expert and policy do not overlap.
    """

    reward: RewardNet = RewardNet()
    #: The settings of a potential of states; without, the reward is not shaped.
    potential: RewardNet | None = None
    learner: AbstractLearner = PPO(temperature=1.0, explore=0.0)
    rounds: Rounds = Rounds()
    discounted: bool = True
    penalty: float = 0.1
    keep_penalty: bool = False
    smoothness: float = 0.0
    updates: int = 16
    batch_size: int = 1024
    learning_rate: float = 2e-3
    recent: int = 2
    progress: bool | None = None
    learns_reward: ClassVar[bool] = True
    whole_episodes: ClassVar[bool] = False

    def __check_init__(self) -> None:
        checks.count("batch_size", self.batch_size)
        checks.positive("smoothness", self.smoothness, zero=True)
        if self.potential is None:
            return
        if not isinstance(self.potential, RewardNet):
            raise TypeError(f"`potential` must be RewardNet(over='s', ...), but is a {type(self.potential).__name__}.")
        if self.potential.over != "s":
            raise ValueError(
                f"A potential is a function of states, but `potential` has over={self.potential.over!r}. Say "
                f"`potential=RewardNet(over='s', ...)`."
            )

    @classmethod
    def for_control(cls, **settings: Any) -> "AIRL":
        """For continuous control over long episodes: SAC learns from a replay, in many small rounds."""
        return cls(**control_settings(recent=4, penalty=0.01, smoothness=0.05) | settings)

    def make_reward(
        self, statistics: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray
    ) -> AbstractObservedReward:
        base_key, potential_key = jr.split(key)
        base = self.reward.init(statistics, actions, key=base_key)
        if self.potential is None:
            return base
        return ShapedObservedReward(base, self.potential.init(statistics, actions, key=potential_key), self.discount)

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> None:
        return None

    def observe(
        self, policy: AbstractPolicy, expert: Steps, recent: Pool, prepared: None
    ) -> tuple[AbstractPolicy, Steps, Steps | Window]:
        return policy, *step_pools(expert, recent, discounted=self.discounted)

    def loss(
        self,
        reward: AbstractObservedReward,
        observed: tuple[AbstractPolicy, Steps, Steps | Window],
        *,
        rate: Any,
        key: PRNGKeyArray,
    ) -> tuple[Float[Array, ""], Info]:
        current, expert_pool, policy_pool = observed
        expert, policy = steps = draw_both(expert_pool, policy_pool, self.batch_size, key=key)
        f = rewards_of(reward, expert), rewards_of(reward, policy)
        logits = airl_logits(f[0], log_policy_of(current, expert)), airl_logits(f[1], log_policy_of(current, policy))
        loss = classification_loss(*logits, expert.weight, policy.weight)
        loss += regularisation(self, unshaped(reward), steps, f, rate=rate, key=key)
        return loss, {"accuracy": accuracy(*logits)}
