"""MuJoCo: from 1, 4 or 16 episodes of converged experts that act by their mode.

`--part experts` trains an expert for each problem by SAC on the true reward, a few seeds side by side, and keeps the
policy whose mode earns most in benchmarks/experts; `--part fits` learns from its mode, every estimator as it comes, all
seeds side by side; `--part table` writes what is there, and draws the curves. Everything goes on from where it was
stopped: a run takes `--minutes`, and the same command is given again until it says that nothing is left. A share is the
mean true return of the final policy over that of the expert's mode, for the policy itself (64 episodes) and for its
mode (16). Over seeds the table has the interquartile mean with a 95% bootstrap interval. Environments are
`mujoco:NAME`, Gymnasium's of version 5 to the last digit of a step. Needs `irlax[mjx]`.
"""

import argparse
import dataclasses
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from benchmarks import figures, record
from benchmarks.quality.imitation import bootstrapped

import irlax as ix
from irlax.envs.experience import collect_episodes
from irlax.reproduce.imitation import interquartile_mean

#: Environment steps of a fit, and of the expert.
PROBLEMS = {
    "hopper": (1_000_000, 1_000_000),
    "walker2d": (1_500_000, 2_000_000),
    "halfcheetah": (1_500_000, 2_000_000),
    "ant": (1_500_000, 3_000_000),
    "humanoid": (3_000_000, 5_000_000),
}
METHODS = ("SampledMCEIRL", "AIRL", "GAIL", "BehaviouralCloning")
EPISODES = (1, 4, 16)
#: Shares of the expert as others print them: problem, then method, demonstrated episodes and share. IQ-Learn: Garg et
#: al. (2021); f-IRL: Ni et al. (2020); ML-IRL: Zeng et al. (2022); imitation's AIRL: Gleave et al. (2022).
PUBLISHED = {
    "hopper": {"IQ-Learn, 1": 1.00, "f-IRL, 1": 0.93, "ML-IRL, 5": 0.93, "AIRL of imitation": 0.92},
    "walker2d": {"IQ-Learn, 1": 0.97, "f-IRL, 1": 0.90, "ML-IRL, 5": 0.86, "AIRL of imitation": 0.46},
    "halfcheetah": {"IQ-Learn, 1": 1.00, "f-IRL, 1": 0.94, "ML-IRL, 5": 0.96, "AIRL of imitation": 0.63},
    "ant": {"IQ-Learn, 1": 0.93, "f-IRL, 1": 0.82, "ML-IRL, 5": 0.88, "AIRL of imitation": 0.98},
    "humanoid": {"IQ-Learn, 1": 0.98, "ML-IRL, 5": 0.99},
}
#: Options of environments. Gym's Ant and Humanoid observed contact forces that were always zero with MuJoCo 2.0 (its
#: GitHub issue 1541); with which version published figures were made is seldom said.
OPTIONS = {name: {"include_cfrc_ext_in_observation": False} for name in ("ant", "humanoid")}
EXPERTS = record.ROOT / "benchmarks" / "experts"
#: A step of Humanoid's replay takes 2.3 kB, for each seed.
CAPACITY = {"humanoid": 800_000}
HELD_OUT_KEY = 100


def made(problem: str) -> Any:
    """The environment of a problem."""
    return ix.envs.make(f"mujoco:{problem}", **OPTIONS.get(problem, {}))


class Mode(eqx.Module):
    """A policy that always takes the most likely action."""

    policy: Any

    def sample_and_log_prob(self, observation: Any, *, key: Any) -> tuple[Any, Any]:
        return self.policy.mode(observation), jnp.zeros(())


@eqx.filter_jit
def returns_of(env: Any, policy: Any, num: int, key: Any) -> Any:
    """The true returns of whole episodes, until their first end."""
    steps = collect_episodes(env, policy, num, key=key)
    over = jnp.cumsum(steps.terminated, axis=0) - steps.terminated > 0
    return jnp.where(over, 0.0, steps.reward).sum(axis=0)


class Work(NamedTuple):
    """The fits of one table row, and until when they may take."""

    problem: str
    method: str
    episodes: int
    seeds: int
    folder: Path
    deadline: float
    steps: int
    #: The memory of the estimators in rounds, in place of their own.
    recent: int | None = None
    #: Whether learning rates fall to 0 until the deadline, where the fits end, in place of a checkpoint to go on from.
    once: bool = False

    @property
    def name(self) -> str:
        return f"{self.method}_{self.problem}_{self.episodes}"

    @property
    def done(self) -> Path:
        return self.folder / f"{self.name}.json"


class Clock:
    """A callback that stops at the deadline, and keeps seconds of all slices beside the run."""

    def __init__(self, path: Path, deadline: float) -> None:
        self._path, self._deadline = path, deadline
        self.lines = json.loads(path.read_text()) if path.exists() else []
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


