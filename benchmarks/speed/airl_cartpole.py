"""Wall-clock of AIRL to 95% of the expert's return on CartPole of a fixed horizon, beside imitation's AIRL.

Both learn from the same twenty demonstrations, which ship with irlax, in the same problem: 500 steps, and after a fall
the world stands still and pays nothing. Ours runs as it comes; imitation with the settings of its own example for
CartPole. A run ends when the mean true return of the latest episodes reaches 475 twice in a row (ours: of a round's 16
episodes; the peer's: of 10 that are played for the purpose, not timed), or at the time limit. Ours has its seeds one
after the other, before the peer's: the first, in a new process, includes compilation.
"""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, provenance, write
from benchmarks.speed import fresh, venvs

PEER = "imitation"
TARGET = 475.0


class EnoughError(Exception):
    """The target is reached."""


def ours(seed: int, repeats: int) -> dict[str, Any]:
    """Seconds to the target, the first time with compilation, then without; and environment steps."""
    import time

    import jax.random as jr

    import irlax as ix

    env, demos = ix.envs.make("cartpole"), ix.expert_demos("cartpole")
    found: list[dict[str, Any]] = []
    for repeat in range(repeats):
        began, lines = time.perf_counter(), []

        def watch(line: dict[str, Any], lines: list[dict[str, Any]] = lines) -> None:
            lines.append(line)
            if min(earlier["return"] for earlier in lines[-2:]) >= TARGET and len(lines) > 1:
                raise EnoughError

        reached = True
        try:
            estimator = ix.AIRL(rounds=ix.Rounds(tol=0.0))
            estimator.fit(env, demos, key=jr.key(seed + repeat), callback=watch, progress=False)
            reached = False
        except EnoughError:
            pass
        found.append(
            {
                "seed": seed + repeat,
                "reached": reached,
                "seconds": round(time.perf_counter() - began, 2),
                "steps": lines[-1]["steps"],
            }
        )
    return {"runs": found}


def saved_demos(folder: str) -> str:
    """The demonstrations as plain arrays, for an environment in which irlax is not installed."""
    import numpy as np

    import irlax as ix

    demos = ix.expert_demos("cartpole")
    path = f"{folder}/cartpole.npz"
    shape = (demos.num_episodes, -1)
    np.savez(
        path,
        before=demos.observations.reshape(*shape, 4),
        after=demos.next_observations.reshape(*shape, 4),
        actions=demos.actions.reshape(shape),
        rewards=demos.rewards.reshape(shape),
    )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "airl_cartpole.json")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=400.0, help="seconds for each seed of the peer")
    options = parser.parse_args()
    source, load = provenance("benchmarks.speed.airl_cartpole", "irlax", "jax"), os.getloadavg()[0]
    module = "benchmarks.speed.airl_cartpole"
    cold = [fresh.call(module, "ours", seed=100 + k, repeats=1)["runs"][0] for k in range(options.seeds)]
    warm = fresh.call(module, "ours", seed=99, repeats=options.seeds + 1)["runs"][1:]
    with tempfile.TemporaryDirectory() as folder:
        path = fresh.call(module, "saved_demos", folder=folder)
        peer = [
            venvs.ask(PEER, "airl", path=path, seed=k, target=TARGET, limit=options.limit) for k in range(options.seeds)
        ]
    theirs = sum(run["seconds"] for run in peer)
    result = {
        **source,
        "peer_versions": venvs.versions(PEER),
        "load_average": [load, os.getloadavg()[0]],
        "target": TARGET,
        "ours_with_compilation": cold,
        "ours_without": warm,
        PEER: peer,
        # A peer that never got there counts with the time that it was given: the ratio is then a lower bound.
        "ratio_without_compilation": round(theirs / sum(run["seconds"] for run in warm), 1),
        "ratio_with_compilation": round(theirs / sum(run["seconds"] for run in cold), 1),
    }
    write(options.out, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
