"""Coverage of DriftingIRL's bands, and how often it finds a drift where there is none.

    .venv/bin/python -m benchmarks.quality.drifting --processes 2

draws paths of rewards from the random walk of the model, demonstrations from each path, and fits both the path and the
size of its steps. Pointwise 95% bands should hold the truth in 95% of periods in the mean over data sets. Where nothing
drifts, the share of data sets with p < .05 should be at most 5%. Writes benchmarks/results/drifting.json.
"""

import argparse
import json
import time

import numpy as np
from benchmarks import record

#: Sizes of a period's step, periods, individuals, and what a period is.
CASES = {
    "over steps": {"sigma": (0.25, 0.1, 0.0), "periods": 40, "individuals": 60, "over": "steps"},
    "over steps, nothing drifts": {"sigma": (0.0, 0.0, 0.0), "periods": 40, "individuals": 60, "over": "steps"},
    "over the episodes of one animal": {"sigma": (0.25, 0.1, 0.0), "periods": 60, "steps": 40, "over": "episodes"},
}
NUM_STATES, NUM_ACTIONS, DISCOUNT, FIRST = 6, 3, 0.9, (1.0, -0.5, 0.5)


def replicate(name, seed):
    """The figures of one data set of a case."""
    import jax

    import irlax as ix
    from irlax.demos.demonstrations import from_rows

    case = CASES[name]
    sigma, periods = np.array(case["sigma"]), case["periods"]
    mdp = ix.envs.RandomMDP(NUM_STATES, NUM_ACTIONS, discount=DISCOUNT, seed=0).mdp
    features = np.random.default_rng(0).normal(size=(NUM_STATES, NUM_ACTIONS, len(sigma)))
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(periods - 1, len(sigma))) * sigma
    truth = np.cumsum(np.concatenate([[FIRST], steps]), axis=0)
    policies = np.stack([np.asarray(ix.soft_plan(mdp, features @ theta).policy) for theta in truth])
    keys = jax.random.split(jax.random.key(seed), periods)
    if case["over"] == "steps":
        demos = ix.rollout(mdp.replace(horizon=periods), policies, num=case["individuals"], key=keys[0])
    else:
        pairs = zip(policies, keys, strict=True)
        parts = [ix.rollout(mdp, policy, num=1, key=key, length=case["steps"]) for policy, key in pairs]
        rows = [np.concatenate([getattr(part, field) for part in parts]) for field in ("states", "actions")]
        demos = from_rows(*rows, np.full(periods, case["steps"]))
    began = time.perf_counter()
    fit = ix.DriftingIRL(over=case["over"]).fit(mdp, ix.LinearReward(features), demos)
    seconds = time.perf_counter() - began
    inside = {}
    for wider in (False, True):
        low, high = np.moveaxis(fit.bands(size_uncertainty=wider)[0], -1, 0)
        inside[wider] = ((low <= truth) & (truth <= high)).mean(axis=0)
    return [fit.converged, inside[True], inside[False], fit.drift, fit.p_value, seconds]


def figures(case, found):
    converged, wider, plain, drift, p, seconds = (np.array(column) for column in zip(*found, strict=True))
    return {
        "datasets": len(found),
        "converged": float(converged.mean()),
        "coverage": wider.mean(axis=0).round(4).tolist(),
        "standard_error_of_coverage": (wider.std(axis=0) / np.sqrt(len(found))).round(4).tolist(),
        "coverage_at_the_estimated_size": plain.mean(axis=0).round(4).tolist(),
        "true_size": case["sigma"],
        "median_size": np.median(drift, axis=0).round(4).tolist(),
        "size_estimated_as_zero": (drift == 0).mean(axis=0).round(4).tolist(),
        "p_below_0.05": float((p < 0.05).mean().round(4)),
        "seconds_median_fit": round(float(np.median(seconds)), 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", choices=list(CASES), default=None)
    parser.add_argument("--out", default=str(record.RESULTS / "drifting.json"))
    given = parser.parse_args()
    source = record.provenance("benchmarks.quality.drifting", "jax")
    names = [given.only] if given.only else list(CASES)
    cases = [{"name": name, "seed": seed} for name in names for seed in range(given.datasets)]
    parts = zip(cases, record.swept(replicate, cases, given.processes), strict=True)
    found = {name: [] for name in names}
    for case, part in parts:
        found[case["name"]].append(part)
    results = {name: figures(CASES[name], found[name]) for name in names}
    print(json.dumps(results, indent=2))
    problem = {"states": NUM_STATES, "actions": NUM_ACTIONS, "discount": DISCOUNT, "first": FIRST}
    record.write(record.Path(given.out), {**source, "problem": problem, "cases": CASES, "figures": results})


if __name__ == "__main__":
    main()
