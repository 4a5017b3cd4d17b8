"""Environments that are defined by their dynamics; counting time and truncation are the same for all of them."""

import abc
from typing import Any, NamedTuple

import jax.numpy as jnp

from irlax import checks
from irlax.envs.environment import AbstractEnvironment, Step
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray


class Timed(NamedTuple):
    """The state of an environment without time, and how many steps of the episode were taken."""

    inner: Any
    time: Int[Array, ""]


class AbstractTimedEnvironment(AbstractEnvironment):
    """An environment that is truncated after `horizon` steps.

    `start`, `move`, `observe`, `reward_of` and `ended` define a problem; `reset` and `step` make episodes of them.
    """

    def __check_init__(self) -> None:
        checks.count("horizon", self.horizon)

    @abc.abstractmethod
    def start(self, *, key: PRNGKeyArray) -> Any:
        """Draw a first inner state."""

    @abc.abstractmethod
    def move(self, inner: Any, action: Any, *, key: PRNGKeyArray) -> Any:
        """Draw the inner state that follows."""

    @abc.abstractmethod
    def observe(self, inner: Any) -> Float[Array, " obs"]:
        """The observation of an inner state."""

    @abc.abstractmethod
    def reward_of(self, inner: Any, action: Any, after: Any) -> Float[Array, ""]:
        """The reward of a step from `inner` to `after`."""

    @abc.abstractmethod
    def ended(self, inner: Any) -> Bool[Array, ""]:
        """Whether the problem ends in an inner state."""

    def reset(self, *, key: PRNGKeyArray) -> tuple[Timed, Float[Array, " obs"]]:
        inner = self.start(key=key)
        return Timed(inner, jnp.zeros((), jnp.int32)), self.observe(inner)

    def step(self, state: Timed, action: Any, *, key: PRNGKeyArray) -> Step:
        after = self.move(state.inner, action, key=key)
        time = state.time + 1
        terminated = self.ended(after)
        return Step(
            state=Timed(after, time),
            observation=self.observe(after),
            reward=self.reward_of(state.inner, action, after),
            terminated=terminated,
            # An episode that terminated at the horizon is not truncated, too.
            truncated=(time >= self.horizon) & ~terminated,
        )
