"""Environment steps a second of PPO on fixed-horizon CartPole, all learning included, compilation apart.

`PPO()` as it is: two networks of 64 and 64, 4,096 steps a round, 4 epochs of 4 minibatches. The median of the rounds'
times is reported, so that a neighbour's burst does not decide.
"""

import argparse
import json
import os
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from benchmarks.record import RESULTS, provenance, write

import irlax as ix
from irlax.rl import PPO


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "ppo_cartpole.json")
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    learner, env = PPO(), ix.envs.make("cartpole")
    began = time.perf_counter()
    state = eqx.filter_jit(learner.init)(env, jr.key(0))
    step = eqx.filter_jit(lambda learner, env, state: learner.step(env, state))
    state, _ = jax.block_until_ready(step(learner, env, state))
    compilation = time.perf_counter() - began
    times = []
    for _ in range(options.rounds):
        began = time.perf_counter()
        state, _ = jax.block_until_ready(step(learner, env, state))
        times.append(time.perf_counter() - began)
    result = {
        **provenance("benchmarks.speed.ppo_cartpole", "irlax", "jax"),
        "load_average": os.getloadavg()[0],
        "compilation_seconds": round(compilation, 1),
        "steps_a_second_median": round(learner.steps_a_round / float(np.median(times))),
        "steps_a_second_mean": round(learner.steps_a_round / float(np.mean(times))),
        "steps_a_second_best": round(learner.steps_a_round / min(times)),
    }
    write(options.out, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
