"""Gymnasium's Hopper as a user fits it on one machine, what else learns from the reward, and imitation beside it.

`--part fit` takes one episode of the expert's mode, and the steps of the README: `SampledMCEIRL().fit(env, demos)` on
Gymnasium's own environment, with the machine's processors; its seconds are the user's. With `--env mjx:hopper` the
environment is MuJoCo inside JAX, for a GPU. `--linear` learns a reward that is linear in the observations, in their own
units. `--part train` gives the learned reward to a fresh Stable-Baselines3 SAC, by `envs.RewardWrapper`, which never
sees the true one, in which both are reported; `--part truth` gives it the true one. `--part imitation` runs imitation's
AIRL on the same episode for half an hour. Needs `irlax[mjx]`, and the expert of `benchmarks.quality.mujoco`.
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

PEER, OTHER = "stable-baselines3", "imitation"
FOLDER = record.ROOT / "out" / "mujoco_learned"


def fitted(name: str, folder: Path, num_envs: int, linear: bool, seed: int) -> dict[str, Any]:
    """The fit, kept in a folder, and what it took."""
    # Here, so that the peer is started from a process that is small.
    import jax

    import irlax as ix

    demos = demonstrations()
    # In metres and radians angles hardly differ, and need large weights: little is asked of slopes.
    own = {"reward": ix.RewardNet(over="s", depth=0, normalise=False), "smoothness": 0.001} if linear else {}
    estimator, options = ix.SampledMCEIRL.for_control(**own), {"num_envs": num_envs}
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
        "reward": "linear" if linear else "network",
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


def trained(fit: Path | None, scale: float, steps: int, every: int, seed: int) -> dict[str, Any]:
    """What the peer's SAC makes of a fit's reward, or of the true one."""
    expert = expert_return()
    row = venvs.ask(PEER, "hopper", fit=fit and str(fit), scale=scale, steps=steps, every=every, seed=seed)
    for name in ("returns of the best mode", "returns of the best", "returns of the last mode"):
        mean = statistics.mean(row.pop(name))
        row |= {f"mean {name}": round(mean, 1), f"share, {name}": round(mean / expert, 3)}
    about: dict[str, Any] = {"peer": PEER, "trained on": "true reward"}
    if fit is not None:
        learned = json.loads((fit.parent / "fit_row.json").read_text())
        about |= {"trained on": f"learned reward: {learned['reward']}", "scale": scale}
        about["share of the fit's own policy"] = learned["share of the policy"]
    return about | {"steps": steps, "gradient steps": steps // every, **row, "commit": record.commit()}


def imitated(folder: Path, seed: int, limit: float) -> dict[str, Any]:
    """What the other peer's AIRL gets to, from the same episode."""
    demos, path = demonstrations(), folder / "episode.npz"
    arrays = {"before": demos.observations, "after": demos.next_observations}
    np.savez(path, **arrays, actions=demos.actions, rewards=demos.rewards)
    row = venvs.ask(OTHER, "hopper", path=str(path), seed=seed, limit=limit)
    row["share of the policy"] = round(row["policy"] / expert_return(), 3)
    return {"peer": OTHER, "seconds": limit, **row, "commit": record.commit()}


def demonstrations() -> Any:
    """One episode of the expert's mode."""
    from benchmarks.quality.mujoco import demonstrated

    import irlax as ix

    return demonstrated(ix.envs.make("mujoco:hopper"), "hopper", 1)


def expert_return() -> float:
    """What that episode earned."""
    return float(demonstrations().returns.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("fit", "train", "truth", "imitation", "table"), default="fit")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "mujoco_learned.json")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the fit and the rows are kept")
    parser.add_argument("--env", default="gymnasium:Hopper-v5", help='or "mjx:hopper", on a GPU')
    parser.add_argument("--copies", type=int, default=4, help="of the environment, side by side")
    parser.add_argument("--linear", action="store_true", help="a reward that is linear in the observations")
    parser.add_argument("--scale", type=float, default=0.05, help="of the learned reward, for the peer")
    parser.add_argument("--steps", type=int, default=300_000, help="of the peer")
    parser.add_argument("--every", type=int, default=1, help="environment steps of the peer for a gradient step")
    parser.add_argument("--minutes", type=float, default=30.0, help="of imitation")
    parser.add_argument("--seed", type=int, default=200)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.part == "fit":
        row = fitted(options.env, options.folder, options.copies, options.linear, options.seed)
    elif options.part == "imitation":
        row = imitated(options.folder, options.seed, 60 * options.minutes)
    elif options.part != "table":
        fit = options.folder / "fit" if options.part == "train" else None
        row = trained(fit, options.scale, options.steps, options.every, options.seed)
    if options.part != "table":
        # A folder holds one fit, and what was made of it with several seeds.
        name = "fit" if options.part == "fit" else f"{options.part}_{options.seed}"
        (options.folder / f"{name}_row.json").write_text(json.dumps(row))
    rows = [json.loads(path.read_text()) for path in sorted(options.folder.glob("*_row.json"))]
    source = record.provenance("benchmarks.quality.mujoco_learned", "irlax", "jax", "gymnasium", "mujoco")
    peers = {name: venvs.versions(name) for name in (PEER, OTHER)}
    record.write(options.out, {**source, "peer_versions": peers, "figures": rows})
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
