r"""Sampling uncertainty of maximum likelihood estimates, from scores and curvature.

With H the Hessian of minus the total log likelihood and s_i the scores of the observed choices:
inverse Hessian H⁻¹; outer product of scores B⁻¹ with B = Σ s_i s_iᵀ (Berndt et al. 1974); sandwich H⁻¹BH⁻¹
(Huber 1967), right also when choices within a cluster are correlated, with B the outer product of each
cluster's summed score. Directions that the data do not identify have no standard error: NaN, not a number.
"""

from typing import Literal, NamedTuple

import numpy as np
import scipy

from irlax import checks
from irlax.tables import Table
from irlax.typing import Bool, Float, Int

Kind = Literal["hessian", "opg", "sandwich"]
#: Curvature below this share of the largest, in the units of the features, is a rounding error.
ROUNDING = 1e-11
KINDS = ("hessian", "opg", "sandwich")
#: Collinearity that inflates a standard error by more than this is weak identification.
WEAK = 30.0


def covariance(
    kind: Kind,
    hessian: Float[np.ndarray, "K K"],
    scores: Float[np.ndarray, "n K"],
    penalty: float | Float[np.ndarray, " K"] = 0.0,
    corrections: Float[np.ndarray, "m K"] | None = None,
) -> Float[np.ndarray, "K K"]:
    """The covariance of the estimates; NaN in every parameter that is not identified.

    A row of `scores` counts once: one that stands for w observations is multiplied by √w. `penalty` is what a quadratic
    penalty added to each second derivative: one for all, or each its own. It reduces their variance, but does
    not identify what the data do not. Its bias is not in these errors. `corrections` are scores that a first step adds,
    uncorrelated with the others; for the sandwich they are part of `scores` itself.
    """
    result = identified_covariance(kind, hessian, scores, penalty, corrections)
    unknown = hidden(scores.T @ scores if kind == "opg" else hessian)
    result[unknown, :] = np.nan
    result[:, unknown] = np.nan
    return result


def identified_covariance(
    kind: Kind,
    hessian: Float[np.ndarray, "K K"],
    scores: Float[np.ndarray, "n K"],
    penalty: float | Float[np.ndarray, " K"] = 0.0,
    corrections: Float[np.ndarray, "m K"] | None = None,
) -> Float[np.ndarray, "K K"]:
    """As `covariance`, with numbers everywhere: right for what depends on identified combinations alone."""
    checks.one_of("kind", kind, KINDS)
    outer = scores.T @ scores
    bread, meat = (outer if kind == "opg" else hessian), (hessian if kind == "hessian" else outer)
    meat = meat if corrections is None else meat + corrections.T @ corrections
    inverse = inverse_where_identified(bread, penalty)
    return inverse @ meat @ inverse


def without_rounding(curvature: Float[np.ndarray, "K K"]) -> Float[np.ndarray, "K K"]:
    """Curvature in the units of the features, with 0 for parameters whose own curvature is a rounding error.

    In its own units a rounding error would look like curvature: a constant feature, which changes no choice, would
    have a standard error instead of none.
    """
    sizes = np.abs(np.diag(curvature))
    rounding = sizes <= ROUNDING * sizes.max(initial=0.0)
    return np.where(rounding | rounding[:, None], 0.0, curvature)


def null_directions(curvature: Float[np.ndarray, "K K"]) -> Float[np.ndarray, "n K"]:
    """Unit directions of the parameters that the data do not identify."""
    units, sizes, axes = _in_own_units(curvature)
    directions = axes[:, ~_identified(sizes)] / units[:, None]
    return (directions / np.maximum(np.linalg.norm(directions, axis=0), 1e-300)).T


def seen_basis(curvature: Float[np.ndarray, "K K"]) -> Float[np.ndarray, "K r"]:
    """Directions of the parameters that the data identify, each as long as one standard error."""
    units, sizes, axes = _in_own_units(curvature)
    known = _identified(sizes)
    return axes[:, known] / np.sqrt(sizes[known]) / units[:, None]


class WeakDirections(NamedTuple):
    """Directions of which data say something, but little."""

    #: In the parameters, each of unit length.
    directions: Float[np.ndarray, "w K"]
    #: The same in standard errors of each parameter, the others known.
    by_parameter: Float[np.ndarray, "w K"]
    #: How many times larger the standard error along each is than if the other parameters were known.
    inflation: Float[np.ndarray, " w"]


