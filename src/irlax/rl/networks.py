"""Networks and the policies made of them.

A policy is called as ``policy(observation, key=key)`` and gives an action; it takes observations as the environment
gives them and normalises them itself. Everything is for one observation: `jax.vmap` makes it many.
"""

import abc
import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from irlax.envs.environment import Box, Discrete
from irlax.rl.squashing import Gaussian, log_density_at, log_density_of, squash
from irlax.typing import Array, Float, Int, PRNGKeyArray

Activation = Literal["tanh", "relu"]
_ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}
#: Orthogonal layers keep the size of what passes through them when scaled by this.
_GAINS = {"tanh": 1.0, "relu": math.sqrt(2.0)}
#: Normalised observations beyond this are cut off: an outlier must not drive a network.
FARTHEST = 10.0
LOWEST_LOG_STD, HIGHEST_LOG_STD = -5.0, 2.0
#: Puts the spread at 1 when the network says 0: after the tanh such an action is about uniform.
_UNIT_STD = math.log(-LOWEST_LOG_STD / HIGHEST_LOG_STD)


class Perceptron(eqx.Module):
    """Layers of orthogonal weights (Saxe et al. 2014) and zero biases; the last one scaled by `last_gain`."""

    weights: tuple[Float[Array, "out in"], ...]
    biases: tuple[Float[Array, " out"], ...]
    activation: Activation = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        width: int,
        depth: int,
        activation: Activation,
        last_gain: float = 1.0,
        key: PRNGKeyArray,
    ) -> None:
        sizes = [inputs, *[width] * depth, outputs]
        gains = [_GAINS[activation]] * depth + [last_gain]
        keys = jr.split(key, len(gains))
        self.weights = tuple(
            gain * orthogonal((after, before), key=layer_key)
            for gain, layer_key, before, after in zip(gains, keys, sizes[:-1], sizes[1:], strict=True)
        )
        self.biases = tuple(jnp.zeros(size, jnp.float32) for size in sizes[1:])
        self.activation = activation

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = _ACTIVATIONS[self.activation](weight @ x + bias)
        return self.weights[-1] @ x + self.biases[-1]


def orthogonal(shape: tuple[int, int], *, key: PRNGKeyArray) -> Float[Array, "out in"]:
    r"""A random matrix with orthonormal rows or columns: the polar factor of a Gaussian one.

    $$X \leftarrow \tfrac{1}{2} X (3 - X^\top X)$$

    takes every singular value in (0, 1] to 1 (Newton and Schulz). Matrix products only: many QR decompositions at
    once, as when several seeds begin side by side, can lock up XLA's threads on a CPU of few cores.
    """
    gaussian = jr.normal(key, shape, jnp.float32)
    tall = gaussian if shape[0] >= shape[1] else gaussian.T
    start = tall / jnp.linalg.norm(tall)
    # The smallest singular value grows by half each time until it is near 1: enough for one of 10⁻⁶.
    closer = jax.lax.fori_loop(0, 40, lambda _, x: 1.5 * x - 0.5 * x @ (x.T @ x), start)
    return closer if shape[0] >= shape[1] else closer.T


class Normaliser(eqx.Module):
    """The mean and variance of all observations so far (Chan, Golub and LeVeque 1979), to be divided out."""

    mean: Float[Array, " obs"]
    variance: Float[Array, " obs"]
    count: Float[Array, ""]

    @classmethod
    def of(cls, size: int) -> "Normaliser":
        """Before anything was seen: leaves observations as they are."""
        nothing = jnp.zeros(size, jnp.float32)
        return cls(nothing, nothing, jnp.zeros((), jnp.float32))

    def __call__(self, observation: Float[Array, " obs"]) -> Float[Array, " obs"]:
        # What never changed is left at its size: divided by a spread of zero it would blow up when it does.
        spread = jnp.where(self.variance > 0, jnp.sqrt(self.variance + 1e-8), 1.0)
        scaled = (observation - self.mean) / spread
        return jnp.clip(jax.lax.stop_gradient(scaled), -FARTHEST, FARTHEST)

    def update(self, seen: Float[Array, "n obs"], weight: Float[Array, " n"] | None = None) -> "Normaliser":
        """With further observations, each as often as its `weight` says, or once."""
        if weight is None:
            count, mean, variance = len(seen), seen.mean(axis=0), seen.var(axis=0)
        else:
            count, mean = weight.sum(), jnp.average(seen, axis=0, weights=weight)
            variance = jnp.average((seen - mean) ** 2, axis=0, weights=weight)
        total = self.count + count
        gap = mean - self.mean
        spread = self.variance * self.count + variance * count + gap**2 * self.count * count / total
        return Normaliser(self.mean + gap * count / total, spread / total, total)


