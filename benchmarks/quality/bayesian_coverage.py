"""Does the posterior of BayesianIRL cover the truth at its nominal rate? Simulation-based calibration.

    .venv/bin/python -m benchmarks.quality.bayesian_coverage

draws rewards from each prior, demonstrations from each reward, and draws from each posterior; the rank of the
truth among the latter is uniform exactly if prior, likelihood and sampler fit together (Talts et al. 2018).
Writes benchmarks/results/bayesian_coverage.json, or, with `--seed N`, bayesian_coverage_seed_N.json: the same problem
with other truths and other demonstrations. Both priors see the same random numbers, so their figures go together.
"""

import argparse
import json
import time
import warnings

import jax
import numpy as np
from benchmarks import record
from scipy.stats import binom, chisquare

import irlax as ix
from irlax.estimators.tabular import BayesianIRL, Laplace, Normal
from irlax.status import Status, UnfinishedWarning

NUM_STATES, NUM_ACTIONS, NUM_FEATURES, DISCOUNT, EPISODES, LENGTH = 4, 2, 2, 0.9, 30, 10
LEVELS, BINS = (0.5, 0.8, 0.9, 0.95), 10
#: How each prior draws; the scales have the same variance.
PRIORS = {
    "normal": (Normal(1.0), lambda rng: rng.normal(size=NUM_FEATURES)),
    "laplace": (Laplace(0.5**0.5), lambda rng: rng.laplace(scale=0.5**0.5, size=NUM_FEATURES)),
}


def calibrated(name, num_datasets, seed):
    """Ranks in [0, 1] of the true parameters, one row for each data set, and how the chains did."""
    prior, draw = PRIORS[name]
    rng = np.random.default_rng(0)
    features = rng.normal(size=(NUM_STATES, NUM_ACTIONS, NUM_FEATURES)) / 2
    mdp = ix.envs.RandomMDP(NUM_STATES, NUM_ACTIONS, discount=DISCOUNT, seed=0).mdp
    rng = np.random.default_rng(seed) if seed else rng
    first_key = seed * 1_000_000
    ranks, fits, seconds = [], [], []
    for i in range(num_datasets):
        truth = draw(rng)
        expert = ix.soft_plan(mdp, features @ truth)
        demos = ix.rollout(mdp, expert, num=EPISODES, length=LENGTH, key=jax.random.key(first_key + 2 * i))
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnfinishedWarning)
            key = jax.random.key(first_key + 2 * i + 1)
            fit = BayesianIRL(prior=prior).fit(mdp, ix.LinearReward(features), demos, key=key)
        seconds.append(time.perf_counter() - began)
        ranks.append((fit.samples < truth).mean(axis=0))
        fits.append(fit)
    return np.array(ranks), fits, seconds


def figures(ranks, fits, seconds):
    num = len(ranks)
    coverage = {}
    for level in LEVELS:
        inside = np.abs(ranks - 0.5) < level / 2
        coverage[str(level)] = {
            "covered": inside.mean(axis=0).round(4).tolist(),
            "expected_95_percent_of_the_time": (binom.ppf([0.025, 0.975], num, level) / num).round(4).tolist(),
        }
    counts = [np.histogram(column, bins=BINS, range=(0, 1))[0] for column in ranks.T]
    return {
        "datasets": num,
        "coverage": coverage,
        "rank_histogram": [column.tolist() for column in counts],
        "uniform_ranks_p_value": [round(float(chisquare(column).pvalue), 4) for column in counts],
        "sampled_to_the_end": float(np.mean([fit.status is Status.SAMPLED for fit in fits])),
        "worst_r_hat": round(max(fit.posterior.r_hat for fit in fits), 4),
        "least_effective_sample_size": round(min(fit.posterior.effective_sample_size for fit in fits)),
        "divergent_draws": sum(fit.posterior.divergent for fit in fits),
        "seconds_first_fit": round(seconds[0], 2),
        "seconds_median_fit": round(float(np.median(seconds)), 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    num_datasets, seed = given.datasets, given.seed
    source = record.provenance("benchmarks.quality.bayesian_coverage", "jax", "blackjax")
    results = {}
    for name in PRIORS:
        results[name] = figures(*calibrated(name, num_datasets, seed))
        print(name, json.dumps(results[name], indent=2), flush=True)
    estimator = BayesianIRL()
    result = {
        **source,
        "problem": {
            "states": NUM_STATES,
            "actions": NUM_ACTIONS,
            "features": NUM_FEATURES,
            "discount": DISCOUNT,
            "episodes": EPISODES,
            "steps_of_an_episode": LENGTH,
        },
        "sampler": {
            "chains": estimator.num_chains,
            "warmup": estimator.num_warmup,
            "draws_of_a_chain": estimator.num_samples,
        },
        "figures": results,
    }
    record.write(record.RESULTS / f"bayesian_coverage{f'_seed_{seed}' if seed else ''}.json", result)


if __name__ == "__main__":
    main()
