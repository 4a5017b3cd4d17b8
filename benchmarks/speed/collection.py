"""Gymnasium's environments in this process and in workers: steps a second, with learning and without.

"steps": random actions, given to all copies. "rounds": SAC acts and learns in turns, from batches of `length` steps of
each copy; "overlapped" is the same with the steps of the next batch taken while SAC learns from the last. The ways take
turns, in the same process, and figures are medians over repetitions: the ratios between them are what counts. The share
of cores that was to be had is given by processor time over wall-clock time.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import record


def rates(ways: dict[str, Callable[[], int]], repetitions: int) -> dict[str, dict[str, float]]:
    """The median steps a second of each way, the ways taking turns; a way returns how many steps it took."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    busy: dict[str, list[float]] = {name: [] for name in ways}
    steps = {name: way() for name, way in ways.items()}  # the first time for compilation
    for _ in range(repetitions):
        for name, way in ways.items():
            began, worked = time.perf_counter(), _processor_seconds()
            way()
            seconds[name].append(time.perf_counter() - began)
            busy[name].append(_processor_seconds() - worked)
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    first = next(iter(ways))
    return {
        name: {
            "steps_per_second": float(f"{steps[name] / medians[name]:.3g}"),
            "times_the_first": round(medians[first] / steps[first] * steps[name] / medians[name], 2),
            "processor_per_wall": round(sum(busy[name]) / sum(seconds[name]), 2),
        }
        for name in ways
    }


def _processor_seconds() -> float:
    """Of this process; that of a worker is known when it has ended."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def stepping(env: Any, length: int) -> Callable[[], int]:
    """Random actions."""
    low, high = np.asarray(env.actions.low), np.asarray(env.actions.high)
    rng = np.random.default_rng(0)
    env.reset(seed=0)

    def way() -> int:
        for _ in range(length):
            env.step(rng.uniform(low, high, size=(env.num_envs, len(low))).astype(np.float32))
        return length * env.num_envs

    return way


def learning(env: Any, length: int, rounds: int, updates: int, *, overlapped: bool) -> Callable[[], int]:
    """SAC, one batch after the other, or learning from one while the next is collected."""
    import equinox as eqx
    import jax
    import jax.random as jr

    import irlax as ix
    from irlax.envs.host import HostRunner

    learner = ix.rl.SAC(num_envs=env.num_envs, length=length, updates=updates, capacity=20_000)
    learn = eqx.filter_jit(lambda agent, batch, key: learner.learn(agent, batch, None, rate=1.0, key=key)[0])
    runner = HostRunner(env, seed=0)
    state = [learner.init_agent(env.observation_size, env.actions, key=jr.key(0))]

    def way() -> int:
        agent = state[0]
        collecting = runner.start_collecting(agent.policy, length, 0.0, key=jr.key(1))
        for number in range(rounds):
            batch, _ = collecting.result()
            if overlapped and number + 1 < rounds:
                collecting = runner.start_collecting(agent.policy, length, 0.0, key=jr.key(2 + number))
            agent = jax.block_until_ready(learn(agent, batch, jr.key(number)))
            if not overlapped and number + 1 < rounds:
                collecting = runner.start_collecting(agent.policy, length, 0.0, key=jr.key(2 + number))
        state[0] = agent
        return rounds * length * env.num_envs

    return way


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=record.RESULTS / "collection.json")
    parser.add_argument("--envs", nargs="*", default=["Hopper-v5", "Ant-v5"])
    parser.add_argument("--copies", type=int, default=16)
    parser.add_argument("--workers", nargs="*", type=int, default=[2])
    parser.add_argument("--length", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--updates", type=int, default=64)
    parser.add_argument("--repetitions", type=int, default=7)
    options = parser.parse_args()
    import irlax as ix

    source = record.provenance("benchmarks.speed.collection", "irlax", "jax", "gymnasium", "mujoco")
    rows: list[dict[str, Any]] = []
    for name in options.envs:
        made = {"in process": ix.envs.make(f"gymnasium:{name}", num_envs=options.copies)}
        for workers in options.workers:
            made[f"{workers} workers"] = ix.envs.make(f"gymnasium:{name}", num_envs=options.copies, workers=workers)
        alone = {way: stepping(env, options.length) for way, env in made.items()}
        rows.append({"env": name, "copies": options.copies, "steps": rates(alone, options.repetitions)})
        print(rows[-1], file=sys.stderr, flush=True)
        turns = {
            f"{way}, {'overlapped' if overlapped else 'in turns'}": learning(
                env, options.length, options.rounds, options.updates, overlapped=overlapped
            )
            for way, env in made.items()
            for overlapped in (False, True)
        }
        rows[-1]["rounds"] = rates(turns, options.repetitions)
        print(rows[-1]["rounds"], file=sys.stderr, flush=True)
        record.write(options.out, {**source, "figures": rows})
        for env in made.values():
            env.close()


if __name__ == "__main__":
    main()
