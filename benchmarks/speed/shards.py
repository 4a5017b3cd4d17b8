"""Memory of one process with a share of the dynamics: four with a quarter each, against one with all of them.

    python -m benchmarks.speed.shards --side 1000

A torus with slips, states built in NumPy a few at a time; the plan over ten steps and its visits. Peak memory counts
beyond what a process takes before it loads anything. Writes benchmarks/results/shards.json.
"""

import argparse
import json
import socket
import subprocess
import sys
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


def one(number, of, port, side):
    """One of several processes: what it holds and took."""
    import jax

    if of > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", of, number)
    import irlax as ix

    mesh = jax.make_mesh((of,), ("states",))
    jax.block_until_ready(jax.numpy.zeros(3) + 1)
    before, began = peak_bytes(), time.perf_counter()
    given = {"num_states": side**2, "discount": 0.9, "horizon": HORIZON}
    mdp = ix.MDP.from_shards(lambda first, last: part(first, last, side), mesh, **given)
    loaded, built = peak_bytes(), time.perf_counter()
    arrays = (mdp.dynamics.probs, mdp.dynamics.links.successors)
    held = sum(shard.data.nbytes for array in arrays for shard in array.addressable_shards)
    plan = ix.soft_plan(mdp, np.sin(np.arange(side**2)))
    checksum = float(ix.visits(mdp, plan)[:, 0].sum())
    figures = {"held": held, "loading": loaded - before, "peak": peak_bytes() - before, "checksum": checksum}
    print(json.dumps(figures | {"seconds_to_build": built - began, "seconds": time.perf_counter() - built}))


def together(of, side):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.speed.shards", "--side", str(side), "--part"]
    started = [
        subprocess.Popen([*command, f"{number}/{of}/{port}"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for number in range(of)
    ]
    return [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--part", help="what this process is: NUMBER/OF/PORT")
    parser.add_argument("--out", type=Path, default=RESULTS / "shards.json")
    given = parser.parse_args()
    if given.part:
        one(*map(int, given.part.split("/")), given.side)
        return
    record = provenance("benchmarks.speed.shards", "irlax", "jax")
    (alone,), several = together(1, given.side), together(PROCESSES, given.side)
    figures = {"states": given.side**2, "alone": alone, "several": several}
    for name in ("held", "loading", "peak"):
        figures[f"largest_share_{name}"] = round(max(each[name] for each in several) / alone[name], 3)
    figures["largest_difference"] = max(abs(each["checksum"] - alone["checksum"]) for each in several)
    print(json.dumps(figures, indent=1))
    write(given.out, record | {"figures": figures})


if __name__ == "__main__":
    main()
