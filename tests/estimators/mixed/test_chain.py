"""The chain of motives against enumeration of all paths of motives, in episodes with gaps, weights and states."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from irlax.demos.demonstrations import from_rows
from irlax.estimators.mixed import chain as chains
from irlax.estimators.mixed.lanes import Lanes
from irlax.precision import scope

NUM_MOTIVES, NUM_CELLS, NUM_STATES = 2, 6, 3
# Four episodes: with a gap, late, whole, and with a long gap.
LENGTHS = np.array([3, 1, 4, 2])
TIMES = np.array([0, 1, 3, 2, 0, 1, 2, 3, 0, 4])
COUNTS = np.array([1, 2, 1, 1, 0, 1, 1, 1, 0.5, 1])


@pytest.fixture(scope="module", params=[None, NUM_STATES], ids=["one chain", "by state"])
def case(request):
    rng = np.random.default_rng(0)
    demos = from_rows(rng.integers(NUM_STATES, size=10), rng.integers(2, size=10), LENGTHS, times=TIMES)
    lanes, cell = Lanes.of([demos]), rng.integers(NUM_CELLS, size=10)
    odds = rng.normal(size=(NUM_MOTIVES, NUM_MOTIVES - 1))
    slopes = None if request.param is None else rng.normal(size=(NUM_STATES, *odds.shape))
    parameters = chains.ChainParameters(rng.normal(size=NUM_MOTIVES - 1), odds, slopes)
    log_policies = np.log(rng.uniform(0.1, 1, size=(NUM_MOTIVES, NUM_CELLS)))
    with scope():
        chain = chains.Chain.of(
            lanes, cell, COUNTS, states=demos.states, num_motives=NUM_MOTIVES, num_slopes=request.param
        )
        yield demos, lanes, cell, chain, parameters, log_policies


def by_enumeration(demos, cell, chain, parameters, log_policies):
    """Log likelihoods of episodes, motives' probabilities and likeliest paths, by sums over all paths of motives."""
    base = parameters.base[None] + (0.0 if parameters.slopes is None else parameters.slopes)
    # K = 2: the log-odds of leaving each motive.
    leave = 1 / (1 + np.exp(-base[..., 0]))
    switching = np.broadcast_to(
        np.stack([np.stack([1 - leave[:, 0], leave[:, 0]], -1), np.stack([leave[:, 1], 1 - leave[:, 1]], -1)], 1),
        (NUM_STATES, 2, 2),
    )
    first = 1 / (1 + np.exp([parameters.initial[0], -parameters.initial[0]]))
    totals, posteriors, paths = [], [], []
    for k in range(demos.num_episodes):
        rows = np.arange(demos.offsets[k], demos.offsets[k + 1])
        steps = demos.times[rows] - demos.times[rows[0]]
        weights = {}
        for motives in itertools.product(range(2), repeat=int(steps[-1]) + 1):
            weight, state = first[motives[0]], None
            for t, motive in enumerate(motives):
                if t:
                    weight *= switching[state, motives[t - 1], motive]
                if t in steps:
                    row = rows[np.flatnonzero(steps == t)[0]]
                    weight *= np.exp(COUNTS[row] * log_policies[motive, cell[row]])
                    state = demos.states[row]
            weights[motives] = weight
        total = sum(weights.values())
        totals.append(np.log(total))
        posteriors += [
            [sum(w for motives, w in weights.items() if motives[t] == j) / total for j in range(2)] for t in steps
        ]
        best = max(weights, key=weights.get)
        paths += [best[t] for t in steps]
    return np.array(totals), np.array(posteriors), np.array(paths)


def test_likelihood_posterior_and_likeliest_path_are_those_of_all_paths(case):
    demos, lanes, cell, chain, parameters, log_policies = case
    totals, posteriors, paths = by_enumeration(demos, cell, chain, parameters, log_policies)
    choices = jnp.asarray(log_policies)
    np.testing.assert_allclose(chain.log_likelihoods(choices, parameters), totals, rtol=1e-10)
    found = lanes.of_rows(np.asarray(chains.motive_posterior(chain, choices, parameters)))
    np.testing.assert_allclose(found, posteriors, atol=1e-10)
    assert np.array_equal(lanes.of_rows(np.asarray(chains.likeliest_path(chain, choices, parameters))), paths)
    steps = lanes.of_rows(np.asarray(chains.predictive(chain, choices, parameters)))
    np.testing.assert_allclose(np.add.reduceat(steps, demos.offsets[:-1]), totals, rtol=1e-10)


def test_an_m_step_does_not_lower_the_likelihood_and_a_fixed_point_is_a_maximum(case):
    *_, chain, parameters, log_policies = case
    choices, weights = jnp.asarray(log_policies), jnp.asarray([0.1, 0.2, 0.3, 0.4])
    value = [float(chains._total(chain, choices, parameters, weights))]
    for _ in range(4):
        parameters = chain.maximised(choices, parameters, weights)
        value.append(float(chains._total(chain, choices, parameters, weights)))
    assert np.diff(value).min() > -1e-12 and value[-1] > value[0]


def test_groups_in_another_order_have_the_same_likelihood(case):
    *_, chain, parameters, log_policies = case
    order = np.array([1, 0])
    other, reordered = chain.reordered(parameters, order)
    before = chain.log_likelihoods(jnp.asarray(log_policies), parameters)
    np.testing.assert_allclose(other.log_likelihoods(jnp.asarray(log_policies[order]), reordered), before, rtol=1e-12)


def test_lanes_hold_every_row_once_and_are_as_long_as_the_longest_episode(case):
    demos, lanes, *_ = case
    assert np.array_equal(np.sort(lanes.row[lanes.row >= 0]), np.arange(demos.num_steps))
    assert lanes.row.shape == (5, 3) and lanes.starts.sum() == demos.num_episodes
    assert np.array_equal(lanes.of_rows(lanes.episode), demos.episode)


def test_far_more_unobserved_steps_than_rows_are_refused():
    demos = from_rows(np.zeros(2, int), np.zeros(2, int), np.array([2]), times=np.array([0, 10**6]))
    with pytest.raises(ValueError, match="not observed"):
        Lanes.of([demos])
