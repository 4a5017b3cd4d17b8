"""When a mixture is at a maximum and when it has none; what it says of individuals that it did not learn from."""

import json

import jax
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

import irlax as ix
from irlax.estimators.mixed.assessment import assess_groups
from irlax.estimators.mixed.mixture import WORDS
from irlax.estimators.mixed.mixture_fit import mixture_problem
from irlax.estimators.mixed.mixture_page import mixture_page
from irlax.estimators.mixed.observed_cells import ObservedCells
from irlax.estimators.tabular.cross_validation import CANDIDATES, FOLDS
from irlax.estimators.tabular.pairing import pair_up
from irlax.estimators.tabular.solvers import Solution
from irlax.iteration import Session
from irlax.precision import scope
from tests.command_line import irlax
from tests.problems import choosers, three_choices

MDP, FEATURES = three_choices()
REWARD = ix.LinearReward(FEATURES)
# Two kinds, 12 of each; the second choosers' numbers mirror the first's, so the maximum is symmetric.
COUNTS = np.repeat([(3, 7, 2), (3, 2, 7), (2, 8, 2), (2, 2, 8)], 6, axis=0)
DEMOS = ix.Demonstrations.from_arrays(*choosers(COUNTS))
TRIED = CANDIDATES[6:9]
UNFINISHED = pytest.mark.filterwarnings("ignore::irlax.UnfinishedWarning")


def fitted(demos, *, key=0, held_out=None, num_starts=2, **settings):
    estimator = ix.MixtureIRL(num_starts=num_starts, progress=False, **settings)
    return estimator.fit(MDP, REWARD, demos, key=jax.random.key(key), held_out=held_out)


def literal_log_likelihoods(fit, counts):
    """Of each individual, with its type summed out: π is a logit of (0, θ₁, θ₂)."""
    log_policy = log_softmax(np.insert(fit.parameters, 0, 0.0, axis=1), axis=1)
    return logsumexp(counts @ log_policy.T + np.log(fit.shares), axis=1)


@pytest.fixture(scope="module")
def fit():
    held_out = ix.Demonstrations.from_arrays(*choosers(COUNTS[:5]), weights=[1.0, 2, 0, 1, 1])
    return fitted(DEMOS, held_out=held_out)


@pytest.fixture(scope="module")
def alike():
    """Individuals with the same choices, as two types."""
    with pytest.warns(ix.UnfinishedWarning, match="fewer types"):
        return fitted(ix.Demonstrations.from_arrays(*choosers(np.tile([3, 4, 5], (24, 1)))))


@pytest.mark.parametrize("odds", [-9.0, -14.0, -24.0, -40.0])
def test_a_type_that_nobody_is_of_is_one_too_many_however_small_its_share(fit, odds):
    with scope():
        bound, experts = pair_up(MDP, REWARD, DEMOS, None, "auto")
        cells = ObservedCells.of([bound], experts, num_groups=3)
        mixture = mixture_problem(cells, [DEMOS], np.arange(24), np.ones(24), num_types=3, l2=0.0)
        # Nobody takes the actions as evenly as the third type would.
        x = np.concatenate([fit.parameters.ravel(), [0.0, 0.0], [np.log(fit.shares[1] / fit.shares[0]), odds]])
        found = Solution(mixture.to_problem().evaluate(x), ix.Status.CONVERGED, [])
        end = assess_groups(mixture, found, Session(""), tol=1e-7, words=WORDS)
    assert end.status is ix.Status.UNBOUNDED
    assert "Type 3" in end.reason and "24 individuals" in end.reason and "fewer types" in end.reason


def test_types_that_are_alike_are_no_estimates(alike, tmp_path):
    assert alike.status is ix.Status.UNBOUNDED and not alike.converged
    text = str(alike.summary())
    assert "s.e." not in text and "BIC" not in text and "no estimates" in text and alike.reason in text
    assert np.isnan(alike.bic)
    for errors in (alike.standard_errors, alike.share_errors, alike.covariance):
        with pytest.raises(ValueError, match="no standard errors"):
            errors()
    run = alike.save(tmp_path / "run")
    assert str(ix.load(run).summary()) == text
    record = json.loads(irlax("show", run, "--json").out)
    assert record["bic"] is None and record["reason"] == alike.reason
    assert alike.reason in mixture_page(alike).render().replace("&#x27;", "'")