def learner_of_truth(capacity: int, updates: int = 512) -> Any:
    """SAC for a true reward, with so many gradient steps for 512 steps of the environment."""
    return ix.rl.SAC(
        temperature="auto",
        num_envs=32,
        length=16,
        updates=updates,
        width=256,
        capacity=capacity,
        learning_rate=3e-4,
        tau=0.005,
        explore=0.0,
    )


class Training(NamedTuple):
    """How an expert is trained: environment steps, seeds side by side, and gradient steps for 512 steps."""

    steps: int
    seeds: int
    updates: int


def trained(problem: str, how: Training, folder: Path, deadline: float) -> None:
    """An expert by SAC on the true reward; its file once it has all its steps."""
    env = made(problem)
    learner = learner_of_truth(min(CAPACITY.get(problem, 2**20), 2**20), how.updates)
    run = ix.RunFolder(folder / f"expert_{problem}.run", resume=True, checkpoint_every=120)
    clock = Clock(folder / f"expert_{problem}.seconds.json", deadline)
    result = learner.train(
        env, key=jr.key(0), steps=how.steps, seeds=how.seeds, run=run, callback=clock, progress=False
    )
    if not result.status.success:
        return
    policies = [jax.tree.map(lambda leaf, k=k: leaf[k], result.policy) for k in range(how.seeds)]
    returns = [float(returns_of(env, Mode(policy), 16, jr.key(1)).mean()) for policy in policies]
    best = int(np.argmax(returns))
    about = {"learner": "SAC", "environment": f"mujoco:{problem}", **how._asdict(), "return of its mode": returns[best]}
    EXPERTS.mkdir(exist_ok=True)
    ix.rl.save_policy(EXPERTS / f"{problem}.npz", policies[best], **about)
    _tell({"expert": problem, "returns of modes": np.round(returns, 1).tolist()})


def demonstrated(env: Any, problem: str, episodes: int) -> Any:
    """Whole episodes of the expert's mode: a demonstrator does not show a fall, but Humanoid's has them."""
    expert = ix.rl.load_policy(EXPERTS / f"{problem}.npz")
    mode = eqx.filter_jit(lambda observation, key: expert.mode(observation))
    demos = ix.envs.collect(env, mode, max(EPISODES), key=jr.key(1))
    whole = np.flatnonzero(demos.lengths == env.horizon)
    if len(whole) < episodes:
        raise SystemExit(f"Of {demos.num_episodes} episodes {len(whole)} are whole, and {episodes} are to be shown.")
    return demos.select(whole[:episodes].tolist())


def fitted(work: Work) -> None:
    """The fits of a row, or a slice of them; what their policies earn once they are finished."""
    env = made(work.problem)
    demos = demonstrated(env, work.problem, work.episodes)
    clock = Clock(work.folder / f"{work.name}.seconds.json", math.inf if work.once else work.deadline)
    key, estimator, more = jr.key(HELD_OUT_KEY), getattr(ix, work.method)(), {}
    if work.method == "BehaviouralCloning":
        fits = [estimator.fit(env, demos, key=jr.fold_in(key, seed)) for seed in range(work.seeds)]
    else:
        estimator = estimator.for_problem(env)
        num = (work.steps or PROBLEMS[work.problem][0]) // estimator.rounds.steps
        capacity = min(CAPACITY.get(work.problem, num * estimator.rounds.steps), estimator.learner.capacity)
        minutes = (work.deadline - time.time()) / 60 if work.once else None
        estimator = dataclasses.replace(
            estimator,
            rounds=dataclasses.replace(estimator.rounds, num=num, minutes=minutes),
            learner=dataclasses.replace(estimator.learner, capacity=capacity),
            recent=work.recent or estimator.recent,
            progress=False,
        )
        kept = ix.RunFolder(work.folder / f"{work.name}.run", resume=True, checkpoint_every=120)
        fits = estimator.fit_many(env, demos, num=work.seeds, key=key, callback=clock, run=None if work.once else kept)
        if fits[0].status is ix.Status.INTERRUPTED:
            return
    clock.add(int(fits[0].history["steps"][-1]))
    more["seconds"] = clock.lines
    rows = [scored(work, seed, fit, env, demos) | more for seed, fit in enumerate(fits)]
    for seed, fit in enumerate(fits):
        fit.save(work.folder / f"{work.name}_{seed}.fit")
    work.done.write_text(json.dumps(rows))
    _tell(summed(rows)[0])


