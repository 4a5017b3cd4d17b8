"""A million states: a soft backup and a push as fractions of the machine's bandwidth, memory, and a whole fit.

A slippery grid of 1000×1000 cells, 5 actions, 5 next states each. The bytes that a sweep cannot do without are counted
by the formulae that stand in the results; the bandwidth is that of the triad, measured in the same process. Gradient
and fit have T = 100. The fit (only with `--long`) learns 20 weights from the occupancy of a known reward and stops when
no feature's expectation is off by more than 1e-4 of the largest.
"""

from typing import Any

import numpy as np
from benchmarks.speed import bandwidth, fresh, sweeps, timing

HORIZON, FEATURES, RELATIVE_GAP = 100, 20, 1e-4


def measure(*, quick: bool, long: bool) -> dict[str, Any]:
    side = 300 if quick else 1000
    figures = {
        "bytes_counted": sweeps.FORMULAE,
        "sweeps": fresh.call(__name__, "swept", sides=[100, side]),
        "gradient": fresh.call(__name__, "gradient", side=side),
    }
    if long:
        figures["fit"] = fresh.call(__name__, "fitted", side=side)
    return figures


def swept(sides: list[int]) -> dict[str, Any]:
    """Sweeps at each size and precision, against the bandwidth of this very process."""
    measured = {dtype: bandwidth.measured(dtype) for dtype in ("float64", "float32")}
    rows = []
    for side in sides:
        mdp = sweeps.grid(side, HORIZON)
        for dtype, rate in measured.items():
            row: dict[str, Any] = {"states": side**2, "dtype": dtype}
            for name, done in sweeps.sweeps(mdp, dtype).items():
                fraction = done["bytes_a_second"] / rate["triad"]
                row[name] = done | {"ns_a_state": 1e9 * done["seconds"] / side**2, "fraction_of_triad": fraction}
            rows.append(row)
    small, large = (next(row for row in rows if row["states"] == side**2) for side in sides)
    growth = {name: large[name]["ns_a_state"] / small[name]["ns_a_state"] for name in ("backup", "push")}
    return {"bandwidth": measured, "rows": rows, "time_a_state_large_to_small": growth}


def gradient(side: int) -> dict[str, Any]:
    """One whole gradient as a fit calls it, and the peak memory: after the MDP is built, and after the gradient."""
    import irlax as ix
    from irlax.estimators.tabular.fitting import posed
    from irlax.precision import scope

    building, mdp = timing.once(lambda: sweeps.grid(side, HORIZON))
    built = fresh.peak_bytes()
    with scope():
        rewards, experts = _matched(mdp, ix.TabularReward("s"), np.zeros(mdp.num_states))
        problem, first = posed(ix.MCEIRL().objectives(rewards, experts)[0], rewards, experts, l2=0.0)
        taken = timing.compiled(lambda: problem.value_and_gradient(first), least=2)
    return {
        "seconds": taken["seconds"],
        "compile_seconds": taken["first"] - taken["seconds"],
        "building_seconds": building,
        "peak_bytes_after_building": built,
        "peak_bytes": fresh.peak_bytes(),
    }


def _matched(mdp: Any, reward: Any, truth: np.ndarray) -> Any:
    """A demonstrator who follows the soft-optimal policy of `truth`; the policy itself would be T·S·A numbers."""
    import irlax as ix
    from irlax.estimators.tabular.fitting import matched

    return matched(mdp, reward, ix.soft_plan(mdp, truth), None, "auto")


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
        "seconds": seconds,
        "steps": fit.iterations,
        "converged": fit.converged,
        "relative_feature_gap": float(np.abs(fit.feature_gap).max() / np.abs(wanted).max()),
        "largest_error_of_a_weight": float(np.abs(fit.reward.parameters - truth).max()),
        "peak_bytes": fresh.peak_bytes(),
    }


def table(figures: dict[str, Any]) -> list[list[str]]:
    body = [["states", "precision", "backup, ms", "of triad", "push, ms", "of triad"]]
    for row in figures["sweeps"]["rows"]:
        cells = []
        for name in ("backup", "push"):
            cells += [f"{1e3 * row[name]['seconds']:.3g}", f"{row[name]['fraction_of_triad']:.0%}"]
        body.append([f"{row['states']:,}", row["dtype"], *cells])
    growth = figures["sweeps"]["time_a_state_large_to_small"]
    rates = {dtype: rate["triad"] / 1e9 for dtype, rate in figures["sweeps"]["bandwidth"].items()}
    body.append(["time a state, large to small", "", f"{growth['backup']:.2f}×", "", f"{growth['push']:.2f}×", ""])
    body.append(["triad, GB/s", ", ".join(f"{dtype} {rate:.1f}" for dtype, rate in rates.items()), "", "", "", ""])
    done = figures["gradient"]
    peak = f"{done['peak_bytes'] / 2**30:.2f} GiB"
    body.append([f"gradient, T = {HORIZON}", "float64", f"{done['seconds']:.2f} s", f"peak {peak}", "", ""])
    if "fit" in figures:
        fit = figures["fit"]
        cells = [f"{fit['seconds']:.0f} s", f"{fit['steps']} steps", f"gap {fit['relative_feature_gap']:.1e}"]
        body.append([f"fit, {FEATURES} features", "float64", *cells, f"peak {fit['peak_bytes'] / 2**30:.2f} GiB"])
    return body
