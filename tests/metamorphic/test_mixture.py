"""Mixtures of types: what must follow when individuals are repeated, left out or permuted, or features rescaled."""

import jax
import numpy as np
import pytest

import irlax as ix
from tests.problems import choosers, three_choices

MDP, FEATURES = three_choices()
# Everybody takes every action, so that all panels have one shape and are compiled once.
COUNTS = np.array([(3, 7, 2), (2, 8, 2), (4, 6, 2), (3, 2, 7), (2, 2, 8), (4, 1, 7), (5, 4, 3), (1, 9, 2)])
PEOPLE = np.repeat(COUNTS, 3, axis=0)
WEIGHTS = np.tile([0.0, 1.0, 2.0], 8)


def fitted(counts, *, weights=None, features=FEATURES, key=0, num_types=2):
    demos = ix.Demonstrations.from_arrays(*choosers(counts), weights=weights)
    estimator = ix.MixtureIRL(num_types=num_types, num_starts=2, tol=1e-10, progress=False)
    return estimator.fit(MDP, ix.LinearReward(features), demos, key=jax.random.key(key))


@pytest.fixture(scope="module")
def fit():
    return fitted(PEOPLE)


def all_errors(fit):
    return [np.append(fit.standard_errors(kind), fit.share_errors(kind)) for kind in ("hessian", "opg", "sandwich")]


def assert_same(one, other):
    assert one.status is other.status is ix.Status.CONVERGED
    np.testing.assert_allclose(one.parameters, other.parameters, atol=1e-6)
    np.testing.assert_allclose(one.shares, other.shares, atol=1e-7)
    np.testing.assert_allclose((one.log_likelihood, one.bic), (other.log_likelihood, other.bic), rtol=1e-10)
    np.testing.assert_allclose(all_errors(one), all_errors(other), rtol=1e-5)


def test_a_weight_counts_an_individual_as_often_and_0_leaves_it_out():
    weighted, listed = fitted(PEOPLE, weights=WEIGHTS), fitted(np.repeat(PEOPLE, WEIGHTS.astype(int), axis=0))
    assert len(listed.posterior) == weighted.num_individuals == listed.num_individuals == 24
    assert weighted.num_choices == listed.num_choices == 288
    assert_same(weighted, listed)
    np.testing.assert_allclose(np.repeat(weighted.posterior, WEIGHTS.astype(int), axis=0), listed.posterior, atol=1e-6)
    twice = fitted(PEOPLE, weights=2 * WEIGHTS)
    np.testing.assert_allclose(twice.bic, 5 * np.log(48) - 4 * listed.log_likelihood, rtol=1e-10)
    # Of those of weight 0 nothing is learned, but their type is told as everybody's is.
    np.testing.assert_allclose(weighted.posterior[::3], weighted.posterior[1::3], atol=1e-12)


def test_the_order_of_individuals_is_the_order_of_the_posterior(fit):
    order = np.random.default_rng(0).permutation(24)
    permuted = fitted(PEOPLE[order])
    assert_same(permuted, fit)
    np.testing.assert_allclose(permuted.posterior, fit.posterior[order], atol=1e-7)


def test_larger_features_have_smaller_parameters(fit):
    scaled = fitted(PEOPLE, features=FEATURES * [100.0, 0.01])
    np.testing.assert_allclose(scaled.parameters * [100.0, 0.01], fit.parameters, atol=1e-6)
    np.testing.assert_allclose(scaled.standard_errors() * [100.0, 0.01], fit.standard_errors(), rtol=1e-5)
    np.testing.assert_allclose((scaled.log_likelihood, scaled.bic), (fit.log_likelihood, fit.bic), rtol=1e-10)


def test_one_type_is_the_fit_of_everybody_together():
    demos = ix.Demonstrations.from_arrays(*choosers(PEOPLE), weights=WEIGHTS)
    one = fitted(PEOPLE, weights=WEIGHTS, num_types=1)
    whole = ix.MCEIRL(objective="likelihood").fit(MDP, ix.LinearReward(FEATURES), demos)
    np.testing.assert_allclose(one.parameters[0], whole.reward.weights, atol=1e-6)
    np.testing.assert_allclose(one.log_likelihood, whole.log_likelihood, rtol=1e-10)
    np.testing.assert_allclose(one.standard_errors()[0], whole.standard_errors(), rtol=1e-6)
    assert one.shares == [1.0]


def test_a_column_that_repeats_others_changes_nothing_but_what_is_known_of_them(fit):
    more = fitted(PEOPLE, features=np.concatenate([FEATURES, FEATURES[..., :1]], axis=-1))
    assert more.status is ix.Status.CONVERGED
    np.testing.assert_allclose((more.log_likelihood, more.bic), (fit.log_likelihood, fit.bic), rtol=1e-10)
    np.testing.assert_allclose(more.parameters[:, 0] + more.parameters[:, 2], fit.parameters[:, 0], atol=1e-6)
    errors = more.standard_errors()
    assert np.isnan(errors[:, [0, 2]]).all()
    np.testing.assert_allclose(errors[:, 1], fit.standard_errors()[:, 1], rtol=1e-5)
    np.testing.assert_allclose(more.share_errors(), fit.share_errors(), rtol=1e-5)


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        (PEOPLE, ix.Status.CONVERGED),
        # All alike: a second type is empty, or does as the first does.
        (np.tile([3, 4, 5], (24, 1)), ix.Status.UNBOUNDED),
    ],
)
@pytest.mark.filterwarnings("ignore::irlax.UnfinishedWarning")
def test_every_start_comes_to_the_same_verdict(counts, status):
    fits = [fitted(counts, key=key) for key in range(5)]
    assert {fit.status for fit in fits} == {status}
    np.testing.assert_allclose([fit.log_likelihood for fit in fits], fits[0].log_likelihood, rtol=1e-9)
