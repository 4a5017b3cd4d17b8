r"""Sampling uncertainty of maximum likelihood estimates, from scores and curvature.

With H the Hessian of minus the total log likelihood and s_i the scores of the observed choices:
inverse Hessian H⁻¹; outer product of scores B⁻¹ with B = Σ s_i s_iᵀ (Berndt et al. 1974); sandwich H⁻¹BH⁻¹
(Huber 1967), right also when choices within a cluster are correlated, with B the outer product of each
cluster's summed score. Directions that the data do not identify have no standard error: NaN, not a number.
"""

from typing import Literal

import numpy as np
from scipy.special import chdtrc, ndtri

from irlax import checks
from irlax.tables import Table
from irlax.typing import Float

Kind = Literal["hessian", "opg", "sandwich"]
KINDS = ("hessian", "opg", "sandwich")


def covariance(
    kind: Kind, hessian: Float[np.ndarray, "K K"], scores: Float[np.ndarray, "n K"]
) -> Float[np.ndarray, "K K"]:
    """The covariance of the estimates; NaN in every parameter that is not identified."""
    checks.one_of("kind", kind, KINDS)
    outer = scores.T @ scores
    bread = hessian if kind != "opg" else outer
    # In units of the curvature itself, so that the scale of a feature does not decide what is identified.
    units = np.sqrt(np.maximum(np.diag(bread), 0))
    units = np.where(units > 0, units, 1.0)
    curvature, axes = np.linalg.eigh(bread / np.outer(units, units))
    seen = curvature > 1e-10 * max(curvature.max(initial=0.0), 1e-300)
    inverse = (axes[:, seen] / curvature[seen]) @ axes[:, seen].T / np.outer(units, units)
    result = inverse @ outer @ inverse if kind == "sandwich" else inverse
    hidden = np.abs(axes[:, ~seen]).max(axis=1, initial=0.0) > 1e-5
    result[hidden, :] = np.nan
    result[:, hidden] = np.nan
    return result


def summed_by(scores: Float[np.ndarray, "n K"], cluster: np.ndarray) -> Float[np.ndarray, "clusters K"]:
    """Scores added up within clusters."""
    _, index = np.unique(cluster, return_inverse=True)
    total = np.zeros((index.max() + 1, scores.shape[1]))
    np.add.at(total, index, scores)
    return total


def confidence_interval(
    estimates: Float[np.ndarray, " K"], errors: Float[np.ndarray, " K"], level: float = 0.95
) -> Float[np.ndarray, "K 2"]:
    """estimate ± z·standard error."""
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1, but is {level}.")
    reach = ndtri(0.5 + level / 2) * errors
    return np.stack([estimates - reach, estimates + reach], axis=-1)


def likelihood_ratio_test(smaller: float, larger: float, restrictions: int) -> Table:
    """Twice the gain in log likelihood of a larger model over one nested in it, against χ²."""
    checks.count("restrictions", restrictions)
    gain = larger - smaller
    if gain < -1e-6 * max(1.0, abs(larger)):
        raise ValueError(
            f"The larger model has the lower log likelihood ({larger:.6g} < {smaller:.6g}): the models are not nested, "
            f"or a fit did not converge."
        )
    statistic = 2 * max(gain, 0.0)
    row = (float(statistic), restrictions, float(chdtrc(restrictions, statistic)))
    return Table(("χ²", "restrictions", "p"), [row], title="Likelihood-ratio test")
