"""Networks and the statistics that observations are normalised with, in single precision.

Everything is for one input vector; `jax.vmap` applies it to many.
"""

import math
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from irlax.registry import check_fields, stored
from irlax.typing import Array, Float, PRNGKeyArray

Activation = Literal["tanh", "relu"]
_ACTIVATIONS = {"tanh": jnp.tanh, "relu": jax.nn.relu}
#: With this factor, orthogonal layers keep the size of their input.
_GAINS = {"tanh": 1.0, "relu": math.sqrt(2.0)}
#: Normalised observations are clipped to this size: an outlier must not dominate the network's output.
MAX_NORMALISED = 10.0


@stored("perceptron")
class Perceptron(eqx.Module):
    """A multi-layer perceptron: `activation` after every layer but the last."""

    #: Of each layer, [out, in] and [out].
    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, " _"], ...]
    activation: Activation = eqx.field(static=True)

    @classmethod
    def init(
        cls,
        inputs: int,
        outputs: int,
        *,
        width: int,
        depth: int,
        activation: Activation,
        last_gain: float = 1.0,
        key: PRNGKeyArray,
    ) -> "Perceptron":
        """`depth` hidden layers of orthogonal weights (Saxe et al. 2014), zero biases; the last layer × `last_gain`."""
        sizes = [inputs, *[width] * depth, outputs]
        gains = [_GAINS[activation]] * depth + [last_gain]
        keys = jr.split(key, len(gains))
        weights = tuple(
            gain * orthogonal((after, before), key=layer_key)
            for gain, layer_key, before, after in zip(gains, keys, sizes[:-1], sizes[1:], strict=True)
        )
        return cls(weights, tuple(jnp.zeros(size, jnp.float32) for size in sizes[1:]), activation)

    @classmethod
    def from_stored_fields(cls, fields: dict[str, Any]) -> "Perceptron":
        """The network of a file, if each layer takes what the one before it gives."""
        check_fields(cls, "perceptron", fields)
        weights, biases = fields["weights"], fields["biases"]
        outputs = [weight.shape[0] for weight in weights]
        if not weights or [len(bias) for bias in biases] != outputs:
            raise ValueError("A network has as many biases as weights, and at least one layer.")
        if [weight.shape[1] for weight in weights[1:]] != outputs[:-1]:
            raise ValueError(f"The layers of a network do not fit each other: {[w.shape for w in weights]}.")
        return cls(tuple(map(jnp.asarray, weights)), tuple(map(jnp.asarray, biases)), fields["activation"])

    def __call__(self, x: Float[Array, " in"]) -> Float[Array, " out"]:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = _ACTIVATIONS[self.activation](weight @ x + bias)
        return self.weights[-1] @ x + self.biases[-1]


def orthogonal(shape: tuple[int, int], *, key: PRNGKeyArray) -> Float[Array, "out in"]:
    r"""A random matrix with orthonormal rows or columns: the polar factor of a Gaussian one.

    $$X \leftarrow \tfrac{1}{2} X (3 - X^\top X)$$

    takes every singular value in (0, 1] to 1 (Newton and Schulz). Matrix products only: many QR decompositions at
    once, as when several seeds start side by side, can lock up XLA's threads on a CPU of few cores.
    """
    gaussian = jr.normal(key, shape, jnp.float32)
    tall = gaussian if shape[0] >= shape[1] else gaussian.T
    start = tall / jnp.linalg.norm(tall)
    closer = _polar_factor(start)
    return closer if shape[0] >= shape[1] else closer.T


@jax.jit
def _polar_factor(start: Float[Array, "long short"]) -> Float[Array, "long short"]:
    # The smallest singular value grows by half each time until it is near 1: enough for one of 10⁻⁶.
    return jax.lax.fori_loop(0, 40, lambda _, x: 1.5 * x - 0.5 * x @ (x.T @ x), start)


@stored("normaliser", on_device=True)
class Normaliser(eqx.Module):
    """Subtracts the mean of all observations so far and divides by their standard deviation.

    Mean and variance are updated batch by batch (Chan, Golub and LeVeque 1979).
    """

    mean: Float[Array, " obs"]
    variance: Float[Array, " obs"]
    count: Float[Array, ""]

    @classmethod
    def init(cls, size: int) -> "Normaliser":
        """Before the first observation: leaves observations as they are."""
        zeros = jnp.zeros(size, jnp.float32)
        return cls(zeros, zeros, jnp.zeros((), jnp.float32))

    def __call__(self, observation: Float[Array, " obs"]) -> Float[Array, " obs"]:
        # A coordinate that never varied is not scaled: divided by a deviation near 0 it would explode once it varies.
        deviation = jnp.where(self.variance > 0, jnp.sqrt(self.variance + 1e-8), 1.0)
        scaled = jnp.clip((observation - self.mean) / deviation, -MAX_NORMALISED, MAX_NORMALISED)
        # In units of its own nothing is known of what is large.
        return jax.lax.stop_gradient(jnp.where(self.count > 0, scaled, observation))

    def update(self, observations: Float[Array, "n obs"], weight: Float[Array, " n"] | None = None) -> "Normaliser":
        """With further observations; one of weight k counts as k observations, and without weights as one."""
        if weight is None:
            count, mean, variance = len(observations), observations.mean(axis=0), observations.var(axis=0)
        else:
            count, mean = weight.sum(), jnp.average(observations, axis=0, weights=weight)
            variance = jnp.average((observations - mean) ** 2, axis=0, weights=weight)
        total = self.count + count
        gap = mean - self.mean
        squares = self.variance * self.count + variance * count + gap**2 * self.count * count / total
        return Normaliser(self.mean + gap * count / total, squares / total, total)
