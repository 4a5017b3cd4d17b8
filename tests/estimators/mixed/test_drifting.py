"""Drifting rewards, against dense Newton steps and integrals in NumPy that share no code with the estimator."""

import dataclasses
import json

import jax
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import irlax as ix
from irlax.estimators.mixed import DriftingFit
from irlax.estimators.mixed.drifting_evidence import at_sizes
from irlax.estimators.mixed.drifting_model import slope
from irlax.estimators.mixed.drifting_periods import Clock, group_periods
from irlax.precision import scope
from irlax.status import Status, UnfinishedWarning

S, A, K, B, N, GAMMA = 3, 2, 2, 4, 50, 0.8
SIGMA = (0.5, 0.2)


def made(horizon):
    """A small MDP, features, and episodes of a reward that drifts."""
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.ones(S), (S, A))
    features = rng.normal(size=(S, A, K))
    mdp = ix.MDP.from_dense(transitions, np.ones(S) / S, discount=GAMMA, horizon=horizon)
    truth = np.array([[1.0, -0.5], [1.5, -0.5], [0.5, -0.2], [-0.5, 0.0]])
    policy = np.stack([np.exp(log_policy(mdp, transitions, features @ theta)[t]) for t, theta in enumerate(truth)])
    demos = ix.rollout(mdp.replace(horizon=B), policy, num=N, key=jax.random.key(0))
    return mdp, transitions, features, demos


@pytest.fixture(scope="module")
def world():
    return made(None)


@pytest.fixture(scope="module")
def finite():
    return made(B)


@pytest.fixture(scope="module")
def given(world):
    """The fit at a given size of drift."""
    return fit_at(world, SIGMA)


def fit_at(world, sizes, demos=None, **settings):
    """A fit at a given size of drift."""
    return ix.DriftingIRL(drift=sizes, **settings).fit(world[0], ix.LinearReward(world[2]), demos or world[3])


def log_policy(mdp, transitions, reward):
    """log π at each of B times for rewards [..., S, A], by soft value iteration; if endless, the same at all times."""
    value, found = np.zeros(reward.shape[:-1]), []
    for _ in range(mdp.horizon or 120):
        q = reward + GAMMA * np.einsum("sat,...t->...sa", transitions, value)
        value = np.logaddexp.reduce(q, axis=-1)
        found.append(q - value[..., None])
    return found[::-1] if mdp.horizon else [found[-1]] * B


def log_likelihoods(world, thetas):
    """Σ log π of the choices at each time, for many parameters [..., K]."""
    mdp, transitions, features, demos = world
    tables = log_policy(mdp, transitions, np.einsum("sak,...k->...sa", features[..., : thetas.shape[-1]], thetas))
    rows = [demos.times == t for t in range(B)]
    return np.stack([tables[t][..., demos.states[r], demos.actions[r]].sum(axis=-1) for t, r in enumerate(rows)])


def dense_newton(world, path, sigma):
    """The mode of the posterior, its dense Hessian, and the log density there, by differences and NumPy."""
    h, unit = 1e-4, np.eye(K)
    shifts = np.array([i * unit[a] + j * unit[b] for a in range(K) for b in range(K) for i in (1, -1) for j in (1, -1)])
    difference = np.kron(np.diff(np.eye(B), axis=0), unit)
    walk = difference.T @ np.kron(np.eye(B - 1), np.diag(sigma**-2.0)) @ difference
    for _ in range(6):
        gradient, hessian = walk @ path.ravel(), walk.copy()
        for t in range(B):
            around = -log_likelihoods(world, path[t] + h * np.concatenate([unit, -unit, shifts]))[t]
            gradient[t * K : (t + 1) * K] += (around[:K] - around[K : 2 * K]) / (2 * h)
            signs = around[2 * K :].reshape(K, K, 4) @ [1, -1, -1, 1]
            hessian[t * K : (t + 1) * K, t * K : (t + 1) * K] += signs / (4 * h**2)
        path = path - np.linalg.solve(hessian, gradient).reshape(B, K)
    density = sum(log_likelihoods(world, theta)[t] for t, theta in enumerate(path))
    return path, hessian, density + norm.logpdf(np.diff(path, axis=0), scale=sigma).sum()


@pytest.fixture(scope="module")
def estimated(world):
    """The fit with the size of the drift estimated."""
    mdp, _, features, demos = world
    return ix.DriftingIRL().fit(mdp, ix.LinearReward(features, names=["food", "$rest"]), demos)


