"""Adversarial IRL."""

from typing import Any, ClassVar

import jax.random as jr

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
from irlax.estimators.sampled.losses import airl_logits, classification_loss
from irlax.estimators.sampled.rewards import ObservedReward, Over, shaped
from irlax.estimators.sampled.steps import Recent, Steps, drawn, pools
from irlax.rl.learner import AbstractLearner
from irlax.rl.networks import AbstractPolicy, Normaliser
from irlax.rl.ppo import PPO
from irlax.typing import Array, Float, PRNGKeyArray


class AIRL(AbstractSampledIRL):
    r"""Adversarial IRL (Fu, Luo and Levine 2018; Primer, 4.4).

    $$D(s,a,s') = \frac{e^{f(s,a,s')}}{e^{f(s,a,s')} + \pi(a|s)}, \quad
      \log D - \log(1 - D) = f(s,a,s') - \log\pi(a|s)$$

    D tells the expert's steps from the policy's, and the policy is paid f − log π, its entropy included. At the
    fixed point f is the expert's soft advantage. With `shaped`, f = g + γh(s') − h(s); where dynamics are
    deterministic and decomposable, g over states is then the reward, up to a constant, and serves in other dynamics.

    What demonstrations never show is extrapolated. A simple g beside a rich h leaves what is particular to these
    dynamics to h: `quadratic` is minus the squared norm of the outputs, with `depth=0` a bowl about one place, and the
    potential's size is its own (`potential_width`, `potential_depth`; by default the reward's). With `explore` the
    discriminator also sees where the expert might have gone, and did not.

    The discriminator's steps are weighted by γᵗ, as the policy's are when it learns, or all alike, as published,
    without `discounted`. It learns from the episodes of the last `recent` rounds. `penalty` is the weight of ½E[f²],
    which falls to zero along the way, and keeps f from growing without bound while expert and policy never meet.
    """

    learner: AbstractLearner = PPO(temperature=1.0, explore=0.0)
    over: Over = "sa"
    shaped: bool = False
    quadratic: bool = False
    discounted: bool = True
    penalty: float = 0.1
    width: int = 64
    depth: int = 2
    potential_width: int | None = None
    potential_depth: int | None = None
    normalise: bool = True
    rounds: int = 300
    episodes: int | None = None
    updates: int = 16
    batch_size: int = 1024
    learning_rate: float = 2e-3
    recent: int = 2
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
        for name, least in (("potential_width", 1), ("potential_depth", 0)):
            if getattr(self, name) is not None:
                checks.count(name, getattr(self, name), least)

    def begin_reward(self, normaliser: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> Any:
        base_key, potential_key = jr.split(key)
        size: Any = {"width": self.width, "depth": self.depth}
        base = ObservedReward(normaliser, actions, over=self.over, quadratic=self.quadratic, **size, key=base_key)
        if not self.shaped:
            return base
        width = self.width if self.potential_width is None else self.potential_width
        depth = self.depth if self.potential_depth is None else self.potential_depth
        return shaped(base, self.discount, width=width, depth=depth, key=potential_key)

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> None:
        return None

    def look(self, policy: AbstractPolicy, expert: Steps, recent: Recent, prepared: None) -> tuple[Any, Steps, Steps]:
        return policy, *pools(expert, recent, discounted=self.discounted)

    def loss(
        self, reward: Any, seen: tuple[Any, Steps, Steps], *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Info]:
        policy = seen[0]
        theirs, ours = drawn(seen[1], seen[2], self.batch_size, key=key)
        f = rewards_of(reward, theirs), rewards_of(reward, ours)
        expert_logits = airl_logits(f[0], log_policies(policy, theirs))
        policy_logits = airl_logits(f[1], log_policies(policy, ours))
        worth = classification_loss(expert_logits, policy_logits, theirs.weight, ours.weight)
        accuracy = ((expert_logits > 0).mean() + (policy_logits < 0).mean()) / 2
        return worth + rate * self.penalty * half_square(*f, theirs.weight, ours.weight), {"accuracy": accuracy}
