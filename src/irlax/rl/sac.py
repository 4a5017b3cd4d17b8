"""Soft actor-critic, off-policy: experience is kept, and its rewards are computed anew whenever it is used."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

from irlax import checks
from irlax.envs.experience import Transition
from irlax.networks import Activation, Perceptron
from irlax.registry import stored
from irlax.rewards.observed import reward_after_end
from irlax.rl.critics import Critics, SoftValue, action_value, soft_parts
from irlax.rl.learner import AbstractLearner, Metrics, check_settings, flat, rewards_of_rows
from irlax.rl.policies import (
    AbstractPolicy,
    SquashedGaussianPolicy,
    init_policy,
    with_network,
    with_normaliser,
)
from irlax.rl.replay import Buffer
from irlax.rl.values import Units
from irlax.spaces import Box, Discrete, log_half_width
from irlax.typing import Array, Float, PRNGKeyArray

#: The weight of a batch's targets in the critics' units.
UNITS_RATE = 0.01


class Learned(eqx.Module):
    """Everything that a gradient step changes."""

    policy: AbstractPolicy
    critics: Critics
    log_temperature: Float[Array, ""]
    #: λH̄: the bonus of a step is αH less this, in which H̄ is the entropy that is kept and λ the price of keeping it.
    price: Float[Array, ""]
    #: The states of the optimisers of policy, critics and temperature.
    optimiser_states: tuple[Any, ...]


class SACAgent(eqx.Module):
    """Policy, critics, temperature, and the experience that they learn from."""

    learned: Learned
    buffer: Buffer

    @property
    def policy(self) -> AbstractPolicy:
        """The current policy."""
        return self.learned.policy

    @property
    def temperature(self) -> Float[Array, ""]:
        """α, the weight of entropy."""
        return jnp.exp(self.learned.log_temperature)

    @property
    def value(self) -> SoftValue:
        """The soft value that the critics give the policy."""
        critics = self.learned.critics
        return SoftValue(self.policy, critics.networks, critics.units, self.temperature, self.learned.price)


@stored("sac")
class SAC(AbstractLearner):
    r"""Soft actor-critic (Haarnoja et al. 2018), for continuous and for discrete actions (Christodoulou 2019).

    $$Q(s,a) \leftarrow r + \gamma\,\mathbb{E}_{a'\sim\pi}[\min_i \bar Q_i(s',a') - \alpha\log\pi(a'|s')
      - \lambda\bar H], \quad \min_\pi \mathbb{E}_s \mathbb{E}_{a\sim\pi}[\alpha\log\pi(a|s) - \min_i Q_i(s,a)]$$

    Expectations over discrete actions are sums. `temperature` is α: 1 is the Primer's model of a demonstrator, the
    default is for training an expert, and "auto" tunes it until the policy has `target_entropy`, by default about a
    third of log A for discrete actions and −1 for each continuous coordinate of a box scaled to [−1, 1]. With
    `keep_entropy` a temperature that is a number is the least one: from 1 it falls to that, and it rises while the
    policy's entropy is below `target_entropy`, so that no reward, however large, makes the policy deterministic.

    λ is the part of α that is the multiplier of the constraint $H(\pi) \ge \bar H$: all of it for "auto", what is
    above `temperature` with `keep_entropy`, nothing where the temperature is fixed. The Lagrangian has
    $\lambda(H - \bar H)$ at every step. Published SAC leaves $\lambda\bar H$ out, which changes nothing as long as no
    episode ends. But densities in small boxes have negative entropies, so that without it every further step would
    cost $\lambda|\bar H|$, and the policy would learn to end its episodes, the more so the larger α.

    Networks read observations in standard deviations of those so far, or with `normalise=False` as they are. The
    buffer starts with `warmup` random steps, and holds the last `capacity`; checkpoints contain it.

    An end is followed by the reward's own `after_end` r̄ at every further step, with nothing left to choose, so that
    the value there is r̄/(1 − γ). It is 0 for rewards that have none.
    """

    temperature: float | Literal["auto"] = 0.1
    target_entropy: float | None = None
    keep_entropy: bool = False
    discount: float = 0.99
    num_envs: int = 16
    length: int = 8
    updates: int = 64
    batch_size: int = 256
    capacity: int = 200_000
    warmup: int = 10_000
    learning_rate: float = 1e-3
    tau: float = 0.02
    width: int = 64
    depth: int = 2
    activation: Activation = "relu"
    normalise: bool = True
    explore: float = 0.1
    anneal: bool = True
    steps: int = 150_000

    def __check_init__(self) -> None:
        check_settings(self)
        if self.temperature != "auto":
            checks.positive("temperature", self.temperature)
        elif self.keep_entropy:
            raise ValueError("With temperature='auto' the entropy is kept already: leave `keep_entropy` out.")
        for name in ("updates", "batch_size", "capacity", "warmup"):
            checks.count(name, getattr(self, name))
        if checks.positive("tau", self.tau) > 1:
            raise ValueError(f"`tau` must lie in (0, 1], but is {self.tau}.")
        if self.capacity < self.warmup_steps:
            raise ValueError(f"`capacity` must hold the {self.warmup_steps} random steps, but is {self.capacity}.")

    @property
    def warmup_length(self) -> int:
        # Whole rounds: the buffer is written a round at a time.
        return self.length * math.ceil(self.warmup / self.steps_per_round)

    def for_episodes(self, num: int, horizon: int) -> "SAC":
        # As many updates for each step as before.
        updates = math.ceil(self.updates * num * horizon / self.steps_per_round)
        return dataclasses.replace(self, num_envs=num, length=horizon, updates=updates)

    def init_agent(self, observation_size: int, actions: Discrete | Box, *, key: PRNGKeyArray) -> SACAgent:
        policy_key, first_key, second_key = jr.split(key, 3)
        shape: Any = {"width": self.width, "depth": self.depth, "activation": self.activation}
        policy = init_policy(actions, observation_size, **shape, key=policy_key)
        inputs, outputs = observation_size, 1
        if isinstance(actions, Discrete):
            outputs, example = actions.num, jnp.zeros((), jnp.int32)
        else:
            inputs, example = observation_size + actions.low.shape[-1], jnp.zeros(actions.low.shape, jnp.float32)
        first, second = (Perceptron.init(inputs, outputs, **shape, key=key) for key in (first_key, second_key))
        start = 1.0 if self.temperature == "auto" else self.temperature
        if self.keep_entropy:
            start = max(1.0, start)
        log_temperature = jnp.asarray(math.log(start), jnp.float32)
        trained: Any = (policy.network, (first, second), log_temperature)
        optimiser_states = tuple(self._optimiser().init(part) for part in trained)
        critics = Critics((first, second), (first, second), Units.init())
        price = self._price(policy, log_temperature)
        learned = Learned(policy, critics, log_temperature, price, optimiser_states)
        capacity = self.steps_per_round * math.ceil(self.capacity / self.steps_per_round)
        return SACAgent(learned, Buffer.init(capacity, observation_size, example))

    def add(self, agent: SACAgent, batch: Transition) -> SACAgent:
        rows = flat(batch)
        if not self.normalise:
            return SACAgent(agent.learned, agent.buffer.add(rows))
        policy = agent.policy
        policy = with_normaliser(policy, policy.normaliser.update(rows.observation))
        learned = eqx.tree_at(lambda learned: learned.policy, agent.learned, policy)
        return SACAgent(learned, agent.buffer.add(rows))

    def learn(
        self,
        agent: SACAgent,
        batch: Transition,
        reward: Callable[..., Any] | None,
        *,
        rate: Any,
        key: PRNGKeyArray,
    ) -> tuple[SACAgent, Metrics]:
        return self.improve(self.add(agent, batch), reward, rate=rate, key=key)

    def improve(
        self, agent: SACAgent, reward: Callable[..., Any] | None, *, rate: Any, key: PRNGKeyArray
    ) -> tuple[SACAgent, Metrics]:
        """The agent after `updates` gradient steps on its buffer."""
        sample_key, update_key = jr.split(key)
        samples = agent.buffer.sample((self.updates, self.batch_size), key=sample_key)

        def update(learned: Learned, now: tuple[Transition, PRNGKeyArray]) -> tuple[Learned, Metrics]:
            return self._update(learned, now[0], reward, rate, now[1])

        learned, metrics = jax.lax.scan(update, agent.learned, (samples, jr.split(update_key, self.updates)))
        return SACAgent(learned, agent.buffer), jax.tree.map(jnp.mean, metrics)

    def _update(
        self, learned: Learned, rows: Transition, reward: Callable[..., Any] | None, rate: Any, key: PRNGKeyArray
    ) -> tuple[Learned, Metrics]:
        """One step for the critics, then one for the policy, then one for the temperature."""
        next_key, policy_key = jr.split(key)
        temperature = jnp.exp(learned.log_temperature)
        critics, critic_state, critic_loss = self._improve_critics(
            learned, self._rewards(rows, reward), rows, rate, next_key
        )

        def policy_loss(network: Perceptron) -> tuple[Float[Array, ""], Float[Array, ""]]:
            policy = with_network(learned.policy, network)
            keys = jr.split(policy_key, self.batch_size)

            def one(observation: Float[Array, " obs"], key: PRNGKeyArray) -> tuple[Array, Array]:
                return soft_parts(policy, critics.networks, critics.units, observation, key)

            q, entropy = jax.vmap(one)(rows.observation, keys)
            return -(q + temperature * entropy).mean(), entropy.mean()

        gradient, entropy = jax.grad(policy_loss, has_aux=True)(learned.policy.network)
        network, policy_state = self._descend(gradient, learned.optimiser_states[0], learned.policy.network, rate)
        log_temperature, temperature_state = learned.log_temperature, learned.optimiser_states[2]
        if self._keeps:
            surplus = entropy - self._target_entropy(learned.policy)
            log_temperature, temperature_state = self._descend(surplus, temperature_state, log_temperature, rate)
        if self.keep_entropy and self.temperature != "auto":
            log_temperature = jnp.maximum(log_temperature, math.log(self.temperature))
        optimiser_states = (policy_state, critic_state, temperature_state)
        policy = with_network(learned.policy, network)
        metrics = {"loss": critic_loss, "entropy": entropy, "temperature": temperature}
        price = self._price(policy, log_temperature)
        return Learned(policy, critics, log_temperature, price, optimiser_states), metrics

    def _rewards(
        self, rows: Transition, reward: Callable[..., Any] | None
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """The reward of each row, and the discounted rewards of all that follows the end, where the row is one."""
        last = reward_after_end(reward) * self.discount / (1 - self.discount) if self.discount < 1 else 0.0
        return rewards_of_rows(rows, reward), jnp.where(rows.terminated, last, 0.0)

    def _improve_critics(
        self,
        learned: Learned,
        reward: tuple[Float[Array, " n"], Float[Array, " n"]],
        rows: Transition,
        rate: Any,
        key: PRNGKeyArray,
    ) -> tuple[Critics, Any, Float[Array, ""]]:
        policy, critics = learned.policy, learned.critics

        slow = SoftValue(policy, critics.targets, critics.units, jnp.exp(learned.log_temperature), learned.price)
        after = jax.vmap(slow.draw)(rows.next_observation, jr.split(key, self.batch_size))
        now, last = reward
        target = now + jnp.where(rows.terminated, last, self.discount * after)
        units = critics.units.towards(target.mean(), target.var(), jnp.asarray(UNITS_RATE, jnp.float32))
        critics = critics.in_units(units)
        scaled = (target - units.mean) / units.scale

        def loss_of(networks: tuple[Perceptron, Perceptron]) -> Float[Array, ""]:
            values = jax.vmap(lambda s, a: jnp.stack([action_value(policy, net, s, a) for net in networks]))
            return ((values(rows.observation, rows.action) - scaled[:, None]) ** 2).mean()

        loss, gradient = jax.value_and_grad(loss_of)(critics.networks)
        networks, optimiser_state = self._descend(gradient, learned.optimiser_states[1], critics.networks, rate)
        targets = jax.tree.map(lambda slow, fast: slow + self.tau * (fast - slow), critics.targets, networks)
        return Critics(networks, targets, units), optimiser_state, loss

    def _descend(self, gradient: Any, optimiser_state: Any, weights: Any, rate: Any) -> tuple[Any, Any]:
        update, optimiser_state = self._optimiser().update(gradient, optimiser_state, weights)
        return jax.tree.map(lambda weight, change: weight + rate * change, weights, update), optimiser_state

    def _optimiser(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)

    @property
    def _keeps(self) -> bool:
        """Whether the temperature is found."""
        return self.temperature == "auto" or self.keep_entropy

    def _price(self, policy: AbstractPolicy, log_temperature: Float[Array, ""]) -> Float[Array, ""]:
        """λH̄."""
        if not self._keeps:
            return jnp.zeros((), jnp.float32)
        least = 0.0 if self.temperature == "auto" else self.temperature
        return jnp.asarray((jnp.exp(log_temperature) - least) * self._target_entropy(policy), jnp.float32)

    def _target_entropy(self, policy: AbstractPolicy) -> Any:
        if self.target_entropy is not None:
            return self.target_entropy
        if isinstance(policy, SquashedGaussianPolicy):
            return log_half_width(policy.actions) - policy.actions.low.shape[-1]
        return 0.35 * math.log(max(policy.actions.num, 1))