@pytest.mark.parametrize("name", ["world", "finite"])
def test_the_mode_its_bands_and_the_evidence_are_those_of_dense_newton_steps(name, request):
    world = request.getfixturevalue(name)
    given = request.getfixturevalue("given") if name == "world" else fit_at(world, SIGMA)

    path, hessian, density = dense_newton(world, np.tile(given.constant[0], (B, 1)), np.array(SIGMA))
    np.testing.assert_allclose(given.paths[0], path, atol=2e-6)
    np.testing.assert_allclose(given.variances[0].ravel(), np.diag(np.linalg.inv(hessian)), rtol=1e-4)
    expected = density + 0.5 * B * K * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(hessian)[1]
    assert np.isclose(given.log_evidence, expected, atol=1e-4, rtol=0)
    assert given.status is Status.CONVERGED and np.isnan(given.p_value)
    low, high = np.moveaxis(given.bands(0.5), -1, 0)
    np.testing.assert_allclose(high - low, 2 * norm.ppf(0.75) * given.standard_errors())


def test_the_laplace_evidence_is_close_to_the_integral(finite):
    """One parameter: the integral over all paths, on a grid, period by period."""
    reward = ix.LinearReward(finite[2][..., :1])
    fit = ix.DriftingIRL(drift=0.3, first=2.0).fit(finite[0], reward, finite[3])
    grid = np.linspace(-4, 4, 401)
    move, width = norm.logpdf(grid[:, None] - grid, scale=0.3), np.log(grid[1] - grid[0])
    likelihood, so_far = log_likelihoods(finite, grid[:, None]), norm.logpdf(grid, scale=2.0)
    for t in range(B):
        so_far = so_far + likelihood[t]
        total = logsumexp(so_far) + width
        so_far = logsumexp(so_far + move, axis=1) + width
    assert abs(fit.log_evidence - total) < 0.02


def test_without_drift_it_is_mceirl(world, estimated):
    mdp, _, features, demos = world
    plain = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features), demos)
    for size in (0.0, 1e-7):
        still = ix.DriftingIRL(drift=size).fit(mdp, ix.LinearReward(features), demos)
        np.testing.assert_allclose(still.paths[0], np.tile(plain.reward.weights, (B, 1)), atol=1e-6)
        assert np.isclose(still.log_likelihood, plain.log_likelihood)
        np.testing.assert_allclose(still.standard_errors()[0, 2], plain.standard_errors(), rtol=1e-5)
        assert abs(still.log_evidence_ratio) < 1e-6
    np.testing.assert_allclose(estimated.constant[0], plain.reward.weights, atol=1e-6)


def test_the_estimated_size_maximises_the_evidence(world, estimated):
    mdp, _, features, demos = world
    assert estimated.converged and estimated.drift[0] > 0 and estimated.log_evidence_ratio > 2
    assert estimated.p_value < 0.05 and estimated.verdict.startswith("drift")
    for k, factor in ((0, 1.2), (0, 0.8)):
        sizes = estimated.drift.copy()
        sizes[k] *= factor
        other = ix.DriftingIRL(drift=tuple(sizes)).fit(mdp, ix.LinearReward(features), demos)
        assert other.log_evidence < estimated.log_evidence
    same = ix.DriftingIRL(drift=tuple(estimated.drift)).fit(mdp, ix.LinearReward(features), demos)
    np.testing.assert_allclose(same.paths, estimated.paths, atol=1e-6)
    assert np.isclose(same.log_evidence, estimated.log_evidence)
    at_estimate = estimated.standard_errors(size_uncertainty=False)
    np.testing.assert_allclose(same.standard_errors(), at_estimate, atol=1e-6)
    assert (estimated.standard_errors() >= at_estimate).all() and estimated.size_variances.max() > 0


def test_derivatives_in_the_size_are_those_of_differences(world):
    mdp, _, features, demos = world
    estimator = ix.DriftingIRL()
    with scope():
        problem = estimator._problem(estimator._constant(mdp, ix.LinearReward(features), demos), None)
        sizes, group = np.array([0.6, 0.3]), np.arange(K)
        at = [at_sizes(problem.drift, group, sizes * np.exp(h * np.eye(K)[0]), problem.start) for h in (0, 1e-3, -1e-3)]
        found = slope(problem.drift, at[0].mode, group, [0])
    assert np.isclose(found.evidence[0], (at[1].evidence - at[2].evidence) / 2e-3, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.mode[0], (at[1].mode.z - at[2].mode.z) / 2e-3, atol=1e-4)


