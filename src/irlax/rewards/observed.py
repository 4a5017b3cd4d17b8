"""Rewards of observations, as networks: what dynamics-free estimators learn."""

import abc
import dataclasses
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp

from irlax import checks
from irlax.networks import Normaliser, Perceptron
from irlax.registry import stored
from irlax.spaces import Box, Discrete, to_unit
from irlax.typing import Array, Float, PRNGKeyArray

Over = Literal["s", "ss", "sa", "sas"]


class AbstractObservedReward(eqx.Module):
    """A reward of one step, called as ``reward(observation, action, next_observation)``.

    All its arrays of floats are learned, but for those inside a `Normaliser` or an action space. A reward with an
    attribute `after_end` pays that at every step after the end of an episode, and one without it pays nothing there.
    """

    #: What it depends on: the state and, after it, the next state, the action, or both.
    over: eqx.AbstractVar[Over]

    @abc.abstractmethod
    def __call__(
        self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]
    ) -> Float[Array, ""]:
        """The reward of one step."""


@stored("observed-reward")
class ObservedReward(AbstractObservedReward):
    """r(s), r(s,s'), r(s,a) or r(s,a,s') of observations, as a network.

    The statistics that observations are normalised with do not change while the reward is learned. Each of finitely
    many actions has an output of its own: without hidden layers, on one-hot observations, that is a table. A
    `quadratic` reward is minus the mean square of the outputs (Finn, Levine and Abbeel 2016), at most 0.
    """

    over: Over = eqx.field(static=True)
    quadratic: bool = eqx.field(static=True)
    network: Perceptron
    normaliser: Normaliser
    actions: Discrete | Box
    #: The reward of every step after the end of an episode; None where episodes have no end.
    end: Float[Array, ""] | None = None

    def __call__(
        self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]
    ) -> Float[Array, ""]:
        return self.of_inputs(self.inputs(observation, action, next_observation), action)

    @property
    def after_end(self) -> Float[Array, ""] | float:
        """The reward of every step after the end of an episode."""
        return 0.0 if self.end is None else self.end

    def inputs(
        self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]
    ) -> Float[Array, " in"]:
        """What the network reads: normalised observations, and the action if it is one of a box."""
        inputs = [self.normaliser(observation)]
        if self.over.endswith("s") and self.over != "s":
            inputs.append(self.normaliser(next_observation))
        if "a" in self.over and isinstance(self.actions, Box):
            inputs.append(to_unit(self.actions, action))
        return jnp.concatenate(inputs)

    def of_inputs(self, inputs: Float[Array, " in"], action: Any) -> Float[Array, ""]:
        """The reward, given what the network reads; each of finitely many actions has outputs of its own."""
        outputs = self.network(inputs)
        if "a" in self.over and isinstance(self.actions, Discrete):
            outputs = outputs.reshape(self.actions.num, -1)[action]
        return -(outputs**2).mean() if self.quadratic else outputs[0]


@stored("shaped-observed-reward")
class ShapedObservedReward(AbstractObservedReward):
    r"""$f(s,a,s') = g(s,a,s') + \gamma h(s') - h(s)$: a reward g and a potential h, with the learner's own γ.

    The potential is not zero where an episode is truncated: the problem does not end there. Fu, Luo and Levine (2018).
    """

    base: AbstractObservedReward
    potential: AbstractObservedReward
    discount: float = eqx.field(static=True)
    over: Over = eqx.field(static=True, init=False, default="sas")

    def __call__(
        self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]
    ) -> Float[Array, ""]:
        before = self.potential(observation, action, observation)
        after = self.potential(next_observation, action, next_observation)
        return self.base(observation, action, next_observation) + self.discount * after - before


@stored("scaled-observed-reward")
class ScaledObservedReward(AbstractObservedReward):
    """A reward in other units: `factor` times `base`, and after an end so much more."""

    over: Over = eqx.field(static=True)
    base: AbstractObservedReward
    factor: float = eqx.field(static=True)
    more_after_end: float = eqx.field(static=True, default=0.0)

    @property
    def after_end(self) -> Float[Array, ""] | float:
        """The reward of every step after the end of an episode."""
        return self.factor * reward_after_end(self.base) + self.more_after_end

    def __call__(
        self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]
    ) -> Float[Array, ""]:
        return self.factor * self.base(observation, action, next_observation)


