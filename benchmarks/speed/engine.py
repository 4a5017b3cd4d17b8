"""Rust's (1987) bus engines, 90 bins of mileage, γ = .9999, by maximum likelihood. Against econirl.

The data are those that econirl ships, and the transitions those that it estimates from them, both taken from its
process in this run; the features are its own too: the cost of mileage and of a new engine. Its nested fixed point
(NFXP) reports standard errors, so ours is timed with them (sandwich) and without. `cold` is the first fit of a process,
compilation included; `warm` the median of fits in which each bus counts as often as it was drawn with replacement, so
that no result is at hand; `other_rows` the same with the rows of those buses alone, whose shapes may be new to the
compiler. A second fit of NFXP's is on the same data. Iskhakov et al. (2016, Econometrica) publish .074 s for a
problem of this kind, in compiled code on another machine.
"""

import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.speed import fresh, timing, venvs

BINS, DISCOUNT = 90, 0.9999
WARM_FITS, OTHER_ROWS = 20, 3


def measure(*, quick: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "buses.npz")
        nested = venvs.ask("econirl", "nested", path=path, bins=BINS, discount=DISCOUNT)
        mine = fresh.call(__name__, "ours", path=path)
        figures = {"irlax": mine, "econirl, NFXP": nested}
        if not quick:
            figures["econirl, MCEIRL"] = venvs.ask("econirl", "entropy", bins=BINS, discount=DISCOUNT)
    figures["ratio_cold"] = nested["cold_seconds"] / mine["cold_seconds_with_errors"]
    figures["ratio_warm"] = nested["warm_seconds"] / mine["warm_seconds_with_errors"]
    return figures


def ours(path: str) -> dict[str, Any]:
    """The first fit, and fits to other samples of the buses, with and without standard errors."""
    import irlax as ix

    given = np.load(path)
    probs = np.swapaxes(given["transitions"], 0, 1)
    # econirl keeps them in float32.
    mdp = ix.MDP.from_counts(probs, np.bincount(given["states"], minlength=BINS), discount=DISCOUNT)
    reward = ix.LinearReward(given["features"], names=("operating cost", "replacement cost"))
    order = np.lexsort((given["periods"], given["buses"]))
    states, actions, buses = (given[name][order] for name in ("states", "actions", "buses"))
    cuts = np.flatnonzero(np.diff(buses)) + 1
    episodes = list(zip(np.split(states, cuts), np.split(actions, cuts), strict=True))
    everyone = ix.Demonstrations.from_episodes(episodes)
    estimator = ix.MCEIRL(objective="likelihood", progress=False)

    def fitted(sample: Any) -> dict[str, Any]:
        seconds, fit = timing.once(lambda: estimator.fit(mdp, reward, sample))
        more, errors = timing.once(lambda: fit.standard_errors("sandwich"))
        return {"fit": fit, "seconds": seconds, "seconds_with_errors": seconds + more, "errors": errors}

    rng, num = np.random.default_rng(0), len(episodes)
    drawn = [rng.integers(num, size=num) for _ in range(WARM_FITS)]
    cold = fitted(everyone)
    counted = [ix.Demonstrations.from_episodes(episodes, weights=np.bincount(k, minlength=num)) for k in drawn]
    warm = [fitted(sample) for sample in counted]
    rows = [fitted(everyone.select(k)) for k in drawn[:OTHER_ROWS]]
    names, fit = reward.names, cold["fit"]
    return {
        "cold_seconds": cold["seconds"],
        "cold_seconds_with_errors": cold["seconds_with_errors"],
        "warm_seconds": statistics.median(one["seconds"] for one in warm),
        "warm_seconds_with_errors": statistics.median(one["seconds_with_errors"] for one in warm),
        "other_rows_seconds_with_errors": statistics.median(one["seconds_with_errors"] for one in rows),
        "log_likelihood": fit.log_likelihood,
        "estimates": dict(zip(names, fit.reward.weights.tolist(), strict=True)),
        "standard_errors": dict(zip(names, np.asarray(cold["errors"]).tolist(), strict=True)),
        "converged": all(one["fit"].converged for one in (cold, *warm, *rows)),
        "steps": fit.iterations,
        "largest_gradient": fit.certificate.gradient,
    }


def table(figures: dict[str, Any]) -> list[list[str]]:
    body = [["", "first fit, s", "next fit, s", "log likelihood", "mileage", "engine", "converged"]]
    for name in ("econirl, MCEIRL", "econirl, NFXP", "irlax"):
        if name not in figures:
            continue
        row = figures[name]
        first = row.get("cold_seconds_with_errors", row["cold_seconds"])
        later = row.get("warm_seconds_with_errors", row.get("warm_seconds"))
        found = [f"{value:.5f}" for value in row["estimates"].values()]
        cells = ["" if later is None else f"{later:.3f}", f"{row['log_likelihood']:.4f}", *found]
        body.append([name, f"{first:.2f}", *cells, "yes" if row["converged"] else "no"])
    alone = figures["irlax"]
    body.append(
        ["irlax, no standard errors", f"{alone['cold_seconds']:.2f}", f"{alone['warm_seconds']:.3f}", "", "", "", ""]
    )
    body.append(["ratio to NFXP", f"{figures['ratio_cold']:.1f}×", f"{figures['ratio_warm']:.0f}×", "", "", "", ""])
    return body
