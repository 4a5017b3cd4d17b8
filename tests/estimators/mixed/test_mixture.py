"""Mixtures of unobserved types: two simulated ones are recovered; likelihood and scores are the literal ones."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from scipy.special import logsumexp

import irlax as ix
from irlax.estimators.mixed.mixture_page import _of_type, mixture_page
from tests.command_line import irlax
from tests.problems import bus_like, wear_and_replacement

FEATURES = wear_and_replacement()
REWARD = ix.LinearReward(FEATURES, names=["wear", "replacement"])
TRUTH, SHARES = np.array([[4.0, 3.0], [4.0, 6.0]]), np.array([0.65, 0.35])
MDP = bus_like()


@pytest.fixture(scope="module")
def panel():
    """100 individuals, each in two episodes of 30 periods; the frequent type is not the first to be met."""
    rng = np.random.default_rng(0)
    types = (rng.permutation(100) < 35).astype(int)
    drawn = [
        ix.rollout(MDP, ix.soft_plan(MDP, FEATURES @ theta), num=200, length=30, key=jax.random.key(g))
        for g, theta in enumerate(TRUTH)
    ]
    both = np.repeat(types, 2)
    states, actions = (
        np.where(both[:, None] == 1, *(getattr(demos, name).reshape(200, 30) for demos in reversed(drawn)))
        for name in ("states", "actions")
    )
    return types, ix.Demonstrations.from_arrays(states, actions)


@pytest.fixture(scope="module")
def fit(panel):
    return ix.MixtureIRL(num_types=2, num_starts=3).fit(
        MDP, REWARD, panel[1], key=jax.random.key(0), individual=np.repeat(np.arange(100), 2)
    )


def test_a_fit_that_is_cut_short_says_so_where_it_was_asked_for(panel):
    short = ix.MixtureIRL(num_types=2, num_starts=1, max_steps=1)
    with pytest.warns(ix.UnfinishedWarning) as said:
        assert not short.fit(MDP, REWARD, panel[1], key=jax.random.key(0)).converged
    assert [warning.filename for warning in said] == [__file__]


def literal_log_likelihoods(demos, theta):
    """Of each individual under one type, from the plan."""
    log_policy = ix.soft_plan(MDP, FEATURES @ theta).log_policy[demos.states, demos.actions]
    return log_policy.reshape(100, -1).sum(axis=1)


def test_two_simulated_types_are_recovered(fit, panel):
    assert fit.status is ix.Status.CONVERGED
    assert (np.abs(fit.parameters - TRUTH) < 3 * fit.standard_errors()).all()
    assert (np.abs(fit.shares - SHARES) < 3 * fit.share_errors()).all()
    # Errors that say something: the types are many of them apart.
    assert fit.standard_errors()[:, 1].max() < 0.6 and fit.share_errors().max() < 0.1
    assert (fit.types == panel[0]).mean() > 0.9
    assert abs(fit.posterior.max(axis=1).mean() - (fit.types == panel[0]).mean()) < 0.08


def test_the_likelihood_the_posterior_and_the_scores_are_the_literal_ones(fit, panel):
    demos = panel[1]

    def by_individual(theta, shares):
        joint = np.stack([literal_log_likelihoods(demos, row) for row in theta], axis=1) + np.log(shares)
        return logsumexp(joint, axis=1), np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    total, posterior = by_individual(fit.parameters, fit.shares)
    np.testing.assert_allclose(fit.log_likelihood, total.sum(), rtol=1e-10)
    np.testing.assert_allclose(fit.posterior, posterior, atol=1e-8)
    np.testing.assert_allclose(fit.shares, posterior.mean(axis=0), atol=1e-6)
    for k, step in enumerate(1e-4 * np.eye(4)):
        up, down = (by_individual(fit.parameters + sign * step.reshape(2, 2), fit.shares)[0] for sign in (1, -1))
        np.testing.assert_allclose(fit.information.scores[:, k], (up - down) / 2e-4, atol=1e-4)
    odds = np.log(fit.shares[1] / fit.shares[0])
    up, down = (by_individual(fit.parameters, 1 / (1 + np.exp([o, -o])))[0] for o in (odds + 1e-4, odds - 1e-4))
    np.testing.assert_allclose(fit.information.scores[:, 4], (up - down) / 2e-4, atol=1e-4)


def test_the_likelihood_never_falls_and_the_types_stand_in_order_of_their_shares(fit):
    assert len(fit.history.loss) > 4
    assert np.diff(fit.history.loss).max() <= 1e-12
    assert (np.diff(fit.shares) <= 0).all()
    assert fit.history.gradient[-1] <= 1e-7


def test_the_three_covariances_agree_roughly_and_the_shares_have_one_degree_of_freedom(fit):
    for kind in ("opg", "sandwich"):
        np.testing.assert_allclose(fit.standard_errors(kind), fit.standard_errors(), rtol=0.4)
    np.testing.assert_allclose(fit.share_errors()[0], fit.share_errors()[1], rtol=1e-9)
    expected = np.sqrt(np.diag(np.linalg.inv(fit.information.hessian)))
    np.testing.assert_allclose(fit.standard_errors().ravel(), expected[:4], rtol=1e-9)
    np.testing.assert_allclose(fit.share_errors()[0], fit.shares.prod() * expected[4], rtol=1e-9)


def test_an_individual_of_weight_0_has_the_posterior_of_its_own_choices():
    rng, num, length = np.random.default_rng(0), 60, 12
    transitions, features = np.zeros((2, 3, 2)), np.zeros((2, 3, 2))
    transitions[:, :, 0] = features[:, 1, 0] = features[:, 2, 1] = 1
    mdp = ix.MDP.from_dense(transitions, [0.5, 0.5], discount=0.5)
    chances = [[0.3, 0.6, 0.1], [0.3, 0.1, 0.6]]
    actions = np.stack([rng.choice(3, p=chances[i % 2], size=length) for i in range(num)])
    states = np.zeros((num, length), int)
    # The last individual alone is seen in state 1, and nobody learns from it.
    states[-1, 0], actions[-1], actions[-1, 0] = 1, 0, 2
    demos = ix.Demonstrations.from_arrays(states, actions, weights=np.append(np.ones(num - 1), 0))
    fit = ix.MixtureIRL(num_starts=1).fit(mdp, ix.LinearReward(features), demos, key=jax.random.key(0))
    joint = np.log(fit.shares) + [np.asarray(plan.log_policy)[states[-1], actions[-1]].sum() for plan in fit.plans]
    np.testing.assert_allclose(fit.posterior[-1], np.exp(joint - logsumexp(joint)), atol=1e-9)


def test_a_mixture_is_summarised_saved_and_loaded(fit, tmp_path):
    text = str(fit.summary())
    assert "type 2" in text and "replacement" in text and "BIC" in text and fit.status.value in text
    fit.save(tmp_path / "run")
    loaded = ix.load(tmp_path / "run")
    for name in ("parameters", "shares", "posterior", "individuals", "person"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(fit, name))
    np.testing.assert_array_equal(loaded.plans[1].policy, fit.plans[1].policy)
    assert str(loaded.summary()) == text
    fit.save(tmp_path / "run")
    (tmp_path / "run" / "arrays.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="run"):
        ix.load(tmp_path / "run")


def test_bad_mixtures_are_refused(panel, as_a_user):
    demos, key = panel[1], jax.random.key(0)
    for wrong in ({"num_types": 0}, {"num_starts": 0}, {"tol": 0.0}, {"l2": -1.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ix.MixtureIRL(**wrong)
    with pytest.raises(TypeError, match="Demonstrations"):
        ix.MixtureIRL().fit(MDP, REWARD, np.full((20, 2), 0.5), key=key)
    with pytest.raises(ValueError, match="individuals"):
        ix.MixtureIRL(num_types=3).fit(MDP, REWARD, demos.select([0, 1]), key=key)
    with pytest.raises(ValueError, match="label for each episode"):
        ix.MixtureIRL().fit(MDP, REWARD, demos, key=key, individual=np.zeros(3, int))
    uneven = dataclasses.replace(demos, weights=np.arange(1.0, 201.0))
    with pytest.raises(ValueError, match="one weight"):
        ix.MixtureIRL().fit(MDP, REWARD, uneven, key=key, individual=np.repeat(np.arange(100), 2))


def test_the_command_line_shows_and_reports_a_mixture(fit, tmp_path):
    run = fit.save(tmp_path / "run")
    assert irlax("show", run) == (0, f"{fit.summary()}\n", "")
    record = json.loads(irlax("show", run, "--json").out)
    assert [kind["share"] for kind in record["types"]] == fit.shares.tolist()
    assert record["types"][1]["parameters"][0] == {
        "name": "wear",
        "estimate": fit.parameters[1, 0],
        "standard_error": fit.standard_errors()[1, 0],
    }
    end = irlax("report", run, "--json")
    assert end.code == 0 and json.loads(end.out) == {"report": str(run / "report.html")}
    text = (run / "report.html").read_text()
    for heading in ("How sure the rewards are", "Who is of which type", "Type 1:", "Type 2:", "Convergence"):
        assert f"<h2>{heading}" in text
    (run / "arrays.npz").write_bytes(b"")
    for command in ("show", "report"):
        assert irlax(command, run).code == 2


def test_a_report_counts_episodes_by_the_posterior_of_their_individual(fit):
    assert "by the probability that it is of this type" in mixture_page(fit).render()
    np.testing.assert_allclose(_of_type(fit, 0).demos.weights, np.repeat(fit.posterior[:, 0], 2))
