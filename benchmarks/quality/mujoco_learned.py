"""Gymnasium's Hopper as a user fits it on one machine, and Stable-Baselines3 on the reward that came out.

`--part fit` takes one episode of the expert's mode, and the steps of the README: `SampledMCEIRL().fit(env, demos)` on
Gymnasium's own environment, with all processors of the machine; its seconds are the user's. `--part train` gives the
learned reward to a fresh Stable-Baselines3 SAC, by `envs.RewardWrapper`: it never sees the true one, in which both are
reported. Needs `irlax[mjx]`, and the expert of `benchmarks.quality.mujoco`.
"""

import argparse
import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import record

PEER = "stable-baselines3"
FOLDER = record.ROOT / "out" / "mujoco_learned"


def fitted(name: str, folder: Path, num_envs: int, seed: int) -> dict[str, Any]:
    """The fit, kept in a folder, and what it took."""
    import jax.random as jr
    from benchmarks.quality.mujoco import demonstrated

    import irlax as ix

    demos = demonstrated(ix.envs.make("mujoco:hopper"), "hopper", 1)
    estimator, options = ix.SampledMCEIRL.for_control(), {"num_envs": num_envs}
    if name.startswith("mjx:"):
        # In JAX the copies are the learner's.
        estimator, options = ix.SampledMCEIRL.for_control(learner=_with_copies(estimator.learner, num_envs)), {}
    env = ix.envs.make(name, **options)
    started = time.monotonic()
    fit = estimator.fit(env, demos, key=jr.key(seed))
    seconds = time.monotonic() - started
    fit.save(folder / "fit")
    share = float(np.mean(fit.returns)) / float(demos.returns.mean())
    return {
        "expert": round(float(demos.returns.mean()), 1),
        "steps": int(fit.history["steps"][-1]),
        "policy": round(float(np.mean(fit.returns)), 1),
        "share of the policy": round(share, 3),
        "seconds": round(seconds, 1),
        "processors": len(os.sched_getaffinity(0)),
    }


def _with_copies(learner: Any, num: int) -> Any:
    return dataclasses.replace(learner, num_envs=num, length=2, updates=2 * num)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("fit", "train"), default="fit")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "mujoco_learned.json")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the fit is kept")
    parser.add_argument("--env", default="gymnasium:Hopper-v5", help='or "mjx:hopper", on a GPU')
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=200)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    row = fitted(options.env, options.folder, options.num_envs, options.seed)
    (options.folder / "fit.json").write_text(json.dumps(row))
    print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
