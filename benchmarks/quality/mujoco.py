"""MuJoCo through Gymnasium: from 1, 4 or 16 episodes of converged experts that act by their mode.

`--part experts` trains an expert for each problem by SAC on the true reward, and keeps sixteen episodes of its mode
below out/mujoco; `--part fits` learns from those, every estimator as it comes; `--part table` writes what is there.
Everything goes on from where it was stopped: a run takes `--minutes`, and the same command is given again until it says
that nothing is left. Each fit has a process and a core of its own. A share is the mean true return of the final policy,
over that of the demonstrations, for the policy itself (64 episodes) and for its mode. Over seeds the table has the
interquartile mean with a 95% bootstrap interval. Needs `irlax[envs]`.
"""

import argparse
import dataclasses
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks import record
from benchmarks.quality.imitation import bootstrapped

from irlax.reproduce.imitation import interquartile_mean

#: Environment steps of a fit, and of the expert.
PROBLEMS = {
    "Hopper-v5": (1_000_000, 2_000_000),
    "Walker2d-v5": (1_500_000, 3_000_000),
    "HalfCheetah-v5": (1_500_000, 3_000_000),
    "Ant-v5": (1_500_000, 3_000_000),
    "Humanoid-v5": (3_000_000, 5_000_000),
}
METHODS = ("SampledMCEIRL", "AIRL", "GAIL", "BehaviouralCloning")
EPISODES = (1, 4, 16)
#: Shares of the expert as others print them: problem, then method, demonstrated episodes and share. IQ-Learn: Garg et
#: al. (2021); f-IRL: Ni et al. (2020); ML-IRL: Zeng et al. (2022); imitation's AIRL: Gleave et al. (2022).
PUBLISHED = {
    "Hopper-v5": {"IQ-Learn, 1": 1.00, "f-IRL, 1": 0.93, "ML-IRL, 5": 0.93, "AIRL of imitation": 0.92},
    "Walker2d-v5": {"IQ-Learn, 1": 0.97, "f-IRL, 1": 0.90, "ML-IRL, 5": 0.86, "AIRL of imitation": 0.46},
    "HalfCheetah-v5": {"IQ-Learn, 1": 1.00, "f-IRL, 1": 0.94, "ML-IRL, 5": 0.96, "AIRL of imitation": 0.63},
    "Ant-v5": {"IQ-Learn, 1": 0.93, "f-IRL, 1": 0.82, "ML-IRL, 5": 0.88, "AIRL of imitation": 0.98},
    "Humanoid-v5": {"IQ-Learn, 1": 0.98, "ML-IRL, 5": 0.99},
}
COPIES = 4
#: A replay of Humanoid's observations takes 2.9 kB a step, and is part of every checkpoint.
CAPACITY = {"Humanoid-v5": 300_000}
HELD_OUT_KEY = 100


class Work(NamedTuple):
    """One fit, or one expert if there is no method, and until when it may take."""

    problem: str
    method: str
    episodes: int
    seed: int
    folder: Path
    deadline: float
    steps: int

    @property
    def name(self) -> str:
        parts = (self.method or "expert", self.problem, self.episodes, self.seed)
        return "_".join(map(str, parts if self.method else parts[:2]))

    @property
    def done(self) -> Path:
        return self.folder / f"{self.name}.json" if self.method else self.folder / f"{self.problem}.npz"


class Clock:
    """A callback that stops at the deadline, and keeps seconds of all slices beside the run."""

    def __init__(self, work: Work) -> None:
        self._path, self._deadline = work.folder / f"{work.name}.seconds.json", work.deadline
        self.lines = json.loads(self._path.read_text()) if self._path.exists() else []
        self._before = self.lines[-1][1] if self.lines else 0.0
        self._began = time.monotonic()

    def __call__(self, iterate: Any) -> bool:
        stop = time.time() > self._deadline
        if stop or not self.lines or iterate.step >= self.lines[-1][0] + 10_000:
            self.add(iterate.step)
        if stop:
            self._path.write_text(json.dumps(self.lines))
        return stop

    def add(self, step: int) -> None:
        """The seconds until this step."""
        self.lines.append([step, round(self._before + time.monotonic() - self._began, 1)])


def trained(work: Work) -> None:
    """An expert by SAC on the true reward; its file once it has all its steps."""
    import equinox as eqx
    import jax.random as jr

    import irlax as ix

    env = ix.envs.make(f"gymnasium:{work.problem}", num_envs=COPIES)
    learner = ix.rl.SAC(
        temperature="auto",
        num_envs=COPIES,
        length=128,
        updates=512,
        width=256,
        capacity=min(CAPACITY.get(work.problem, 2**20), 2**20),
        learning_rate=3e-4,
        tau=0.005,
        explore=0.0,
    )
    run = ix.RunFolder(work.folder / f"{work.name}.run", resume=True, checkpoint_every=120)
    key, steps = jr.key(0), work.steps or PROBLEMS[work.problem][1]
    result = learner.train(env, key=key, steps=steps, run=run, callback=Clock(work), progress=False)
    if not result.status.success:
        return
    mode = eqx.filter_jit(lambda observation, key: result.policy.mode(observation))
    demos = ix.envs.collect(env, mode, max(EPISODES), key=jr.key(1))
    ix.write_demos(work.done, demos)
    _tell({"expert": work.problem, "return": float(demos.returns.mean()), "sd": float(demos.returns.std())})


