"""The same sweep by every engine: one table, whatever dies, and little lost to the engine itself.

    .venv/bin/python -m benchmarks.quality.sweep_engines --panels 1250

The sweep is that of `bus_panels`. It runs by worker processes, of which some, and the driver, are killed at random
moments; by four shards of a job array; and on a Ray cluster of two nodes, started here by `ray start`. Compared are the
bytes of table.parquet, and how often each task was started and finished. The engine's own share of the work is
measured by processor time: that which workers take, without their start, against that of the tasks alone. A run that
was stopped goes on. Writes benchmarks/results/sweep_engines.json.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.quality import bus_panels
from benchmarks.record import RESULTS, ROOT, provenance, write

from irlax.engine import OnRay, Processes, Shard, map_fits
from irlax.engine.engines import worker_environment

FUNCTION = "benchmarks.quality.sweep_engines:estimates"
TOGETHER = 25
KILLS = 10


def estimates(cases, folder):
    """The rows of some panels; the processor seconds that they took, and those of the process so far, are kept."""
    began = time.process_time()
    rows = bus_panels.estimates(cases, folder)
    ended = time.process_time()
    (folder / "processor.json").write_text(json.dumps({"pid": os.getpid(), "began": began, "ended": ended}))
    return rows


def drive(engine, panels, out):
    cases = [{"panel": panel, "seed": 0} for panel in range(panels)]
    return map_fits(FUNCTION, cases, engine=engine, out=out, together=TOGETHER, retries=20, progress=False)


def with_kills(panels, out, seed=0):
    """By processes; a worker or the driver is killed a random time after each of some random numbers of tasks."""
    rng, killed = random.Random(seed), []
    moments = sorted(rng.sample(range(1, panels // TOGETHER), KILLS))
    command = [sys.executable, "-m", "benchmarks.quality.sweep_engines", "--drive", str(out), "--panels", str(panels)]
    driver = subprocess.Popen(command, cwd=ROOT)
    while driver.poll() is None:
        time.sleep(0.2)
        if not moments or finished(out) < moments[0]:
            continue
        time.sleep(rng.uniform(0.0, 5.0))
        workers = children(driver.pid)
        if not workers:  # the driver has just begun
            continue
        del moments[0]
        if len(killed) % 3 == 2:
            driver.send_signal(signal.SIGKILL)
            driver.wait()
            killed.append("driver")
            driver = subprocess.Popen(command, cwd=ROOT)
        else:
            os.kill(rng.choice(workers), signal.SIGKILL)
            killed.append("worker")
    if driver.returncode:
        raise RuntimeError(f"The driver ended with {driver.returncode}.")
    return killed


def finished(out):
    return sum(1 for _ in out.glob("tasks/*/rows.json"))


def children(pid):
    """The processes that a process has started."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def by_shards(panels, out, of=4):
    command = [sys.executable, "-m", "benchmarks.quality.sweep_engines", "--drive", str(out), "--panels", str(panels)]
    parts = [
        subprocess.Popen([*command, "--shard", f"{part}/{of}"], cwd=ROOT, env=worker_environment(1))
        for part in range(of)
    ]
    codes = [part.wait() for part in parts]
    if any(codes):
        raise RuntimeError("A shard failed.")


def by_ray(panels, out, port=6399):
    """On a cluster of two nodes on this machine, one processor each."""
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--num-cpus=1", "--disable-usage-stats"]
    memory = ["--object-store-memory=100000000"]
    address = f"127.0.0.1:{port}"
    environment = worker_environment(1) | {"RAY_AUTH_MODE": "disabled", "RAY_DISABLE_MEMORY_MONITOR": "1"}
    first = ["--head", f"--port={port}", "--node-ip-address=127.0.0.1", "--include-dashboard=false"]
    head = subprocess.Popen([*ray, *first, *memory, "--block"], env=environment)
    time.sleep(15)
    node = subprocess.Popen([*ray, f"--address={address}", *memory, "--block"], env=environment)
    time.sleep(15)
    try:
        os.environ["RAY_AUTH_MODE"] = "disabled"
        drive(OnRay(address), panels, out)
    finally:
        for process in (node, head):
            process.terminate()
            process.wait()


def counts(out):
    """How often tasks were finished, and how many were started more than once."""
    texts = [path.read_text() for path in out.glob("tasks/*/events.jsonl")]
    finished = [text.count('"finished"') for text in texts]
    return {
        "tasks": len(texts),
        "finished_once": sum(number == 1 for number in finished),
        "finished_more_often": sum(number > 1 for number in finished),
        "started_again_after_a_death": sum(text.count('"started"') > 1 for text in texts),
    }


def share_of_tasks(out):
    """Of the processor time of workers from their first task to the end of their last, that of the tasks."""
    by_worker = {}
    for path in out.glob("tasks/*/processor.json"):
        found = json.loads(path.read_text())
        by_worker.setdefault(found["pid"], []).append((found["began"], found["ended"]))
    inside = sum(ended - began for spans in by_worker.values() for began, ended in spans)
    whole = sum(max(span[1] for span in spans) - min(span[0] for span in spans) for spans in by_worker.values())
    return {"task_seconds": round(inside, 1), "worker_seconds": round(whole, 1), "share": round(inside / whole, 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--panels", type=int, default=1250)
    parser.add_argument("--folder", type=Path, default=Path("out/sweep_engines"))
    parser.add_argument("--drive", type=Path, help="only this sweep, by processes")
    parser.add_argument("--shard", help="with --drive: this part of it, I/N")
    parser.add_argument("--only", default="processes,shards,ray")
    parser.add_argument("--out", type=Path, default=RESULTS / "sweep_engines.json")
    given = parser.parse_args()
    if given.drive is not None:
        engine = Processes(2) if given.shard is None else Shard(*map(int, given.shard.split("/")))
        drive(engine, given.panels, given.drive)
        return
    record = provenance("benchmarks.quality.sweep_engines", "irlax", "jax", "ray") | {"panels": given.panels}
    ways = {"processes": with_kills, "shards": by_shards, "ray": by_ray}
    tables, figures = [], {}
    for name in given.only.split(","):
        place = given.folder / name
        died = ways[name](given.panels, place)
        figures[name] = counts(place) | {"processor_time": share_of_tasks(place)}
        if died is not None:
            figures[name]["killed"] = {kind: died.count(kind) for kind in ("worker", "driver")}
        tables.append((place / "table.parquet").read_bytes())
        print(name, figures[name], flush=True)
    figures["same_table_bit_for_bit"] = len(set(tables)) == 1
    peak = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures["processor_seconds_of_all"] = round(peak.ru_utime + peak.ru_stime)
    write(given.out, record | {"figures": figures})
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
