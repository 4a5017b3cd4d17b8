"""L-BFGS as one compiled loop, alone and for many problems at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

import irlax as ix
from irlax.estimators.tabular.solvers import lbfgs_loop as lbfgs

FEATURES = np.random.default_rng(0).normal(size=(12, 3))


def chain(discount=0.9, horizon=8):
    """Twelve states in a ring, two ways to go, slips."""
    after = (np.arange(12)[:, None, None] + np.array([[1, -1], [-1, 1]])) % 12
    probs = np.broadcast_to([0.8, 0.2], after.shape)
    return ix.MDP.from_successors(after, probs, np.eye(12)[0], discount=discount, horizon=horizon)


def test_rosenbrock_to_the_bottom():
    def loss(x, warm_start):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(), warm_start

    with jax.enable_x64(True):
        state = lbfgs.State.at(jnp.full(6, -1.0), 10, None)
        evaluate = jax.value_and_grad(loss, has_aux=True)
        size = lambda gradient: jnp.abs(gradient).max()  # noqa: E731
        given = {"limit": 500, "tol": 1e-9, "length": 500, "rounding": 1e-13}
        chunk = jax.jit(lambda state: lbfgs.advance(evaluate, size, state, **given))(state)
    count = int(chunk.state.count)
    np.testing.assert_allclose(chunk.state.x, 1, atol=1e-8)
    losses, points = np.asarray(chunk.losses)[:count], np.asarray(chunk.parameters)[:count]
    np.testing.assert_allclose(losses, [rosen(point) for point in points], rtol=1e-12, atol=1e-18)
    np.testing.assert_allclose(np.asarray(chunk.gradients)[3], rosen_der(points[3]), rtol=1e-10)
    assert (np.diff(losses) <= 0).all()


def test_below_the_rounding_of_a_loss_in_single_precision_its_slope_decides():
    goal, stretch = np.linspace(1, 2, 6, dtype=np.float32), np.geomspace(1, 30, 6, dtype=np.float32)

    def loss(x, warm_start):
        # As where many numbers are added up: what is lost depends on the point, and changes no slope.
        lost = jax.lax.stop_gradient(0.2 * jnp.sin(1e4 * x.sum()))
        return 1e6 + lost + (stretch * (x - goal) ** 2).sum(), warm_start

    def end(rounding):
        given = {"limit": 100, "tol": 1e-4, "length": 1, "rounding": rounding}
        size, evaluate = (lambda gradient: jnp.abs(gradient).max()), jax.value_and_grad(loss, has_aux=True)
        state = lbfgs.State.at(np.zeros(6, np.float32), 10, None)
        return jax.jit(lambda state: lbfgs.advance(evaluate, size, state, **given).state)(state)

    found = end(1e-6)
    assert not found.stalled
    np.testing.assert_allclose(found.x, goal, atol=1e-4)
    assert np.abs(end(1e-13).x - goal).max() > 1e-2


@pytest.mark.parametrize("horizon", [8, None])
def test_many_fits_at_once_are_those_one_by_one(horizon):
    mdp, rng = chain(horizon=horizon), np.random.default_rng(1)
    weights = rng.normal(size=(4, 3))
    plans = [ix.soft_plan(mdp, FEATURES @ w) for w in weights]
    fits = ix.MCEIRL(progress=False).fit_many(mdp, ix.LinearReward(FEATURES), plans)
    assert all(fit.converged for fit in fits)
    np.testing.assert_allclose([fit.reward.weights for fit in fits], weights, atol=1e-5)
    alone = ix.MCEIRL(solver="lbfgs", progress=False).fit(mdp, ix.LinearReward(FEATURES), plans[2])
    np.testing.assert_allclose(fits[2].reward.weights, alone.reward.weights, atol=1e-6)
    np.testing.assert_allclose(fits[2].policy, alone.policy, atol=1e-6)
    assert max(np.abs(fit.feature_gap).max() for fit in fits) <= 1e-8


def test_many_mdps_at_once():
    rng = np.random.default_rng(2)
    mdps = [
        ix.MDP.from_successors(
            rng.integers(0, 12, size=(12, 2, 3)),
            rng.dirichlet(np.ones(3), (12, 2)),
            np.eye(12)[0],
            discount=0.9,
            horizon=8,
        )
        for _ in range(3)
    ]
    truth = np.array([0.5, -1.0, 0.3])
    plans = [ix.soft_plan(mdp, FEATURES @ truth) for mdp in mdps]
    fits = ix.MCEIRL(progress=False).fit_many(mdps, ix.LinearReward(FEATURES), plans)
    np.testing.assert_allclose([fit.reward.weights for fit in fits], np.tile(truth, (3, 1)), atol=1e-5)


def test_what_cannot_be_fitted_at_once_is_refused(as_a_user):
    mdp, reward = chain(), ix.LinearReward(FEATURES)
    plan = ix.soft_plan(mdp, FEATURES[:, 0])
    with pytest.raises(TypeError, match="list of demonstrators"):
        ix.MCEIRL().fit_many(mdp, reward, plan)
    with pytest.raises(ValueError, match=r"must list 2.*but lists 1"):
        ix.MCEIRL().fit_many([mdp], reward, [plan, plan])
    with pytest.raises(ValueError, match="L-BFGS"):
        ix.MCEIRL(solver="newton").fit_many(mdp, reward, [plan])
    with pytest.raises(ValueError, match="same shape"):
        other = chain(horizon=5)
        ix.MCEIRL().fit_many([mdp, other], reward, [plan, ix.soft_plan(other, FEATURES[:, 0])])


def test_low_memory_and_visits_alone_change_nothing():
    mdp = chain()
    plan = ix.soft_plan(mdp, FEATURES @ [0.2, 0.4, -0.6])
    usual = ix.MCEIRL(progress=False).fit(mdp, ix.LinearReward(FEATURES), plan)
    sparing = ix.MCEIRL(low_memory=True, progress=False).fit(
        mdp, ix.LinearReward(FEATURES), occupancy=ix.visits(mdp, plan)
    )
    np.testing.assert_allclose(sparing.reward.weights, usual.reward.weights, atol=1e-9)
    np.testing.assert_allclose(sparing.policy, usual.policy, atol=1e-12)
    with pytest.raises(ValueError, match="low_memory"):
        ix.MCEIRL(objective="likelihood", low_memory=True)
    with pytest.raises(ValueError, match="at each time"):
        ix.MCEIRL(objective="discounted-likelihood").fit(mdp, ix.LinearReward(FEATURES), occupancy=ix.visits(mdp, plan))
