"""Soft values made of networks, in units that follow the size of the returns."""

import equinox as eqx
import jax.numpy as jnp

from irlax.networks import Normaliser, Perceptron
from irlax.typing import Array, Float


class Units(eqx.Module):
    """The units of a value: value = `mean` + `scale` · network output.

    With the mean and the standard deviation of the targets as units, outputs are of order one whatever the reward's
    scale.
    """

    mean: Float[Array, ""]
    scale: Float[Array, ""]

    @classmethod
    def init(cls) -> "Units":
        """The reward's own units."""
        return cls(jnp.zeros((), jnp.float32), jnp.ones((), jnp.float32))

    def towards(self, mean: Float[Array, ""], variance: Float[Array, ""], weight: Float[Array, ""]) -> "Units":
        """The moments of a mixture: `weight` of targets with this mean and variance, the rest of what was before."""
        moved = self.mean + weight * (mean - self.mean)
        square = (1 - weight) * self.scale**2 + weight * variance + weight * (1 - weight) * (mean - self.mean) ** 2
        return Units(moved, jnp.sqrt(square + 1e-6))

    def convert(self, network: Perceptron, new: "Units") -> Perceptron:
        """A network with the same values in `new` units: its last layer changes (van Hasselt et al. 2016)."""
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