class AbstractPolicy(eqx.Module):
    """A stationary stochastic policy: ``policy(observation, key=key)`` is an action."""

    network: eqx.AbstractVar[Perceptron]
    normaliser: eqx.AbstractVar[Normaliser]
    actions: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def sample_and_log_prob(self, observation: Float[Array, " obs"], key: PRNGKeyArray) -> tuple[Any, Float[Array, ""]]:
        """An action and log π(a|s), through which gradients flow where actions are continuous."""

    @abc.abstractmethod
    def log_prob(self, observation: Float[Array, " obs"], action: Any) -> Float[Array, ""]:
        """log π(a|s): a log probability for discrete actions, a log density in the action's own units for others."""

    @abc.abstractmethod
    def mode(self, observation: Float[Array, " obs"]) -> Any:
        """The action that the policy is centred on."""

    def __call__(self, observation: Float[Array, " obs"], *, key: PRNGKeyArray) -> Any:
        """Draw an action."""
        return self.sample_and_log_prob(observation, key)[0]


class CategoricalPolicy(AbstractPolicy):
    """π(a|s) = softmax of the network's outputs."""

    network: Perceptron
    normaliser: Normaliser
    actions: Discrete

    def log_probs(self, observation: Float[Array, " obs"]) -> Float[Array, " A"]:
        """log π(·|s)."""
        return jax.nn.log_softmax(self.network(self.normaliser(observation)))

    def sample_and_log_prob(
        self, observation: Float[Array, " obs"], key: PRNGKeyArray
    ) -> tuple[Int[Array, ""], Float[Array, ""]]:
        log_probs = self.log_probs(observation)
        action = jr.categorical(key, log_probs)
        return action, log_probs[action]

    def log_prob(self, observation: Float[Array, " obs"], action: Int[Array, ""]) -> Float[Array, ""]:
        return self.log_probs(observation)[action]

    def mode(self, observation: Float[Array, " obs"]) -> Int[Array, ""]:
        return jnp.argmax(self.log_probs(observation))


class SquashedGaussianPolicy(AbstractPolicy):
    r"""A Gaussian pressed into the box by a tanh, with the density that belongs to it.

    $$a = l + \tfrac{h - l}{2}(\tanh u + 1), \; u \sim N(\mu(s), \sigma(s)^2), \quad
      \log\pi(a|s) = \log N(u) - \sum_i \log(1 - \tanh^2 u_i) - \sum_i \log\tfrac{h_i - l_i}{2}$$

    Haarnoja et al. (2018), appendix C, with the box's scale. Near the edge of the box, where floats are too coarse to
    tell u from a, `log_prob` is the mean density of all that is rounded to a.
    """

    network: Perceptron
    normaliser: Normaliser
    actions: Box

    def gaussian(self, observation: Float[Array, " obs"]) -> Gaussian:
        """The law of u."""
        mean, raw = jnp.split(self.network(self.normaliser(observation)), 2)
        spread = HIGHEST_LOG_STD - LOWEST_LOG_STD
        return Gaussian(mean, LOWEST_LOG_STD + spread * jax.nn.sigmoid(raw + _UNIT_STD))

    def sample_and_log_prob(
        self, observation: Float[Array, " obs"], key: PRNGKeyArray
    ) -> tuple[Float[Array, " n"], Float[Array, ""]]:
        law = self.gaussian(observation)
        u = law.mean + jnp.exp(law.log_std) * jr.normal(key, law.mean.shape, law.mean.dtype)
        return squash(self.actions, u), log_density_at(self.actions, u, law)

    def log_prob(self, observation: Float[Array, " obs"], action: Float[Array, " n"]) -> Float[Array, ""]:
        return log_density_of(self.actions, action, self.gaussian(observation))

    def mode(self, observation: Float[Array, " obs"]) -> Float[Array, " n"]:
        return squash(self.actions, self.gaussian(observation).mean)