def weak_directions(curvature: Float[np.ndarray, "K K"]) -> WeakDirections:
    """Directions that data identify, but with standard errors inflated more than `WEAK` times by collinearity."""
    units, sizes, axes = _in_own_units(curvature)
    weak = _identified(sizes) & (sizes < 1 / WEAK**2)
    directions = (axes[:, weak] / units[:, None]).T
    lengths = np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
    return WeakDirections(directions / lengths, axes[:, weak].T, 1 / np.sqrt(sizes[weak]))


def rank(curvature: Float[np.ndarray, "K K"]) -> int:
    """How many directions of the parameters the data identify: the effective number of parameters."""
    return int(_identified(_in_own_units(curvature)[1]).sum())


def hidden(curvature: Float[np.ndarray, "K K"]) -> Bool[np.ndarray, " K"]:
    """The parameters that change along a direction that the data do not identify."""
    return not_identified(curvature, np.eye(len(curvature)))


def not_identified(curvature: Float[np.ndarray, "K K"], slopes: Float[np.ndarray, "Q K"]) -> Bool[np.ndarray, " Q"]:
    """Which functions, by their slopes in the parameters, change along a direction that the data do not identify."""
    units, sizes, axes = _in_own_units(curvature)
    own = slopes / units
    along = np.abs(own @ axes[:, ~_identified(sizes)]).max(axis=1, initial=0.0)
    return along > 1e-5 * np.linalg.norm(own, axis=1)


def _in_own_units(
    curvature: Float[np.ndarray, "K K"],
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"], Float[np.ndarray, "K K"]]:
    """Units of the parameters in which their curvature is 1, and its eigenvalues and axes in these."""
    # So that the scale of a feature does not decide what is identified.
    units = np.sqrt(np.maximum(np.diag(curvature), 0))
    units = np.where(units > 0, units, 1.0)
    sizes, axes = np.linalg.eigh(curvature / np.outer(units, units))
    return units, sizes, axes


def _identified(sizes: Float[np.ndarray, " K"]) -> Bool[np.ndarray, " K"]:
    return sizes > 1e-10 * max(sizes.max(initial=0.0), 1e-300)


def inverse_where_identified(
    curvature: Float[np.ndarray, "K K"], penalty: float | Float[np.ndarray, " K"]
) -> Float[np.ndarray, "K K"]:
    """(curvature + penalty)⁻¹ on the directions that the data identify.

    Along the others the estimate is where the penalty is least, so that there it resists less than it could.
    """
    units, sizes, axes = _in_own_units(curvature)
    known = _identified(sizes)
    basis, rest = axes[:, known], axes[:, ~known]
    own = np.diag(penalty / units**2)
    across = basis.T @ own @ rest
    resisted = basis.T @ own @ basis - across @ np.linalg.pinv(rest.T @ own @ rest, hermitian=True) @ across.T
    inner = basis.T @ (curvature / np.outer(units, units)) @ basis + resisted
    return basis @ np.linalg.solve(inner, basis.T) / np.outer(units, units)


def identified_part_errors(hessian: Float[np.ndarray, "K K"], penalty: float = 0.0) -> Float[np.ndarray, " K"]:
    """Standard errors of the part of each parameter that the data identify, by the inverse Hessian."""
    inverse = inverse_where_identified(hessian, penalty)
    return np.sqrt(np.diag(inverse @ hessian @ inverse))


def summed_by(scores: Float[np.ndarray, "n K"], cluster: Int[np.ndarray, " n"], num: int) -> Float[np.ndarray, "num K"]:
    """Scores added up within each of `num` clusters."""
    return np.stack([np.bincount(cluster, weights=column, minlength=num) for column in scores.T], axis=1)


def confidence_interval(
    estimates: Float[np.ndarray, " K"], errors: Float[np.ndarray, " K"], level: float = 0.95
) -> Float[np.ndarray, "K 2"]:
    """estimate ± z·standard error."""
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1, but is {level}.")
    reach = scipy.special.ndtri(0.5 + level / 2) * errors
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
    row = (float(statistic), restrictions, float(scipy.special.chdtrc(restrictions, statistic)))
    return Table(("χ²", "restrictions", "p"), [row], title="Likelihood-ratio test")
