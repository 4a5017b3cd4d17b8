"""Counterfactuals and demand curves, against simulation, finite differences and draws of the parameters."""

import jax
import numpy as np
import pytest
from scipy.special import expit, logit

import irlax as ix
from irlax.estimators.tabular import demand_curve as module
from irlax.estimators.tabular.inference import information_of
from tests.fits import made
from tests.problems import bus_like, wear_and_replacement

FEATURES = wear_and_replacement()
REWARD = ix.LinearReward(FEATURES, names=["wear", "replacement"])
GRID = np.array([1.0, 3.0, 6.0])


@pytest.fixture(scope="module")
def fit():
    mdp = bus_like()
    plan = ix.soft_plan(mdp, FEATURES @ np.array([4.0, 3.0]))
    return ix.MCEIRL(objective="likelihood").fit(
        mdp, REWARD, ix.rollout(mdp, plan, num=50, length=100, key=jax.random.key(1))
    )


@pytest.fixture(scope="module")
def curve(fit):
    return fit.demand_curve(action=1, parameter="replacement", values=GRID)


def test_a_changed_reward_and_a_changed_world_are_planned_for(fit):
    theta = np.array([fit.reward.weights[0], 5.0])
    dearer = fit.counterfactual(parameters={"replacement": 5.0})
    np.testing.assert_allclose(dearer.policy, ix.soft_plan(fit.mdp, FEATURES @ theta).policy, atol=1e-12)
    for same in (fit.counterfactual(parameters=theta), fit.counterfactual(reward=REWARD.with_parameters(theta))):
        np.testing.assert_array_equal(same.policy, dearer.policy)
    np.testing.assert_allclose(dearer.long_run, ix.long_run(fit.mdp, dearer.policy), atol=1e-12)
    # Patience is part of the world: whoever does not look ahead never pays for a replacement to save later wear.
    myopic = fit.counterfactual(mdp=fit.mdp.replace(discount=0.0))
    expected = expit(FEATURES[:, 1] @ fit.reward.weights - FEATURES[:, 0] @ fit.reward.weights)
    np.testing.assert_allclose(myopic.policy[:, 1], expected, rtol=1e-9)
    assert "Long-run rates" in str(dearer.summary())


def test_a_demand_curve_is_what_long_simulations_count(fit, curve):
    for value, rate in zip(GRID, curve.rate, strict=True):
        changed = fit.counterfactual(parameters={"replacement": value})
        np.testing.assert_allclose(changed.rate(1), rate, rtol=1e-9)
        demos = ix.rollout(fit.mdp, changed.plan, num=200, length=500, key=jax.random.key(0))
        share = demos.actions.reshape(200, 500)[:, 100:].mean(axis=1)
        assert abs(share.mean() - rate) < 4 * share.std(ddof=1) / np.sqrt(200)


def test_delta_errors_are_gradients_by_differences_times_the_covariance(fit, curve):
    variance = information_of(fit).covariance("hessian", None, "frequency")[0, 0]
    for place, value in enumerate(GRID):
        up, down = (
            fit.counterfactual(parameters=[fit.reward.weights[0] + step, value]).rate(1) for step in (1e-4, -1e-4)
        )
        error = abs(up - down) / 2e-4 * np.sqrt(variance)
        np.testing.assert_allclose(curve.standard_error[place], error, rtol=1e-6)
        rate = curve.rate[place]
        reach = 1.959964 * error / (rate * (1 - rate))
        np.testing.assert_allclose(curve.interval[place], expit(logit(rate) + reach * np.array([-1, 1])), rtol=1e-6)


def test_delta_intervals_are_those_of_drawn_parameters(fit, curve):
    options = {"action": 1, "parameter": 1, "values": GRID, "num": 640}
    drawn = fit.demand_curve(method="draws", key=jax.random.key(3), **options)
    np.testing.assert_array_equal(drawn.rate, curve.rate)
    np.testing.assert_allclose(drawn.standard_error, curve.standard_error, rtol=0.1)
    np.testing.assert_allclose(drawn.interval, curve.interval, atol=0.35 * curve.standard_error.max())


def test_bootstrap_intervals_are_quantiles_over_refits_that_converged(fit, monkeypatch):
    refits = np.tile(fit.reward.weights, (704, 1))
    refits[::22] = np.nan
    refits[1::11, 0] += 1.0
    monkeypatch.setattr(module, "refit_resamples", lambda fit, num, key: refits)
    found = fit.demand_curve(
        action=1, parameter="replacement", values=GRID, method="bootstrap", level=0.9, key=jax.random.key(0)
    )
    moved = [fit.counterfactual(parameters=[fit.reward.weights[0] + 1.0, value]).rate(1) for value in GRID]
    np.testing.assert_allclose(found.interval, np.stack([found.rate, moved], axis=1), rtol=1e-9)
    refits[::11] = np.nan
    with pytest.raises(ValueError, match="64 of 500 resamples have no finite estimate"):
        fit.demand_curve(action=1, parameter="replacement", values=GRID, method="bootstrap", key=jax.random.key(0))