def fitted(work: Work) -> None:
    """One fit, or a slice of it; what its policy earns once it is finished."""
    import jax.random as jr

    import irlax as ix

    demos = ix.read_demos(work.folder / f"{work.problem}.npz").select(range(work.episodes))
    env = ix.envs.make(f"gymnasium:{work.problem}", num_envs=COPIES)
    estimator, options = getattr(ix, work.method)(), {}
    if work.method != "BehaviouralCloning":
        estimator = estimator.for_problem(env)
        rounds = dataclasses.replace(
            estimator.rounds, num=(work.steps or PROBLEMS[work.problem][0]) // estimator.rounds.steps
        )
        learner = dataclasses.replace(
            estimator.learner, capacity=min(CAPACITY.get(work.problem, 2**20), estimator.learner.capacity)
        )
        estimator = dataclasses.replace(estimator, rounds=rounds, learner=learner, progress=False)
        options["run"] = ix.RunFolder(work.folder / f"{work.name}.run", resume=True, checkpoint_every=120)
    clock = Clock(work)
    fit = estimator.fit(env, demos, key=jr.key(HELD_OUT_KEY + work.seed), callback=clock, **options)
    if fit.status is ix.Status.INTERRUPTED:
        return
    clock.add(int(fit.history["steps"][-1]))
    row = scored(work, fit, env, demos, clock)
    work.done.write_text(json.dumps(row))
    _tell({name: value for name, value in row.items() if name != "curve"})


def scored(work: Work, fit: Any, env: Any, demos: Any, clock: Clock) -> dict[str, Any]:
    """What the policy earns, and the way there."""
    import equinox as eqx
    import jax.random as jr

    import irlax as ix

    mode = eqx.filter_jit(lambda observation, key: fit.policy.mode(observation))
    returns = {"policy": fit.returns, "mode": ix.envs.collect(env, mode, 16, key=jr.key(1)).returns}
    row: dict[str, Any] = {name: getattr(work, name) for name in ("problem", "method", "episodes", "seed")}
    row |= {"expert": float(demos.returns.mean()), "steps": int(fit.history["steps"][-1])}
    row |= {name: round(float(each.mean()), 1) for name, each in returns.items()}
    row |= {
        f"share of the {name}": round(float(each.mean() / demos.returns.mean()), 3) for name, each in returns.items()
    }
    row |= {"log_likelihood": fit.log_likelihood / demos.num_steps, "commit": record.commit(), "seconds": clock.lines}
    if "return" in fit.history:
        parts = np.array_split(np.arange(len(fit.history)), min(50, len(fit.history)))
        means = [np.nanmean(np.append(fit.history["return"][part], np.nan)) for part in parts]
        steps = [int(fit.history["steps"][part[-1]]) for part in parts]
        row["curve"] = {"steps": steps, "return": np.round(means, 1).tolist()}
    return row


def summed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Over seeds, beside what others print."""
    table = []
    for place in sorted({(row["problem"], row["method"], row["episodes"]) for row in rows}):
        own = [row for row in rows if (row["problem"], row["method"], row["episodes"]) == place]
        line: dict[str, Any] = dict(zip(("problem", "method", "episodes"), place, strict=True)) | {"seeds": len(own)}
        for which in ("policy", "mode"):
            shares = np.array([row[f"share of the {which}"] for row in own])
            line[f"share of the {which}"] = round(interquartile_mean(shares), 3)
            line[f"interval of the {which}"] = bootstrapped(shares)
        table.append(line | {"published": PUBLISHED[place[0]]})
    return table


def _one(work: Work) -> None:
    # A core each: otherwise every process would use all of them.
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[multiprocessing.current_process()._identity[0] % len(cores)]})
    if time.time() < work.deadline:
        (fitted if work.method else trained)(work)


def _tell(line: dict[str, Any]) -> None:
    print(line, file=sys.stderr, flush=True)


def planned(options: argparse.Namespace) -> list[Work]:
    """What is left to do, seed by seed, so that early slices say something about every problem."""
    rest = (options.folder, time.time() + 60 * options.minutes, options.steps or 0)
    if options.part == "experts":
        work = [Work(problem, "", 0, 0, *rest) for problem in options.problems]
    else:
        work = [
            Work(problem, method, episodes, seed, *rest)
            for seed in range(options.seeds)
            for episodes in options.episodes
            for problem in options.problems
            for method in options.methods
            if (options.folder / f"{problem}.npz").exists()
        ]
    return [each for each in work if not each.done.exists()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("experts", "fits", "table"), default="fits")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "mujoco.json")
    parser.add_argument("--folder", type=Path, default=record.ROOT / "out" / "mujoco", help="experts, runs and rows")
    parser.add_argument("--problems", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--episodes", nargs="*", type=int, choices=EPISODES, default=[1])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="of each fit or expert, in place of the problem's own")
    parser.add_argument("--minutes", type=float, default=8.0, help="after which no more rounds are begun")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.part != "table":
        for _ in record.spread(_one, planned(options), options.workers):
            pass
        _tell({"left": [work.name for work in planned(options)]})
    rows = [
        json.loads(path.read_text())
        for path in sorted(options.folder.glob("*-v5_*_*.json"))
        if "seconds" not in path.name
    ]
    if rows:
        source = record.provenance("benchmarks.quality.mujoco", "irlax", "jax", "gymnasium", "mujoco")
        record.write(options.out, {**source, "table": summed(rows), "figures": rows})
        print(json.dumps(summed(rows), indent=1))


if __name__ == "__main__":
    main()
