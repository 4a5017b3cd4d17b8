"""Steps of trust-region Newton: minimisers of a quadratic model within a radius.

SciPy solves the same two subproblems, but only inside `minimize(method="trust-exact" or "trust-ncg")`, whose loop
cannot take a single step and accepts steps by the loss alone, which near the optimum is rounding error. And along a
direction that the data do not identify, where slope and curvature are rounding errors, its exact step goes to the edge
of the region (10 of a radius of 10 for a slope of 1e-13 and a curvature of 1e-17), where `exact_step` stays at 0.
"""

from collections.abc import Callable

import numpy as np


def exact_step(hessian: np.ndarray, gradient: np.ndarray, radius: float) -> tuple[np.ndarray, float]:
    """The minimiser within the radius, and the decrease that the model predicts; the Hessian may be indefinite.

    Moré and Sorensen (1983), by an eigendecomposition and bisection.
    """
    curvature, axes = np.linalg.eigh(hessian)
    slope = axes.T @ gradient
    largest = max(np.abs(curvature).max(), 1e-300)
    # Directions that the data do not identify have slope and curvature 0 up to rounding: no step is taken along them.
    rounding = max(1e-10, 1e-9 * np.abs(slope).max())
    unidentified = (np.abs(curvature) < 1e-10 * largest) & (np.abs(slope) < rounding)
    slope = np.where(unidentified, 0.0, slope)

    def step(shift):
        return -slope / np.where(unidentified, 1.0, curvature + shift)

    least = curvature[~unidentified].min(initial=np.inf)
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
    """A step by conjugate gradients, and the decrease that the model predicts; `product` multiplies by the Hessian.

    It ends when the residual is small, the curvature negative, or the radius reached. Steihaug (1983).
    """
    step, hessian_step = np.zeros_like(gradient), np.zeros_like(gradient)
    residual, direction = gradient.copy(), -gradient
    # A tolerance that shrinks faster than the gradient keeps the convergence superlinear.
    tolerance = min(0.1, np.sqrt(np.linalg.norm(gradient))) * np.linalg.norm(gradient)
    for _ in range(min(len(gradient), 500)):
        image = product(direction)
        curvature = direction @ image
        if curvature <= 1e-14 * (direction @ direction) * max(np.linalg.norm(image), 1e-300):
            return _to_boundary(step, hessian_step, direction=direction, image=image, gradient=gradient, radius=radius)
        length = (residual @ residual) / curvature
        if np.linalg.norm(step + length * direction) >= radius:
            return _to_boundary(step, hessian_step, direction=direction, image=image, gradient=gradient, radius=radius)
        step, hessian_step = step + length * direction, hessian_step + length * image
        new_residual = residual + length * image
        if np.linalg.norm(new_residual) <= tolerance:
            break
        direction = -new_residual + (new_residual @ new_residual) / (residual @ residual) * direction
        residual = new_residual
    return step, float(-(gradient @ step) - 0.5 * (step @ hessian_step))


def _to_boundary(
    step: np.ndarray,
    hessian_step: np.ndarray,
    *,
    direction: np.ndarray,
    image: np.ndarray,
    gradient: np.ndarray,
    radius: float,
) -> tuple[np.ndarray, float]:
    """The step prolonged along `direction` to the radius, and the decrease that the model predicts."""
    a, b, c = direction @ direction, step @ direction, step @ step - radius**2
    length = (-b + np.sqrt(max(b * b - a * c, 0.0))) / max(a, 1e-300)
    step, hessian_step = step + length * direction, hessian_step + length * image
    return step, float(-(gradient @ step) - 0.5 * (step @ hessian_step))
