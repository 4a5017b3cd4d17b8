"""Policies for tests: their actions can be told without learning."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from irlax.envs import Box, Discrete


class Uniform(eqx.Module):
    """Any action, with equal probability."""

    space: Discrete | Box

    def __call__(self, observation, *, key):
        if isinstance(self.space, Discrete):
            return jr.randint(key, (), 0, self.space.num)
        return jr.uniform(key, jnp.shape(self.space.low), minval=self.space.low, maxval=self.space.high)


class RunUp(eqx.Module):
    """MountainCar: push the way one rolls. Reaches the goal in every episode."""

    def __call__(self, observation, *, key):
        return jnp.where(observation[1] >= 0, 2, 0)


class Always(eqx.Module):
    """One action for ever."""

    action: jnp.ndarray

    def __call__(self, observation, *, key):
        return self.action
