"""Standard errors, the bootstrap and tests of nested rewards, against simulation and literal formulas."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import irlax as ix
from irlax.analysis.standard_errors import identified_covariance
from irlax.estimators.tabular import cross_validation
from irlax.estimators.tabular.bootstrap import Likelihood, Refits
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.problem import Flattening

TRUTH = np.array([0.8, -0.6])


def panel(num=150, seed=0, horizon=4):
    mdp = ix.envs.RandomMDP(4, 3, horizon=horizon, seed=5).mdp
    features = np.random.default_rng(5).normal(size=(4, 3, 2))
    length = {} if horizon else {"length": 8}
    demos = ix.rollout(mdp, ix.soft_plan(mdp, features @ TRUTH), num=num, key=jax.random.key(seed), **length)
    return mdp, features, demos


def fitted(**options):
    mdp, features, demos = panel(**options)
    return ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features), demos), features


def literal_scores(fit, features):
    """∂log π of each choice by central differences of the plan."""
    demos, scores = fit.experts[0].demos, []
    for step in 1e-5 * np.eye(2):
        up, down = (ix.soft_plan(fit.mdp, features @ (fit.reward.weights + sign * step)).log_policy for sign in (1, -1))
        slope = (up - down) / 2e-5
        at = (demos.states, demos.actions) if fit.mdp.horizon is None else (demos.times, demos.states, demos.actions)
        scores.append(slope[at])
    return np.stack(scores, axis=1)


@pytest.mark.parametrize("horizon", [4, None])
def test_the_three_estimators_are_their_textbook_formulas(horizon):
    fit, features = fitted(horizon=horizon)
    scores = literal_scores(fit, features)
    outer = scores.T @ scores
    h = 1e-4

    def total(plan):
        demos = fit.experts[0].demos
        at = (demos.states, demos.actions) if fit.mdp.horizon is None else (demos.times, demos.states, demos.actions)
        return plan.log_policy[at].sum()

    def gradient(theta):
        moves = [[ix.soft_plan(fit.mdp, features @ (theta + s * e)) for s in (1, -1)] for e in h * np.eye(2)]
        return np.array([(total(up) - total(down)) / (2 * h) for up, down in moves])

    theta = fit.reward.weights
    hessian = -np.array([(gradient(theta + e) - gradient(theta - e)) / (2 * h) for e in h * np.eye(2)])
    inverse = np.linalg.inv(hessian)
    np.testing.assert_allclose(fit.standard_errors("hessian"), np.sqrt(np.diag(inverse)), rtol=1e-4)
    np.testing.assert_allclose(fit.standard_errors("opg"), np.sqrt(np.diag(np.linalg.inv(outer))), rtol=1e-6)
    np.testing.assert_allclose(fit.standard_errors("sandwich"), np.sqrt(np.diag(inverse @ outer @ inverse)), rtol=1e-4)
    episode = fit.experts[0].demos.episode
    clustered = np.stack([np.bincount(episode, weights=scores[:, k]) for k in range(2)], axis=1)
    expected = np.sqrt(np.diag(inverse @ clustered.T @ clustered @ inverse))
    np.testing.assert_allclose(fit.standard_errors("sandwich", cluster="episode"), expected, rtol=1e-4)
    labels = np.arange(150) // 10
    by_label = np.stack([np.bincount(labels[episode], weights=scores[:, k]) for k in range(2)], axis=1)
    expected = np.sqrt(np.diag(inverse @ by_label.T @ by_label @ inverse))
    np.testing.assert_allclose(fit.standard_errors("sandwich", cluster=labels), expected, rtol=1e-4)


def test_standard_errors_are_the_spread_of_estimates_over_2000_simulated_data_sets():
    """All data sets at once: each is a grid of counts, and each is refitted by Newton's method under one vmap."""
    num_sets, num = 2000, 150
    mdp, features, demos = panel(num=num_sets * num, seed=3)
    data_set = demos.episode // num
    grids = np.zeros((num_sets, 4, 12))
    np.add.at(grids, (data_set, demos.times, demos.states * 3 + demos.actions), 1 / num)
    states, actions = (np.broadcast_to(x, (4, 12)) for x in (np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4)))
    reward = ix.LinearReward(features)
    with jax.enable_x64(True):
        likelihood = Likelihood(mdp, reward.fold(mdp), jnp.asarray(states), jnp.asarray(actions), jnp.zeros((4, 12)))
        start, nothing = jnp.asarray(TRUTH), jnp.asarray(0.0)
        refits = Refits(likelihood, Flattening.of(reward.parameters), start, jnp.eye(2), nothing)
        estimates = np.asarray(jax.jit(lambda grids: jax.lax.map(refits, grids, batch_size=64))(jnp.asarray(grids)))
    assert np.isfinite(estimates).all()
    one = ix.MCEIRL(objective="likelihood").fit(mdp, reward, demos.select(np.arange(num)))
    np.testing.assert_allclose(estimates[0], one.reward.weights, atol=1e-6)
    spread = estimates.std(axis=0, ddof=1)
    # Errors of one data set are themselves noisy; their root mean square over a few dozen sets is not.
    errors = [
        ix.MCEIRL(objective="likelihood")
        .fit(mdp, ix.LinearReward(features, TRUTH), demos.select(np.arange(num * k, num * (k + 1))))
        .standard_errors("hessian")
        for k in range(12)
    ]
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(errors), axis=0)), spread, rtol=0.05)
    reach = 1.959964 * one.standard_errors()[:, None] * np.array([-1, 1])
    np.testing.assert_allclose(one.confidence_intervals(), one.reward.weights[:, None] + reach, rtol=1e-6)


