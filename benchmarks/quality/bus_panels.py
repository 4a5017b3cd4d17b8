"""Do estimates of bus engines converge, and do their intervals cover the truth? 1,250 simulated panels at γ = .9999.

    OPENBLAS_NUM_THREADS=1 .venv/bin/python benchmarks/quality/bus_panels.py

(systems of 175 equations are too small for several threads, which wait for one another on a machine that others use).
The problem of Iskhakov, Rust and Schjerning (2016): 175 states, 50 buses over 120 months, the estimates of Rust's
Table X as the truth. Each panel's increments are estimated first, then the costs by `MCEIRL`, then the errors of both
by `full_likelihood`. Starts are (RC, θ₁₁) = (4, 1), (5, 2), … (8, 5) in turn. The first panel with each number of
increments pays for compilation and is not in the times. Writes benchmarks/results/bus_panels.json; `--commit`
names the commit where the tree is a copy without its history.
"""

import argparse
import json
import os
import time
from collections import Counter
from pathlib import Path

import jax
import numpy as np
from benchmarks.record import RESULTS, provenance, write
from scipy.stats import binom

import irlax as ix

TRUTH = ix.envs.BusEngine([0.0937, 0.4475, 0.4459, 0.0127, 0.0002], bins=175, parameters=[11.7257, 2.4569])
BUSES, MONTHS, STARTS = 50, 120, 5
#: Seconds of one estimate by NFXP that the paper prints, on its own machine.
PRINTED_SECONDS = 0.074
THREADS = "OPENBLAS_NUM_THREADS"
KINDS = ("hessian", "opg", "sandwich")


def estimated(i, seed):
    """One panel's fit, its full likelihood, and the seconds of both."""
    panel = ix.datasets.simulated_bus(TRUTH, buses=BUSES, months=MONTHS, key=jax.random.key(1_000_000 * seed + i))
    began = time.perf_counter()
    start = np.array([4.0, 1.0]) + i % STARTS
    engine = ix.envs.BusEngine.from_panel(panel, parameters=start)
    fit = ix.MCEIRL(objective="likelihood", progress=False).fit(engine.mdp, engine.reward, panel.demos)
    fitted = time.perf_counter()
    full = fit.full_likelihood(engine.nature(panel))
    return fit, full, len(engine.increments), fitted - began, time.perf_counter() - fitted


def run(num, seed):
    estimates, errors, statuses, steps, times = [], {kind: [] for kind in KINDS}, Counter(), [], []
    compiled = set()
    for i in range(num):
        fit, full, width, *seconds = estimated(i, seed)
        statuses[fit.status.value] += 1
        steps.append(fit.iterations)
        estimates.append(full.estimates[:2])
        for kind in KINDS:
            errors[kind].append(full.standard_errors(kind)[:2])
        if width in compiled:
            times.append(seconds)
        compiled.add(width)
        if (i + 1) % 50 == 0:
            print(i + 1, dict(statuses), np.median(times, axis=0).round(4), flush=True)
    return (
        np.array(estimates),
        {kind: np.array(rows) for kind, rows in errors.items()},
        statuses,
        steps,
        np.array(times),
    )


def figures(estimates, errors, statuses, steps, times):
    num, truth = len(estimates), TRUTH.parameters
    coverage = {}
    for kind, rows in errors.items():
        inside = np.abs(estimates - truth) <= 1.959964 * rows
        coverage[kind] = dict(zip(TRUTH.names, inside.mean(axis=0).round(4).tolist(), strict=True))
    return {
        "panels": num,
        "status": dict(statuses),
        "coverage_of_95_percent_intervals": coverage,
        "expected_95_percent_of_the_time": (binom.ppf([0.025, 0.975], num, 0.95) / num).round(4).tolist(),
        "truth": dict(zip(TRUTH.names, truth.tolist(), strict=True)),
        "mean_estimate": estimates.mean(axis=0).round(4).tolist(),
        "median_estimate": np.median(estimates, axis=0).round(4).tolist(),
        "spread_of_estimates": estimates.std(axis=0, ddof=1).round(4).tolist(),
        "root_mean_square_error_by_hessian": np.sqrt((errors["hessian"] ** 2).mean(axis=0)).round(4).tolist(),
        "steps_mean_and_most": [round(float(np.mean(steps)), 2), int(np.max(steps))],
        "seconds_of_an_estimate": _spread(times[:, 0]),
        "seconds_of_its_standard_errors": _spread(times[:, 1]),
        "seconds_printed_by_iskhakov_rust_schjerning": PRINTED_SECONDS,
    }


def _spread(seconds):
    low, median, high = np.quantile(seconds, [0.05, 0.5, 0.95]).round(4).tolist()
    return {"mean": round(float(seconds.mean()), 4), "5%": low, "median": median, "95%": high}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--panels", type=int, default=1250)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "bus_panels.json")
    given = parser.parse_args()
    record = provenance("benchmarks.quality.bus_panels", "irlax", "jax")
    record["command"] = f"{THREADS}={os.environ.get(THREADS)} {record['command']}"
    record["problem"] = {"states": TRUTH.bins, "buses": BUSES, "months": MONTHS, "discount": TRUTH.discount}
    record["figures"] = figures(*run(given.panels, given.seed))
    print(json.dumps(record, indent=2))
    write(given.out, record)


if __name__ == "__main__":
    main()
