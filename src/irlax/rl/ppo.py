"""Proximal policy optimisation of the entropy-regularised return."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

from irlax import checks
from irlax.envs.experience import Transition, choose_tree
from irlax.networks import Activation, Normaliser, Perceptron
from irlax.registry import stored
from irlax.rl.learner import AbstractLearner, Metrics, check_settings, flat, rewards_of_rows
from irlax.rl.policies import AbstractPolicy, init_policy, with_network, with_normaliser
from irlax.rl.values import Units, Value
from irlax.spaces import Box, Discrete
from irlax.typing import Array, Bool, Float, PRNGKeyArray

#: The weight of a batch's targets in the value's units, after the first few batches.
UNITS_RATE = 0.1


class PPOAgent(eqx.Module):
    """A policy, its soft value, the state of their optimiser, and the number of batches so far."""

    policy: AbstractPolicy
    value: Value
    optimiser_state: Any
    batches: Float[Array, ""]


class Rows(eqx.Module):
    """The steps of a batch, as the losses take them."""

    observation: Float[Array, "... obs"]
    action: Any
    log_prob: Float[Array, "..."]
    advantage: Float[Array, "..."]
    target: Float[Array, "..."]
    weight: Float[Array, "..."]


@stored("ppo")
class PPO(AbstractLearner):
    r"""Proximal policy optimisation (Schulman et al. 2017) whose optimum is that of soft planning.

    Entropy is part of the reward, $r - \alpha\log\pi(a|s)$, in the advantages and in the values that they are
    bootstrapped with; a bonus on the loss would reward the entropy of the current action only. `temperature` is α: 1
    is the Primer's model of a demonstrator, the default is for training an expert. Observations, advantages and
    value targets are normalised.
    """

    temperature: float = 0.05
    discount: float = 0.99
    num_envs: int = 64
    length: int = 64
    epochs: int = 4
    minibatches: int = 4
    learning_rate: float = 3e-3
    gae: float = 0.95
    clip: float = 0.2
    max_gradient: float = 0.5
    max_kl: float = 0.03
    width: int = 64
    depth: int = 2
    activation: Activation = "tanh"
    explore: float = 0.1
    anneal: bool = True
    steps: int = 2_000_000

    def __check_init__(self) -> None:
        check_settings(self)
        checks.positive("temperature", self.temperature, zero=True)
        checks.count("epochs", self.epochs)
        if self.steps_per_round % checks.count("minibatches", self.minibatches):
            raise ValueError(
                f"`minibatches` must divide num_envs · length = {self.steps_per_round}, but is {self.minibatches}."
            )
        for name in ("clip", "max_gradient", "max_kl"):
            checks.positive(name, getattr(self, name))
        if checks.positive("gae", self.gae, zero=True) > 1:
            raise ValueError(f"`gae` must lie in [0, 1], but is {self.gae}.")

    @property
    def warmup_length(self) -> int:
        return 0

    def for_episodes(self, num: int, horizon: int) -> "PPO":
        return dataclasses.replace(self, num_envs=num, length=horizon)

    def init_agent(self, observation_size: int, actions: Discrete | Box, *, key: PRNGKeyArray) -> PPOAgent:
        policy_key, value_key = jr.split(key)
        shape: Any = {"width": self.width, "depth": self.depth, "activation": self.activation}
        policy = init_policy(actions, observation_size, **shape, key=policy_key)
        network = Perceptron.init(observation_size, 1, **shape, key=value_key)
        value = Value(network, Normaliser.init(observation_size), Units.init())
        trained: Any = (policy.network, network)
        return PPOAgent(policy, value, self._optimiser().init(trained), jnp.zeros((), jnp.float32))

    def add(self, agent: PPOAgent, batch: Transition) -> PPOAgent:
        return agent

    def learn(
        self,
        agent: PPOAgent,
        batch: Transition,
        reward: Callable[..., Any] | None,
        *,
        rate: Any,
        key: PRNGKeyArray,
    ) -> tuple[PPOAgent, Metrics]:
        rows = self._rows(agent, batch, reward)
        weight = jnp.maximum(UNITS_RATE, 1 / (agent.batches + 1))
        mean, variance = weighted_moments(rows.target, rows.weight)
        units = agent.value.units.towards(mean, variance, weight)
        network = agent.value.units.convert(agent.value.network, units)
        value = Value(network, agent.value.normaliser, units)
        start = agent.policy, value, agent.optimiser_state
        policy, value, optimiser_state, metrics = self._descend(*start, rows, rate=rate, key=key)
        # Only now: within a batch the statistics must not change, so that probabilities can be compared.
        normaliser = policy.normaliser.update(rows.observation)
        policy, value = with_normaliser(policy, normaliser), with_normaliser(value, normaliser)
        metrics["entropy"] = -weighted_moments(flat(batch).log_prob, rows.weight)[0]
        return PPOAgent(policy, value, optimiser_state, agent.batches + 1), metrics

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.chain(
            optax.clip_by_global_norm(self.max_gradient),
            optax.scale_by_adam(eps=1e-5),
            optax.scale(-self.learning_rate),
        )

    def _rows(self, agent: PPOAgent, batch: Transition, reward: Callable[..., Any] | None) -> Rows:
        steps = flat(batch)
        log_prob = jax.vmap(agent.policy.log_prob)(steps.observation, steps.action)
        # The entropy is that of the action as it was drawn. The ratio is that of the action as it was rounded: the
        # log probability of the updated policy is known for that only.
        soft_reward = rewards_of_rows(steps, reward) - self.temperature * steps.log_prob
        value, after = jax.vmap(agent.value)(steps.observation), jax.vmap(agent.value)(steps.next_observation)
        shape = batch.reward.shape
        advantage = generalised_advantage(
            soft_reward.reshape(shape),
            value.reshape(shape),
            after.reshape(shape),
            batch.terminated,
            batch.truncated,
            discount=self.discount,
            gae=self.gae,
        ).ravel()
        weight = 1.0 - steps.explored
        mean, variance = weighted_moments(advantage, weight)
        scaled = (advantage - mean) / jnp.sqrt(variance + 1e-8)
        return Rows(steps.observation, steps.action, log_prob, scaled, advantage + value, weight)

    def _descend(
        self, policy: AbstractPolicy, value: Value, optimiser_state: Any, rows: Rows, *, rate: Any, key: PRNGKeyArray
    ) -> tuple[AbstractPolicy, Value, Any, Metrics]:
        """Several epochs of minibatches, each epoch in another random order."""
        optimiser, size = self._optimiser(), self.steps_per_round

        def loss(networks: Any, batch: Rows) -> tuple[Float[Array, ""], Metrics]:
            new_policy, new_value = with_network(policy, networks[0]), with_network(value, networks[1])
            log_prob = jax.vmap(new_policy.log_prob)(batch.observation, batch.action)
            # Random actions may have almost no probability under the policy: they have weight 0, and must not overflow.
            log_ratio = jnp.where(batch.weight > 0, log_prob - batch.log_prob, 0.0)
            surrogate = clipped_surrogate(log_ratio, batch.advantage, self.clip)
            error = (jax.vmap(new_value)(batch.observation) - batch.target) / new_value.units.scale
            policy_loss = -weighted_moments(surrogate, batch.weight)[0]
            value_loss = 0.5 * weighted_moments(error**2, batch.weight)[0]
            kl = weighted_moments(jnp.expm1(jnp.clip(log_ratio, -20.0, 20.0)) - log_ratio, batch.weight)[0]
            total = policy_loss + value_loss
            return total, {"loss": total, "policy_loss": policy_loss, "value_loss": value_loss, "kl": kl}

        def descend(carry: Any, batch: Rows) -> tuple[Any, Metrics]:
            networks, optimiser_state, near = carry
            gradient, metrics = jax.grad(loss, has_aux=True)(networks, batch)
            # Once the policy is this far from the one that acted, the rest of the round changes nothing.
            near &= metrics["kl"] <= self.max_kl
            update, moved = optimiser.update(gradient, optimiser_state, networks)
            networks = jax.tree.map(lambda weight, change: weight + near * rate * change, networks, update)
            return (networks, choose_tree(near, moved, optimiser_state), near), metrics

        def epoch(carry: Any, key: PRNGKeyArray) -> tuple[Any, Metrics]:
            order = jr.permutation(key, size).reshape(self.minibatches, -1)
            return jax.lax.scan(descend, carry, jax.tree.map(lambda array: array[order], rows))

        start = ((policy.network, value.network), optimiser_state, jnp.ones((), bool))
        (networks, optimiser_state, _), metrics = jax.lax.scan(epoch, start, jr.split(key, self.epochs))
        metrics = jax.tree.map(jnp.mean, metrics)
        return with_network(policy, networks[0]), with_network(value, networks[1]), optimiser_state, metrics


def generalised_advantage(
    reward: Float[Array, "T N"],
    value: Float[Array, "T N"],
    after: Float[Array, "T N"],
    terminated: Bool[Array, "T N"],
    truncated: Bool[Array, "T N"],
    *,
    discount: float,
    gae: float,
) -> Float[Array, "T N"]:
    r"""Generalised advantage estimation (Schulman et al. 2016).

    $$\delta_t = r_t + \gamma (1 - \text{terminated}_t) V(s_{t+1}) - V(s_t), \quad
      A_t = \delta_t + \gamma\lambda (1 - \text{ended}_t) A_{t+1}$$

    with $s_{t+1}$ the true next observation: truncated episodes are bootstrapped, terminated ones are not.
    """
    delta = reward + discount * jnp.where(terminated, 0.0, after) - value
    continues = discount * gae * (1.0 - (terminated | truncated))

    def back(later: Float[Array, " N"], now: tuple[Array, Array]) -> tuple[Array, Array]:
        advantage = now[0] + now[1] * later
        return advantage, advantage

    return jax.lax.scan(back, jnp.zeros_like(value[0]), (delta, continues), reverse=True)[1]


def clipped_surrogate(log_ratio: Float[Array, " n"], advantage: Float[Array, " n"], clip: float) -> Float[Array, " n"]:
    """min(ρA, clip(ρ, 1 ± ε)A): constant where the policy has moved too far from the one that acted."""
    # Far beyond any clip: a larger one would overflow.
    ratio = jnp.exp(jnp.clip(log_ratio, -20.0, 20.0))
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)


def weighted_moments(
    numbers: Float[Array, " n"], weight: Float[Array, " n"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The weighted mean and variance."""
    total = jnp.maximum(weight.sum(), 1.0)
    mean = (weight * numbers).sum() / total
    return mean, (weight * (numbers - mean) ** 2).sum() / total
