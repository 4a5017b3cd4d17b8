"""Do estimates of bus engines converge, and do their intervals cover the truth? 1,250 simulated panels at γ = .9999.

    .venv/bin/python -m benchmarks.quality.bus_panels --processes 2

The problem of Iskhakov, Rust and Schjerning (2016): 175 states, 50 buses over 120 months, the estimates of Rust's
Table X as the truth. Each panel's increments are estimated first, then the costs by `MCEIRL`, then the errors of both
by `full_likelihood`. Starts are (RC, θ₁₁) = (4, 1), (5, 2), … (8, 5) in turn. The panels are a sweep (`ix.map_fits`),
25 in a task, so that a run that was killed goes on if `--sweep` names its folder. The first panel of a task with each
number of increments pays for compilation and is not in the times. Writes benchmarks/results/bus_panels.json.
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path

import jax
import numpy as np
from benchmarks.record import RESULTS, provenance, write
from scipy.stats import binom

import irlax as ix
from irlax.engine import Processes

TRUTH = ix.envs.BusEngine([0.0937, 0.4475, 0.4459, 0.0127, 0.0002], bins=175, parameters=[11.7257, 2.4569])
BUSES, MONTHS, STARTS = 50, 120, 5
#: Seconds of one estimate by NFXP that the paper prints, on its own machine.
PRINTED_SECONDS = 0.074
#: Panels of one task.
TOGETHER = 25
KINDS = ("hessian", "opg", "sandwich")
SECONDS = "seconds.json"


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


def estimates(cases, folder):
    """The rows of some panels; their seconds, which are not the same every time, go to the task's folder."""
    rows, seconds, compiled = [], [], set()
    for case in cases:
        fit, full, width, *taken = estimated(case["panel"], case["seed"])
        row = {"status": fit.status.value, "steps": fit.iterations}
        columns = {"estimate": full.estimates} | {kind: full.standard_errors(kind) for kind in KINDS}
        for column, values in columns.items():
            row |= {f"{column} {name}": float(value) for name, value in zip(TRUTH.names, values, strict=False)}
        rows.append(row)
        if width in compiled:
            seconds.append(taken)
        compiled.add(width)
    (folder / SECONDS).write_text(json.dumps(seconds))
    return rows


def columns_of(table, kind):
    return table[[f"{kind} {name}" for name in TRUTH.names]].to_numpy()


def figures(table, times):
    num, truth = len(table), TRUTH.parameters
    estimates, errors = columns_of(table, "estimate"), {kind: columns_of(table, kind) for kind in KINDS}
    coverage = {}
    for kind, rows in errors.items():
        inside = np.abs(estimates - truth) <= 1.959964 * rows
        coverage[kind] = dict(zip(TRUTH.names, inside.mean(axis=0).round(4).tolist(), strict=True))
    return {
        "panels": num,
        "status": dict(Counter(table["status"])),
        "coverage_of_95_percent_intervals": coverage,
        "expected_95_percent_of_the_time": (binom.ppf([0.025, 0.975], num, 0.95) / num).round(4).tolist(),
        "truth": dict(zip(TRUTH.names, truth.tolist(), strict=True)),
        "mean_estimate": estimates.mean(axis=0).round(4).tolist(),
        "median_estimate": np.median(estimates, axis=0).round(4).tolist(),
        "spread_of_estimates": estimates.std(axis=0, ddof=1).round(4).tolist(),
        "root_mean_square_error_by_hessian": np.sqrt((errors["hessian"] ** 2).mean(axis=0)).round(4).tolist(),
        "steps_mean_and_most": [round(float(table["steps"].mean()), 2), int(table["steps"].max())],
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
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--sweep", type=Path, default=Path("out/bus_panels"))
    parser.add_argument("--out", type=Path, default=RESULTS / "bus_panels.json")
    given = parser.parse_args()
    record = provenance("benchmarks.quality.bus_panels", "irlax", "jax")
    record["problem"] = {"states": TRUTH.bins, "buses": BUSES, "months": MONTHS, "discount": TRUTH.discount}
    cases = [{"panel": panel, "seed": given.seed} for panel in range(given.panels)]
    found = ix.map_fits(estimates, cases, engine=Processes(given.processes), out=given.sweep, together=TOGETHER)
    times = [row for path in given.sweep.glob(f"tasks/*/{SECONDS}") for row in json.loads(path.read_text())]
    record["figures"] = figures(found.table, np.array(times))
    print(json.dumps(record, indent=2))
    write(given.out, record)


if __name__ == "__main__":
    main()
