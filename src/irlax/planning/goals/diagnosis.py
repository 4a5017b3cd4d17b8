r"""Why values do not exist: what is gained on the cycles that gain most.

At γ = 1 with certain moves values exist if the spectral radius ρ of M is below 1. With left and right eigenvectors u
and v, $f_j \propto u(\text{tail})\,e^{r_j}\,v(\text{head})$ is how often an endless walk that earns most uses each
option, and

$$\log\rho = \textstyle\sum_j f_j r_j + H(f)$$

is what it gains a step: its mean reward, of which each feature has a share, and its entropy.
"""

from collections.abc import Sequence

import numpy as np

from irlax.planning.goals.shared import SharedPattern
from irlax.typing import Float, Int

#: Products with M in the search for its eigenvectors.
PRODUCTS = 2_000


def gain_of_cycles(pattern: SharedPattern, reward: Float[np.ndarray, " J"]) -> tuple[float, Float[np.ndarray, " J"]]:
    """log ρ, and how often each option is used a step by the walk that gains it."""
    shift = max(float(reward.max(initial=0.0)), 0.0)
    weights = np.exp(reward - shift)
    matrix = pattern.matrix(np.bincount(pattern.entry, weights=weights, minlength=len(pattern.indices)))
    right, left = np.ones(pattern.options.num_states), np.ones(pattern.options.num_states)
    radius = 0.0
    for _ in range(PRODUCTS):
        # Half of the vector stays where it is, so that cycles of even length do not make it alternate.
        right, left = 0.5 * right + 0.5 * (matrix @ right), 0.5 * left + 0.5 * (matrix.T @ left)
        before, radius = radius, 2 * right.max() - 1
        right, left = right / right.max(), left / left.max()
        if abs(radius - before) <= 1e-12 * abs(radius):
            break
    used = left[pattern.options.state] * weights * right[pattern.head]
    return float(np.log(max(radius, 1e-300))) + shift, used / max(used.sum(), 1e-300)


def explanation(
    pattern: SharedPattern,
    reward: Float[np.ndarray, " J"],
    features: Float[np.ndarray, "J K"],
    weights: Float[np.ndarray, " K"],
    names: Sequence[str],
) -> str:
    """A sentence on what each feature costs or gains on the cycles that gain most, and where they are."""
    gain, used = gain_of_cycles(pattern, reward)
    shares = (used @ features) * weights
    order = np.argsort(-shares, kind="stable")
    listed = ", ".join(f"{names[k]} {shares[k]:+.3g}" for k in order)
    places: Int[np.ndarray, " n"] = np.unique(pattern.options.state[np.argsort(-used, kind="stable")[:2]])
    return (
        f"On the cycles that gain most (as through states {', '.join(map(str, places))}) a step gains {gain:+.3g}: "
        f"entropy {gain - float(used @ reward):+.3g}, {listed}. Their sum must be negative."
    )
