"""Diagnostics of Markov chains: r-hat and the effective sample size."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from irlax.precision import scope
from irlax.status import Status
from irlax.typing import Array, Bool, Float

#: The limits that a sample must meet to be used (Vehtari et al. 2021).
LARGEST_R_HAT, LEAST_ESS_OF_A_CHAIN, DIVERGENT_SHARE = 1.01, 100, 0.01


class Diagnosis(NamedTuple):
    """The worst r-hat and effective sample size of all parameters, and the number of divergent draws."""

    r_hat: float
    ess: float
    divergent: int
    num_chains: int
    num_draws: int

    @classmethod
    def of(cls, samples: Float[np.ndarray, "chains draws K"], divergent: Bool[Array, "chains draws"]) -> "Diagnosis":
        """The diagnosis of draws."""
        r_hat, ess = mixing(samples)
        return cls(float(r_hat.max()), float(ess.min()), int(divergent.sum()), len(samples), divergent.size)

    @property
    def status(self) -> Status:
        """SAMPLED if the draws can be used, else STALLED."""
        mixed = self.r_hat < LARGEST_R_HAT and self.ess > LEAST_ESS_OF_A_CHAIN * self.num_chains
        safe = self.divergent <= DIVERGENT_SHARE * self.num_draws
        return Status.SAMPLED if mixed and safe else Status.STALLED

    @property
    def advice(self) -> str:
        """What is wrong and what to do, for a warning."""
        return (
            f"The chains do not represent the posterior: the worst r-hat is {self.r_hat:.3f} (it should be below "
            f"{LARGEST_R_HAT}), the least effective sample size {self.ess:.0f} (above "
            f"{LEAST_ESS_OF_A_CHAIN * self.num_chains}), {self.divergent} of {self.num_draws} draws are divergent. "
            f"Raise `num_warmup` and `num_samples`, or take a tighter prior."
        )


def mixing(
    draws: Float[np.ndarray, "chains draws K"],
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """For each parameter: rank-normalised split r-hat, and the bulk effective sample size.

    r-hat is 1 if halves of chains differ no more between than within, in location and in scale; above about 1.01 they
    have not mixed. The effective sample size is the number of independent draws that would estimate the centre of the
    posterior as precisely. If all draws are equal, r-hat is infinite and the effective sample size 0.
    Vehtari et al. (2021).
    """
    with scope():
        r_hat, ess = (np.asarray(found).reshape(draws.shape[-1]) for found in _diagnostics()(jnp.asarray(draws)))
    constant = np.ptp(draws, axis=(0, 1)) == 0
    return np.where(constant | np.isnan(r_hat), np.inf, r_hat), np.where(constant | np.isnan(ess), 0.0, ess)


@functools.cache
def _diagnostics() -> Callable[[Float[Array, "chains draws K"]], tuple[Any, Any]]:
    """r-hat and effective sample size in one program, compiled once for each shape."""
    from blackjax.diagnostics import ess_bulk, rhat

    return jax.jit(lambda draws: (rhat(draws), ess_bulk(draws)))
