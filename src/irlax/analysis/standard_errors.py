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
from irlax.typing import Bool, Float

Kind = Literal["hessian", "opg", "sandwich"]
KINDS = ("hessian", "opg", "sandwich")


def covariance(
    kind: Kind,
    hessian: Float[np.ndarray, "K K"],
    scores: Float[np.ndarray, "n K"],
    penalty: float | Float[np.ndarray, " K"] = 0.0,
) -> Float[np.ndarray, "K K"]:
    """The covariance of the estimates; NaN in every parameter that is not identified.

    `penalty` is what a quadratic penalty added to each second derivative: one for all, or each its own. It steadies
    the estimates, but reveals nothing: what the data do not identify stays so. Its bias is not in these errors.
    """
    checks.one_of("kind", kind, KINDS)
    outer = scores.T @ scores
    bread, meat = (outer if kind == "opg" else hessian), (hessian if kind == "hessian" else outer)
    inverse, hidden = _inverse_where_seen(bread, penalty)
    result = inverse @ meat @ inverse
    result[hidden, :] = np.nan
    result[:, hidden] = np.nan
    return result


def _inverse_where_seen(
    curvature: Float[np.ndarray, "K K"], penalty: float | Float[np.ndarray, " K"]
) -> tuple[Float[np.ndarray, "K K"], Bool[np.ndarray, " K"]]:
    """(curvature + penalty)⁻¹ on the directions that the data see, and the parameters that others touch."""
    units, axes, seen = _directions(curvature)
    basis = axes[:, seen]
    inner = basis.T @ (curvature / np.outer(units, units) + np.diag(penalty / units**2)) @ basis
    inverse = basis @ np.linalg.solve(inner, basis.T) / np.outer(units, units)
    return inverse, np.abs(axes[:, ~seen]).max(axis=1, initial=0.0) > 1e-5


def _directions(
    curvature: Float[np.ndarray, "K K"],
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, "K K"], Bool[np.ndarray, " K"]]:
    """Units for the parameters, orthogonal directions in these units, and which of them the data see."""
    # In units of the curvature itself, so that the scale of a feature does not decide what is identified.
    units = np.sqrt(np.maximum(np.diag(curvature), 0))
    units = np.where(units > 0, units, 1.0)
    sizes, axes = np.linalg.eigh(curvature / np.outer(units, units))
    return units, axes, sizes > 1e-10 * max(sizes.max(initial=0.0), 1e-300)


def num_identified(hessian: Float[np.ndarray, "K K"]) -> int:
    """How many dimensions of the parameters the data identify."""
    return int(_directions(hessian)[2].sum())


def identified_part_errors(hessian: Float[np.ndarray, "K K"], penalty: float = 0.0) -> Float[np.ndarray, " K"]:
    """Standard errors of the part of each parameter that the data see, by the inverse Hessian."""
    inverse, _ = _inverse_where_seen(hessian, penalty)
    return np.sqrt(np.diag(inverse @ hessian @ inverse))


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