class Units(eqx.Module):
    """The units of a value: `mean` + `scale` · what the network says.

    With the targets' mean and spread as units, outputs stay of order one whatever the reward's scale.
    """

    mean: Float[Array, ""]
    scale: Float[Array, ""]

    @classmethod
    def plain(cls) -> "Units":
        """The reward's own."""
        return cls(jnp.zeros((), jnp.float32), jnp.ones((), jnp.float32))

    def towards(self, mean: Float[Array, ""], variance: Float[Array, ""], weight: Float[Array, ""]) -> "Units":
        """A step from these units to those of targets with this mean and variance."""
        moved = self.mean + weight * (mean - self.mean)
        spread = (1 - weight) * self.scale**2 + weight * variance + weight * (1 - weight) * (mean - self.mean) ** 2
        return Units(moved, jnp.sqrt(spread + 1e-6))

    def convert(self, network: Perceptron, new: "Units") -> Perceptron:
        """A network that says the same in `new` units: its last layer changes (van Hasselt et al. 2016)."""
        ratio = self.scale / new.scale
        weight = network.weights[-1] * ratio
        bias = network.biases[-1] * ratio + (self.mean - new.mean) / new.scale
        return eqx.tree_at(lambda net: (net.weights[-1], net.biases[-1]), network, (weight, bias))


class Value(eqx.Module):
    """V(s), entropy included."""

    network: Perceptron
    normaliser: Normaliser
    units: Units

    def __call__(self, observation: Float[Array, " obs"]) -> Float[Array, ""]:
        return self.units.mean + self.units.scale * self.network(self.normaliser(observation))[0]


def policy_for(
    actions: Discrete | Box,
    observation_size: int,
    *,
    width: int,
    depth: int,
    activation: Activation,
    key: PRNGKeyArray,
) -> CategoricalPolicy | SquashedGaussianPolicy:
    """A policy for an action space, about uniform at first."""
    outputs = actions.num if isinstance(actions, Discrete) else 2 * actions.low.shape[-1]
    network = Perceptron(
        observation_size, outputs, width=width, depth=depth, activation=activation, last_gain=0.01, key=key
    )
    if isinstance(actions, Discrete):
        return CategoricalPolicy(network, Normaliser.of(observation_size), actions)
    return SquashedGaussianPolicy(network, Normaliser.of(observation_size), as_single(actions))


def with_network(module: Any, network: Any) -> Any:
    """A policy or value at other weights."""
    return eqx.tree_at(lambda module: module.network, module, network)


def with_normaliser(module: Any, normaliser: Normaliser) -> Any:
    """A policy or value that sees observations through other statistics."""
    return eqx.tree_at(lambda module: module.normaliser, module, normaliser)


def uniform_action(actions: Discrete | Box, key: PRNGKeyArray) -> Any:
    """Any action, each as likely as the others."""
    if isinstance(actions, Discrete):
        return jr.randint(key, (), 0, actions.num)
    return from_unit(actions, jr.uniform(key, actions.low.shape, minval=-1.0))


def to_unit(actions: Box, action: Float[Array, " n"]) -> Float[Array, " n"]:
    """The box as [−1, 1]ⁿ."""
    return 2 * (action - actions.low) / (actions.high - actions.low) - 1


def from_unit(actions: Box, unit: Float[Array, " n"]) -> Float[Array, " n"]:
    """The inverse of `to_unit`."""
    return actions.low + (actions.high - actions.low) * (unit + 1) / 2


def log_half_width(actions: Box) -> Float[Array, ""]:
    """Σ log (h − l)/2: what the box's scale adds to entropies."""
    return jnp.log((actions.high - actions.low) / 2).sum()


def as_single(actions: Box) -> Box:
    """The box in single precision, in which all of this is computed."""
    return Box(jnp.asarray(actions.low, jnp.float32), jnp.asarray(actions.high, jnp.float32))