def scored(work: Work, seed: int, fit: Any, env: Any, demos: Any) -> dict[str, Any]:
    """What the policy earns, and the way there."""
    returns = {"policy": fit.returns, "mode": returns_of(env, Mode(fit.policy), 16, jr.key(1))}
    row: dict[str, Any] = {name: getattr(work, name) for name in ("problem", "method", "episodes")}
    row |= {"seed": seed, "expert": float(demos.returns.mean()), "steps": int(fit.history["steps"][-1])}
    for name, each in returns.items():
        row |= {
            name: round(float(np.mean(each)), 1),
            f"share of the {name}": round(float(np.mean(each) / demos.returns.mean()), 3),
        }
    row |= {"log_likelihood": fit.log_likelihood / demos.num_steps, "commit": record.commit()}
    row["device"] = jax.devices()[0].device_kind
    if "return" in fit.history:
        parts = np.array_split(np.arange(len(fit.history)), min(50, len(fit.history)))
        means = [np.nanmean(np.append(fit.history["return"][part], np.nan)) for part in parts]
        steps = [int(fit.history["steps"][part[-1]]) for part in parts]
        # Where no episode ended there is no return.
        row["curve"] = {"steps": steps, "return": [round(float(x), 1) if np.isfinite(x) else None for x in means]}
    return row


def place_of(row: dict[str, Any]) -> tuple[str, str, int, int]:
    """What the fits of one line of the table have in common."""
    return row["problem"], row["method"], row["episodes"], row["steps"]


def summed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Over seeds, beside what others print."""
    table = []
    for place in sorted({place_of(row) for row in rows}):
        own = [row for row in rows if place_of(row) == place]
        line: dict[str, Any] = dict(zip(("problem", "method", "episodes", "steps"), place, strict=True))
        line["seeds"] = len(own)
        for which in ("policy", "mode"):
            shares = np.array([row[f"share of the {which}"] for row in own])
            line[f"share of the {which}"] = round(interquartile_mean(shares), 3)
            line[f"interval of the {which}"] = bootstrapped(shares)
            line[f"lowest of the {which}"] = float(shares.min())
        table.append(line | {"published": PUBLISHED[place[0]]})
    return table


def drawn(rows: list[dict[str, Any]]) -> Any:
    """The return of the policies while they are learned, as a share of the expert's: the mean and range over seeds."""
    panels: dict[str, dict[str, figures.Curve]] = {}
    for place in sorted({place_of(row) for row in rows if "curve" in row}):
        own = [row for row in rows if place_of(row) == place]
        shares = np.array([row["curve"]["return"] for row in own], float) / own[0]["expert"]
        known = np.isfinite(shares).any(axis=0)
        points = {"steps": np.asarray(own[0]["curve"]["steps"])[known].tolist()}
        for name, over in (("mean", np.nanmean), ("low", np.nanmin), ("high", np.nanmax)):
            points[name] = over(shares[:, known], axis=0).tolist()
        # Of several numbers of steps the largest, which comes last.
        panels.setdefault(f"{place[0]}, {place[2]} demonstrated", {})[place[1]] = points
    return figures.curves(panels, dict.fromkeys(panels, 1.0), ylabel="share of the expert's return", xscale="linear")


def _tell(line: dict[str, Any]) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("experts", "fits", "table"), default="fits")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "mujoco.json")
    parser.add_argument("--folder", type=Path, default=record.ROOT / "out" / "mujoco", help="runs and rows")
    parser.add_argument("--problems", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument("--episodes", nargs="*", type=int, choices=EPISODES, default=[1])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--expert-seeds", type=int, default=3, help="side by side, of which the best is kept")
    parser.add_argument("--expert-updates", type=int, default=512, help="gradient steps for 512 steps of an expert")
    parser.add_argument("--steps", type=int, help="of each fit or expert, in place of the problem's own")
    parser.add_argument("--recent", type=int, help="rounds that rewards are learned from; say another --folder, too")
    parser.add_argument("--minutes", type=float, default=8.0, help="after which no more rounds are begun")
    parser.add_argument("--once", action="store_true", help="no checkpoints: all is learned in the minutes")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    deadline = time.time() + 60 * options.minutes
    for problem in options.problems if options.part == "experts" else ():
        if time.time() < deadline and not (EXPERTS / f"{problem}.npz").exists():
            how = Training(options.steps or PROBLEMS[problem][1], options.expert_seeds, options.expert_updates)
            trained(problem, how, options.folder, deadline)
    steps = options.steps or 0
    work = [
        Work(problem, method, each, options.seeds, options.folder, deadline, steps, options.recent, options.once)
        for each in options.episodes
        for problem in options.problems
        for method in options.methods
        if options.part == "fits" and (EXPERTS / f"{problem}.npz").exists()
    ]
    for each in work:
        if time.time() < deadline and not each.done.exists():
            fitted(each)
    if work:
        _tell({"left": [each.name for each in work if not each.done.exists()]})
    rows = [row for path in sorted(options.folder.glob("[A-Z]*_*_*[0-9].json")) for row in json.loads(path.read_text())]
    if rows:
        source = record.provenance("benchmarks.quality.mujoco", "irlax", "jax", "gymnasium", "mujoco")
        record.write(options.out, {**source, "table": summed(rows), "figures": rows})
        if any("curve" in row for row in rows):
            figures.save(drawn(rows), options.folder / "curves.png")
        print(json.dumps(summed(rows), indent=1))


if __name__ == "__main__":
    main()
