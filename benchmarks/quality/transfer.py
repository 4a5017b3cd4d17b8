"""Rewards in another world: the point maze with its wall moved, after Fu, Luo and Levine (2018), Table 1.

A reward is learned from the demonstrations that ship with irlax, where the wall leaves the way open on the right. Then
a new policy is trained for it, without demonstrations, where the wall leaves the way open on the left. The score is
(R − R_random) / (R_true − R_random) of true returns there, R_true being what training on the true reward reaches.

Seeds are split from key 100 and were not used to choose settings. The published returns are of another maze, another
learner and another horizon: what compares is the order.
"""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import numpy as np
from benchmarks import record
from benchmarks.quality.imitation import bootstrapped, interquartile_mean, uniform

import irlax as ix
from irlax.rl import PPO

KEY = 100
ROWS = {
    "AIRL, states": ix.AIRL(over="s", shaped=True),
    "SampledMCEIRL, states": ix.SampledMCEIRL(over="s"),
    "GANGCL, states": ix.GANGCL(over="s"),
    "AIRL, states and actions": ix.AIRL(over="sa"),
    "SampledMCEIRL, states and actions": ix.SampledMCEIRL(over="sa"),
    "GANGCL, states and actions": ix.GANGCL(over="sa"),
    "GAIL, its policy": ix.GAIL(),
}
PUBLISHED = {
    "AIRL, states": -8.82,
    "AIRL, states and actions": -31.2,
    "GANGCL, states": -41.8,
    "GANGCL, states and actions": -40.2,
    "GAIL, its policy": -29.9,
    "the true reward": -8.45,
}
#: The demonstrator's model, temperature 1, for rewards that were learned with it; an expert's for the true one.
LEARNER = PPO(temperature=1.0)


def returns(env: Any, policies: list[Any]) -> list[float]:
    """The mean true return of each policy."""
    return [float(ix.evaluate(env, policy, num=100, key=jr.key(KEY)).mean()) for policy in policies]


def retrained(env: Any, rewards: list[Any], learner: PPO, steps: int | None) -> list[Any]:
    """A new policy for each reward."""
    keys = jr.split(jr.key(KEY + 1), len(rewards))
    return [
        learner.train(env, key=key, reward=reward, steps=steps, shown=False).policy
        for key, reward in zip(keys, rewards, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=record.RESULTS / "transfer.json")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, help="by default, each estimator's own")
    parser.add_argument("--steps", type=int, help="of training in the new maze; by default, PPO's own")
    parser.add_argument("--only", nargs="*", choices=list(ROWS), default=list(ROWS))
    options = parser.parse_args()
    source = record.provenance("benchmarks.quality.transfer", "irlax", "jax")
    source["machine"]["device"] = jax.devices()[0].device_kind
    old, new = ix.envs.make("point-maze"), ix.envs.make("point-maze", wall="right")
    demos = ix.expert_demos("point-maze")
    chance = float(ix.evaluate(new, uniform(new), num=256, key=jr.key(1)).mean())
    true = returns(new, retrained(new, [None] * options.seeds, PPO(), options.steps))
    best = float(np.median(true))
    figures = [{"reward": "the true reward", "returns": np.round(true, 2).tolist(), "published": -8.45}]
    for name in options.only:
        estimator = ROWS[name]
        if options.rounds is not None:
            estimator = dataclasses.replace(estimator, rounds=options.rounds)
        fits = estimator.fit_many(old, demos, num=options.seeds, key=jr.key(KEY), shown=False)
        own = returns(old, [fit.policy for fit in fits])
        policies = [fit.policy for fit in fits]
        if fits[0].reward is not None:
            policies = retrained(new, [fit.reward for fit in fits], LEARNER, options.steps)
        there = np.array(returns(new, policies))
        scores = (there - chance) / (best - chance)
        figures.append(
            {
                "reward": name,
                "returns": np.round(there, 2).tolist(),
                "scores": np.round(scores, 3).tolist(),
                "score": round(interquartile_mean(scores), 3),
                "interval": bootstrapped(scores),
                "returns_where_learned": np.round(own, 2).tolist(),
                "published": PUBLISHED.get(name),
            }
        )
        print(figures[-1], file=sys.stderr, flush=True)
    record.write(options.out, {**source, "random": round(chance, 2), "figures": figures})
    print(table(figures))


def table(figures: list[dict[str, Any]]) -> str:
    """Markdown, ours beside the published."""
    lines = [
        "| reward | score | return, moved wall | return, as learned | published return |",
        "| --- |" + " ---: |" * 4,
    ]
    for row in figures:
        score = "1 by definition" if "score" not in row else f"{row['score']:.2f} {row['interval']}"
        own = "" if "returns_where_learned" not in row else f"{np.median(row['returns_where_learned']):.1f}"
        lines.append(
            f"| {row['reward']} | {score} | {np.median(row['returns']):.1f} | {own} | {row['published'] or ''} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
