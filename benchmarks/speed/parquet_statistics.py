"""Ten million rows of Parquet become statistics: seconds and peak memory, in a fresh process.

    .venv/bin/python -m benchmarks.speed.parquet_statistics

makes the files in out/, reads each in a process of its own, and writes
benchmarks/results/parquet_statistics.json.
"""

import argparse
import time
from typing import NamedTuple

import numpy as np
from benchmarks import record
from benchmarks.speed import fresh

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


def written(path, case, num_rows):
    """Random walks on a ring, written a million rows at a time unless there is one row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    case = CASES[case]
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


def measured(path, case):
    """In a process of its own, whose peak memory is that of this work and of the imports."""
    import irlax  # noqa: F401
    from irlax.demos import statistics_from_parquet

    began = time.perf_counter()
    num_states = CASES[case].num_states
    statistics = statistics_from_parquet(path, num_states=num_states, num_actions=NUM_ACTIONS, discount=0.99)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "peak_bytes": fresh.peak_bytes(), "rows": statistics.num_steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    num_rows = parser.parse_args().rows
    source = record.provenance("benchmarks.speed.parquet_statistics", "jax", "pyarrow", "numpy")
    folder = record.ROOT / "out" / "parquet_statistics"
    folder.mkdir(parents=True, exist_ok=True)
    figures = {}
    module = "benchmarks.speed.parquet_statistics"
    for case in CASES:
        path = folder / f"{case.replace(' ', '_').replace(',', '')}.parquet"
        fresh.call(module, "written", path=str(path), case=case, num_rows=num_rows)
        figures[case] = fresh.call(module, "measured", path=str(path), case=case)
        figures[case]["file_bytes"] = path.stat().st_size
        print(f"{case}: {figures[case]['seconds']:.1f} s, {figures[case]['peak_bytes'] / 1e6:.0f} MB")
        path.unlink()
    problem = {
        "rows": num_rows,
        "actions": NUM_ACTIONS,
        "episode_length": LENGTH,
        "states": {k: CASES[k].num_states for k in CASES},
    }
    record.write(record.RESULTS / "parquet_statistics.json", {**source, "problem": problem, "figures": figures})


if __name__ == "__main__":
    main()
