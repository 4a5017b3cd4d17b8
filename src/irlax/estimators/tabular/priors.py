"""Priors over the parameters of a reward, for Bayesian estimation."""

import abc

import equinox as eqx
import jax.numpy as jnp

from irlax import checks
from irlax.registry import stored
from irlax.typing import Array, Float


class AbstractPrior(eqx.Module):
    """A proper density of the parameters, which are independent and identically distributed."""

    scale: eqx.AbstractVar[float]

    @abc.abstractmethod
    def log_density(self, theta: Float[Array, " K"]) -> Float[Array, ""]:
        """log p(θ), up to a constant."""

    @property
    @abc.abstractmethod
    def variance(self) -> float:
        """The variance of one parameter."""


@stored("normal-prior")
class Normal(AbstractPrior):
    r"""$\theta_k \sim N(0, \text{scale}^2)$."""

    scale: float = 1.0

    def __check_init__(self) -> None:
        checks.positive("scale", self.scale)

    def log_density(self, theta: Float[Array, " K"]) -> Float[Array, ""]:
        return -0.5 * (theta @ theta) / self.scale**2

    @property
    def variance(self) -> float:
        return self.scale**2


@stored("laplace-prior")
class Laplace(AbstractPrior):
    r"""$p(\theta_k) \propto \exp(-|\theta_k| / \text{scale})$: most weights small, a few large."""

    scale: float = 1.0

    def __check_init__(self) -> None:
        checks.positive("scale", self.scale)

    def log_density(self, theta: Float[Array, " K"]) -> Float[Array, ""]:
        return -jnp.abs(theta).sum() / self.scale

    @property
    def variance(self) -> float:
        return 2 * self.scale**2
