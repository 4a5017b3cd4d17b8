"""Whether Markov chains agree, and the effective number of draws in them."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from irlax.precision import scope
from irlax.status import Status
from irlax.typing import Array, Bool, Float

#: What a sample must reach to be used: Vehtari et al. (2021).
LARGEST_R_HAT, LEAST_ESS_OF_A_CHAIN, DIVERGENT_SHARE = 1.01, 100, 0.01


class Diagnosis(NamedTuple):
    """Whether the chains agree, and the effective number of draws in them."""

    r_hat: float
    ess: float
    divergent: int
    num_chains: int
    num_draws: int

    @classmethod
    def of(cls, samples: Float[np.ndarray, "chains draws K"], divergent: Bool[Array, "chains draws"]) -> "Diagnosis":
        """The worst of all parameters."""
        r_hat, ess = mixing(samples)
        return cls(float(r_hat.max()), float(ess.min()), int(divergent.sum()), len(samples), divergent.size)

    @property
    def status(self) -> Status:
        """SAMPLED, if the draws can be used."""
        mixed = self.r_hat < LARGEST_R_HAT and self.ess > LEAST_ESS_OF_A_CHAIN * self.num_chains
        safe = self.divergent <= DIVERGENT_SHARE * self.num_draws
        return Status.SAMPLED if mixed and safe else Status.STALLED

    @property
    def advice(self) -> str:
        """What is wrong, and what to do."""
        return (
            f"The chains do not represent the posterior: the worst r-hat is {self.r_hat:.3f} (it should be below "
            f"{LARGEST_R_HAT}), the least effective sample size {self.ess:.0f} (above "
            f"{LEAST_ESS_OF_A_CHAIN * self.num_chains}), {self.divergent} of {self.num_draws} draws are divergent. "
            f"Raise `num_warmup` and `num_samples`, or take a tighter prior."
        )


def mixing(
    draws: Float[np.ndarray, "chains draws K"],
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
    """Of each parameter: rank-normalised split r-hat, and the effective sample size of the middle ("bulk").

    r-hat is 1 when half chains differ no more than they vary, in place and in width; from about 1.01 on they have not
    mixed. The effective sample size is how many independent draws the middle of the posterior is known as well as by.
    Draws that are all equal do not say whether chains agree: their r-hat is infinite, and they count nothing.
    Vehtari et al. (2021).
    """
    with scope():
        r_hat, ess = (np.asarray(found).reshape(draws.shape[-1]) for found in _diagnostics()(jnp.asarray(draws)))
    alike = np.ptp(draws, axis=(0, 1)) == 0
    return np.where(alike | np.isnan(r_hat), np.inf, r_hat), np.where(alike | np.isnan(ess), 0.0, ess)


@functools.cache
def _diagnostics() -> Callable[[Float[Array, "chains draws K"]], tuple[Any, Any]]:
    """Both in one program, compiled once for each shape."""
    from blackjax.diagnostics import ess_bulk, rhat

    return jax.jit(lambda draws: (rhat(draws), ess_bulk(draws)))
