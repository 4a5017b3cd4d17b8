"""Guided cost learning."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from irlax import checks
from irlax.envs.environment import Box, Discrete
from irlax.estimators.sampled.cloning import BehaviouralCloning, clone
from irlax.estimators.sampled.estimator import (
    AbstractSampledIRL,
    Info,
    check_settings,
    half_square,
    log_policies,
    refuse_second_entropy,
    rewards_of,
)
from irlax.estimators.sampled.losses import effective_share, importance_loss, log_mixture, tempering
from irlax.estimators.sampled.rewards import ObservedReward, Over
from irlax.estimators.sampled.steps import Recent, Steps, mean
from irlax.rl.learner import AbstractLearner
from irlax.rl.networks import AbstractPolicy, Normaliser
from irlax.rl.ppo import PPO
from irlax.typing import Array, Float, PRNGKeyArray


class Samples(NamedTuple):
    """Episodes [m, T] of recent policies, then the expert's, with the log density of the mixture they come from."""

    episodes: Steps
    log_proposal: Float[Array, " m"]
    weight: Float[Array, " m"]


class GCL(AbstractSampledIRL):
    r"""Guided cost learning (Finn, Levine and Abbeel 2016; Primer, 4.2): maximum entropy over whole paths.

    $$\nabla L = \mathbb{E}_{\mathcal D}[\nabla R(\tau)] - \sum_i w_i \nabla R(\tau_i), \quad
      w_i \propto \frac{e^{R(\tau_i)}}{q(\tau_i)}, \quad R(\tau) = \sum_t \gamma^t r(s_t, a_t, s_{t+1})$$

    The proposal q is an even mixture of the last `recent` policies and of a policy cloned from the demonstrations,
    which are samples too; what the dynamics contribute to densities cancels. Weights are per path, in log space, and
    discounted like the return, so that they are even where the policy is soft-optimal and dynamics are
    deterministic. At γ = 1 this is the law of paths, in which starts that promise more weigh more; where dynamics are
    stochastic, it seeks risk (Primer, 3.3).

    Weights of long paths are very uneven while the policy lags behind. They are raised to the largest power β ≤ 1
    that leaves an effective share of `least_share` of the samples; "effective_share" and "temper" in the log are the
    share without that, and β. `quadratic` is the paper's architecture, `constant_rate` and `monotonic` weigh its two
    regularisers on the expert's paths: rewards that change evenly, and that do not fall by more than 1 a step.
    """

    learner: AbstractLearner = PPO(temperature=1.0, explore=0.0)
    over: Over = "sa"
    quadratic: bool = False
    constant_rate: float = 0.0
    monotonic: float = 0.0
    least_share: float = 0.5
    #: Less exact than cloning for its own sake: a proposal had better be broad.
    cloning: BehaviouralCloning = BehaviouralCloning(steps=2000, learning_rate=1e-3)
    penalty: float = 0.1
    width: int = 64
    depth: int = 2
    normalise: bool = True
    rounds: int = 300
    episodes: int | None = None
    updates: int = 8
    learning_rate: float = 6e-3
    recent: int = 2
    explore: float = 0.0
    tol: float = 0.05
    patience: int = 20
    learns_reward: ClassVar[bool] = True
    whole_episodes: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_settings(self)
        refuse_second_entropy(self.learner)
        for name in ("penalty", "constant_rate", "monotonic"):
            checks.positive(name, getattr(self, name), zero=True)
        if not 0 <= checks.positive("least_share", self.least_share, zero=True) < 1:
            raise ValueError(f"`least_share` must lie in [0, 1), but is {self.least_share}.")

    def begin_reward(self, normaliser: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> ObservedReward:
        size: Any = {"width": self.width, "depth": self.depth, "quadratic": self.quadratic}
        return ObservedReward(normaliser, actions, over=self.over, **size, key=key)

    def prepare(self, policy: AbstractPolicy, expert: Steps, *, key: PRNGKeyArray) -> AbstractPolicy:
        """The density of the demonstrations."""
        return clone(policy, expert.rows, self.cloning, key=key)[0]

    def look(
        self, policy: AbstractPolicy, expert: Steps, recent: Recent, prepared: AbstractPolicy
    ) -> tuple[Samples, Steps]:
        pool = jax.tree.map(
            lambda ours, theirs: jnp.concatenate([ours.reshape(-1, *ours.shape[2:]), theirs]), recent.steps, expert
        )
        log_policy = eqx.filter_vmap(lambda policy: discounted_sum(log_policies(policy, pool), pool))(recent.policies)
        log_cloned = discounted_sum(log_policies(prepared, pool), pool)
        # Rounds that are yet to come have neither a share in the mixture nor samples from it.
        filled = jnp.sign(recent.steps.weight[:, :, 0])
        shares = jnp.append(filled[:, 0], 1.0)
        log_densities = jnp.concatenate([log_policy, log_cloned[None]])
        log_proposal = log_mixture(log_densities, jnp.log(shares / shares.sum()))
        theirs = expert.weight[:, 0] / expert.weight[:, 0].sum()
        weight = jnp.concatenate([filled.ravel() / filled.shape[1], theirs])
        return Samples(pool, log_proposal, weight), expert

    def loss(
        self, reward: Any, seen: tuple[Samples, Steps], *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Float[Array, ""], Info]:
        samples, expert = seen
        rewards = rewards_of(reward, samples.episodes)
        returns = discounted_sum(rewards, samples.episodes)
        num = len(expert.weight)
        log_weight = jax.lax.stop_gradient(returns) - samples.log_proposal
        temper = tempering(log_weight, samples.weight, self.least_share)
        worth = importance_loss(
            returns[-num:], returns, samples.log_proposal, expert.weight[:, 0], samples.weight, temper=temper
        )
        weight = samples.episodes.discounted.weight
        square = half_square(rewards[-num:], rewards[:-num], weight[-num:], weight[:-num])
        worth += rate * self.penalty * square * horizon_of(expert)
        worth += self.constant_rate * uneven_rate(rewards[-num:], expert.weight[:, 0])
        worth += self.monotonic * falls(rewards[-num:], expert.weight[:, 0])
        return worth, {"effective_share": effective_share(log_weight, samples.weight), "temper": temper}


def discounted_sum(numbers: Float[Array, "n T"], episodes: Steps) -> Float[Array, " n"]:
    """Σ γᵗ x_t of each episode, whatever its weight."""
    return (numbers * episodes.discount).sum(axis=1)


def horizon_of(episodes: Steps) -> Float[Array, ""]:
    """Σ γᵗ: a loss of whole paths is as many times that of a step."""
    return episodes.discount[0].sum()


def uneven_rate(rewards: Float[Array, "n T"], weight: Float[Array, " n"]) -> Float[Array, ""]:
    """The mean square of second differences along paths, each as often as its weight says."""
    return mean((jnp.diff(rewards, n=2, axis=1) ** 2).mean(axis=1), weight)


def falls(rewards: Float[Array, "n T"], weight: Float[Array, " n"]) -> Float[Array, ""]:
    """The mean square of falls by more than 1 from step to step, likewise."""
    return mean((jax.nn.relu(-jnp.diff(rewards, axis=1) - 1) ** 2).mean(axis=1), weight)
