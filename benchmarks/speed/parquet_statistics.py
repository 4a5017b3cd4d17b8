"""Ten million rows of Parquet become statistics: seconds and peak memory, in a fresh process.

    .venv/bin/python benchmarks/speed/parquet_statistics.py

makes the files in out/, reads each in a process of its own, and writes
benchmarks/results/parquet_statistics.json.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
NUM_ACTIONS, LENGTH = 5, 100


class Case(NamedTuple):
    num_states: int = 10_000
    row_group: int = 2**20  # rows of the file that are stored together
    text: bool = False  # labels are names, not numbers
    full: bool = False  # all optional columns are there
    jumps: bool = False  # anything follows anything, so almost every transition is a new one


CASES = {
    "plain": Case(),
    "all columns, text labels": Case(text=True, full=True),
    "all columns, one row group": Case(row_group=2**62, full=True),
    "a million states, random jumps": Case(num_states=10**6, jumps=True),
}


def generate(path, num_rows, case):
    """Random walks on a ring, written a million rows at a time unless there is one row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, writer = np.random.default_rng(0), None
    for start in range(0, num_rows, min(case.row_group, num_rows)):
        table = pa.table(rows(rng, start, min(case.row_group, num_rows - start), case))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=len(table))
    writer.close()


def rows(rng, start, num, case):
    row = np.arange(start, start + num)
    episode, t = np.divmod(row, LENGTH)
    action = rng.integers(NUM_ACTIONS, size=num)
    noise = rng.integers(case.num_states if case.jumps else 2, size=num)
    state = (np.cumsum(action - 2) + noise) % case.num_states
    columns = {
        "episode": [f"person {k:07d}" for k in episode] if case.text else episode,
        "t": t,
        "state": state,
        "action": action,
    }
    if case.full:
        columns |= {
            "next_state": (state + action - 2) % case.num_states,
            "terminated": (t == LENGTH - 1) & (episode % 2 == 0),
        }
        columns |= {"weight": 1.0 + episode % 3}
    return columns


def measure(path, case):
    """In a process of its own, whose peak memory is that of this work and of the imports."""
    import irlax  # noqa: F401
    from irlax.demos import statistics_from_parquet

    began = time.perf_counter()
    statistics = statistics_from_parquet(path, num_states=case.num_states, num_actions=NUM_ACTIONS, discount=0.99)
    seconds = time.perf_counter() - began
    # Linux counts kilobytes, macOS bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    print(json.dumps({"seconds": seconds, "peak_bytes": peak, "rows": statistics.num_steps}))


def machine():
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def commit():
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return described.stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--generate", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.generate:
        path, case = arguments.generate
        generate(path, arguments.rows, CASES[case])
    elif arguments.measure:
        path, case = arguments.measure
        measure(path, CASES[case])
    else:
        compare(arguments.rows)


def run(*options):
    """This file in another process. Linux lets a process inherit the peak memory of the one that started it, so
    this one must stay small: it does none of the work itself."""
    return subprocess.run([sys.executable, __file__, *options], capture_output=True, text=True, check=True).stdout


def compare(num_rows):
    folder = ROOT / "out" / "parquet_statistics"
    folder.mkdir(parents=True, exist_ok=True)
    figures = {}
    for case in CASES:
        path = folder / f"{case.replace(' ', '_').replace(',', '')}.parquet"
        run("--rows", str(num_rows), "--generate", str(path), case)
        figures[case] = json.loads(run("--measure", str(path), case)) | {"file_bytes": path.stat().st_size}
        print(f"{case}: {figures[case]['seconds']:.1f} s, {figures[case]['peak_bytes'] / 1e6:.0f} MB")
        path.unlink()
    record = {
        "command": f"python benchmarks/speed/parquet_statistics.py --rows {num_rows}",
        "commit": commit(),
        "machine": machine(),
        "problem": {
            "actions": NUM_ACTIONS,
            "episode_length": LENGTH,
            "states": {k: CASES[k].num_states for k in CASES},
        },
        "figures": figures,
    }
    target = ROOT / "benchmarks" / "results" / "parquet_statistics.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
