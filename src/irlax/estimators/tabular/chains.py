"""Whether Markov chains agree, and how many independent draws they are worth."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from irlax.status import Status
from irlax.typing import Array, Bool, Float

#: What a sample must reach to be used: Vehtari et al. (2021).
LARGEST_R_HAT, LEAST_ESS_OF_A_CHAIN, DIVERGENT_SHARE = 1.01, 100, 0.01


class Diagnosis(NamedTuple):
    """Whether the chains agree, and how many independent draws they are worth."""

    r_hat: float
    ess: float
    divergent: int
    num_chains: int
    num_draws: int

    @classmethod
    def of(cls, samples: Float[np.ndarray, "chains draws K"], divergent: Bool[Array, "chains draws"]) -> "Diagnosis":
        """The worst of all parameters."""
        r_hat, ess = split_r_hat(samples).max(), effective_sample_size(samples).min()
        return cls(float(r_hat), float(ess), int(divergent.sum()), len(samples), divergent.size)

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


def split_r_hat(draws: Float[np.ndarray, "chains draws K"]) -> Float[np.ndarray, " K"]:
    """Rank-normalised split r-hat: 1 when half chains differ no more than they vary, in place and in width.

    Vehtari et al. (2021); from about 1.01 on, chains have not mixed.
    """
    halves = _halved(draws)
    width = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_r_hat(_rank_normalised(halves)), _r_hat(_rank_normalised(width)))


def effective_sample_size(draws: Float[np.ndarray, "chains draws K"]) -> Float[np.ndarray, " K"]:
    """How many independent draws the middle of the posterior is known as well as by ("bulk"). Vehtari et al. (2021).

    Autocorrelations are summed in pairs as long as these stay positive, and never let rise (Geyer 1992).
    """
    ranks = _rank_normalised(_halved(draws))
    num, total = ranks.shape[1], ranks.shape[0] * ranks.shape[1]
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * num, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :num].mean(axis=0) / num
    within = covariance[0] * num / (num - 1)
    overall = covariance[0] + ranks.mean(axis=1).var(axis=0, ddof=1)
    correlation = 1 - (within - covariance) / overall
    pairs = correlation[0 : num - num % 2 : 2] + correlation[1::2]
    pairs = np.where(np.logical_and.accumulate(pairs > 0), np.minimum.accumulate(pairs), 0.0)
    # Chains that jump to and fro are worth more than their length, but not without end.
    return total / np.maximum(2 * pairs.sum(axis=0) - 1, 1 / np.log10(total))


def _halved(draws: Float[np.ndarray, "chains draws K"]) -> Float[np.ndarray, "halves draws_of_half K"]:
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, half : 2 * half]])


def _rank_normalised(draws: Float[np.ndarray, "C D K"]) -> Float[np.ndarray, "C D K"]:
    """Normal scores of the ranks among all draws of a parameter (Blom 1958)."""
    # Slow to import, and needed here alone.
    from scipy.stats import rankdata

    ranks = rankdata(draws.reshape(-1, draws.shape[-1]), axis=0)
    return ndtri((ranks - 0.375) / (len(ranks) + 0.25)).reshape(draws.shape)


def _r_hat(draws: Float[np.ndarray, "C D K"]) -> Float[np.ndarray, " K"]:
    num = draws.shape[1]
    within, between = draws.var(axis=1, ddof=1).mean(axis=0), draws.mean(axis=1).var(axis=0, ddof=1)
    return np.sqrt((num - 1) / num + between / within)
