"""Imitation in MuJoCo through Gymnasium: HalfCheetah and Hopper, fixed horizon, experts made here.

Episodes have 1,000 steps; Hopper goes on when it has fallen (`terminate_when_unhealthy=False`), so that an episode's
length says nothing. `--expert` trains an expert by PPO on the true reward and keeps twenty episodes of it below out/;
without it, rewards are learned from those. A score is (R − R_random) / (R_expert − R_random) of the mean true return of
the final, stochastic policy over 64 episodes. Published for imitation: AIRL .627 (HalfCheetah) and .921 (Hopper), GAIL
.963 and .935. Needs `irlax[envs]`.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import record
from benchmarks.quality.imitation import bootstrapped

from irlax.reproduce.imitation import interquartile_mean

PROBLEMS = {"HalfCheetah-v5": {}, "Hopper-v5": {"terminate_when_unhealthy": False, "fixed_horizon": True}}
METHODS = ("AIRL", "SampledMCEIRL", "GAIL")
PUBLISHED = {
    ("AIRL", "HalfCheetah-v5"): 0.627,
    ("AIRL", "Hopper-v5"): 0.921,
    ("GAIL", "HalfCheetah-v5"): 0.963,
    ("GAIL", "Hopper-v5"): 0.935,
}
COPIES = 16
#: What PPO wants here: smaller and more steps on longer rounds than in the small problems.
PPO_HERE: dict[str, Any] = {"epochs": 10, "minibatches": 32, "learning_rate": 3e-4, "max_kl": 0.05, "explore": 0.0}
#: What the figures here were made with. It has not been tuned; the small problems want more of it.
PENALTY_HERE = 0.3
HELD_OUT_KEY = 100


def made(problem: str) -> Any:
    import irlax as ix

    return ix.envs.make(f"gymnasium:{problem}", num_envs=COPIES, **PROBLEMS[problem])


def expert(problem: str, folder: Path, steps: int) -> None:
    """Twenty episodes of what PPO learned from the true reward."""
    import jax.random as jr

    import irlax as ix

    env = made(problem)
    learner = ix.rl.PPO(temperature=0.01, num_envs=COPIES, length=512, **PPO_HERE)
    result = learner.train(env, key=jr.key(0), steps=steps, progress=False)
    demos = ix.envs.collect(env, result.policy, 20, key=jr.key(1))
    folder.mkdir(parents=True, exist_ok=True)
    ix.write_demos(folder / f"{problem}.npz", demos)
    print(problem, f"expert: {demos.returns.mean():.0f} ± {demos.returns.std():.0f}", file=sys.stderr, flush=True)


def imitated(method: str, problem: str, seed: int, folder: Path, rounds: int) -> dict[str, Any]:
    """One fit, and what its policy earns."""
    import jax.random as jr

    import irlax as ix

    env, demos = made(problem), ix.read_demos(folder / f"{problem}.npz")
    temperature = 0.01 if method == "GAIL" else 1.0
    learner = ix.rl.PPO(temperature=temperature, **PPO_HERE)
    penalty = {"penalty": PENALTY_HERE} if method == "SampledMCEIRL" else {}
    limits = ix.Rounds(num=rounds, episodes=COPIES, tol=0.0)
    estimator = getattr(ix, method)(learner=learner, rounds=limits, **penalty)
    began = time.perf_counter()
    fit = estimator.fit(env, demos, key=jr.key(HELD_OUT_KEY + seed), progress=False)
    found = {
        "method": method,
        "problem": problem,
        "seed": seed,
        "return": round(float(fit.returns.mean()), 1),
        "expert": round(float(demos.returns.mean()), 1),
        "random": round(float(fit.history["return"][0]), 1),
        "environment_steps": int(fit.history["steps"][-1]),
        "seconds": round(time.perf_counter() - began, 1),
        "curve": np.round(fit.history["return"][:: max(1, rounds // 30)], 1).tolist(),
    }
    found["score"] = round((found["return"] - found["random"]) / (found["expert"] - found["random"]), 3)
    print({name: found[name] for name in found if name != "curve"}, file=sys.stderr, flush=True)
    return found


def summed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Over seeds."""
    table = []
    for place in sorted({(row["method"], row["problem"]) for row in rows}):
        scores = np.array([row["score"] for row in rows if (row["method"], row["problem"]) == place])
        table.append(
            {
                "method": place[0],
                "problem": place[1],
                "score": round(interquartile_mean(scores), 3),
                "interval": bootstrapped(scores),
                "published for imitation": PUBLISHED.get(place),
            }
        )
    return table


def _expert(work: tuple[Any, ...]) -> None:
    expert(*work)


def _imitated(work: tuple[Any, ...]) -> dict[str, Any]:
    return imitated(*work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=record.RESULTS / "mujoco.json")
    parser.add_argument("--demos", type=Path, default=record.ROOT / "out" / "mujoco", help="folder of the experts")
    parser.add_argument("--expert", action="store_true", help="train the experts first")
    parser.add_argument("--expert-steps", type=int, default=3_000_000)
    parser.add_argument("--problems", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    source = record.provenance("benchmarks.quality.mujoco", "irlax", "jax", "gymnasium", "mujoco")
    if options.expert:
        for _ in record.spread(_expert, [(name, options.demos, options.expert_steps) for name in options.problems], 2):
            pass
    work = [
        (method, problem, seed, options.demos, options.rounds)
        for problem in options.problems
        for method in options.methods
        for seed in range(options.seeds)
    ]
    rows: list[dict[str, Any]] = []
    for row in record.spread(_imitated, work, options.workers):
        rows.append(row)
        record.write(options.out, {**source, "table": summed(rows), "figures": rows})
    print(json.dumps(summed(rows), indent=1))


if __name__ == "__main__":
    main()
