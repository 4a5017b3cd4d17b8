"""Stochastic policies made of networks.

A policy is called as ``policy(observation, key=key)`` and returns an action. It takes observations as the environment
gives them and normalises them itself. Everything is for one observation; `jax.vmap` applies it to many.
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from irlax.networks import Activation, Normaliser, Perceptron
from irlax.registry import stored
from irlax.rl.squashing import Gaussian, log_density_at, log_density_of, squash
from irlax.spaces import Box, Discrete, as_single
from irlax.typing import Array, Float, Int, PRNGKeyArray

MIN_LOG_STD, MAX_LOG_STD = -5.0, 2.0
#: Makes the standard deviation 1 where the network gives 0: after the tanh such an action is about uniform.
_UNIT_STD = math.log(-MIN_LOG_STD / MAX_LOG_STD)


class AbstractPolicy(eqx.Module):
    """A stationary stochastic policy: ``policy(observation, key=key)`` is an action."""

    network: eqx.AbstractVar[Perceptron]
    normaliser: eqx.AbstractVar[Normaliser]
    actions: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def sample_and_log_prob(
        self, observation: Float[Array, " obs"], *, key: PRNGKeyArray
    ) -> tuple[Any, Float[Array, ""]]:
        """An action and log π(a|s); where actions are continuous, both are differentiable."""

    @abc.abstractmethod
    def log_prob(self, observation: Float[Array, " obs"], action: Any) -> Float[Array, ""]:
        """log π(a|s): a log probability for discrete actions, a log density in the action's own units for others."""

    @abc.abstractmethod
    def mode(self, observation: Float[Array, " obs"]) -> Any:
        """The most likely of finitely many actions, or the squashed mean of the Gaussian."""

    def __call__(self, observation: Float[Array, " obs"], *, key: PRNGKeyArray) -> Any:
        """Draw an action."""
        return self.sample_and_log_prob(observation, key=key)[0]


@stored("categorical-policy")
class CategoricalPolicy(AbstractPolicy):
    """π(a|s) = softmax of the network's outputs."""

    network: Perceptron
    normaliser: Normaliser
    actions: Discrete

    def log_probs(self, observation: Float[Array, " obs"]) -> Float[Array, " A"]:
        """log π(·|s)."""
        return jax.nn.log_softmax(self.network(self.normaliser(observation)))

    def sample_and_log_prob(
        self, observation: Float[Array, " obs"], *, key: PRNGKeyArray
    ) -> tuple[Int[Array, ""], Float[Array, ""]]:
        log_probs = self.log_probs(observation)
        action = jr.categorical(key, log_probs)
        return action, log_probs[action]

    def log_prob(self, observation: Float[Array, " obs"], action: Int[Array, ""]) -> Float[Array, ""]:
        return self.log_probs(observation)[action]

    def mode(self, observation: Float[Array, " obs"]) -> Int[Array, ""]:
        return jnp.argmax(self.log_probs(observation))


@stored("squashed-gaussian-policy")
class SquashedGaussianPolicy(AbstractPolicy):
    r"""A Gaussian squashed into the box by a tanh, with its exact density.

    $$a = l + \tfrac{h - l}{2}(\tanh u + 1), \; u \sim N(\mu(s), \sigma(s)^2), \quad
      \log\pi(a|s) = \log N(u) - \sum_i \log(1 - \tanh^2 u_i) - \sum_i \log\tfrac{h_i - l_i}{2}$$

    Haarnoja et al. (2018), appendix C, with the box's scale. Near the edge of the box, where rounding makes different u
    one action a, `log_prob` is the mean density of all u that are rounded to a.
    """

    network: Perceptron
    normaliser: Normaliser
    actions: Box

    def gaussian(self, observation: Float[Array, " obs"]) -> Gaussian:
        """The distribution of u."""
        mean, raw = jnp.split(self.network(self.normaliser(observation)), 2)
        log_std_range = MAX_LOG_STD - MIN_LOG_STD
        return Gaussian(mean, MIN_LOG_STD + log_std_range * jax.nn.sigmoid(raw + _UNIT_STD))

    def sample_and_log_prob(
        self, observation: Float[Array, " obs"], *, key: PRNGKeyArray
    ) -> tuple[Float[Array, " n"], Float[Array, ""]]:
        gaussian = self.gaussian(observation)
        u = gaussian.mean + jnp.exp(gaussian.log_std) * jr.normal(key, gaussian.mean.shape, gaussian.mean.dtype)
        return squash(self.actions, u), log_density_at(self.actions, u, gaussian)

    def log_prob(self, observation: Float[Array, " obs"], action: Float[Array, " n"]) -> Float[Array, ""]:
        return log_density_of(self.actions, action, self.gaussian(observation))

    def mode(self, observation: Float[Array, " obs"]) -> Float[Array, " n"]:
        return squash(self.actions, self.gaussian(observation).mean)


def init_policy(
    actions: Discrete | Box,
    observation_size: int,
    *,
    width: int,
    depth: int,
    activation: Activation,
    key: PRNGKeyArray,
) -> CategoricalPolicy | SquashedGaussianPolicy:
    """A policy for an action space, about uniform before it is trained."""
    outputs = actions.num if isinstance(actions, Discrete) else 2 * actions.low.shape[-1]
    network = Perceptron.init(
        observation_size, outputs, width=width, depth=depth, activation=activation, last_gain=0.01, key=key
    )
    if isinstance(actions, Discrete):
        return CategoricalPolicy(network, Normaliser.init(observation_size), actions)
    return SquashedGaussianPolicy(network, Normaliser.init(observation_size), as_single(actions))


def with_network(module: Any, network: Any) -> Any:
    """A policy or value with another network."""
    return eqx.tree_at(lambda module: module.network, module, network)


def with_normaliser(module: Any, normaliser: Normaliser) -> Any:
    """A policy or value with other statistics of the observations."""
    return eqx.tree_at(lambda module: module.normaliser, module, normaliser)