@pytest.fixture(scope="module")
def spare_fit(fit):
    """The same fit with the feature of wear in it twice: only the sum of the two weights is identified."""
    features = wear_and_replacement()
    twice = ix.LinearReward(np.concatenate([features, features[..., :1]], -1), names=["wear", "replacement", "again"])
    return ix.MCEIRL(objective="likelihood").fit(fit.mdp, twice, fit.experts[0].demos)


def test_a_curve_that_depends_on_what_is_identified_alone_has_its_interval(fit, spare_fit):
    request = {"action": 1, "parameter": "replacement", "values": GRID}
    plain, spare = fit.demand_curve(**request), spare_fit.demand_curve(**request)
    np.testing.assert_allclose(spare.rate, plain.rate, rtol=1e-6)
    np.testing.assert_allclose(spare.interval, plain.interval, rtol=1e-4)
    # With one of the two weights set, the other is not known: the directions are named.
    with pytest.raises(ValueError, match=r"do not identify: (wear − again|again − wear)"):
        spare_fit.demand_curve(action=1, parameter="wear", values=GRID)


def test_a_counterfactual_that_depends_on_what_is_not_identified_says_so():
    """A constant cost of every action of one state is a potential; with other dynamics it is none."""
    rng = np.random.default_rng(0)
    first, other = (
        ix.MDP.from_dense(rng.dirichlet(np.ones(3), (3, 2)), np.ones(3) / 3, discount=0.9) for _ in range(2)
    )
    demos = ix.rollout(first, ix.soft_plan(first, rng.normal(size=(3, 2))), num=50, length=30, key=jax.random.key(0))
    fit = ix.MCEIRL(objective="likelihood", l2=1e-3).fit(first, ix.TabularReward("sa"), demos)
    with pytest.warns(ix.NotIdentifiedWarning, match="r\\("):
        found = fit.counterfactual(mdp=other)
    assert found.depends_on and "not identified" in str(found.summary())
    # Two rewards that differ by a potential of the first MDP: the same behaviour there, another one here.
    potential = np.array([0.0, 1.0, -1.0])
    shaped = fit.reward.values + potential[:, None] - 0.9 * first.dynamics.expect(potential)
    np.testing.assert_allclose(ix.soft_plan(first, shaped).policy, fit.policy, atol=1e-8)
    assert np.abs(ix.soft_plan(other, shaped).policy - found.policy).max() > 0.01
    # In the MDP of the fit nothing is open.
    assert not fit.counterfactual(parameters=fit.reward.values.ravel() * 2).depends_on


def test_a_curve_has_a_table_and_a_figure(curve, tmp_path):
    text = str(curve)
    assert "replacement" in text and "rate of action 1" in text and "95% from" in text
    curve.plot().savefig(tmp_path / "demand.png")
    assert (tmp_path / "demand.png").stat().st_size > 5000


def test_bad_requests_are_refused(fit, as_a_user):
    good = {"action": 1, "parameter": "replacement", "values": GRID}
    for wrong, message in (
        ({"action": 2}, "action"),
        ({"parameter": "price"}, "parameter"),
        ({"parameter": 2}, "parameter"),
        ({"values": [np.nan]}, "values"),
        ({"level": 1.0}, "level"),
        ({"method": "guess"}, "method"),
    ):
        with pytest.raises(ValueError, match=message):
            fit.demand_curve(**(good | wrong))
    with pytest.raises(TypeError, match="key"):
        fit.demand_curve(method="draws", **good)
    with pytest.raises(TypeError, match="needs a change"):
        fit.counterfactual()
    with pytest.raises(TypeError, match="not both"):
        fit.counterfactual(reward=REWARD, parameters=[1.0, 2.0])
    with pytest.raises(ValueError, match="parameters"):
        fit.counterfactual(parameters=[1.0])
    with pytest.raises(ValueError, match="which"):
        fit.counterfactual(parameters=[1.0, 2.0], which=1)
    path = made(ix.LinearReward(np.ones((4, 2))), model="path")
    with pytest.raises(ValueError, match=r"soft \(causal\) model"):
        path.counterfactual(parameters=[0.0, 0.0])
