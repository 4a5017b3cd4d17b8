"""How long a million rows take, from a CSV file to a regression table.

    .venv/bin/python -m benchmarks.speed.panel

Machines whose miles, a continuous column, are binned by quantiles, in three regions: 10,000 individuals over 100
periods. The first run pays for compilation, the second is what counts; both are written, with the seconds of each part,
to benchmarks/results/panel_speed.json.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.record import RESULTS, provenance, write


def frame(rows, seed=0):
    """Machines that are replaced more often the more miles they have."""
    rng = np.random.default_rng(seed)
    periods = 100
    individuals = rows // periods
    miles, parts = rng.uniform(0, 10, individuals), []
    region = rng.integers(3, size=individuals)
    for period in range(periods):
        replace = rng.random(individuals) < 1 / (1 + np.exp(4 - 0.5 * miles - 0.3 * region))
        parts.append((np.arange(individuals), np.full(individuals, period), miles, region, replace))
        miles = np.minimum(np.where(replace, 0, miles) + rng.exponential(1, individuals), 20)
    who, when, miles, region, replace = (np.concatenate(column) for column in zip(*parts, strict=True))
    names = np.array(["north", "south", "west"])[region]
    choice = np.where(replace, "replace", "keep")
    return pd.DataFrame({"machine": who, "month": when, "miles": miles, "region": names, "choice": choice})


def run(path):
    """Seconds of reading, building, fitting and the table."""
    import irlax as ix

    marks = [time.perf_counter()]
    panel = ix.Panel.read(
        path,
        individual="machine",
        period="month",
        state={"miles": ix.panels.Quantiles(20), "region": None},
        action="choice",
        transitions={"miles": ix.panels.Chain(), "region": ix.panels.Chain(by_action=False)},
    )
    marks.append(time.perf_counter())
    fit = panel.fit("miles:keep + replace + C(region):replace", discount=0.95)
    marks.append(time.perf_counter())
    table = fit.regression_table()
    marks.append(time.perf_counter())
    parts = dict(zip(("read_and_build", "fit", "table"), np.diff(marks).round(3).tolist(), strict=True))
    return parts | {"total": round(marks[-1] - marks[0], 3)}, str(table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "panel_speed.json")
    given = parser.parse_args()
    record = provenance("benchmarks.speed.panel", "irlax", "jax", "pandas", "formulaic")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machines.csv"
        frame(given.rows).to_csv(path, index=False)
        (first, _), (second, table) = run(path), run(path)
    print(table)
    record["figures"] = {"rows": given.rows, "seconds_first": first, "seconds_second": second}
    print(json.dumps(record["figures"], indent=2))
    write(given.out, record)


if __name__ == "__main__":
    main()
