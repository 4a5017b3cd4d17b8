"""Rewards of observations, as networks: what dynamics-free estimators learn."""

import abc
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp

from irlax import checks
from irlax.networks import Normaliser, Perceptron
from irlax.registry import stored
from irlax.spaces import Box, Discrete, to_unit
from irlax.typing import Array, Float, PRNGKeyArray

Over = Literal["s", "sa", "sas"]


class AbstractObservedReward(eqx.Module):
    """A reward of one step, called as ``reward(observation, action, next_observation)``.

    All its arrays of floats are learned, but for those inside a `Normaliser` or an action space.
    """

    #: What it depends on: the state, the action too, the next state too.
    over: eqx.AbstractVar[Over]

    @abc.abstractmethod
    def __call__(
        self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]
    ) -> Float[Array, ""]:
        """The reward of one step."""


@stored("observed-reward")
class ObservedReward(AbstractObservedReward):
    """r(s), r(s,a) or r(s,a,s') of observations, as a network.

    The statistics that observations are normalised with do not change while the reward is learned. Each of finitely
    many actions has an output of its own: without hidden layers, on one-hot observations, that is a table. A
    `quadratic` reward is minus the mean square of the outputs (Finn, Levine and Abbeel 2016), at most 0.
    """

    over: Over = eqx.field(static=True)
    quadratic: bool = eqx.field(static=True)
    network: Perceptron
    normaliser: Normaliser
    actions: Discrete | Box

    def __call__(
        self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]
    ) -> Float[Array, ""]:
        inputs = [self.normaliser(observation)]
        if self.over == "sas":
            inputs.append(self.normaliser(next_observation))
        if self.over != "s" and isinstance(self.actions, Box):
            inputs.append(to_unit(self.actions, action))
        outputs = self.network(jnp.concatenate(inputs))
        if self.over != "s" and isinstance(self.actions, Discrete):
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


@stored("reward-net")
class RewardNet(eqx.Module):
    """The settings of a reward that is a network of observations: `init` makes an `ObservedReward` of them."""

    #: What the reward may depend on: "s", "sa" or "sas".
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
        inputs = size * (2 if self.over == "sas" else 1)
        if self.over != "s" and isinstance(actions, Box):
            inputs += actions.low.shape[-1]
        outputs = actions.num if self.over != "s" and isinstance(actions, Discrete) else 1
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
    return reward.base if isinstance(reward, ShapedObservedReward) else reward


def split(reward: AbstractObservedReward) -> tuple[Any, Any]:
    """The parameters that are learned, and the rest: statistics, and the bounds of actions."""

    def is_fixed(node: Any) -> bool:
        return isinstance(node, (Normaliser, Box, Discrete))

    learned = jax.tree.map(lambda node: not is_fixed(node) and eqx.is_inexact_array(node), reward, is_leaf=is_fixed)
    return eqx.partition(reward, learned)
