"""Dynamics-free estimators against exact MCE IRL, on MDPs small enough to know the answer.

Rewards, policies and values are tables: networks without hidden layers on one-hot observations. Demonstrations are
sampled, every fit is repeated with several seeds, side by side, and everything else is as it comes. The distance
between policies is total variation, averaged over states as the demonstrator visits them (discounted).

- "answer": deterministic moves, rewards over states and actions. All four have the demonstrator's policy as their
  answer, so that what is left is sampling error. SampledMCEIRL is also there with SAC's replay and even weights.
- "bias": a demonstrator who is soft-optimal for a reward over states, stochastic dynamics. Rewards over states are
  learned, by AIRL beside a potential. On RiskyPath "goal − hazard" is how much better than the hazard the goal is
  believed to be, 2 in truth: choices do not tell, since both follow the same gamble, but those who take luck for
  choice read from the even odds that it is 0.
- "discount": deterministic moves, and a demonstrator whom no reward over states explains; the exact answer is that of
  MCE IRL. AIRL with steps weighted by γᵗ, and all alike, as published, beside MCE from samples.
"""

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from benchmarks.record import RESULTS, provenance, write

import irlax as ix
from irlax.estimators.sampled import BehaviouralCloning
from irlax.rl import PPO, SAC

DISCOUNT = 0.75
#: γ¹⁵ is .013: what is cut off hardly matters.
HORIZON = 15
DEMONSTRATIONS = 500
LEARNER = PPO(temperature=1.0, discount=DISCOUNT, explore=0.0, depth=0, gae=0.8, learning_rate=2e-2, minibatches=2)
TABLES: Any = {"learner": LEARNER, "penalty": 0.0, "learning_rate": 3e-2}
CLONING = BehaviouralCloning(steps=500, learning_rate=1e-2)


class Acting(eqx.Module):
    """A table of probabilities, to be acted by."""

    log_policy: Any

    def __call__(self, observation: Any, key: Any) -> Any:
        return jr.categorical(key, observation @ self.log_policy)


class Problem(NamedTuple):
    """An MDP, the reward that is true in it, the demonstrator's policy and the exact answer to what is asked."""

    name: str
    mdp: Any
    reward: Any
    expert: Any
    exact: Any


def estimators(over: str, rounds: int) -> dict[str, Any]:
    """All four; over states AIRL has a potential, without which it cannot tell steps apart."""
    table: Any = {"depth": 0, "normalise": False}
    common: Any = TABLES | {
        "reward": ix.RewardNet(over=over, **table),
        "rounds": ix.Rounds(num=rounds, episodes=64, tol=0.0),
    }
    return {
        "SampledMCEIRL": ix.SampledMCEIRL(**common),
        "AIRL": ix.AIRL(potential=ix.RewardNet(over="s", **table) if over == "s" else None, **common),
        "GCL": ix.GCL(cloning=CLONING, **common),
        "GANGCL": ix.GANGCL(**common),
    }


def replayed(rounds: int) -> Any:
    """SampledMCEIRL with SAC, which goes on from step to step, after as many steps as the others."""
    learner = SAC(
        temperature=1.0,
        discount=DISCOUNT,
        num_envs=16,
        length=12,
        updates=24,
        capacity=9600,
        warmup=1,
        depth=0,
        learning_rate=1e-2,
        tau=0.05,
        explore=0.0,
    )
    return ix.SampledMCEIRL(
        reward=ix.RewardNet(over="sa", depth=0, normalise=False),
        learner=learner,
        rounds=ix.Rounds(num=5 * rounds, steps=192, tol=0.0),
        discounted=False,
        penalty=0.0,
        updates=4,
        batch_size=1024,
        learning_rate=1e-2,
        recent=16,
    )


def explained(name: str, mdp: Any, reward: Any) -> Problem:
    """A demonstrator who is soft-optimal for the reward."""
    policy = np.asarray(ix.soft_plan(mdp, reward).policy)
    return Problem(name, mdp, reward, policy, policy)


def moves(seed: int = 0) -> tuple[Any, Any]:
    """Deterministic moves between six states, by three actions, and a reward of both."""
    problem = ix.envs.RandomMDP(6, 3, branching=1, discount=DISCOUNT, seed=seed)
    return problem.mdp, problem.reward


