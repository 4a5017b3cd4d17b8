"""What a reward that tells one demonstrated episode from bad steps gives to another episode of the same expert.

The loss is SampledMCEIRL's, for control, between an episode of the expert's mode and a fixed set of steps: of random
actions, and of the expert with so much noise that it fails. Nothing acts for the reward. With 0 for the mean reward of
the bad steps and 1 for that of the demonstrated ones, a reward that was learned by heart gives an episode that was not
shown about 0, and one that extrapolates about 1; d′ is the same difference in standard deviations, which is what a
learner can see. `--smoothness` are the weights that are tried, each times the number of inputs as the library has it.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from benchmarks import record
from benchmarks.quality.mujoco import EXPERTS, Mode, made

import irlax as ix
from irlax.envs.experience import UniformPolicy, collect_episodes
from irlax.estimators.sampled.steps import Steps, rewards_of
from irlax.networks import Normaliser
from irlax.rewards.observed import split
from irlax.rl import load_policy

#: Of the width of the box of actions.
NOISE = 0.3
UPDATES = 4000


class Noisy(eqx.Module):
    """A policy's mode, and noise."""

    policy: Any

    def sample_and_log_prob(self, observation: Any, *, key: Any) -> tuple[Any, Any]:
        box = self.policy.actions
        action = self.policy.mode(observation)
        moved = action + NOISE * (box.high - box.low) * jr.normal(key, action.shape)
        return jnp.clip(moved, box.low, box.high), jnp.zeros(())


@eqx.filter_jit
def episodes(env: Any, policy: Any, num: int, key: Any) -> Any:
    """Steps [time, episodes], and which of them come before the first end."""
    steps = collect_episodes(env, policy, num, key=key)
    return steps, jnp.cumsum(steps.terminated, axis=0) - steps.terminated == 0


def as_steps(steps: Any, wanted: Any) -> Steps:
    """Those steps, all of the same weight."""
    observation, action, after = (
        jnp.asarray(np.asarray(array)[np.asarray(wanted)])
        for array in (steps.observation, steps.action, steps.next_observation)
    )
    ones = jnp.ones(len(observation), jnp.float32)
    return Steps(observation, action, after, ones, ones)


def learned(estimator: Any, env: Any, shown: Steps, bad: Steps) -> Any:
    """The reward after so many gradient steps."""
    statistics = Normaliser.init(env.observation_size).update(shown.observation)
    start, rest = split(estimator.make_reward(statistics, env.actions, key=jr.key(0)))
    optimiser = optax.adam(estimator.learning_rate, b1=0.5)

    def descend(carry: Any, key: Any) -> tuple[Any, None]:
        parameters, state = carry

        def loss(parameters: Any) -> Any:
            return estimator.loss(eqx.combine(parameters, rest), (shown, bad), rate=1.0, key=key)[0]

        change, state = optimiser.update(jax.grad(loss)(parameters), state, parameters)
        return (eqx.apply_updates(parameters, change), state), None

    steps = eqx.filter_jit(lambda carry: jax.lax.scan(descend, carry, jr.split(jr.key(1), UPDATES))[0])
    return eqx.combine(steps((start, optimiser.init(start)))[0], rest)


def rows_of(problem: str, weights: list[float]) -> list[dict[str, Any]]:
    """A row for each weight."""
    env, expert = made(problem), load_policy(EXPERTS / f"{problem}.npz")
    own, alive = episodes(env, Mode(expert), 8, jr.key(3))
    first, second = np.flatnonzero(np.asarray(alive).all(axis=0))[:2]
    number = np.broadcast_to(np.arange(8), alive.shape)
    shown, other = as_steps(own, number == first), as_steps(own, number == second)
    parts = [episodes(env, Noisy(expert), 16, jr.key(4)), episodes(env, UniformPolicy(env.actions), 32, jr.key(5))]
    bad = jax.tree.map(lambda *arrays: jnp.concatenate(arrays), *(as_steps(*part) for part in parts))
    inputs = env.observation_size + len(env.actions.low)
    rows = []
    for weight in weights:
        reward = learned(ix.SampledMCEIRL.for_control(smoothness=weight), env, shown, bad)
        at = [np.asarray(rewards_of(reward, steps)) for steps in (shown, other, bad)]
        means, deviation = [array.mean() for array in at], np.sqrt((at[1].var() + at[2].var()) / 2)
        row: dict[str, Any] = {"problem": problem, "inputs": inputs, "smoothness": weight}
        row["not shown, of shown"] = round(float((means[1] - means[2]) / (means[0] - means[2])), 3)
        row["d prime"] = round(float((means[1] - means[2]) / deviation), 2)
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=record.RESULTS / "memorised.json")
    parser.add_argument("--problems", nargs="*", default=["hopper", "walker2d", "halfcheetah", "ant", "humanoid"])
    parser.add_argument("--smoothness", nargs="*", type=float, default=[0.00035, 0.005])
    options = parser.parse_args()
    rows = [row for problem in options.problems for row in rows_of(problem, options.smoothness)]
    source = record.provenance("benchmarks.quality.memorised", "irlax", "jax", "gymnasium", "mujoco")
    record.write(options.out, {**source, "figures": rows})
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
