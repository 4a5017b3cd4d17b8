"""Steps of trust-region Newton: minimisers of a quadratic model within a radius."""

from collections.abc import Callable

import numpy as np


def exact_step(hessian: np.ndarray, gradient: np.ndarray, radius: float) -> tuple[np.ndarray, float]:
    """Moré and Sorensen (1983), through the eigenvalues."""
    curvature, axes = np.linalg.eigh(hessian)
    slope = axes.T @ gradient
    largest = max(np.abs(curvature).max(), 1e-300)
    # Directions that the data do not see have neither slope nor curvature but for rounding: stay on them.
    rounding = max(1e-10, 1e-9 * np.abs(slope).max())
    unseen = (np.abs(curvature) < 1e-10 * largest) & (np.abs(slope) < rounding)
    slope = np.where(unseen, 0.0, slope)

    def step(shift):
        return -slope / np.where(unseen, 1.0, curvature + shift)

    least = curvature[~unseen].min(initial=np.inf)
    low = max(0.0, -least) + (0.0 if least > 1e-14 * largest else 1e-14 * largest)
    if np.linalg.norm(step(low)) > radius:
        high = low + np.linalg.norm(slope) / radius + largest
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if np.linalg.norm(step(middle)) > radius else (low, middle)
            if high - low <= 1e-12 * high:
                break
        low = high
    move = step(low)
    return axes @ move, float(-(slope @ move) - 0.5 * (curvature * move) @ move)


def steihaug_step(
    product: Callable[[np.ndarray], np.ndarray], gradient: np.ndarray, radius: float
) -> tuple[np.ndarray, float]:
    """Conjugate gradients until the residual is small, the curvature negative, or the radius reached."""
    step, curved = np.zeros_like(gradient), np.zeros_like(gradient)
    residual, direction = gradient.copy(), -gradient
    # A residual that shrinks with the gradient keeps the convergence superlinear.
    goal = min(0.1, np.sqrt(np.linalg.norm(gradient))) * np.linalg.norm(gradient)
    for _ in range(min(len(gradient), 500)):
        along = product(direction)
        bend = direction @ along
        if bend <= 1e-14 * (direction @ direction) * max(np.linalg.norm(along), 1e-300):
            return _to_boundary(step, curved, direction=direction, along=along, gradient=gradient, radius=radius)
        length = (residual @ residual) / bend
        if np.linalg.norm(step + length * direction) >= radius:
            return _to_boundary(step, curved, direction=direction, along=along, gradient=gradient, radius=radius)
        step, curved = step + length * direction, curved + length * along
        new_residual = residual + length * along
        if np.linalg.norm(new_residual) <= goal:
            break
        direction = -new_residual + (new_residual @ new_residual) / (residual @ residual) * direction
        residual = new_residual
    return step, float(-(gradient @ step) - 0.5 * (step @ curved))


def _to_boundary(
    step: np.ndarray,
    curved: np.ndarray,
    *,
    direction: np.ndarray,
    along: np.ndarray,
    gradient: np.ndarray,
    radius: float,
) -> tuple[np.ndarray, float]:
    a, b, c = direction @ direction, step @ direction, step @ step - radius**2
    length = (-b + np.sqrt(max(b * b - a * c, 0.0))) / max(a, 1e-300)
    step, curved = step + length * direction, curved + length * along
    return step, float(-(gradient @ step) - 0.5 * (step @ curved))