def test_the_bootstrap_has_the_spread_of_the_clustered_sandwich():
    fit, _ = fitted()
    draws = fit.bootstrap(num=400, key=jax.random.key(0))
    assert np.isfinite(draws).all()
    expected = fit.standard_errors("sandwich", cluster="episode")
    np.testing.assert_allclose(draws.std(axis=0, ddof=1), expected, rtol=0.15)
    np.testing.assert_allclose(draws.mean(axis=0), fit.reward.weights, atol=4 * expected.max() / 20)


def test_what_is_not_identified_has_no_standard_error():
    mdp, features, demos = panel(horizon=None)
    twice = np.concatenate([features, features[..., :1]], axis=-1)
    fit = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(twice), demos)
    errors = fit.standard_errors()
    assert np.isnan(errors[[0, 2]]).all()
    assert np.isfinite(errors[1])
    assert "2 of 3 dimensions; not identified: θ0 − θ2 (no effect)" in str(fit.summary())


def test_likelihood_ratio_of_nested_rewards():
    mdp, features, demos = panel()
    noise = np.random.default_rng(9).normal(size=(4, 3, 2))
    small = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features), demos)
    large = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(np.concatenate([features, noise], -1)), demos)
    ((statistic, restrictions, p),) = large.compare_nested(small).rows
    np.testing.assert_allclose(statistic, 2 * (large.log_likelihood - small.log_likelihood))
    assert restrictions == 2
    np.testing.assert_allclose(p, chi2.sf(statistic, 2))
    with pytest.raises(ValueError, match="more identified directions"):
        small.compare_nested(large)


def test_restrictions_are_counted_on_what_is_identified():
    mdp, features, demos = panel()
    noise = np.random.default_rng(9).normal(size=(4, 3, 1))
    columns = {"small": [features], "large": [features, noise], "spare": [features, noise, noise, 2 * noise - features]}
    estimator = ix.MCEIRL(objective="likelihood")
    small, large, spare = (
        estimator.fit(mdp, ix.LinearReward(np.concatenate(each, -1)[..., :4]), demos) for each in columns.values()
    )
    ((statistic, restrictions, p),) = spare.compare_nested(small).rows
    assert restrictions == 1
    np.testing.assert_allclose([statistic, p], large.compare_nested(small).rows[0][::2], rtol=1e-5)
    np.testing.assert_allclose(p, chi2.sf(statistic, 1), rtol=1e-6)
    # AIC and BIC count the same three: the fourth column explains nothing.
    aic, bic = (float(row[1].replace("−", "-")) for row in spare.regression_table().tables[1].rows[1:3])
    np.testing.assert_allclose(aic, 2 * 3 - 2 * large.log_likelihood, atol=1e-3)
    np.testing.assert_allclose(bic, 3 * np.log(demos.num_steps) - 2 * large.log_likelihood, atol=1e-3)


