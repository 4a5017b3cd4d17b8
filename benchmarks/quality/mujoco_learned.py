"""Gymnasium's Hopper as a user fits it on one machine, and Stable-Baselines3 on the reward that came out.

`--part fit` takes one episode of the expert's mode, and the steps of the README: `SampledMCEIRL().fit(env, demos)` on
Gymnasium's own environment, with the machine's processors; its seconds are the user's. With `--env mjx:hopper` the
environment is MuJoCo inside JAX, for a GPU. `--part train` gives the learned reward to a fresh Stable-Baselines3 SAC,
by `envs.RewardWrapper`: it never sees the true one, in which both are reported. Needs `irlax[mjx]`, and the expert of
`benchmarks.quality.mujoco`.
"""

import argparse
import dataclasses
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import record
from benchmarks.speed import venvs

PEER = "stable-baselines3"
FOLDER = record.ROOT / "out" / "mujoco_learned"


def fitted(name: str, folder: Path, num_envs: int, seed: int) -> dict[str, Any]:
    """The fit, kept in a folder, and what it took."""
    # Here, so that the peer is started from a process that is small.
    import jax
    from benchmarks.quality.mujoco import demonstrated

    import irlax as ix

    demos = demonstrated(ix.envs.make("mujoco:hopper"), "hopper", 1)
    estimator, options = ix.SampledMCEIRL.for_control(), {"num_envs": num_envs}
    if name.startswith("mjx:"):
        # In JAX the copies are the learner's.
        learner = dataclasses.replace(estimator.learner, num_envs=num_envs, updates=num_envs * estimator.learner.length)
        estimator, options = dataclasses.replace(estimator, learner=learner), {}
    env = ix.envs.make(name, **options)
    started = time.monotonic()
    fit = estimator.fit(env, demos, key=jax.random.key(seed))
    seconds = time.monotonic() - started
    fit.save(folder / "fit")
    return {
        "environment": name,
        "copies": num_envs,
        "seed": seed,
        "expert": round(float(demos.returns.mean()), 1),
        "steps": int(fit.history["steps"][-1]),
        "policy": round(float(np.mean(fit.returns)), 1),
        "share of the policy": round(float(np.mean(fit.returns) / demos.returns.mean()), 3),
        "seconds": round(seconds, 1),
        "processors": len(os.sched_getaffinity(0)),
        "device": jax.devices()[0].device_kind,
        "commit": record.commit(),
    }


def trained(fit: Path | None, scale: float, steps: int, seed: int) -> dict[str, Any]:
    """What the peer's SAC makes of a fit's reward, or of the true one."""
    row = venvs.ask(PEER, "hopper", fit=fit and str(fit), scale=scale, steps=steps, seed=seed)
    # Ours, for it is a share of the expert's mode that is reported of both.
    expert = json.loads((record.RESULTS / "mujoco_learned.json").read_text())["figures"][0]["expert"]
    for name in ("returns of the mode", "returns"):
        mean = statistics.mean(row.pop(name))
        row |= {f"mean {name}": round(mean, 1), f"share, {name}": round(mean / expert, 3)}
    reward = "learned" if fit else "true"
    return {"peer": PEER, "reward": reward, "scale": scale, "steps": steps, **row, "commit": record.commit()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("fit", "train", "table"), default="fit")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "mujoco_learned.json")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the fit and the rows are kept")
    parser.add_argument("--env", default="gymnasium:Hopper-v5", help='or "mjx:hopper", on a GPU')
    parser.add_argument("--copies", type=int, default=4, help="of the environment, side by side")
    parser.add_argument("--steps", type=int, default=300_000, help="of the peer")
    parser.add_argument("--seed", type=int, default=200)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.part == "fit":
        row = fitted(options.env, options.folder, options.copies, options.seed)
        (options.folder / "fit_row.json").write_text(json.dumps(row))
    elif options.part == "train":
        row = trained(options.folder, options.steps, options.seed)
        (options.folder / f"train_{options.seed}_row.json").write_text(json.dumps(row))
    rows = [json.loads(path.read_text()) for path in sorted(options.folder.glob("*_row.json"))]
    source = record.provenance("benchmarks.quality.mujoco_learned", "irlax", "jax", "gymnasium", "mujoco")
    record.write(options.out, {**source, "peer_versions": venvs.versions(PEER), "figures": rows})
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
