"""The joint likelihood of choices and transitions against literal differences of fresh plans."""

import functools
import importlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import irlax as ix
from irlax.mdp import Dense

FEATURES = np.random.default_rng(3).normal(size=(3, 2, 2))
PSI = np.array([0.6, 0.3])


def dense(psi):
    """P[s, a, s'] for three states, in two free numbers."""
    slow, fast = ([1 - p, p * 0.7, p * 0.3] for p in psi)
    return jnp.stack([jnp.stack([jnp.roll(jnp.stack(row), s) for row in (slow, fast)]) for s in range(3)])


class Moves(eqx.Module):
    """ψ ↦ dynamics."""

    def __call__(self, psi):
        return Dense(jnp.swapaxes(dense(psi), 0, 1))


@functools.cache
def panel():
    with jax.enable_x64(True):
        transitions = np.asarray(dense(PSI))
    mdp = ix.MDP.from_dense(transitions, np.ones(3) / 3, discount=0.9)
    demos = ix.rollout(mdp, ix.soft_plan(mdp, FEATURES @ [0.8, -0.5]), num=40, length=5, key=jax.random.key(2))
    fit = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(FEATURES), demos)
    return demos, fit


def literal(both):
    """Each row's log π + log P, from a fresh plan."""
    demos, _ = panel()
    transitions = np.asarray(dense(both[2:]), float)
    mdp = ix.MDP.from_dense(transitions, np.ones(3) / 3, discount=0.9)
    chosen = ix.soft_plan(mdp, FEATURES @ both[:2]).log_policy[demos.states, demos.actions]
    return chosen + np.log(transitions[demos.states, demos.actions, demos.next_states])


def differences(function, at, h=1e-5):
    return np.stack([(function(at + e) - function(at - e)) / (2 * h) for e in h * np.eye(len(at))], axis=-1)


def test_joint_errors_are_those_of_literal_scores_and_curvature():
    demos, fit = panel()
    full = fit.full_likelihood(ix.Nature(PSI, Moves(), names=["slow", "fast"]))
    both = np.concatenate([fit.reward.weights, PSI])
    with jax.enable_x64(True):
        scores = differences(literal, both)
        hessian = -differences(lambda at: differences(lambda x: literal(x).sum(), at, 1e-4), both, 1e-4)
        total = literal(both).sum()
    np.testing.assert_allclose(full.estimates, both)
    np.testing.assert_allclose(full.log_likelihood, total, rtol=1e-10)
    np.testing.assert_allclose(full.choices_log_likelihood, fit.log_likelihood, rtol=1e-10)
    np.testing.assert_allclose(full.scores, scores, atol=1e-7)
    np.testing.assert_allclose(full.hessian, hessian, rtol=1e-4, atol=1e-3)
    outer, inverse = scores.T @ scores, np.linalg.inv(hessian)
    np.testing.assert_allclose(full.covariance("opg"), np.linalg.inv(outer), rtol=1e-4)
    np.testing.assert_allclose(full.covariance("sandwich"), inverse @ outer @ inverse, rtol=1e-2, atol=1e-6)
    by_episode = np.stack([np.bincount(demos.episode, weights=column) for column in scores.T], axis=1)
    clustered = inverse @ by_episode.T @ by_episode @ inverse
    found = full.standard_errors("sandwich", cluster="episode")
    np.testing.assert_allclose(found, np.sqrt(np.diag(clustered)), rtol=1e-3)
    # Not knowing ψ can only make θ less certain, by the information that the two share.
    assert np.all(full.standard_errors()[:2] >= fit.standard_errors() * (1 - 1e-9))


def test_the_joint_maximum_has_no_slope_left():
    _, fit = panel()
    full = fit.full_likelihood(ix.Nature(PSI, Moves()), maximise=True)
    assert full.names == ("θ0", "θ1", "ψ0", "ψ1")
    np.testing.assert_allclose(full.scores.sum(axis=0), 0, atol=1e-5)
    with jax.enable_x64(True):
        best = literal(full.estimates).sum()
        assert best > literal(np.concatenate([fit.reward.weights, PSI])).sum() + 0.01
    np.testing.assert_allclose(full.log_likelihood, best, rtol=1e-10)