def test_the_test_of_nested_rewards_wants_maximum_likelihood_estimates_of_the_same_data():
    mdp, features, demos = panel()
    wide = np.concatenate([features, np.random.default_rng(9).normal(size=(4, 3, 1))], -1)
    large = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(wide), demos)
    penalised = ix.MCEIRL(objective="likelihood", l2=1.0).fit(mdp, ix.LinearReward(features), demos)
    with pytest.raises(ValueError, match="penalty l2 = 1"):
        large.compare_nested(penalised)
    others = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features), panel(seed=5)[2])
    with pytest.raises(ValueError, match="same demonstrations"):
        large.compare_nested(others)


def test_a_resample_without_a_finite_estimate_is_nan():
    """One choice, made once in twenty episodes: log-odds of a resample with k of them are log(k / (20 − k))."""
    mdp = ix.MDP.from_dense(np.ones((1, 2, 1)), [1.0], discount=0.9, horizon=1)
    features = np.zeros((1, 2, 1))
    features[0, 1] = 1.0
    actions = np.zeros((20, 1), int)
    actions[0] = 1
    demos = ix.Demonstrations.from_arrays(np.zeros((20, 1), int), actions)
    fit = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features), demos)
    draws = fit.bootstrap(num=300, key=jax.random.key(1))[:, 0]
    possible = np.log(np.arange(1, 20) / np.arange(19, 0, -1))
    assert 0.2 < np.isnan(draws).mean() < 0.5  # (19/20)²⁰ = .36
    known = draws[np.isfinite(draws)]
    assert np.abs(known[:, None] - possible).min(axis=1).max() < 1e-6


def test_the_bootstrap_has_no_spread_for_what_is_not_identified():
    mdp, features, demos = panel()
    twice = np.concatenate([features, features[..., :1]], axis=-1)
    fit = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(twice), demos)
    draws = fit.bootstrap(num=50, key=jax.random.key(0))
    assert np.isnan(draws[:, [0, 2]]).all() and np.isfinite(draws[:, 1]).all()


def test_standard_errors_are_refused_where_they_mean_nothing(as_a_user):
    mdp, features, demos = panel()
    reward = ix.LinearReward(features)
    with pytest.raises(ValueError, match="objective='likelihood'"):
        ix.MCEIRL().fit(mdp, reward, demos).standard_errors()
    fit = ix.MCEIRL(objective="likelihood").fit(mdp, reward, demos)
    with pytest.raises(ValueError, match="kind"):
        fit.standard_errors("jackknife")
    with pytest.raises(ValueError, match="no clusters"):
        fit.standard_errors("hessian", cluster="episode")
    with pytest.raises(ValueError, match="a label for each episode"):
        fit.standard_errors("sandwich", cluster=np.zeros(3))


def test_weighted_episodes_count_in_scores_and_curvature_alike():
    mdp, features, demos = panel(num=40)
    twice = demos.select(np.repeat(np.arange(40), 2))
    weighted = ix.Demonstrations.from_arrays(
        demos.states.reshape(40, 4), demos.actions.reshape(40, 4), weights=np.full(40, 2.0)
    )
    fits = [ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features), data) for data in (twice, weighted)]
    for kind, cluster in (("hessian", None), ("opg", None), ("sandwich", None), ("sandwich", "episode")):
        np.testing.assert_allclose(*(fit.standard_errors(kind, cluster=cluster) for fit in fits), rtol=1e-6)
    # Episodes of one label are one cluster, however they are written down.
    labels = np.arange(40) // 4
    listed, counted = (
        fit.standard_errors("sandwich", cluster=k) for fit, k in zip(fits, (np.repeat(labels, 2), labels), strict=True)
    )
    np.testing.assert_allclose(listed, counted, rtol=1e-6)
    # A weight from sampling stands for one episode: the scale of all weights does not matter.
    plain = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features), demos)
    one, two = (fit.standard_errors("sandwich", cluster="episode", weights="sampling") for fit in (plain, fits[1]))
    np.testing.assert_allclose(one, two, rtol=1e-6)
    with pytest.raises(ValueError, match="sandwich"):
        plain.standard_errors("opg", weights="sampling")
    assert Expert.of(mdp, weighted, None, "auto").weight == 80


