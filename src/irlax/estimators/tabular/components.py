"""What a tabular fit may have beside its reward: each a small component that it has or has not."""

from typing import Any

import equinox as eqx
import numpy as np

from irlax.registry import stored
from irlax.typing import Float, Shaped


@stored("certificate")
class Certificate(eqx.Module):
    """How far from the optimum the fit can be, at most or to second order."""

    #: The largest entry of the gradient of the penalised objective.
    gradient: float
    #: With l2 > 0 and a convex objective: the objective exceeds its minimum by at most this, ‖∇‖²/(2·l2).
    duality_gap: float | None = None
    #: With l2 = 0: ½ ∇ᵀH⁻¹∇, what one more Newton (or, after L-BFGS, quasi-Newton) step would gain.
    newton_decrement: float | None = None
    #: Of estimators that do not maximise the likelihood: by how much their log likelihood falls short of its maximum.
    below_maximum: float | None = None

    def facts(self) -> list[tuple[str, Any]]:
        """What a summary says of it."""
        rows = [
            ("largest gradient", self.gradient),
            ("above the minimum by at most", self.duality_gap),
            ("Newton decrement", self.newton_decrement),
            ("log likelihood below its maximum by", self.below_maximum),
        ]
        return [(name, value) for name, value in rows if value is not None]


@stored("cross-validation")
class CrossValidation(eqx.Module):
    """The penalty that predicts best what was not learned from."""

    l2: float
    #: Held out, mean over choices.
    log_likelihood: float

    def facts(self) -> list[tuple[str, Any]]:
        """What a summary says of it."""
        return [
            ("l2 by cross-validation", self.l2),
            ("held-out log likelihood a choice", self.log_likelihood),
        ]


@stored("posterior")
class Posterior(eqx.Module):
    """Draws of the parameters from their posterior, all chains one after the other, and whether the chains agree."""

    samples: Float[np.ndarray, "draws K"]
    #: The worst of all parameters (Vehtari et al. 2021).
    r_hat: float
    effective_sample_size: float
    divergent: int
    #: The numbers of the random key that they were drawn with.
    key: Shaped[np.ndarray, "..."]

    def facts(self) -> list[tuple[str, Any]]:
        """What a summary says of it."""
        return [
            ("worst r-hat", self.r_hat),
            ("least effective sample size", round(self.effective_sample_size)),
            ("divergent draws", self.divergent),
        ]


@stored("policy-mixture")
class PolicyMixture(eqx.Module):
    """The policy of an apprentice, which is not the plan of one reward but has the occupancy of a mixture of plans."""

    policy: Float[np.ndarray, "*T R A"]
    #: To the demonstrator, in feature expectations, and a distance below which no policy gets.
    distance: float
    bound: float
    num_found: int
    num_mixed: int

    def facts(self) -> list[tuple[str, Any]]:
        """What a summary says of it."""
        return [
            ("margin: distance to the demonstrator", self.distance),
            ("no policy comes closer than", min(self.bound, self.distance)),
            ("policies found", self.num_found),
            ("policies mixed", self.num_mixed),
        ]


Component = Certificate | CrossValidation | Posterior | PolicyMixture