def runs(rounds: int) -> Iterator[tuple[str, Problem, str, Any]]:
    """Every part's problems and estimators."""
    for name, estimator in estimators("sa", rounds).items():
        yield "answer", explained("six states", *moves()), name, estimator
    yield "answer", explained("six states", *moves()), "SampledMCEIRL, replay", replayed(rounds)
    risky = ix.envs.complete(ix.envs.RiskyPath(discount=DISCOUNT).mdp, np.array([0.0, 0.0, 1.0, -1.0]))
    grid = ix.envs.Gridworld(["S..", ".X.", "..G"], slip=0.3, discount=DISCOUNT, goal_reward=2.0, hazard_reward=-2.0)
    for problem in (explained("RiskyPath", *risky), explained("slippery grid", grid.mdp, grid.reward)):
        for name, estimator in estimators("s", rounds).items():
            yield "bias", problem, name, estimator
    mdp, reward = moves()
    expert = np.asarray(ix.soft_plan(mdp, 2 * reward).policy)
    exact = ix.MCEIRL().fit(mdp, ix.TabularReward("s"), expert)
    problem = Problem("six states", mdp, reward, expert, np.asarray(exact.policy))
    choice = estimators("s", rounds)
    yield "discount", problem, "SampledMCEIRL", choice["SampledMCEIRL"]
    yield "discount", problem, "AIRL", choice["AIRL"]
    yield "discount", problem, "AIRL, undiscounted", dataclasses.replace(choice["AIRL"], discounted=False)


def measure(part: str, problem: Problem, name: str, estimator: Any, seeds: int) -> dict[str, Any]:
    """Some fits side by side, and how far they are from the exact answer."""
    mdp, began = problem.mdp, time.perf_counter()
    env = ix.envs.Tabular(mdp, problem.reward, horizon=HORIZON)
    demos = ix.envs.collect(
        env, Acting(jnp.log(jnp.asarray(problem.expert, jnp.float32))), DEMONSTRATIONS, key=jr.key(0)
    )
    fits = estimator.fit_many(env, demos, num=seeds, key=jr.key(1))
    visits = np.asarray(ix.visits(mdp, problem.expert)).sum(axis=1)
    share = visits / visits.sum()
    tables = np.array([reward_table(fit.reward, mdp) for fit in fits])
    acted = [np.exp(jax.vmap(fit.policy.log_probs)(jnp.eye(mdp.num_states))) for fit in fits]
    planned = [np.asarray(ix.soft_plan(mdp, table).policy) for table in tables]
    figures: dict[str, Any] = {"part": part, "problem": problem.name, "estimator": name, "seeds": seeds}
    for what, policies in (("policy", acted), ("policy of the reward", planned)):
        apart = [float(share @ np.abs(policy - problem.exact).sum(axis=1) / 2) for policy in policies]
        figures[what] = {"mean": float(np.mean(apart)), "sd": float(np.std(apart)), "all": apart}
    mean = np.mean(planned, axis=0)
    figures["between seeds"] = float(np.mean([share @ np.abs(one - mean).sum(axis=1) / 2 for one in planned]))
    if problem.name == "RiskyPath":
        figures["goal − hazard"] = float((tables[:, 2, 0] - tables[:, 3, 0]).mean())
    return figures | {"seconds": round(time.perf_counter() - began, 1)}


def reward_table(reward: Any, mdp: Any) -> np.ndarray:
    """r[S, A]; what the rewards here do not look at may be anything."""
    states, actions = jnp.eye(mdp.num_states), jnp.arange(mdp.num_actions)
    table = jax.vmap(lambda state: jax.vmap(lambda action: reward(state, action, state))(actions))(states)
    return np.asarray(table, np.float64)


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table for people."""
    lines = [
        "| part | problem | estimator | policy | policy of the reward | between seeds | goal − hazard |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = [row["part"], row["problem"], row["estimator"]]
        cells += [f"{row[what]['mean']:.3f} ± {row[what]['sd']:.3f}" for what in ("policy", "policy of the reward")]
        cells += [f"{row['between seeds']:.3f}", f"{row['goal − hazard']:.2f}" if "goal − hazard" in row else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "sampled_exact.json")
    parser.add_argument("--only", nargs="*", help="answer, bias, discount; all if left out")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="two seeds and five rounds, to see if all is well")
    options = parser.parse_args()
    seeds, rounds = (2, 5) if options.quick else (options.seeds, options.rounds)
    origin, rows = provenance("benchmarks.quality.sampled_exact", "irlax", "jax"), []
    settings = {"discount": DISCOUNT, "horizon": HORIZON, "demonstrations": DEMONSTRATIONS, "rounds": rounds}
    for part, problem, name, estimator in runs(rounds):
        if options.only and part not in options.only:
            continue
        rows.append(measure(part, problem, name, estimator, seeds))
        print(markdown(rows).splitlines()[-1], f"{rows[-1]['seconds']} s", file=sys.stderr, flush=True)
        write(options.out, {**origin, "settings": settings, "figures": rows})
    print(markdown(rows))


if __name__ == "__main__":
    main()