def test_cross_validation_scores_episodes_that_were_not_learned_from():
    mdp, features, demos = panel(num=20)
    estimator, reward = ix.MCEIRL(objective="likelihood", l2=0.01), ix.LinearReward(features)
    scores = ix.cross_validate(estimator, mdp, reward, demos, folds=4)
    folds = np.random.default_rng(0).permutation(20) % 4
    fit = estimator.fit(mdp, reward, demos.select(folds != 0))
    held_out = demos.select(folds == 0)
    expected = np.log(fit.policy)[held_out.times, held_out.states, held_out.actions].mean()
    np.testing.assert_allclose(scores[0], expected, rtol=1e-6)
    with pytest.raises(ValueError, match="needs as many episodes"):
        ix.cross_validate(estimator, mdp, reward, demos, folds=21)


def test_the_score_of_a_cross_validated_penalty_does_not_depend_on_the_scale_of_weights(monkeypatch):
    monkeypatch.setattr(cross_validation, "CANDIDATES", (1e-3, 0.1, 10.0))
    mdp, features, demos = panel(num=20)
    estimator = ix.MCEIRL(objective="likelihood", l2="cv")

    def chosen(demos):
        found = estimator.fit(mdp, ix.LinearReward(features), demos).cross_validation
        return [found.l2, found.log_likelihood]

    def weighing(weights):
        return chosen(eqx.tree_at(lambda demos: demos.weights, demos, weights))

    np.testing.assert_allclose(weighing(np.ones(20)), weighing(10 * np.ones(20)), rtol=1e-6)
    # Episodes without weight are in no fold.
    half = np.repeat([1.0, 0.0], 10)
    np.testing.assert_allclose(weighing(half), chosen(demos.select(np.arange(10))), rtol=1e-5)


def test_a_summary_of_a_likelihood_fit_has_standard_errors():
    fit, _ = fitted()
    table = fit.summary().tables[0]
    assert table.columns == ("parameter", "estimate", "s.e.", "z", "feature gap")
    np.testing.assert_allclose([row[2] for row in table.rows], fit.standard_errors())


def test_a_penalty_steadies_estimates_and_identifies_nothing():
    """Penalised errors are the spread of penalised estimates: here, of a bootstrap; hidden directions stay hidden."""
    mdp, features, demos = panel()
    fit = ix.MCEIRL(objective="likelihood", l2=0.2).fit(mdp, ix.LinearReward(features), demos)
    errors = fit.standard_errors("sandwich", cluster="episode")
    draws = fit.bootstrap(num=400, key=jax.random.key(0))
    np.testing.assert_allclose(draws.std(axis=0, ddof=1), errors, rtol=0.15)
    plain = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features), demos)
    assert np.all(fit.standard_errors() < plain.standard_errors())
    table = ix.MCEIRL(objective="likelihood", l2=0.2).fit(mdp, ix.TabularReward("s"), demos)
    assert np.isnan(table.standard_errors()).all()


def test_a_penalty_is_the_least_that_leaves_what_is_identified_as_it_is():
    """Of features (f, 2f) only η = θ₁ + 2θ₂ is identified, whose least penalty is ½λη²/5."""
    curvature, penalty, sum_of_both = 3.0, 2.0, np.array([1.0, 2.0])
    inner = identified_covariance("hessian", curvature * np.outer(sum_of_both, sum_of_both), np.ones((4, 2)), penalty)
    error = sum_of_both @ inner @ sum_of_both
    np.testing.assert_allclose(error, curvature / (curvature + penalty / 5) ** 2, rtol=1e-12)