def test_a_maximum_that_is_not_reached_is_reported_where_it_was_asked_for(monkeypatch):
    _, fit = panel()
    # The package has a function of the module's name.
    module = importlib.import_module("irlax.estimators.tabular.full_likelihood")
    monkeypatch.setattr(module, "Newton", functools.partial(ix.Newton, max_steps=0))
    with pytest.warns(ix.UnfinishedWarning, match="two-step estimates") as said:
        fit.full_likelihood(ix.Nature(PSI, Moves()), maximise=True)
    assert [warning.filename for warning in said] == [__file__]


def test_a_table_as_economists_read_it():
    demos, fit = panel()
    columns, facts = fit.regression_table("sandwich", cluster="episode").tables
    assert columns.columns == ("parameter", "estimate", "s.e.", "z", "p", "95% low", "95% high")
    errors = fit.standard_errors("sandwich", cluster="episode")
    for k, (name, estimate, error, z, p, low, high) in enumerate(columns.rows):
        assert (name, estimate, error) == (f"θ{k}", fit.reward.weights[k], errors[k])
        np.testing.assert_allclose([z, p], [estimate / error, 2 * norm.sf(abs(estimate / error))], rtol=1e-10)
        np.testing.assert_allclose([low, high], norm.interval(0.95, estimate, error), rtol=1e-10)
    assert "clustered by individual" in columns.notes[0]
    shown = dict(facts.rows)
    loss = -2 * fit.log_likelihood
    assert shown["AIC"] == f"{4 + loss:.3f}"
    assert shown["BIC"] == f"{2 * np.log(200) + loss:.3f}"
    assert (shown["individuals"], shown["observations"]) == (40, 200)
    share = np.bincount(demos.actions) / 200
    expected = 1 - fit.log_likelihood / (200 * (share * np.log(share)).sum())
    np.testing.assert_allclose(shown["pseudo-R² of choices, against the actions' shares"], expected)
    latex, markdown = fit.regression_table().to_latex(), fit.regression_table(level=0.9).to_markdown()
    assert r"\begin{tabular}{lrrrrrr}" in latex and "pseudo-R$^2$" in latex
    assert "| 90% low |" in markdown and "| BIC |" in markdown


def test_what_cannot_be_joined_is_refused(as_a_user):
    demos, fit = panel()
    with pytest.raises(TypeError, match="must be a Nature"):
        fit.full_likelihood(Moves())
    with pytest.raises(ValueError, match=r"must be in the MDP with the dynamics of `nature\.parameters`"):
        fit.full_likelihood(ix.Nature([0.5, 0.3], Moves()))
    with pytest.raises(TypeError, match="must return dynamics"):
        fit.full_likelihood(ix.Nature(PSI, dense))
    with pytest.raises(ValueError, match="one for each observed choice"):
        fit.full_likelihood(ix.Nature(PSI, Moves(), lambda psi: jnp.zeros(3)))
    with pytest.raises(ValueError, match="transitions probability 0: the log density of 200 rows"):
        fit.full_likelihood(ix.Nature(PSI, Moves(), lambda psi: jnp.full(200, -jnp.inf)))
    with pytest.raises(TypeError, match="must be a function"):
        ix.Nature(PSI, dense(PSI))
    with pytest.raises(ValueError, match="`names` must name each of the 2"):
        ix.Nature(PSI, Moves(), names=["one"])
    penalised = ix.MCEIRL(objective="likelihood", l2=0.1).fit(fit.mdp, ix.LinearReward(FEATURES), demos)
    with pytest.raises(ValueError, match="without a penalty"):
        penalised.full_likelihood(ix.Nature(PSI, Moves()))
