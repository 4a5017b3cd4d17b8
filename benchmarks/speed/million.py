"""A whole fit of 20 weights on a million states, T = 100. Takes minutes, so only with `--long`.

The slippery grid of `scale`. The demonstrator is the soft-optimal policy of known weights; the fit stops when no
feature's expectation is off by more than 1e-4 of the largest. Seconds include compilation and all that `fit` does
besides.
"""

from typing import Any

import numpy as np
from benchmarks.speed import fresh, sweeps, timing

HORIZON, FEATURES, RELATIVE_GAP = 100, 20, 1e-4


def measure(*, quick: bool) -> dict[str, Any]:
    return fresh.call(__name__, "fitted", side=100 if quick else 1000)


def _features(side: int) -> np.ndarray:
    """Twenty smooth bumps, scattered over the board: what is near what, at several widths."""
    rng = np.random.default_rng(1)
    row, column = np.divmod(np.arange(side**2), side)
    columns = []
    for _ in range(FEATURES):
        (y, x), width = rng.uniform(0, side, size=2), side * rng.uniform(0.02, 0.2)
        columns.append(np.exp(-((row - y) ** 2 + (column - x) ** 2) / (2 * width**2)))
    return np.stack(columns, axis=-1)


def fitted(side: int) -> dict[str, Any]:
    """Seconds of a fit to a known reward, compilation included, and how close it came."""
    import irlax as ix

    features = _features(side)
    truth = np.random.default_rng(2).normal(size=FEATURES)
    mdp = sweeps.grid(side, HORIZON)
    expert = ix.soft_plan(mdp, features @ truth)
    wanted = ix.feature_expectations(mdp, expert, features)
    estimator = ix.MCEIRL(tol=RELATIVE_GAP * float(np.abs(wanted).max()), progress=False)
    seconds, fit = timing.once(lambda: estimator.fit(mdp, ix.LinearReward(features), expert))
    return {
        "states": mdp.num_states,
        "seconds": seconds,
        "steps": fit.iterations,
        "converged": fit.converged,
        "relative_feature_gap": float(np.abs(fit.feature_gap).max() / np.abs(wanted).max()),
        "largest_error_of_a_weight": float(np.abs(fit.reward.parameters - truth).max()),
        "peak_bytes": fresh.peak_bytes(),
    }


def table(figures: dict[str, Any]) -> list[list[str]]:
    return [
        ["states", "seconds", "steps", "relative feature gap", "largest error of a weight", "peak memory"],
        [
            f"{figures['states']:,}",
            f"{figures['seconds']:.0f}",
            str(figures["steps"]),
            f"{figures['relative_feature_gap']:.1e}",
            f"{figures['largest_error_of_a_weight']:.1e}",
            f"{figures['peak_bytes'] / 2**30:.2f} GiB",
        ],
    ]