def test_a_constant_reward_shows_no_drift(world):
    mdp, transitions, features, _ = world
    policy = np.exp(np.stack(log_policy(mdp, transitions, features @ np.array([1.0, -0.5]))))
    demos = ix.rollout(mdp.replace(horizon=B), policy, num=N, key=jax.random.key(3))
    fit = ix.DriftingIRL(drift="common").fit(mdp, ix.LinearReward(features), demos)
    assert fit.converged and not fit.drift.any() and fit.log_evidence_ratio == 0 and fit.p_value == 1
    assert fit.verdict.startswith("no evidence of drift") and np.ptp(fit.paths, axis=1).max() == 0
    assert "no evidence of drift" in str(fit.summary())


def test_time_over_episodes_is_time_over_steps_with_the_choices_regrouped(world, given):
    mdp, _, features, demos = world
    if mdp.horizon is not None:
        pytest.skip("On a finite horizon the time of a choice matters.")
    # An episode for each period; gaps between times, because the rows are of different individuals.
    turned = demos.states.reshape(N, B).T, demos.actions.reshape(N, B).T
    by_period = dataclasses.replace(
        demos,
        states=turned[0].ravel(),
        actions=turned[1].ravel(),
        times=np.tile(np.arange(N) * 2, B),
        offsets=np.arange(B + 1) * N,
        terminated=np.zeros(B, bool),
        weights=np.ones(B),
        next_states=None,
    )
    fit = ix.DriftingIRL(over="episodes", drift=SIGMA).fit(mdp, ix.LinearReward(features), by_period)
    np.testing.assert_allclose(fit.paths, given.paths, atol=1e-9)
    last = by_period.select([B - 1])
    assert np.isclose(fit.score(last), fit.score(last, period=[B - 1]))
    assert fit.score(last) != fit.score(last, period=[0])
    simulated = fit.simulate(2, key=jax.random.key(0), length=5)
    assert simulated.lengths.tolist() == [5] * 2 * B
    sessions = Clock("episodes", 2, True).periods(by_period, np.array([0, 1, 0, 0]))
    assert sessions[::N].tolist() == [0, 0, 0, 1]


