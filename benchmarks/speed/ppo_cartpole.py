"""Environment steps a second of PPO on CartPole beside Stable-Baselines3, all learning included, compilation apart.

Both learn on CartPole-v1 (ours is the same step by step, and its episodes end as there) for the same number of steps
with two networks of 64 and 64. The peer runs as it comes (one copy, 10 epochs of 32 minibatches for each 2,048 steps)
and with our rounds (64 copies by 64 steps, 4 epochs of 4 minibatches). It gets one thread: for networks this small a
second one gains nothing, and beside other work the two wait for each other most of the time. Ours runs before and
after the peer, each in a process of its own, so that the machine's other load meets both; the ratios are of whole runs.
"""

import argparse
import json
import os
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.record import RESULTS, provenance, write
from benchmarks.speed import fresh, timing, venvs

PEER = "stable-baselines3"


def ours(rounds: int) -> dict[str, Any]:
    """Seconds of each round, after those of the first, which compiles; and the settings."""
    import equinox as eqx
    import jax.random as jr
    import numpy as np

    import irlax as ix
    from irlax.rl import PPO

    learner, env = PPO(), ix.envs.CartPole()
    step = eqx.filter_jit(lambda learner, env, state: learner.step(env, state))
    first, (state, _) = timing.once(
        lambda: step(learner, env, eqx.filter_jit(learner.init)(env, jr.key(0))),
    )
    seconds, returns = [], []
    for _ in range(rounds):
        taken, (state, metrics) = timing.once(lambda state=state: step(learner, env, state))
        seconds.append(taken)
        returns.append(float(metrics["return"]))
    names = ("num_envs", "length", "epochs", "minibatches", "learning_rate")
    return {
        "first": first,
        "seconds": seconds,
        "final_return": float(np.nanmean(returns[-5:])),
        "settings": {name: getattr(learner, name) for name in names},
    }


def theirs(settings: dict[str, Any], steps: int) -> dict[str, Any]:
    """The peer as it comes, and set to our rounds."""
    rounds = {
        "n_steps": settings["length"],
        "n_epochs": settings["epochs"],
        "batch_size": settings["num_envs"] * settings["length"] // settings["minibatches"],
        "learning_rate": settings["learning_rate"],
    }
    chosen = {"as it comes": ({}, 1), "our rounds": (rounds, settings["num_envs"])}
    return {
        name: venvs.ask(PEER, "cartpole", settings=options, num_envs=num_envs, steps=steps)
        for name, (options, num_envs) in chosen.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "ppo_cartpole.json")
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    source, load = provenance("benchmarks.speed.ppo_cartpole", "irlax", "jax"), os.getloadavg()[0]
    runs = [fresh.call("benchmarks.speed.ppo_cartpole", "ours", rounds=options.rounds)]
    settings = runs[0]["settings"]
    steps = options.rounds * settings["num_envs"] * settings["length"]
    peer = theirs(settings, steps)
    runs.append(fresh.call("benchmarks.speed.ppo_cartpole", "ours", rounds=options.rounds))
    speeds = [steps / sum(run["seconds"]) for run in runs]
    speed = sum(speeds) / len(speeds)
    ratios = {name: speed / found["steps_a_second"] for name, found in peer.items()}
    result = {
        **source,
        "peer_versions": venvs.versions(PEER),
        "load_average": [load, os.getloadavg()[0]],
        "settings": settings,
        "steps": steps,
        "ours": {
            "compilation_seconds": [round(run["first"], 1) for run in runs],
            "steps_a_second": [round(one) for one in speeds],
            "steps_a_second_median_round": [round(steps / options.rounds / median(run["seconds"])) for run in runs],
            "final_return": [round(run["final_return"], 1) for run in runs],
        },
        PEER: peer,
        "ratio": {name: round(ratio, 1) for name, ratio in ratios.items()},
    }
    write(options.out, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
