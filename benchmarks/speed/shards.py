"""Memory of one process with a share of the dynamics: four with a quarter each, against one with all of them.

    python -m benchmarks.speed.shards

A torus with slips, states and reward built in NumPy a few at a time; the plan over ten steps and its visits. Peak
memory is given with all that a process takes, and beyond what it takes before it loads anything: the interpreter, JAX,
irlax and the connections to other processes. All values and visits are compared. Writes
benchmarks/results/shards.json.
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from benchmarks.record import RESULTS, ROOT, provenance, write
from benchmarks.speed.fresh import peak_bytes

PROCESSES, HORIZON = 4, 10


def part(first, last, side):
    """States `first` to `last` − 1 of the torus: a move by each of four actions, or any of the four by chance."""
    state = np.arange(first, last, dtype=np.int32)
    x, y = state % side, state // side
    around = [(x + 1) % side + y * side, (x - 1) % side + y * side]
    around += [x + (y + 1) % side * side, x + (y - 1) % side * side]
    successors = np.broadcast_to(np.stack(around, axis=-1)[:, None], (len(state), 4, 4))
    slip = 0.1 + 0.1 * (state % 3)
    probs = slip[:, None, None] / 4 + (1 - slip)[:, None, None] * np.eye(4)
    return successors, probs, np.full(len(state), 1 / side**2)


def reward(first, last):
    return np.sin(np.arange(first, last))


def one(number, of, port, folder, side):
    """One of several processes: what it holds and took. Its values and visits are left in the folder."""
    import jax

    if of > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", of, number)
    from jax.experimental import multihost_utils

    import irlax as ix

    mesh = jax.make_mesh((of,), ("states",))
    if of > 1:
        # The first exchange connects the processes.
        multihost_utils.sync_global_devices("connected")
    jax.block_until_ready(jax.numpy.zeros(3) + 1)
    before, began = peak_bytes(), time.perf_counter()
    given = {"num_states": side**2, "discount": 0.9, "horizon": HORIZON}
    mdp = ix.MDP.from_shards(lambda first, last: part(first, last, side), mesh, **given)
    loaded, built = peak_bytes(), time.perf_counter()
    arrays = (mdp.dynamics.probs, mdp.dynamics.links.successors)
    held = sum(shard.data.nbytes for array in arrays for shard in array.addressable_shards)
    plan = ix.soft_plan(mdp, mdp.load_table(reward))
    visits = jax.block_until_ready(ix.visits(mdp, plan))
    figures = {"held": held, "empty": before, "loading": loaded - before, "peak": peak_bytes() - before}
    figures |= {"peak_with_everything": peak_bytes(), "seconds_to_build": built - began}
    figures["seconds"] = time.perf_counter() - built
    for name, table in (("values", plan.value), ("visits", visits)):
        np.save(Path(folder) / f"{name}-{of}-{number}.npy", own(table), allow_pickle=False)
    print(json.dumps(figures))


def own(table):
    """What this process has of a table."""
    return table if isinstance(table, np.ndarray) else np.asarray(table.addressable_shards[0].data)


def together(of, side, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.speed.shards", "--sides", str(side), "--part"]
    started = [
        subprocess.Popen([*command, f"{number}/{of}/{port}/{folder}"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for number in range(of)
    ]
    return [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]


def largest_difference(folder):
    """Of all values and visits, between one process and several."""
    differences = []
    for name, axis in (("values", 1), ("visits", 0)):
        whole = np.load(folder / f"{name}-1-0.npy", mmap_mode="r")
        share = whole.shape[axis] // PROCESSES
        for number in range(PROCESSES):
            part = np.load(folder / f"{name}-{PROCESSES}-{number}.npy", mmap_mode="r")
            states = slice(number * share, (number + 1) * share)
            differences.append(float(np.abs(part - (whole[:, states] if axis else whole[states])).max()))
    return max(differences)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", type=int, nargs="+", default=[1000, 2400], help="sides of the torus")
    parser.add_argument("--part", help="what this process is: NUMBER/OF/PORT/FOLDER")
    parser.add_argument("--out", type=Path, default=RESULTS / "shards.json")
    given = parser.parse_args()
    if given.part:
        number, of, port, folder = given.part.split("/", 3)
        one(int(number), int(of), int(port), folder, *given.sides)
        return
    record = provenance("benchmarks.speed.shards", "irlax", "jax")
    rows = []
    for side in given.sides:
        with tempfile.TemporaryDirectory() as folder:
            (alone,), several = together(1, side, folder), together(PROCESSES, side, folder)
            difference = largest_difference(Path(folder))
        shares = {
            f"largest_share_{name}": round(max(each[name] for each in several) / alone[name], 3)
            for name in ("held", "loading", "peak", "peak_with_everything")
        }
        rows.append({"states": side**2} | shares | {"largest_difference": difference})
        rows[-1] |= {"alone": alone, "several": several}
        print(json.dumps(rows[-1], indent=1))
    write(given.out, record | {"rows": rows})


if __name__ == "__main__":
    main()
