"""Stable-Baselines3's PPO trains on `envs.RewardWrapper`, a reward of ours inside a Gymnasium environment.

The reward is one that an IRL method could have found for CartPole: a bonus for an upright pole near the middle, a
function of observations. PPO, as it comes, sees only that; reported is what CartPole-v1 itself pays, at most 500,
before and after.
"""

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS, provenance, write
from benchmarks.speed import venvs

PEER = "stable-baselines3"


def upright(observation: Any, action: Any, after: Any) -> Any:
    """1 for a pole that stands upright in the middle, less towards the edges."""
    return 1.0 - (after[2] / 0.21) ** 2 - (after[0] / 2.4) ** 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "reward_wrapper_sb3.json")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    source = provenance("benchmarks.quality.reward_wrapper_sb3", "irlax")
    runs = [venvs.ask(PEER, "learned_reward", steps=options.steps, seed=seed) for seed in range(options.seeds)]
    for run in runs:
        for when in ("before", "after"):
            run[f"true_return_{when}"] = statistics.mean(run.pop(f"true_returns_{when}"))
    result = {**source, "peer_versions": venvs.versions(PEER), "steps": options.steps, "figures": runs}
    write(options.out, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