@UNFINISHED
@pytest.mark.parametrize("tol", [1e-7, 1e-12])
def test_a_perfectly_consistent_type_has_no_finite_maximum_from_any_start(tol):
    counts = np.where(COUNTS[:, [1]] > 6, [0, 12, 0], COUNTS)
    demos = ix.Demonstrations.from_arrays(*choosers(counts))
    fits = [fitted(demos, key=key, tol=tol) for key in range(3)]
    assert {fit.status for fit in fits} == {ix.Status.UNBOUNDED}
    assert all("consistent" in fit.reason for fit in fits)
    assert fitted(demos, l2=1e-3).converged


def test_held_out_individuals_are_scored_with_their_types_summed_out(fit, tmp_path):
    each = literal_log_likelihoods(fit, COUNTS[:5])
    np.testing.assert_allclose(fit.held_out_log_likelihood, [1, 2, 0, 1, 1] @ each, rtol=1e-10)
    assert "log likelihood, held out" in str(fit.summary())
    loaded = ix.load(fit.save(tmp_path / "run"))
    assert loaded.held_out_log_likelihood == fit.held_out_log_likelihood
    assert str(loaded.summary()) == str(fit.summary())
    np.testing.assert_allclose(fit.score(DEMOS), fit.log_likelihood / 288, rtol=1e-12)
    # Two episodes of one individual are of one type.
    pairs = literal_log_likelihoods(fit, COUNTS.reshape(12, 2, 3).sum(axis=1))
    np.testing.assert_allclose(fit.score(DEMOS, individual=np.repeat(np.arange(12), 2)), pairs.sum() / 288, rtol=1e-10)


def test_what_cannot_be_scored_is_refused(fit, as_a_user):
    with pytest.raises(TypeError, match="Demonstrations"):
        fit.score(np.zeros(3))
    with pytest.raises(ValueError, match=r"one reward for all groups .* a list of 2"):
        ix.MixtureIRL().fit(MDP, [REWARD, REWARD], DEMOS, key=jax.random.key(0))
    with pytest.raises(ValueError, match="label for each episode"):
        fit.score(DEMOS, individual=[1, 2])
    with pytest.raises(ValueError, match="5 individuals"):
        fitted(DEMOS.select([0, 1, 2, 3]), l2="cv")


@UNFINISHED
def test_the_penalty_is_chosen_by_what_predicts_other_individuals(tmp_path, monkeypatch):
    # Three of the penalties that are tried, the best one and its neighbours, so that all of their scores are checked.
    monkeypatch.setattr("irlax.estimators.mixed.estimation.CANDIDATES", TRIED)
    weights = np.tile([1.0, 2.0], 12)
    demos = ix.Demonstrations.from_arrays(*choosers(COUNTS), weights=weights)
    fit = fitted(demos, l2="cv", num_starts=1, tol=1e-9)
    best, score = fit.cross_validation.l2, fit.cross_validation.log_likelihood
    assert fit.l2 == best and dict(fit.settings)["l2"] == best and best == TRIED[1]
    assert ix.load(fit.save(tmp_path / "run")).cross_validation == fit.cross_validation

    fold, totals = np.random.default_rng(0).permutation(24) % FOLDS, []
    for l2 in TRIED:
        total = 0.0
        for k in range(FOLDS):
            part = ix.Demonstrations.from_arrays(*choosers(COUNTS), weights=weights * (fold != k))
            learned = fitted(part, l2=l2, num_starts=1, tol=1e-9)
            total += (weights * (fold == k)) @ literal_log_likelihoods(learned, COUNTS)
        totals.append(total / (12 * weights.sum()))
    np.testing.assert_allclose(score, totals[1], rtol=1e-6)
    assert totals[1] == max(totals)
