"""Points at which the gradient is zero, but the loss is not lowest."""

import numpy as np

from irlax.estimators.tabular.problem import AbstractProblem, Evaluation

#: A curvature below minus this share of the largest is that of a saddle point.
SADDLE = 1e-7
#: How far from the saddle, in units of the features, a lower loss is looked for.
DISTANCES = (0.3, -0.3, 0.03, -0.03)


def lower_than_saddle(problem: AbstractProblem, at: Evaluation) -> Evaluation | None:
    """A point near a saddle point with a lower loss; None at a minimum.

    Where a problem is symmetric, as with two equal groups, or rewards of two moves that were made alike, the gradient
    at a symmetric point is zero, though the loss may be lower on either side.
    """
    sizes, axes = np.linalg.eigh(problem.hessian(at))
    if sizes.min(initial=0.0) >= -SADDLE * np.abs(sizes).max(initial=0.0):
        return None
    nearby = [problem.evaluate(at.x + distance * axes[:, 0]) for distance in DISTANCES]
    lowest = min(nearby, key=lambda point: point.loss if np.isfinite(point.loss) else np.inf)
    return lowest if lowest.loss < at.loss else None
