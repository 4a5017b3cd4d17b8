"""PPO and SAC against exact planning: six tabular MDPs at temperature 1.

The learners see one-hot observations of sampled steps; `soft_plan` sees the MDP. Compared are the policies, by total
variation, in the states that the soft-optimal policy visits (discounted share of visits above 1%), and the values.
Actions that do not exist in a state do there what the first one does (`irlax.envs.complete`), for both sides alike.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from benchmarks.record import RESULTS, provenance, swept, write

import irlax as ix
from irlax.rl import PPO, SAC

#: Steps after which an episode is cut off; values are bootstrapped there, so the horizon is infinite to the learners.
HORIZON = 50
DISCOUNT = 0.9
VISITED = 0.01
STEPS = {"PPO": 4_000_000, "SAC": 1_200_000}
#: Half of the episodes begin at random, since the goal of the cliff is far from where a soft-optimal walker strolls.
#: Most steps of a random walk there are spent after the fall, so SAC takes more of them for each of its updates. Its
#: rates are low: with the default ones what is left at the end is noise of the critics, .07 on the cliff.
LEARNERS = {
    "PPO": PPO(temperature=1.0, discount=DISCOUNT, explore=0.5, gae=0.8),
    "SAC": SAC(
        temperature=1.0,
        discount=DISCOUNT,
        explore=0.5,
        num_envs=64,
        capacity=600_000,
        depth=1,
        learning_rate=5e-4,
        tau=0.005,
    ),
}


def problems() -> dict[str, Any]:
    """MDPs with a reward each."""
    room = ["S...", ".#X.", "...G"]
    return {
        "RiskyPath": ix.envs.RiskyPath(discount=DISCOUNT),
        "grid": ix.envs.Gridworld(room, slip=0.1, discount=DISCOUNT),
        "cliff": ix.envs.cliff(discount=DISCOUNT),
        **{f"random {seed}": ix.envs.RandomMDP(8, 3, branching=3, discount=DISCOUNT, seed=seed) for seed in range(3)},
    }


def compare(name: str, learner: str, seed: int) -> dict[str, Any]:
    """A learner on a problem, with a seed."""
    problem = problems()[name]
    mdp, reward = ix.envs.complete(problem.mdp, problem.reward)
    plan = ix.soft_plan(mdp, reward)
    visits = np.asarray(ix.visits(mdp, plan)).sum(axis=1)
    visited = visits / visits.sum() > VISITED
    env = ix.envs.Tabular(mdp, reward, horizon=HORIZON)
    began = time.perf_counter()
    result = LEARNERS[learner].train(env, key=jr.key(seed), steps=STEPS[learner], progress=False)
    everywhere = jnp.eye(mdp.num_states)
    policy = np.exp(jax.vmap(result.policy.log_probs)(everywhere))
    value = np.asarray(jax.vmap(result.value)(everywhere))
    variation = 0.5 * np.abs(policy - plan.policy).sum(axis=1)[visited]
    row = {
        "problem": name,
        "learner": learner,
        "seed": seed,
        "states_visited": int(visited.sum()),
        "largest_total_variation": float(variation.max()),
        "mean_total_variation": float(variation.mean()),
        "largest_value_error": float(np.abs(value - plan.value)[visited].max()),
        "seconds": round(time.perf_counter() - began, 1),
    }
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "rl_tabular.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=list(problems()), default=list(problems()))
    parser.add_argument("--learners", nargs="*", choices=list(LEARNERS), default=list(LEARNERS))
    parser.add_argument("--workers", type=int, default=1, help="processes, for machines that have room for them")
    options = parser.parse_args()
    source = provenance("benchmarks.quality.rl_tabular", "irlax", "jax")
    pairs = [{"name": name, "learner": learner} for name in options.only for learner in options.learners]
    rows = swept(compare, [pair | {"seed": options.seed} for pair in pairs], options.workers)
    rows.sort(key=lambda row: (options.only.index(row["problem"]), row["learner"]))
    result = {
        **source,
        "settings": {"discount": DISCOUNT, "temperature": 1, "horizon": HORIZON, "steps": STEPS},
        "figures": rows,
    }
    write(options.out, result)
    print(f"Wrote {options.out}.", file=sys.stderr)


if __name__ == "__main__":
    main()
