"""Rewards of observations, as networks: what dynamics-free estimators learn."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp

from irlax.envs.environment import Box, Discrete
from irlax.rl.networks import Normaliser, Perceptron, to_unit
from irlax.typing import Array, Float, PRNGKeyArray

Over = Literal["s", "sa", "sas"]


class ObservedReward(eqx.Module):
    """r(s), r(s,a) or r(s,a,s') of observations, called as ``reward(observation, action, next_observation)``.

    Observations are normalised by statistics that stand still, so that a reward means the same all along. Each of
    finitely many actions has an output of its own: without hidden layers, on one-hot observations, that is a table.
    A `quadratic` reward is minus the squared norm of the outputs (Finn, Levine and Abbeel 2016): best where they
    vanish.
    """

    network: Perceptron
    normaliser: Normaliser
    actions: Discrete | Box
    over: Over = eqx.field(static=True)
    width: int = eqx.field(static=True)
    quadratic: bool = eqx.field(static=True)

    def __init__(
        self,
        normaliser: Normaliser,
        actions: Discrete | Box,
        *,
        over: Over,
        width: int,
        depth: int,
        quadratic: bool = False,
        key: PRNGKeyArray,
    ) -> None:
        inputs = len(normaliser.mean) * (2 if over == "sas" else 1)
        if over != "s" and isinstance(actions, Box):
            inputs += actions.low.shape[-1]
        outputs = actions.num if over != "s" and isinstance(actions, Discrete) else 1
        self.network = Perceptron(
            inputs,
            outputs * (width if quadratic else 1),
            width=width,
            depth=depth,
            activation="tanh",
            last_gain=0.1,
            key=key,
        )
        self.normaliser, self.actions = normaliser, actions
        self.over, self.width, self.quadratic = over, width, quadratic

    def __call__(
        self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]
    ) -> Float[Array, ""]:
        seen = [self.normaliser(observation)]
        if self.over == "sas":
            seen.append(self.normaliser(next_observation))
        if self.over != "s" and isinstance(self.actions, Box):
            seen.append(to_unit(self.actions, action))
        said = self.network(jnp.concatenate(seen))
        if self.over != "s" and isinstance(self.actions, Discrete):
            said = said.reshape(self.actions.num, -1)[action]
        return -(said**2).mean() if self.quadratic else said[0]


class ShapedObservedReward(eqx.Module):
    r"""$f(s,a,s') = g(s,a,s') + \gamma h(s') - h(s)$: a reward and a potential, with the learner's own γ.

    The potential is never set to zero where an episode is cut off: nothing ends there. Fu, Luo and Levine (2018).
    """

    base: ObservedReward
    potential: ObservedReward
    discount: float = eqx.field(static=True)

    def __call__(
        self, observation: Float[Array, " obs"], action: Any, next_observation: Float[Array, " obs"]
    ) -> Float[Array, ""]:
        before = self.potential(observation, action, observation)
        after = self.potential(next_observation, action, next_observation)
        return self.base(observation, action, next_observation) + self.discount * after - before


def shaped(base: ObservedReward, discount: float, *, width: int, depth: int, key: PRNGKeyArray) -> ShapedObservedReward:
    """A reward with a potential to be learned beside it."""
    potential = ObservedReward(base.normaliser, base.actions, over="s", width=width, depth=depth, key=key)
    return ShapedObservedReward(base, potential, discount)


def unshaped(reward: Any) -> ObservedReward:
    """The reward without its potential, if it has one."""
    return reward.base if isinstance(reward, ShapedObservedReward) else reward


def split(reward: Any) -> tuple[Any, Any]:
    """What learning changes, the weights, and what it leaves alone: statistics, and the bounds of actions."""

    def stands_still(node: Any) -> bool:
        return isinstance(node, (Normaliser, Box, Discrete))

    learned = jax.tree.map(
        lambda node: not stands_still(node) and eqx.is_inexact_array(node), reward, is_leaf=stands_still
    )
    return eqx.partition(reward, learned)
