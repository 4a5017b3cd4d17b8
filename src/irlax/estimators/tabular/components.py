"""Optional parts of a tabular fit: a certificate, a cross-validation, a posterior, a mixture of policies."""

from typing import Any

import equinox as eqx
import numpy as np

from irlax.registry import stored
from irlax.typing import Float, Shaped


@stored("certificate")
class Certificate(eqx.Module):
    """Bounds or second-order estimates of how far the fit is from the optimum."""

    #: The largest entry of the gradient of the penalised objective.
    gradient: float
    #: With l2 > 0 and a convex objective: the objective exceeds its minimum by at most this, ‖∇‖²/(2·l2).
    duality_gap: float | None = None
    #: With l2 = 0: ½ ∇ᵀH⁻¹∇, the decrease that one more Newton (or, after L-BFGS, quasi-Newton) step predicts.
    newton_decrement: float | None = None
    #: For estimators that do not maximise the likelihood: the maximum of the log likelihood minus its value at the fit.
    below_maximum: float | None = None

    def facts(self) -> list[tuple[str, Any]]:
        """Names with values, for a summary."""
        rows = [
            ("largest gradient", self.gradient),
            ("above the minimum by at most", self.duality_gap),
            ("Newton decrement", self.newton_decrement),
            ("log likelihood below its maximum by", self.below_maximum),
        ]
        return [(name, value) for name, value in rows if value is not None]


@stored("cross-validation")
class CrossValidation(eqx.Module):
    """The penalty with the best held-out log likelihood."""

    l2: float
    #: The held-out log likelihood, mean over choices.
    log_likelihood: float

    def facts(self) -> list[tuple[str, Any]]:
        """Names with values, for a summary."""
        return [
            ("l2 by cross-validation", self.l2),
            ("held-out log likelihood a choice", self.log_likelihood),
        ]


@stored("posterior")
class Posterior(eqx.Module):
    """Draws of the parameters from their posterior, all chains concatenated, and diagnostics of the chains."""

    samples: Float[np.ndarray, "draws K"]
    #: The largest r-hat of all parameters (Vehtari et al. 2021).
    r_hat: float
    effective_sample_size: float
    divergent: int
    #: The data of the random key of the sampler.
    key: Shaped[np.ndarray, "..."]

    def facts(self) -> list[tuple[str, Any]]:
        """Names with values, for a summary."""
        return [
            ("worst r-hat", self.r_hat),
            ("least effective sample size", round(self.effective_sample_size)),
            ("divergent draws", self.divergent),
        ]


@stored("policy-mixture")
class PolicyMixture(eqx.Module):
    """The policy of apprenticeship learning, which has the occupancy of a mixture of plans."""

    policy: Float[np.ndarray, "*T R A"]
    #: The distance to the demonstrator in feature expectations, and a lower bound on that of any policy.
    distance: float
    bound: float
    num_found: int
    num_mixed: int

    def facts(self) -> list[tuple[str, Any]]:
        """Names with values, for a summary."""
        return [
            ("margin: distance to the demonstrator", self.distance),
            ("no policy comes closer than", min(self.bound, self.distance)),
            ("policies found", self.num_found),
            ("policies mixed", self.num_mixed),
        ]


Component = Certificate | CrossValidation | Posterior | PolicyMixture