def test_paths_of_their_own_share_only_the_size_of_the_drift(world):
    mdp, _, features, demos = world
    reward, half = ix.LinearReward(features), demos.select(np.arange(N // 2))
    both = demos.select(np.tile(np.arange(N // 2), 2))
    individual = np.repeat(["ann", "bob"], N // 2)
    own = ix.DriftingIRL(shared=False, drift=SIGMA, first=3.0).fit(mdp, reward, both, individual=individual)
    one = ix.DriftingIRL(drift=SIGMA, first=3.0).fit(mdp, reward, half)
    for path in range(2):
        np.testing.assert_allclose(own.paths[path], one.paths[0], atol=1e-6)
    assert np.isclose(own.log_evidence, 2 * one.log_evidence) and own.individuals.tolist() == ["ann", "bob"]
    assert np.isclose(own.score(both, individual=individual) * 2, 2 * one.score(half))
    with pytest.raises(ValueError, match="cy have no path"):
        own.score(half, individual=np.repeat("cy", N // 2))
    # The first episode is not of the first individual because it is the first.
    for over, every in (("steps", 1), ("episodes", 7)):
        estimator = ix.DriftingIRL(over=over, every=every, shared=False, drift=SIGMA, first=3.0)
        numbered = dataclasses.replace(both, labels=None)
        by_number = estimator.fit(mdp, reward, numbered, individual=np.repeat([0, 1], N // 2))
        with pytest.raises(ValueError, match="give `individual=`"):
            by_number.score(numbered)
        with pytest.raises(ValueError, match="must name its individual"):
            estimator.fit(mdp, reward, numbered, individual=np.repeat([0, 1], N // 2), held_out=numbered)
    assert len(own.rewards) == 2 * B and own.plot().axes[0].get_legend() is not None


def test_a_weight_of_two_is_two_episodes(world, given):
    mdp, _, features, demos = world
    heavy = dataclasses.replace(demos, weights=np.full(N, 2.0))
    twice = demos.select(np.tile(np.arange(N), 2))
    fits = [ix.DriftingIRL(drift=SIGMA).fit(mdp, ix.LinearReward(features), each) for each in (heavy, twice)]
    np.testing.assert_allclose(fits[0].paths, fits[1].paths, atol=1e-9)
    assert np.isclose(fits[0].log_evidence, fits[1].log_evidence)
    assert (fits[0].variances < given.variances).all()


def test_what_no_choice_identifies_has_no_band(world, given):
    mdp, _, features, demos = world
    constant = np.concatenate([features, np.ones((S, A, 1))], axis=-1)
    fit = ix.DriftingIRL(drift=(*SIGMA, 0.4)).fit(mdp, ix.LinearReward(constant), demos)
    np.testing.assert_allclose(fit.paths[..., :K], given.paths, atol=1e-6)
    np.testing.assert_allclose(fit.standard_errors()[..., :K], given.standard_errors(), rtol=1e-5)
    assert np.isnan(fit.standard_errors()[..., K]).all() and np.isnan(fit.drift[K])
    assert "no choice at any time identifies" in str(fit.summary())


def test_a_fit_tells_saves_draws_predicts_and_simulates(world, estimated, tmp_path):
    mdp, _, _, demos = world
    fit = estimated
    text = str(fit.summary())
    assert "food" in text and "log evidence ratio" in text and "equal chances" in text
    assert json.loads(json.dumps(fit.describe()))["parameters"][0]["name"] == "food"
    loaded = ix.load(fit.save(tmp_path / "fit"))
    assert isinstance(loaded, DriftingFit) and loaded.estimator == fit.estimator
    np.testing.assert_array_equal(loaded.paths, fit.paths)
    assert str(loaded.summary()) == text and "In the last period" in loaded.page().render()
    assert np.isclose(loaded.score(demos) * demos.num_steps, fit.log_likelihood)
    episodes = loaded.simulate(3, key=jax.random.key(1))
    episodes.check(mdp)
    assert episodes.lengths.tolist() == [B] * 3
    # After the last period its reward goes on.
    if mdp.horizon is None:
        longer = loaded.simulate(3, key=jax.random.key(1), length=B + 2)
        assert np.isfinite(fit.score(longer))
    policy = np.asarray(fit.plan_at(B - 1).policy)
    table = np.log(policy[B - 1] if mdp.horizon else policy)
    last = demos.times == B - 1
    only = dataclasses.replace(
        demos.select(np.arange(N)),
        states=demos.states[last],
        actions=demos.actions[last],
        times=demos.times[last],
        offsets=np.arange(N + 1),
        next_states=None,
    )
    assert np.isclose(fit.score(only), table[demos.states[last], demos.actions[last]].mean())


def test_a_reward_without_a_finite_estimate_is_said_to_have_none(world):
    mdp, _, features, demos = world
    # One half takes one action in one state. The other does not count: with it the sizes are those of other tests.
    counts = np.arange(N) < N // 2
    rows = ~np.repeat(counts, B)
    certain = dataclasses.replace(
        demos,
        states=demos.states * rows,
        actions=demos.actions * rows,
        weights=counts.astype(float),
        next_states=None,
    )
    with pytest.warns(UnfinishedWarning, match="first="):
        fit = ix.DriftingIRL(drift=SIGMA).fit(mdp, ix.LinearReward(features), certain)
    assert fit.status is Status.UNBOUNDED and np.isnan(fit.standard_errors()).all()
    assert "no estimates" in str(fit.summary())
    assert ix.DriftingIRL(drift=SIGMA, first=1.0).fit(mdp, ix.LinearReward(features), certain).converged


def test_a_callback_stops_the_search(world):
    mdp, _, features, demos = world
    with pytest.warns(UnfinishedWarning, match="interrupted"):
        fit = ix.DriftingIRL().fit(mdp, ix.LinearReward(features), demos, callback=lambda iterate: True)
    assert fit.status is Status.INTERRUPTED and fit.iterations == 0


def test_periods_of_several_steps_hold_the_choices_of_their_times(world):
    mdp, _, _, demos = world
    with scope():
        found = group_periods(mdp, demos, np.zeros(demos.num_steps, int), demos.times // 3, Clock("steps", 3, True))
    assert found.num_periods == 2 and np.isclose(np.asarray(found.weights).sum(), demos.num_steps)
    assert found.first.tolist() == ([0, 3] if mdp.horizon else [0, 0])
    assert found.weights.shape[2] == (3 if mdp.horizon else 1)
    assert np.isclose(np.asarray(found.weights)[0, 1].sum(), N)


def test_mistakes_have_messages(world):
    mdp, _, features, demos = world
    reward = ix.LinearReward(features)
    with pytest.raises(ValueError, match="first="):
        ix.DriftingIRL(shared=False)
    with pytest.raises(ValueError, match="at least 0"):
        ix.DriftingIRL(drift=-1.0)
    with pytest.raises(ValueError, match="one for each of the 2 parameters"):
        ix.DriftingIRL(drift=(0.1, 0.1, 0.1)).fit(mdp, reward, demos)
    with pytest.raises(TypeError, match=r"Demonstrations"):
        ix.DriftingIRL().fit(mdp, reward, np.full((S, A), 0.5))
