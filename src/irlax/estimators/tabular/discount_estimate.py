"""An estimated discount, as a part of a fit."""

import equinox as eqx
import numpy as np

from irlax.registry import stored


@stored("discount-estimate")
class DiscountEstimate(eqx.Module):
    """An estimated discount, with its standard error and confidence set."""

    estimate: float
    #: NaN where γ is not identified, or at an end of the range.
    standard_error: float
    #: Intervals, one below the other.
    confidence_set: tuple[tuple[float, float], ...]
    level: float

    def text(self) -> str:
        """The estimate, as text for a note."""
        parts = " ∪ ".join(f"[{low:.4f}, {high:.4f}]" for low, high in self.confidence_set)
        error = ", an end of the range" if np.isnan(self.standard_error) else f", s.e. {self.standard_error:.4f}"
        return f"γ = {self.estimate:.4f}{error}, {self.level:.0%} confidence set {parts}"
