"""Transfer of a reward of states: learned on the whole Ant, used on one with two legs disabled and shrunk.

After Fu, Luo and Levine (2018), section 7.2. The task has no ends: 500 steps, forward speed less .01 of the squared
actions (and the contacts' cost, which Gymnasium's Ant has), 27 observations without positions and contact forces. An
expert by SAC acts by its mode on the whole Ant. From its episodes a reward over states is learned, for each seed; on
the disabled Ant a fresh SAC learns from that reward, and another from the true one, with the same settings. A share is
the mean true return of the former over that of the latter. Published, in the tasks of their time: the truth earns 315
to 320, rewards of AIRL 130 (Fu et al. 2018), of f-IRL 156 (Ni et al. 2020) and of ML-IRL 188 (Zeng et al. 2022).
"""

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from benchmarks import record
from benchmarks.quality.imitation import bootstrapped
from benchmarks.quality.mujoco import EXPERTS, HELD_OUT_KEY, Mode, learner_of_truth, returns_of

import irlax as ix
from irlax.reproduce.imitation import interquartile_mean
from irlax.rewards import ScaledObservedReward

OPTIONS = {
    "horizon": 500,
    "healthy_reward": 0.0,
    "terminate_when_unhealthy": False,
    "ctrl_cost_weight": 0.01,
    "include_cfrc_ext_in_observation": False,
}
#: Rewards by name: linear in the observations, where no speed of the whole Ant is the best one, or a network. They read
#: metres and radians or, normalised, the demonstrations' standard deviations, of which those of height and orientation
#: are so small that an Ant that stands in another way is far from everything.
REWARDS = {
    "linear": ix.RewardNet(over="s", depth=0, normalise=False),
    "linear, normalised": ix.RewardNet(over="s", depth=0),
    "network": ix.RewardNet(over="s", width=128, normalise=False),
    "network, normalised": ix.RewardNet(over="s", width=128),
}
PUBLISHED = {"truth": [315, 320], "AIRL": 130, "f-IRL": 156, "ML-IRL": 188}


class InItsUnit(eqx.Module):
    """A learned reward whose unit is an array, so that rewards in different units can lie side by side."""

    reward: Any
    factor: Any

    @classmethod
    def of(cls, reward: Any) -> "InItsUnit":
        """A reward as a fit has it."""
        scaled = isinstance(reward, ScaledObservedReward)
        return cls(reward.base if scaled else reward, jnp.asarray(reward.factor if scaled else 1.0, jnp.float32))

    def __call__(self, observation: Any, action: Any, next_observation: Any) -> Any:
        return self.factor * self.reward(observation, action, next_observation)


def ant(name: str) -> Any:
    """The environment, "ant" or "ant-disabled"."""
    return ix.envs.make(f"mujoco:{name}", **OPTIONS)


def trained(env: Any, rewards: Any, num: int, steps: int, seed: int) -> Any:
    """Policies of as many agents, each by its own reward; with None, all by the true one."""
    sac = learner_of_truth(steps, updates=256)

    @eqx.filter_jit
    def init(keys: Any) -> Any:
        return eqx.filter_vmap(lambda key: sac.init(env, key=key))(keys)

    @eqx.filter_jit(donate="all-except-first")
    def step(fixed: tuple[Any, Any], states: Any) -> Any:
        reward, rate = fixed
        return eqx.filter_vmap(lambda state, own: sac.step(env, state, own, rate=rate)[0])(states, reward)

    states = init(jr.split(jr.key(seed), num))
    rounds = steps // sac.steps_per_round
    for number in range(rounds):
        states = step((rewards, jnp.asarray(1 - number / rounds, jnp.float32)), states)
    return states.policy


def earned(env: Any, policies: Any, num: int) -> dict[str, list[float]]:
    """The mean true returns of each policy and of its mode."""
    each = [jax.tree.map(lambda leaf, k=k: leaf[k], policies) for k in range(num)]
    returns = {
        name: [float(returns_of(env, how(policy), 16, jr.key(1)).mean()) for policy in each]
        for name, how in (("policy", lambda policy: policy), ("mode", Mode))
    }
    return {name: np.round(values, 1).tolist() for name, values in returns.items()}


def learned(name: str, episodes: int, num: int, steps: int) -> tuple[Any, dict[str, Any]]:
    """Rewards over states from the expert's episodes, one for each seed, side by side as one."""
    env = ant("ant")
    expert = ix.rl.load_policy(EXPERTS / "ant_transfer.npz")
    mode = eqx.filter_jit(lambda observation, key: expert.mode(observation))
    demos = ix.envs.collect(env, mode, episodes, key=jr.key(1))
    estimator = ix.SampledMCEIRL.for_control(reward=REWARDS[name])
    estimator = dataclasses.replace(
        estimator,
        rounds=dataclasses.replace(estimator.rounds, num=steps // estimator.rounds.steps),
        learner=dataclasses.replace(estimator.learner, capacity=steps),
        progress=False,
    )
    fits = estimator.fit_many(env, demos, num=num, key=jr.key(HELD_OUT_KEY))
    rewards = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(InItsUnit.of(fit.reward) for fit in fits))
    shares = [round(float(np.mean(fit.returns) / demos.returns.mean()), 3) for fit in fits]
    return rewards, {"expert": round(float(demos.returns.mean()), 1), "shares where learned": shares}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=record.RESULTS / "mujoco_transfer.json")
    parser.add_argument("--folder", type=Path, default=record.ROOT / "out" / "mujoco_transfer", help="rows")
    parser.add_argument("--rewards", nargs="*", choices=["truth", *REWARDS], default=["truth", "linear"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=16, help="of the expert")
    parser.add_argument("--steps", type=int, default=307_200, help="for learning a reward")
    parser.add_argument("--steps-after", type=int, default=307_200, help="of SAC on the disabled Ant")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.rewards:
        started = time.monotonic()
        rewards, about = None, {}
        if name != "truth":
            rewards, about = learned(name, options.episodes, options.seeds, options.steps)
            print(name, about, round(time.monotonic() - started), file=sys.stderr, flush=True)
        disabled = ant("ant-disabled")
        policies = trained(disabled, rewards, options.seeds, options.steps_after, seed=HELD_OUT_KEY)
        row = {"reward": name, **about, "returns": earned(disabled, policies, options.seeds)}
        row |= {"steps": options.steps if rewards is not None else 0, "steps after": options.steps_after}
        row |= {"seconds": round(time.monotonic() - started, 1), "device": jax.devices()[0].device_kind}
        row["commit"] = record.commit()
        (options.folder / f"{name}.json").write_text(json.dumps(row))
        print(row, file=sys.stderr, flush=True)
    rows = {path.stem: json.loads(path.read_text()) for path in sorted(options.folder.glob("*.json"))}
    truth = rows["truth"]["returns"]
    for row in rows.values():
        for which in ("policy", "mode"):
            shares = np.array(row["returns"][which]) / np.mean(truth[which])
            row[f"share of the truth, {which}"] = round(interquartile_mean(shares), 3)
            row[f"interval, {which}"] = bootstrapped(shares)
    source = record.provenance("benchmarks.quality.mujoco_transfer", "irlax", "jax", "gymnasium", "mujoco")
    record.write(options.out, {**source, "published": PUBLISHED, "figures": list(rows.values())})
    print(json.dumps(list(rows.values()), indent=1))


if __name__ == "__main__":
    main()
