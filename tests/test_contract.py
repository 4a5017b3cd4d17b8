"""The same promises, kept by every tabular estimator."""

import dataclasses
import warnings

import equinox as eqx
import jax
import numpy as np
import pytest

import irlax as ix

MDP = ix.envs.RandomMDP(4, 3, horizon=4, seed=3).mdp
FEATURES = np.random.default_rng(3).normal(size=(4, 3, 2))
DEMOS = ix.rollout(MDP, ix.soft_plan(MDP, FEATURES @ np.array([1.0, -0.5])), num=40, key=jax.random.key(0))
REWARD = ix.LinearReward(FEATURES, names=["first", "second"])

ESTIMATORS = {
    "MCEIRL": ix.MCEIRL(),
    "MCEIRL, likelihood": ix.MCEIRL(objective="likelihood", l2=0.01),
    "MCEIRL, discounted likelihood": ix.MCEIRL(objective="discounted-likelihood"),
    "MaxEntIRL": ix.MaxEntIRL(),
    "ApprenticeshipIRL": ix.ApprenticeshipIRL(tol=1e-3),
    "TwoStepIRL": ix.TwoStepIRL(),
    "BayesianIRL": ix.BayesianIRL(num_chains=2, num_warmup=100, num_samples=100),
}
on_every_estimator = pytest.mark.parametrize("name", list(ESTIMATORS))


def fit(name, demos=DEMOS, seed=0, **options):
    estimator = ESTIMATORS[name]
    if name == "BayesianIRL":
        options["key"] = jax.random.key(seed)
    with warnings.catch_warnings():
        # Few short chains: whether they are enough is not what these tests are about.
        warnings.simplefilter("ignore", ix.UnfinishedWarning)
        return estimator.fit(MDP, REWARD, demos, **options)


@pytest.fixture(scope="module")
def fits():
    return {name: fit(name) for name in ESTIMATORS}


@on_every_estimator
def test_an_estimator_is_frozen_and_unchanged_by_fitting(name, fits):
    estimator = ESTIMATORS[name]
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimator.tol = 1.0
    assert isinstance(estimator, eqx.Module)
    assert fits[name] is not estimator


@on_every_estimator
def test_the_same_data_and_key_give_the_same_fit(name, fits):
    again = fit(name)
    np.testing.assert_array_equal(again.reward.weights, fits[name].reward.weights)
    np.testing.assert_array_equal(again.policy, fits[name].policy)


@on_every_estimator
def test_a_fit_has_a_reward_a_policy_a_status_and_a_summary(name, fits):
    found = fits[name]
    assert isinstance(found, ix.Fit)
    assert found.reward.weights.shape == (2,)
    assert found.reward.table(MDP).shape == (4, 3)
    assert found.policy.shape == (4, 4, 3)
    np.testing.assert_allclose(found.policy.sum(axis=-1), 1, rtol=1e-9)
    assert isinstance(found.status, ix.Status)
    assert isinstance(found.converged, bool)
    assert np.isfinite(found.log_likelihood)
    assert found.feature_gap.shape == (2,)
    assert found.seconds > 0
    text = str(found.summary())
    assert "first" in text and "second" in text and found.status.value in text
    assert "first" in found.summary().to_markdown()
    assert r"\toprule" in found.summary().to_latex()
    assert "<table>" in found.summary().to_html()


@on_every_estimator
def test_everything_in_a_fit_belongs_to_one_iterate(name, fits):
    found = fits[name]
    if found.mixture is None:
        planner = ix.path_plan if name == "MaxEntIRL" else ix.soft_plan
        np.testing.assert_allclose(found.policy, planner(MDP, found.reward.table(MDP)).policy, atol=1e-12)
    log_policy = np.log(np.maximum(found.policy, 1e-300))[DEMOS.times, DEMOS.states, DEMOS.actions]
    np.testing.assert_allclose(found.log_likelihood, log_policy.sum(), rtol=1e-9)


@on_every_estimator
def test_saving_and_loading_keeps_everything(name, fits, tmp_path):
    found = fits[name]
    found.save(tmp_path / "run")
    loaded = ix.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.reward.weights, found.reward.weights)
    np.testing.assert_array_equal(loaded.policy, found.policy)
    np.testing.assert_array_equal(loaded.feature_gap, found.feature_gap)
    assert loaded.status is found.status
    assert loaded.log_likelihood == found.log_likelihood
    assert str(loaded.summary()) == str(found.summary())


@on_every_estimator
def test_bad_input_is_refused_before_any_work(name, as_a_user):
    outside = ix.Demonstrations.from_arrays([[0, 1, 9, 1]], [[0, 0, 0, 0]])
    with pytest.raises(ValueError, match="state must lie"):
        fit(name, outside)
    with pytest.raises(TypeError):
        fit(name, "demonstrations")
    with pytest.raises((TypeError, ValueError)):
        fit(name, np.full((4, 3), np.nan))
    with pytest.raises(TypeError, match="reward"):
        options = {"key": jax.random.key(0)} if name == "BayesianIRL" else {}
        ESTIMATORS[name].fit(MDP, np.zeros(4), DEMOS, **options)


@pytest.mark.parametrize(
    ("name", "estimator"),
    [
        ("MCEIRL", ix.MCEIRL(solver=ix.DualAscent(step_size=1e-3, max_steps=2))),
        ("MaxEntIRL", ix.MaxEntIRL(solver=ix.Newton(max_steps=1))),
        ("ApprenticeshipIRL", ix.ApprenticeshipIRL(max_steps=1, tol=1e-12)),
        ("TwoStepIRL", ix.TwoStepIRL(iterations=None, max_steps=1)),
    ],
)
def test_an_unfinished_fit_is_never_silent_and_says_where_it_was_asked_for(name, estimator):
    with pytest.warns(ix.UnfinishedWarning) as said:
        found = estimator.fit(MDP, REWARD, DEMOS)
    assert not found.converged
    assert [warning.filename for warning in said] == [__file__]
    assert found.method == name
