"""Environments told by their dynamics alone: the clock and the ends are the same for all of them."""

import abc
from typing import Any, NamedTuple

import jax.numpy as jnp

from irlax import checks
from irlax.envs.environment import AbstractEnvironment, Step
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray


class Timed(NamedTuple):
    """What an environment is in, and how many steps of the episode were taken."""

    inner: Any
    time: Int[Array, ""]


class AbstractTimedEnvironment(AbstractEnvironment):
    """An environment that is truncated after `horizon` steps.

    `start`, `move`, `observe`, `pay` and `ended` say everything about a problem; here they become episodes.
    """

    def __check_init__(self) -> None:
        checks.count("horizon", self.horizon)

    @abc.abstractmethod
    def start(self, key: PRNGKeyArray) -> Any:
        """Draw a first inner state."""

    @abc.abstractmethod
    def move(self, key: PRNGKeyArray, inner: Any, action: Any) -> Any:
        """Draw the inner state that follows."""

    @abc.abstractmethod
    def observe(self, inner: Any) -> Float[Array, " obs"]:
        """What an agent sees of an inner state."""

    @abc.abstractmethod
    def pay(self, inner: Any, action: Any, after: Any) -> Float[Array, ""]:
        """The reward of a step from `inner` to `after`."""

    @abc.abstractmethod
    def ended(self, inner: Any) -> Bool[Array, ""]:
        """Whether the problem ends in an inner state."""

    def reset(self, key: PRNGKeyArray) -> tuple[Timed, Float[Array, " obs"]]:
        inner = self.start(key)
        return Timed(inner, jnp.zeros((), jnp.int32)), self.observe(inner)

    def step(self, key: PRNGKeyArray, state: Timed, action: Any) -> Step:
        after = self.move(key, state.inner, action)
        time = state.time + 1
        terminated = self.ended(after)
        return Step(
            state=Timed(after, time),
            observation=self.observe(after),
            reward=self.pay(state.inner, action, after),
            terminated=terminated,
            # What ended did not also break off: nothing is left to look at.
            truncated=(time >= self.horizon) & ~terminated,
        )