@stored("reward-net")
class RewardNet(eqx.Module):
    """The settings of a reward that is a network of observations: `init` makes an `ObservedReward` of them."""

    #: What the reward may depend on: "s", "ss" (the state and the next), "sa" or "sas".
    over: Over = "sa"
    #: Units in each hidden layer, and hidden layers; without any, the reward is linear in the observations.
    width: int = 64
    depth: int = 2
    #: Whether the reward is minus the mean square of `width` outputs.
    quadratic: bool = False
    #: Whether observations are normalised by the mean and variance of the demonstrations.
    normalise: bool = True

    def __check_init__(self) -> None:
        checks.one_of("over", self.over, get_args(Over))
        checks.count("width", self.width)
        checks.count("depth", self.depth, 0)

    def init(self, statistics: Normaliser, actions: Discrete | Box, *, key: PRNGKeyArray) -> ObservedReward:
        """A reward before it is learned; `statistics` are those of the demonstrations' observations."""
        size = len(statistics.mean)
        inputs = size * (1 if self.over in ("s", "sa") else 2)
        if "a" in self.over and isinstance(actions, Box):
            inputs += actions.low.shape[-1]
        outputs = actions.num if "a" in self.over and isinstance(actions, Discrete) else 1
        network = Perceptron.init(
            inputs,
            outputs * (self.width if self.quadratic else 1),
            width=self.width,
            depth=self.depth,
            activation="tanh",
            last_gain=0.1,
            key=key,
        )
        normaliser = statistics if self.normalise else Normaliser.init(size)
        return ObservedReward(self.over, self.quadratic, network, normaliser, actions)


def unshaped(reward: AbstractObservedReward) -> AbstractObservedReward:
    """The reward without its potential, if it has one."""
    if isinstance(reward, ScaledObservedReward):
        base = unshaped(reward.base)
        return ScaledObservedReward(base.over, base, reward.factor, reward.more_after_end)
    return reward.base if isinstance(reward, ShapedObservedReward) else reward


def reward_after_end(reward: Any) -> Float[Array, ""] | float:
    """The reward of every step after the end of an episode: 0 for rewards that do not say."""
    return getattr(reward, "after_end", 0.0)


def has_end(reward: Any) -> bool:
    """Whether the reward of the steps after an end was learned."""
    networks = jax.tree.leaves(reward, is_leaf=lambda node: isinstance(node, ObservedReward))
    return any(isinstance(node, ObservedReward) and node.end is not None for node in networks)


def with_end(reward: Any) -> Any:
    """The same reward, with the reward of the steps after an end to learn, too, which begins at 0."""

    def is_network(node: Any) -> bool:
        return isinstance(node, ObservedReward)

    def add(node: Any) -> Any:
        if not is_network(node) or node.end is not None:
            return node
        return dataclasses.replace(node, end=jnp.zeros((), jnp.float32))

    return jax.tree.map(add, reward, is_leaf=is_network)


def with_end_scaled(change: Any, factor: float) -> Any:
    """A change of a reward, that of the reward after an end times `factor`."""

    def is_network(node: Any) -> bool:
        return isinstance(node, ObservedReward)

    def scale(node: Any) -> Any:
        return eqx.tree_at(lambda node: node.end, node, factor * node.end) if is_network(node) else node

    return jax.tree.map(scale, change, is_leaf=is_network)


def split(reward: AbstractObservedReward) -> tuple[Any, Any]:
    """The parameters that are learned, and the rest: statistics, and the bounds of actions."""

    def is_fixed(node: Any) -> bool:
        return isinstance(node, (Normaliser, Box, Discrete))

    learned = jax.tree.map(lambda node: not is_fixed(node) and eqx.is_inexact_array(node), reward, is_leaf=is_fixed)
    return eqx.partition(reward, learned)
