"""MuJoCo inside JAX against Gymnasium's own step: from the same states, with the same actions.

States are those that random actions lead Gymnasium's environments to, so that feet touch the ground and bodies fall.
From each of them both sides take one step and ten, by the same actions. Printed are the median and the largest
difference of next observations (relative to the size of the coordinate: |a − b| / (1 + |b|), the largest over
coordinates) and of rewards, and in how many states one side terminated and the other did not. Humanoid's model asks for
MuJoCo's PGS solver, which MJX has not; "same solver" is Gymnasium's environment with its model's solver set to Newton's
method, which tells apart what is due to the solver. `--double` computes in double precision, as MuJoCo's C does.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks import record

IDS = {
    "hopper": "Hopper-v5",
    "walker2d": "Walker2d-v5",
    "halfcheetah": "HalfCheetah-v5",
    "swimmer": "Swimmer-v5",
    "ant": "Ant-v5",
    "ant-disabled": "Ant-v5",
    "humanoid": "Humanoid-v5",
}
AHEAD = (1, 10)
HELD_OUT_SEED = 7


class Start(NamedTuple):
    """A state, and ten actions from it."""

    qpos: np.ndarray
    qvel: np.ndarray
    actions: np.ndarray


class Outcome(NamedTuple):
    """Observation and reward of the last of some steps, and whether any of them terminated."""

    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray


def made(task: str, folder: Path, solver: str | None) -> Any:
    """Gymnasium's own environment, which goes on when it fell."""
    import gymnasium
    import mujoco

    from irlax.envs import disabled_ant

    options = {"xml_file": disabled_ant(folder / "disabled_ant.xml")} if task == "ant-disabled" else {}
    env = gymnasium.make(IDS[task], max_episode_steps=10**9, **options).unwrapped
    if solver == "newton":
        env.model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    return env


def starts(env: Any, num: int) -> list[Start]:
    """States met by random actions, some steps apart, in episodes of up to 100 steps."""
    rng = np.random.default_rng(HELD_OUT_SEED)
    low, high = env.action_space.low, env.action_space.high
    found: list[Start] = []
    while len(found) < num:
        env.reset(seed=int(rng.integers(2**31)))
        for time_step in range(100):
            _, _, terminated, _, _ = env.step(rng.uniform(low, high).astype(np.float32))
            if terminated:
                break
            if time_step % 7 == 0 and len(found) < num:
                actions = rng.uniform(low, high, size=(AHEAD[-1], len(low))).astype(np.float32)
                found.append(Start(env.data.qpos.copy(), env.data.qvel.copy(), actions))
    return found


def theirs(env: Any, states: list[Start], ahead: int) -> Outcome:
    """By Gymnasium, from an environment that was just reset."""
    rows = []
    for state in states:
        env.reset(seed=0)
        env.set_state(state.qpos, state.qvel)
        any_end = False
        for action in state.actions[:ahead]:
            observation, reward, terminated, _, _ = env.step(action)
            any_end |= bool(terminated)
        rows.append((observation, reward, any_end))
    return Outcome(*map(np.asarray, zip(*rows, strict=True)))


def ours(task: str, states: list[Start], options: dict[str, Any]) -> tuple[list[Outcome], float]:
    """By MJX, all states side by side; and the seconds of processor time that compilation took."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import jax.random as jr

    import irlax as ix
    from irlax.envs.mujoco.physics import Motion

    env = ix.envs.make(f"mjx:{task}", **options)

    @eqx.filter_jit
    def outcomes(env: Any, qpos: Any, qvel: Any, actions: Any) -> Any:
        def one(qpos: Any, qvel: Any, actions: Any) -> Any:
            inner = env.at(Motion(qpos, qvel, jnp.zeros_like(qvel)))

            def step(inner: Any, action: Any) -> Any:
                after = env.move(inner, action, key=jr.key(0))
                return after, (env.observe(after), env.reward_of(inner, action, after), env.ended(after))

            return jax.lax.scan(step, inner, actions)[1]

        return jax.vmap(one)(qpos, qvel, actions)

    arrays = [jnp.asarray(np.stack(column)) for column in zip(*states, strict=True)]
    began = time.process_time()
    compiled = outcomes.lower(env, *arrays).compile()
    seconds = time.process_time() - began
    seen, reward, ended = map(np.asarray, compiled(env, *arrays))
    return [Outcome(seen[:, n - 1], reward[:, n - 1], ended[:, :n].any(axis=1)) for n in AHEAD], seconds


def compared(one: Outcome, other: Outcome) -> dict[str, Any]:
    """How far apart two outcomes are."""
    off = np.abs(one.observation - other.observation) / (1 + np.abs(other.observation))
    seen, reward = off.max(axis=1), np.abs(one.reward - other.reward) / (1 + np.abs(other.reward))
    return {
        "observation": {"median": _short(np.median(seen)), "max": _short(seen.max())},
        "reward": {"median": _short(np.median(reward)), "max": _short(reward.max())},
        "terminated_otherwise": int((one.terminated != other.terminated).sum()),
    }


def _short(number: Any) -> float:
    return float(f"{float(number):.2g}")


def figures(task: str, num: int, folder: Path, double: bool, options: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each number of steps, and for each of Gymnasium's sides."""
    import jax

    states = starts(made(task, folder, None), num)
    with jax.enable_x64(double):
        by_us, seconds = ours(task, states, options)
    rows = []
    for solver in (None, "newton") if task == "humanoid" else (None,):
        env = made(task, folder, solver)
        for ahead, outcome in zip(AHEAD, by_us, strict=True):
            row = {"task": task, "precision": "float64" if double else "float32", "steps": ahead, "states": num}
            row |= {
                "options": options,
                "solver": "same" if solver else "as shipped",
                **compared(outcome, theirs(env, states, ahead)),
            }
            row["compilation_cpu_seconds"] = round(seconds, 1)
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    return rows


def _others(path: Path, tasks: list[str], precisions: list[str]) -> list[dict[str, Any]]:
    """The rows of an earlier run that this one does not measure."""
    before = json.loads(path.read_text())["figures"] if path.exists() else []
    return [row for row in before if row["task"] not in tasks or row["precision"] not in precisions]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=record.RESULTS / "mjx_parity.json")
    parser.add_argument("--tasks", nargs="*", choices=list(IDS), default=list(IDS))
    parser.add_argument("--states", type=int, default=256)
    parser.add_argument("--precisions", nargs="*", choices=("float32", "float64"), default=["float32", "float64"])
    parser.add_argument("--ls-iterations", nargs="*", type=int, help="also with other limits; 0: the model's own")
    options = parser.parse_args()
    packages = ("irlax", "jax", "gymnasium", "mujoco", "mujoco-mjx")
    source = record.provenance("benchmarks.quality.mjx_parity", *packages)
    folder = record.ROOT / "out"
    folder.mkdir(exist_ok=True)
    settings = [{}] if options.ls_iterations is None else [{"ls_iterations": n or None} for n in options.ls_iterations]
    rows = _others(options.out, options.tasks, options.precisions)
    for task in options.tasks:
        for precision in options.precisions:
            for setting in settings:
                rows += figures(task, options.states, folder, precision == "float64", setting)
                record.write(options.out, {**source, "figures": rows})
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
