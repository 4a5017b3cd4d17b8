"""Environments as pure functions, so that whole rollouts run inside `jit` and many of them side by side by `vmap`."""

import abc
from typing import Any, NamedTuple

import equinox as eqx

from irlax.spaces import Box, Discrete
from irlax.typing import Array, Bool, Float, PRNGKeyArray


class Step(NamedTuple):
    """The result of an action. `terminated`: the problem has ended; `truncated`: only the observation of it has."""

    state: Any
    observation: Float[Array, " obs"]
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


class AbstractEnvironment(eqx.Module):
    """A Markov decision problem that is known only by acting in it."""

    #: The longest episode; when it is reached the episode is truncated.
    horizon: eqx.AbstractVar[int]
    #: Whether every episode has exactly `horizon` steps, so that its length says nothing about success.
    fixed_horizon: eqx.AbstractVar[bool]

    @property
    @abc.abstractmethod
    def observation_size(self) -> int:
        """Length of an observation vector."""

    @property
    @abc.abstractmethod
    def actions(self) -> Discrete | Box:
        """The action space."""

    @abc.abstractmethod
    def reset(self, *, key: PRNGKeyArray) -> tuple[Any, Float[Array, " obs"]]:
        """A first state and its observation."""

    @abc.abstractmethod
    def step(self, state: Any, action: Any, *, key: PRNGKeyArray) -> Step:
        """One step. It does not reset: the rollout engine does, where an episode ended."""
