"""Guided cost learning."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from irlax import checks
from irlax.estimators.sampled.cloning import BehaviouralCloning, clone
from irlax.estimators.sampled.estimator import AbstractSampledIRL, Info
from irlax.estimators.sampled.losses import effective_share, half_square, importance_loss, log_mixture, tempering
from irlax.estimators.sampled.rounds import Rounds
from irlax.estimators.sampled.steps import Recent, Steps, log_policy_of, rewards_of, weighted_mean
from irlax.networks import Normaliser
from irlax.registry import stored
from irlax.rewards import AbstractObservedReward, ObservedReward, RewardNet
from irlax.rl.learner import AbstractLearner
from irlax.rl.policies import AbstractPolicy
from irlax.rl.ppo import PPO
from irlax.spaces import Box, Discrete
from irlax.typing import Array, Float, PRNGKeyArray


class Samples(NamedTuple):
    """Episodes [m, T] of recent policies, then the expert's, with the log density of the mixture they come from."""

    episodes: Steps
    log_proposal: Float[Array, " m"]
    weight: Float[Array, " m"]


@stored("gcl")
class GCL(AbstractSampledIRL):
    r"""Guided cost learning (Finn, Levine and Abbeel 2016; Primer, 4.2): maximum entropy over whole paths.

    $$\nabla L = \mathbb{E}_{\mathcal D}[\nabla R(\tau)] - \sum_i w_i \nabla R(\tau_i), \quad
      w_i \propto \frac{e^{R(\tau_i)}}{q(\tau_i)}, \quad R(\tau) = \sum_t \gamma^t r(s_t, a_t, s_{t+1})$$

    The proposal q is an even mixture of the last `recent` policies and of a policy cloned from the demonstrations,
    which are samples too; what the dynamics contribute to densities cancels. Weights are per path, in log space, and
    discounted like the return, so that they are even where the policy is soft-optimal and dynamics are
    deterministic. At γ = 1 this is the law of paths, in which starts with higher value have more weight; where
    dynamics are stochastic, it seeks risk (Primer, 3.3).

    Weights of long paths are very uneven while the policy lags behind. They are raised to the largest power β ≤ 1
    that leaves an effective share of `least_share` of the samples; "effective_share" and "temper" in the history are
    the share without that, and β. `RewardNet(quadratic=True)` is the paper's architecture, `constant_rate` and
    `monotonic` are the weights of its two regularisers on the expert's paths: rewards that change evenly, and that do
    not fall by more than 1 a step. `penalty` is the weight of ½E[r²], which falls to zero over the rounds.
    """

    reward: RewardNet = RewardNet()
    learner: AbstractLearner = PPO(temperature=1.0, explore=0.0)
    rounds: Rounds = Rounds()
    constant_rate: float = 0.0
    monotonic: float = 0.0
    least_share: float = 0.5
    #: Fewer steps than for imitation: a proposal should be broad.
    cloning: BehaviouralCloning = BehaviouralCloning(steps=2000, learning_rate=1e-3)
    penalty: float = 0.1
    updates: int = 8
    learning_rate: float = 6e-3
    recent: int = 2
    progress: bool | None = None
    learns_reward: ClassVar[bool] = True
    whole_episodes: ClassVar[bool] = True

    def __check_init__(self) -> None:
        for name in ("constant_rate", "monotonic"):
            checks.positive(name, getattr(self, name), zero=True)
        if not 0 <= checks.positive("least_share", self.least_share, zero=True) < 1:
            raise ValueError(f"`least_share` must lie in [0, 1), but is {self.least_share}.")

    def make_reward(self, statistics: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> ObservedReward:
        return self.reward.init(statistics, actions, key=key)

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> AbstractPolicy:
        """A policy cloned from the demonstrations: an estimate of their density."""
        return clone(policy, expert.rows, self.cloning, key=key)[0]

    def observe(
        self, policy: AbstractPolicy, expert: Steps, recent: Recent, prepared: AbstractPolicy
    ) -> tuple[Samples, Steps]:
        """The samples, and the expert's episodes [N, T], which are the last of them."""
        pool = jax.tree.map(
            lambda sampled, demos: jnp.concatenate([sampled.reshape(-1, *sampled.shape[2:]), demos]),
            recent.steps,
            expert,
        )
        log_policy = eqx.filter_vmap(lambda policy: discounted_sum(log_policy_of(policy, pool), pool))(recent.policies)
        log_cloned = discounted_sum(log_policy_of(prepared, pool), pool)
        # Rounds that have not taken place have no share in the mixture and no samples.
        filled = jnp.sign(recent.steps.weight[:, :, 0])
        shares = jnp.append(filled[:, 0], 1.0)
        log_densities = jnp.concatenate([log_policy, log_cloned[None]])
        log_proposal = log_mixture(log_densities, jnp.log(shares / shares.sum()))
        expert_weight = expert.weight[:, 0] / expert.weight[:, 0].sum()
        weight = jnp.concatenate([filled.ravel() / filled.shape[1], expert_weight])
        return Samples(pool, log_proposal, weight), expert

    def loss(
        self, reward: AbstractObservedReward, observed: tuple[Samples, Steps], *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Info]:
        samples, expert = observed
        rewards = rewards_of(reward, samples.episodes)
        returns = discounted_sum(rewards, samples.episodes)
        num = len(expert.weight)
        log_weight = jax.lax.stop_gradient(returns) - samples.log_proposal
        temper = tempering(log_weight, samples.weight, self.least_share)
        loss = importance_loss(
            returns[-num:], returns, samples.log_proposal, expert.weight[:, 0], samples.weight, temper=temper
        )
        weight = samples.episodes.discounted.weight
        square = half_square(rewards[-num:], rewards[:-num], weight[-num:], weight[:-num])
        loss += rate * self.penalty * square * discounted_horizon(expert)
        loss += self.constant_rate * uneven_rate(rewards[-num:], expert.weight[:, 0])
        loss += self.monotonic * falls(rewards[-num:], expert.weight[:, 0])
        return loss, {"effective_share": effective_share(log_weight, samples.weight), "temper": temper}


def discounted_sum(numbers: Float[Array, "n T"], episodes: Steps) -> Float[Array, " n"]:
    """Σ γᵗ x_t of each episode, whatever its weight."""
    return (numbers * episodes.discount).sum(axis=1)


def discounted_horizon(episodes: Steps) -> Float[Array, ""]:
    """Σ γᵗ of an episode: the factor between a loss of whole paths and one of steps."""
    return episodes.discount[0].sum()


def uneven_rate(rewards: Float[Array, "n T"], weight: Float[Array, " n"]) -> Float[Array, ""]:
    """The weighted mean over paths of the mean squared second difference of the reward."""
    return weighted_mean((jnp.diff(rewards, n=2, axis=1) ** 2).mean(axis=1), weight)


def falls(rewards: Float[Array, "n T"], weight: Float[Array, " n"]) -> Float[Array, ""]:
    """The weighted mean over paths of the mean square of falls by more than 1 from step to step."""
    return weighted_mean((jax.nn.relu(-jnp.diff(rewards, axis=1) - 1) ** 2).mean(axis=1), weight)
