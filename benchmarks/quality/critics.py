"""What SAC's critics expect in Humanoid and what its policy earns, with observations normalised and as they are.

SAC on the true reward as in `benchmarks.quality.mujoco`, a gradient step for each of a few thousand steps. Critics that
expect several times what any policy so far has earned in a whole episode overestimate.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from benchmarks import record
from benchmarks.quality.mujoco import learner_of_truth, made

#: Rounds of 512 steps between two rows.
BETWEEN = 12


@eqx.filter_jit
def expected(state: Any) -> Any:
    """The mean soft value of steps in the buffer."""
    rows, value = state.agent.buffer.sample((512,), key=jr.key(1)), state.agent.value
    return jax.vmap(value.draw)(rows.observation, jr.split(jr.key(2), 512)).mean()


def rows_of(problem: str, *, normalise: bool, steps: int, seed: int) -> list[dict[str, Any]]:
    """What is expected and earned while it learns."""
    env = made(problem)
    learner = dataclasses.replace(learner_of_truth(steps + 10_240), normalise=normalise)
    state = eqx.filter_jit(lambda key: learner.init(env, key=key))(jr.key(seed))
    step = eqx.filter_jit(lambda state: learner.step(env, state), donate="all")
    rows, returns = [], []
    for number in range(1, steps // learner.steps_per_round + 1):
        state, metrics = step(state)
        returns.append(float(metrics["return"]))
        if number % BETWEEN == 0:
            row = {"problem": problem, "normalise": normalise, "seed": seed, "steps": number * learner.steps_per_round}
            row |= {"expected": round(float(expected(state)), 1), "earned": round(float(np.nanmean(returns)), 1)}
            rows.append(row | {"temperature": round(float(metrics["temperature"]), 3)})
            returns = []
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=record.RESULTS / "critics.json")
    parser.add_argument("--problem", default="humanoid")
    parser.add_argument("--steps", type=int, default=18_432)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = [
        row
        for normalise in (True, False)
        for row in rows_of(options.problem, normalise=normalise, steps=options.steps, seed=options.seed)
    ]
    source = record.provenance("benchmarks.quality.critics", "irlax", "jax", "gymnasium", "mujoco")
    record.write(options.out, {**source, "figures": rows})
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
