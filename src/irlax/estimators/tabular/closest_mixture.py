"""The point of a convex hull that is closest to the origin (Wolfe 1976)."""

import numpy as np

from irlax.typing import Float

#: The relative rounding error of sums in float64.
ROUNDING = 1e-14


def closest_mixture(points: Float[np.ndarray, "n K"], weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Weights, positive on as few points as possible, of the point in their convex hull that is closest to the origin.

    Wolfe (1976), from the given weights: add the point that is furthest in the direction of the origin, go to the
    closest point of the plane through all points with weight, and if that lies outside their hull, only to its border.
    """
    size = float(np.linalg.norm(points, axis=1).max())
    for _ in range(10 * len(points)):
        closest = weights @ points
        length = float(np.linalg.norm(closest))
        products = points @ closest
        best = int(np.argmin(products))
        if length <= ROUNDING * size or products[best] >= length**2 - ROUNDING * size * length:
            break
        new = _to_closest_on_plane(points, weights, np.union1d(np.flatnonzero(weights), best))
        if np.linalg.norm(new @ points) >= length:
            break
        weights = new
    return weights


def _to_closest_on_plane(
    points: Float[np.ndarray, "n K"], weights: Float[np.ndarray, " n"], support: np.ndarray
) -> Float[np.ndarray, " n"]:
    """Weights of the closest point on the plane through the support, or of the border of the hull on the way there."""
    while True:
        target = np.zeros_like(weights)
        rest = points[support[1:]] - points[support[0]]
        share = np.linalg.lstsq(rest.T, -points[support[0]], rcond=None)[0]
        target[support] = np.concatenate([[1 - share.sum()], share])
        outside = support[target[support] <= ROUNDING]
        if not len(outside):
            return target
        fall = np.maximum(weights[outside] - target[outside], ROUNDING**2)
        first = int(np.argmin(weights[outside] / fall))
        reach = min(1.0, float(weights[outside[first]] / fall[first]))
        weights = weights + reach * (target - weights)
        weights[outside[first]] = 0.0
        weights = np.maximum(weights, 0.0) / np.maximum(weights, 0.0).sum()
        support = support[support != outside[first]]
