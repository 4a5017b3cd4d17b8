"""Tiny environments with known answers: when a learner fails on one of them, it tells which part is wrong."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.envs.environment import AbstractEnvironment, Step
from irlax.spaces import Box, Discrete


class Probe(AbstractEnvironment):
    """A sign, ±1, is seen; after `length` steps (1 or 2) the episode terminates or, if `endless`, is truncated.

    A step pays what `pays` says: always, times the sign, at the end only, times the action, times both. All of this
    is data, so that probes of one kind are compiled once. What is paid later is seen coming: the second step looks
    like 3.
    """

    pays: Any
    length: Any
    endless: Any
    horizon: int = eqx.field(static=True, default=2)
    fixed_horizon: bool = eqx.field(static=True, default=True)

    @classmethod
    def of(cls, *, always=0.0, seen=0.0, late=0.0, action=0.0, both=0.0, length=1, endless=False):
        pays = np.array([always, seen, late, action, both], np.float32)
        return cls(pays, np.int32(length), np.bool_(endless))

    @property
    def observation_size(self):
        return 1

    @property
    def actions(self):
        return Discrete(2)

    def reset(self, *, key):
        sign = jr.choice(key, jnp.array([-1.0, 1.0]))
        return (jnp.zeros((), jnp.int32), sign), sign[None]

    def step(self, state, action, *, key):
        time, sign = state
        last = time + 1 >= self.length
        reward = self.pays @ jnp.stack([jnp.ones(()), sign, last.astype(jnp.float32), 1.0 * action, sign * action])
        return Step((time + 1, sign), jnp.full(1, 3.0), reward, last & ~self.endless, last & self.endless)


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


class TableState(NamedTuple):
    state: Any
    time: Any


class Table(AbstractEnvironment):
    """An MDP with every action everywhere, observed as one-hot vectors, truncated after `horizon` steps."""

    transitions: Any
    initial: Any
    reward: Any
    horizon: int = eqx.field(static=True)
    fixed_horizon: bool = eqx.field(static=True, default=True)

    @classmethod
    def of(cls, mdp, reward, horizon=32):
        transitions, initial = np.asarray(mdp.dynamics.to_dense()), np.asarray(mdp.initial)
        table = np.broadcast_to(reward if np.ndim(reward) == 2 else reward[:, None], transitions.shape[:2])
        return cls(*(np.asarray(array, np.float32) for array in (transitions, initial, table)), horizon)

    @property
    def observation_size(self):
        return self.transitions.shape[0]

    @property
    def actions(self):
        return Discrete(self.transitions.shape[1])

    def reset(self, *, key):
        state = jr.categorical(key, jnp.log(self.initial))
        return TableState(state, jnp.zeros((), jnp.int32)), jax.nn.one_hot(state, self.observation_size)

    def step(self, state, action, *, key):
        after = jr.categorical(key, jnp.log(jnp.asarray(self.transitions)[state.state, action]))
        time = state.time + 1
        seen = jax.nn.one_hot(after, self.observation_size)
        reward = jnp.asarray(self.reward)[state.state, action]
        return Step(TableState(after, time), seen, reward, jnp.zeros((), bool), time >= self.horizon)


class HostStep(NamedTuple):
    observation: Any
    final_observation: Any
    reward: Any
    terminated: Any
    truncated: Any


class HostBandit:
    """Two actions, of which the second pays 2, on the host; ±1 is seen in turns; episodes are truncated."""

    observation_size = 1
    actions = Discrete(2)

    def __init__(self, num_envs, horizon=5, poison_at=None):
        self.num_envs, self.horizon, self.poison_at = num_envs, horizon, poison_at
        self.time, self.steps = 0, 0

    def reset(self, seed):
        self.time = 0
        return np.ones((self.num_envs, 1))

    def step(self, actions):
        self.time, self.steps = self.time + 1, self.steps + 1
        last = np.full(self.num_envs, self.time % self.horizon == 0)
        seen = np.full((self.num_envs, 1), np.nan if self.steps == self.poison_at else (-1.0) ** self.time)
        return HostStep(seen, seen, 2.0 * actions, np.zeros(self.num_envs, bool), last)
