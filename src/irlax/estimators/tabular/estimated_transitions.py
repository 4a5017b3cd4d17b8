r"""Transitions that were estimated from the demonstrations themselves, and what their sampling error adds to that of θ.

$$P(s'|s,a) = \sum_{b:\,s_b = s'} \prod_v p[\text{outcome}_v(s,a,b)]$$

Each factor is an outcome of a multinomial whose probabilities p are relative frequencies: of next states given state
and action, of the next value of one variable, of increments, of exits. The reward's parameters θ are then estimated at
p̂, in a second step. With H minus the Hessian of the log likelihood ℓ of the choices, and s_i the score of choice i,

$$\hat\theta - \theta \approx H^{-1} \sum_i (s_i + c_i), \quad
  c_i = \frac{\partial^2 \ell}{\partial\theta\,\partial p}\,\frac{e_{d_i} - p}{n}$$

where d_i is the outcome that followed choice i and n the number of draws from its multinomial. Newey and McFadden
(1994), "Large sample estimation and hypothesis testing", section 6; Murphy and Topel (1985).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.mdp import Nature, Successors
from irlax.mdp.links import Links
from irlax.precision import scope
from irlax.registry import stored
from irlax.typing import Array, Float, Int


@stored("estimated-transitions")
class EstimatedTransitions(eqx.Module):
    """Products of multinomials, with the outcome that followed each observed choice."""

    #: Next states of each state and action; one may be listed several times, and padding leads back to the state.
    successors: Int[np.ndarray, "S A B"]
    #: The outcome of each multinomial that leads there, as an index into `counts`; −1 for padding.
    outcomes: Int[np.ndarray, "S A B V"]
    #: The multinomial of each outcome.
    multinomial: Int[np.ndarray, " J"]
    #: How often each outcome was observed, by weight, and what is added to that before shares are computed.
    counts: Float[np.ndarray, " J"]
    prior: Float[np.ndarray, " J"]
    #: For each demonstrator of a fit: the outcomes that followed each of its choices; −1 where none was observed.
    draws: tuple[Int[np.ndarray, "n V"], ...]
    #: How they were estimated, for the notes of a table.
    description: str = eqx.field(static=True)

    def __check_init__(self) -> None:
        num = len(self.counts)
        for array in (self.outcomes, *self.draws):
            if array.size and not (array.min() >= -1 and array.max() < num):
                raise ValueError(f"Outcomes must be −1 or below their number, {num}.")
        checks.in_range("successors", self.successors, len(self.successors), "states")

    @property
    def totals(self) -> Float[np.ndarray, " M"]:
        """The number of draws from each multinomial, with what was added to them."""
        return np.bincount(self.multinomial, weights=self.counts + self.prior)

    @property
    def shares(self) -> Float[np.ndarray, " J"]:
        """The estimated probability of each outcome."""
        return (self.counts + self.prior) / self.totals[self.multinomial]

    @property
    def probs(self) -> Float[np.ndarray, "S A B"]:
        """The estimated probabilities of the listed next states."""
        return np.append(self.shares, 0.0)[self.outcomes].prod(axis=-1)

    @property
    def num_free(self) -> int:
        """How many probabilities were estimated: of each multinomial all outcomes but one."""
        return len(self.counts) - len(self.totals)

    @property
    def log_likelihood(self) -> float:
        """Σ log p of all observed outcomes, by weight."""
        drawn = self.counts > 0
        return float(self.counts[drawn] @ np.log(self.shares[drawn]))

    @property
    def dynamics(self) -> "ProductDynamics":
        """The dynamics as a function of the probabilities of all outcomes."""
        with scope():
            return ProductDynamics(
                jnp.asarray(self.successors.transpose(2, 1, 0), jnp.int32),
                jnp.asarray(self.outcomes.transpose(3, 2, 1, 0), jnp.int32),
            )

    def nature(self) -> Nature:
        """The same as a `Nature`, for the joint likelihood: of each multinomial all probabilities but the last."""
        last = np.append(self.multinomial[1:] != self.multinomial[:-1], True)
        (draws,) = self.draws
        with scope():
            whole = WholeShares(jnp.asarray(np.flatnonzero(~last)), jnp.asarray(self.multinomial), jnp.asarray(last))
            density = DrawDensity(whole, jnp.asarray(draws))
            return Nature(self.shares[~last], FreeDynamics(whole, self.dynamics), density)

    def influence(self, slopes: Float[np.ndarray, "J Q"]) -> list[Float[np.ndarray, "n Q"]]:
        """For each demonstrator: slopes · (e_d − p)/n of each choice, what its outcomes add to a function of p.

        `slopes` are the derivatives of Q functions in all probabilities, each as if it could move alone.
        """
        totals, shares = self.totals, self.shares
        mean = np.zeros((len(totals), slopes.shape[1]))
        np.add.at(mean, self.multinomial, shares[:, None] * slopes)
        centred = (slopes - mean[self.multinomial]) / totals[self.multinomial][:, None]
        centred = np.vstack([centred, np.zeros_like(mean[:1])])
        return [centred[draws].sum(axis=1) for draws in self.draws]


class ProductDynamics(eqx.Module):
    """Probabilities of all outcomes ↦ dynamics."""

    successors: Int[Array, "B A S"]
    outcomes: Int[Array, "V B A S"]

    def __call__(self, shares: Float[Array, " J"]) -> Successors:
        padded = jnp.append(shares, 0.0)
        return Successors(Links(self.successors), padded[self.outcomes].prod(axis=0))


class WholeShares(eqx.Module):
    """All probabilities of each multinomial but its last ↦ all of them."""

    free: Int[Array, " free"]
    multinomial: Int[Array, " J"]
    last: Any

    def __call__(self, free: Float[Array, " free"]) -> Float[Array, " J"]:
        spread = jnp.zeros(len(self.multinomial), free.dtype).at[self.free].set(free)
        total = jnp.zeros_like(spread).at[self.multinomial].add(spread)
        return jnp.where(self.last, 1 - total[self.multinomial], spread)


class FreeDynamics(eqx.Module):
    """Free probabilities ↦ dynamics."""

    whole: WholeShares
    dynamics: ProductDynamics

    def __call__(self, free: Float[Array, " free"]) -> Successors:
        return self.dynamics(self.whole(free))


class DrawDensity(eqx.Module):
    """Free probabilities ↦ the log probability of what followed each choice; 0 where nothing was observed."""

    whole: WholeShares
    draws: Int[Array, "n V"]

    def __call__(self, free: Float[Array, " free"]) -> Float[Array, " n"]:
        seen = self.draws >= 0
        # The logarithm of what was not observed must not enter the derivative: 0 · inf is NaN.
        return jnp.log(jnp.where(seen, self.whole(free)[jnp.where(seen, self.draws, 0)], 1.0)).sum(axis=1)


@eqx.filter_jit
def cross_slopes(log_policy: Any, weights: Float[Array, "T M"], at: Any) -> Float[Array, "J K"]:
    """∂²ℓ/∂p∂θ of ℓ = Σ w log π at (θ, p)."""
    theta, shares = at

    def by_shares(theta: Any) -> Any:
        return jax.grad(lambda shares: (weights * log_policy(jnp.concatenate([theta, shares]))).sum())(shares)

    return jax.jacfwd(by_shares)(theta)
