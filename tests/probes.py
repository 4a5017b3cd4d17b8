"""Tiny environments with known answers: when a learner fails on one of them, it tells which part is wrong."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.envs.environment import AbstractEnvironment, Step
from irlax.spaces import Box, Discrete


class PlaceAndTime(NamedTuple):
    state: Any
    time: Any


#: States of a probe, and the numbers that it is observed by.
STATES = 4


def seen(number):
    """How a probe shows a number."""
    return jnp.array([number, 0.0, 0.0, 0.0])


class Probe(AbstractEnvironment):
    """Four states and two actions; after `length` steps the episode terminates or, if `endless`, is truncated.

    All of this is data, so that every probe is compiled once.
    """

    transitions: Any
    initial: Any
    observations: Any
    reward: Any
    length: Any
    endless: Any
    horizon: int = eqx.field(static=True, default=32)
    fixed_horizon: bool = eqx.field(static=True, default=True)

    @classmethod
    def of(cls, *, always=0.0, late=0.0, action=0.0, both=0.0, length=1, endless=False):
        """A sign, ±1, is seen in the first step; a second one, if `length` is 2, is seen coming: it looks like 3.

        A step pays what is said here: always, in the last step only, times the action, times sign and action.
        """
        sign, second = np.array([-1.0, 1.0, 0.0, 0.0]), 2
        pays = always + (action + both * sign)[:, None] * np.arange(2)
        pays[second if length == 2 else slice(None)] += late
        on = np.broadcast_to(np.eye(STATES)[second], (STATES, 2, STATES))
        shown = np.zeros((STATES, STATES))
        shown[:, 0] = [-1.0, 1.0, 3.0, 0.0]
        return cls.made_of(on, np.array([0.5, 0.5, 0.0, 0.0]), shown, pays, length, endless)

    @classmethod
    def of_mdp(cls, mdp, reward):
        """An MDP of as many states and actions, every action everywhere, observed as one-hot vectors."""
        table = np.broadcast_to(reward if np.ndim(reward) == 2 else reward[:, None], (STATES, 2))
        return cls.made_of(mdp.dynamics.to_dense(), mdp.initial, np.eye(STATES), table, cls.horizon, True)

    @classmethod
    def made_of(cls, *arrays_and_length):
        *arrays, length, endless = arrays_and_length
        return cls(*(np.asarray(array, np.float32) for array in arrays), np.int32(length), np.bool_(endless))

    @property
    def observation_size(self):
        return STATES

    @property
    def actions(self):
        return Discrete(2)

    def reset(self, *, key):
        state = jr.categorical(key, jnp.log(self.initial))
        return PlaceAndTime(state, jnp.zeros((), jnp.int32)), jnp.asarray(self.observations)[state]

    def step(self, state, action, *, key):
        after = jr.categorical(key, jnp.log(jnp.asarray(self.transitions)[state.state, action]))
        time = state.time + 1
        reward, last = jnp.asarray(self.reward)[state.state, action], time >= self.length
        observation = jnp.asarray(self.observations)[after]
        return Step(PlaceAndTime(after, time), observation, reward, last & ~self.endless, last & self.endless)


class NormalBandit(AbstractEnvironment):
    """One action in [−4, 6], paid so that the density proportional to exp(reward) is normal: mean 2, deviation ½."""

    horizon: int = eqx.field(static=True, default=1)
    fixed_horizon: bool = eqx.field(static=True, default=True)

    @property
    def observation_size(self):
        return 1

    @property
    def actions(self):
        return Box(np.array([-4.0], np.float32), np.array([6.0], np.float32))

    def reset(self, *, key):
        return jnp.zeros(()), jnp.zeros(1)

    def step(self, state, action, *, key):
        reward = -0.5 * ((action[0] - 2.0) / 0.5) ** 2
        return Step(state, jnp.zeros(1), reward, jnp.ones((), bool), jnp.zeros((), bool))


class HostStep(NamedTuple):
    observation: Any
    final_observation: Any
    reward: Any
    terminated: Any
    truncated: Any


class HostBandit:
    """Two actions, of which the second pays 2, on the host; ±1 is seen in turns; episodes are truncated.

    Observed by as many numbers as a probe is, so that the same programs learn.
    """

    observation_size = STATES
    actions = Discrete(2)

    def __init__(self, num_envs, horizon=5, poison_at=None):
        self.num_envs, self.horizon, self.poison_at = num_envs, horizon, poison_at
        self.time, self.steps = 0, 0

    def reset(self, seed):
        self.time = 0
        return np.ones((self.num_envs, STATES))

    def step(self, actions):
        self.time, self.steps = self.time + 1, self.steps + 1
        last = np.full(self.num_envs, self.time % self.horizon == 0)
        observation = np.full((self.num_envs, STATES), np.nan if self.steps == self.poison_at else (-1.0) ** self.time)
        return HostStep(observation, observation, 2.0 * actions, np.zeros(self.num_envs, bool), last)
