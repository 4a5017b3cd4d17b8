"""MCE IRL: what it recovers, what it equals, and when it says that it cannot."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import irlax as ix
from irlax.demos.demonstrations import from_rows
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.objectives import FeatureMatching, Likelihood
from irlax.rewards.linear import FoldedLinear
from tests import oracles
from tests.problems import as_mdp, random_problem

HORIZONS = (4, None)


def small_mdp(horizon, seed=0, discount=0.9, **options):
    return ix.envs.RandomMDP(5, 3, discount=discount, horizon=horizon, seed=seed, **options).mdp


#: Features of most tests, so that they use the same compiled programs.
K = 3


def random_features(over, num=K, seed=0):
    return np.random.default_rng((seed, len(over))).normal(size=(*(5, 3, 5)[: len(over)], num))


@pytest.mark.parametrize(("kind", "over"), [("linear", "s"), ("tabular", "sa"), ("linear", "sas")])
@pytest.mark.parametrize("horizon", HORIZONS)
def test_exact_occupancy_of_a_known_reward_gives_its_policy_back(horizon, over, kind):
    mdp = small_mdp(horizon)
    if kind == "linear":
        features = random_features(over)
        truth, reward = ix.LinearReward(features, [1.0, -0.5, 0.8]), ix.LinearReward(features)
    else:
        values = np.random.default_rng(1).normal(size=(5, 3, 5)[: len(over)])
        truth, reward = ix.TabularReward(over, values), ix.TabularReward(over)
    expert = ix.soft_plan(mdp, truth.table(mdp))
    fit = ix.MCEIRL().fit(mdp, reward, occupancy=ix.occupancy(mdp, expert))
    assert fit.converged
    assert np.abs(fit.feature_gap).max() <= 1e-8
    # Every state of these MDPs is reachable.
    assert np.abs(fit.policy - expert.policy).max() <= 1e-6
    # The gap is zero by an enumeration of features that shares no code, too.
    gap = ix.visits(mdp, expert) - ix.visits(mdp, fit.policy)
    assert np.abs(gap).max() <= 1e-6


class Changed(FoldedLinear):
    """With a function in it, which is no array."""

    change: Callable[[Any], Any] = lambda reward: reward

    def __call__(self, parameters):
        return self.change(super().__call__(parameters))


class Doubled(ix.LinearReward):
    def fold(self, mdp):
        folded = super().fold(mdp)
        return Changed(folded.columns, folded.width, change=lambda reward: 2 * reward)


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_a_reward_of_ones_own_may_hold_a_function(solver):
    mdp, features = small_mdp(4), random_features("sa")
    expert = ix.occupancy(mdp, ix.soft_plan(mdp, features @ [1.0, -0.5, 0.8]))
    fit = ix.MCEIRL(solver=solver).fit(mdp, Doubled(features), occupancy=expert)
    np.testing.assert_allclose(fit.reward.weights, [0.5, -0.25, 0.4], atol=1e-6)


def test_sampled_episodes_give_the_weights_back_within_sampling_error():
    mdp = small_mdp(4, seed=2)
    features, truth = random_features("sa", seed=3), np.array([0.7, -0.4, 0.2])
    expert = ix.soft_plan(mdp, features @ truth)
    demos = ix.rollout(mdp, expert, num=100_000, key=jax.random.key(0))
    fit = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(features), demos)
    problem = oracles.Problem(mdp.dynamics.to_dense(), mdp.initial, 0.9, 4, np.ones((5, 3), bool))
    counts = np.zeros((4, 5, 3))
    np.add.at(counts, (demos.times, demos.states, demos.actions), 1)

    def loss(theta):
        q, value = oracles.plan("soft", problem, features @ theta)
        return -(counts * (q - value[..., None])).sum()

    step = 1e-3
    unit = np.eye(K) * step
    information = np.array(
        [
            [
                (loss(truth + i + j) - loss(truth + i - j) - loss(truth - i + j) + loss(truth - i - j)) / (4 * step**2)
                for j in unit
            ]
            for i in unit
        ]
    )
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    assert np.all(np.abs(fit.reward.weights - truth) < 4 * errors)
    # And the errors are small, so that the line above means something.
    assert np.all(errors < 0.02)


def test_primal_maximum_of_causal_entropy_is_the_dual_minimum():
    problem = random_problem(3, discount=0.9, horizon=3)
    mdp = as_mdp(problem)
    features = np.random.default_rng(5).normal(size=(3, 2, 2))
    expert = ix.soft_plan(mdp, features @ np.array([1.0, -1.5])).policy
    # A demonstrator that is not soft-optimal for any reward: matching leaves entropy to be maximised.
    expert = 0.5 * expert + 0.25
    fit = ix.MCEIRL(tol=1e-11).fit(mdp, ix.LinearReward(features), expert)
    wanted = ix.feature_expectations(mdp, expert, features)
    shape = (3, 3, 2)

    def negative_entropy(flat):
        joint = np.maximum(flat.reshape(shape), 1e-300)
        return (joint * np.log(joint / joint.sum(axis=-1, keepdims=True))).sum()

    def slope(flat):
        joint = np.maximum(flat.reshape(shape), 1e-300)
        return np.log(joint / joint.sum(axis=-1, keepdims=True)).ravel()

    def flow(flat):
        joint = flat.reshape(shape)
        first = joint[0].sum(axis=-1) - problem.initial
        later = [
            joint[t].sum(axis=-1) - 0.9 * np.einsum("sa,sax->x", joint[t - 1], problem.transitions) for t in (1, 2)
        ]
        return np.concatenate([first, *later, np.einsum("tsa,sak->k", joint, features) - wanted])

    start = ix.occupancy(mdp, expert).ravel()
    found = minimize(
        negative_entropy,
        start,
        jac=slope,
        bounds=[(1e-12, None)] * start.size,
        constraints={"type": "eq", "fun": flow},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    dual = fit.mdp.initial @ fit.plan.value[0] - fit.reward.weights @ wanted
    assert np.abs(flow(found.x)).max() < 1e-9
    np.testing.assert_allclose(-found.fun, dual, rtol=1e-7)
    np.testing.assert_allclose(ix.causal_entropy(mdp, fit.policy), dual, rtol=1e-7)


@pytest.mark.parametrize("horizon", HORIZONS)
def test_gradients_of_dual_and_expected_discounted_likelihood_agree(horizon):
    """The Primer's lemma of section 3.2: by autodiff, in closed form, and by finite differences."""
    mdp, features = small_mdp(horizon, seed=4), random_features("sa", seed=4)
    reward = ix.LinearReward(features)
    policy = np.random.default_rng(0).dirichlet(np.ones(3), size=5)
    expert = Expert.of(mdp, policy, None, "auto")
    theta = np.array([0.3, -0.2, 0.9])
    with jax.enable_x64(True):
        seen = expert.choices(discounted=True)
        dual = FeatureMatching(mdp, reward.fold(mdp), jnp.asarray(expert.visits(warn=False)[0]))
        likelihood = Likelihood(
            mdp, reward.fold(mdp), jnp.asarray(seen.states), jnp.asarray(seen.actions), jnp.asarray(seen.weights)
        )
        losses = [lambda theta, f=f: f(theta)[0] for f in (dual, likelihood)]
        by_dual, by_likelihood = (np.asarray(jax.grad(f)(jnp.asarray(theta))) for f in losses)
        differences = [np.array([(f(theta + h) - f(theta - h)) / 2e-5 for h in 1e-5 * np.eye(3)]) for f in losses]
    model = ix.soft_plan(mdp, features @ theta)
    closed = ix.feature_expectations(mdp, model, features) - ix.feature_expectations(mdp, policy, features)
    np.testing.assert_allclose(by_dual, closed, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(by_likelihood, closed, rtol=1e-7, atol=1e-9)
    for numerical in differences:
        np.testing.assert_allclose(numerical, closed, rtol=1e-6, atol=1e-8)


def test_on_finite_samples_the_objectives_differ_where_transitions_are_random():
    """An empirical distribution does not follow P, so dropping E_P in the Primer's derivation is no longer exact."""
    mdp, features = small_mdp(4, seed=6), random_features("sa", seed=6)
    expert = ix.soft_plan(mdp, features @ np.ones(K))
    demos = ix.rollout(mdp, expert, num=50, key=jax.random.key(1))
    reward = ix.LinearReward(features)
    matching, likelihood = (
        ix.MCEIRL(objective=name).fit(mdp, reward, demos) for name in ("feature-matching", "discounted-likelihood")
    )
    assert np.abs(matching.reward.weights - likelihood.reward.weights).max() > 0.01
    assert np.abs(matching.feature_gap).max() < 1e-8 < np.abs(likelihood.feature_gap).max()


def test_on_finite_samples_the_objectives_agree_where_transitions_are_certain():
    mdp = small_mdp(4, seed=7, branching=1)
    features = random_features("sa", seed=7)
    demos = ix.rollout(mdp, ix.soft_plan(mdp, features @ np.ones(K)), num=50, key=jax.random.key(2))
    weights = [
        ix.MCEIRL(objective=name).fit(mdp, ix.LinearReward(features), demos).reward.weights
        for name in ("feature-matching", "discounted-likelihood")
    ]
    np.testing.assert_allclose(*weights, rtol=1e-6)


def test_likelihood_objective_maximises_the_literal_likelihood():
    """Against SciPy on a NumPy likelihood, with gaps and late starts in the data."""
    problem = random_problem(8, discount=0.9, horizon=4)
    mdp = as_mdp(problem)
    features = np.random.default_rng(8).normal(size=(3, 2, 2))
    times = np.array([0, 2, 3, 1, 2, 0])
    states, actions = np.array([0, 1, 2, 2, 0, 1]), np.array([1, 0, 1, 0, 0, 1])
    import pandas as pd

    frame = pd.DataFrame({"id": [0, 0, 0, 1, 1, 2], "t": times, "s": states, "a": actions})
    demos = ix.Demonstrations.from_frame(frame, episode="id", time="t", state="s", action="a")
    for objective, weight in (("likelihood", np.ones(6)), ("discounted-likelihood", 0.9**times)):
        fit = ix.MCEIRL(objective=objective, l2=0.1).fit(mdp, ix.LinearReward(features), demos)

        def loss(theta, weight=weight):
            q, value = oracles.plan("soft", problem, features @ theta)
            log_policy = (q - value[..., None])[times, states, actions]
            return -(weight * log_policy).sum() / 3 + 0.05 * theta @ theta

        found = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(fit.reward.weights, found.x, atol=1e-5)
        assert fit.feature_gap is None


def one_route(horizon=4):
    mdp = small_mdp(horizon, seed=9, branching=1)
    policy = np.eye(3)[np.zeros(5, int)]
    return mdp, ix.rollout(mdp, policy, num=10, key=jax.random.key(0))


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_demonstrations_on_the_boundary_are_detected_and_l2_cures_them(solver):
    mdp, demos = one_route()
    with pytest.warns(ix.UnfinishedWarning, match="no finite optimum.*l2="):
        fit = ix.MCEIRL(solver=solver).fit(mdp, ix.TabularReward("sa"), demos)
    assert fit.status is ix.Status.UNBOUNDED
    assert not fit.converged
    assert ix.MCEIRL(solver=solver, l2=1e-2).fit(mdp, ix.TabularReward("sa"), demos).converged


def test_a_reachable_state_never_visited_is_a_boundary():
    env = ix.envs.Gridworld.open(3, 3, stay=True, discount=1.0, horizon=4)
    stay = np.zeros((9, 5))
    stay[:, 4] = 1
    stay[0] = [0, 0.5, 0, 0, 0.5]
    mdp = env.mdp.replace(initial=np.eye(9)[0])
    demos = ix.rollout(mdp, stay, num=50, key=jax.random.key(0))
    with pytest.warns(ix.UnfinishedWarning, match="no finite optimum"):
        assert ix.MCEIRL().fit(mdp, ix.TabularReward("s"), demos).status is ix.Status.UNBOUNDED


def test_an_interior_optimum_far_out_is_not_mistaken_for_a_boundary():
    mdp, features = small_mdp(4, seed=10), random_features("sa", seed=10)
    truth = np.array([8.0, -9.0, 7.0])
    fit = ix.MCEIRL().fit(mdp, ix.LinearReward(features), ix.soft_plan(mdp, features @ truth))
    assert fit.converged
    np.testing.assert_allclose(fit.reward.weights, truth, rtol=1e-4)


def test_the_duality_gap_bounds_the_distance_to_the_minimum():
    mdp, demos = one_route()
    reward = ix.LinearReward(random_features("sa", seed=11))
    best = ix.MCEIRL(l2=0.1).fit(mdp, reward, demos)
    with pytest.warns(ix.UnfinishedWarning, match="limit of steps"):
        early = ix.MCEIRL(l2=0.1, solver=ix.DualAscent(step_size=0.05, max_steps=3)).fit(mdp, reward, demos)
    above = early.history.loss[-1] - best.history.loss[-1]
    assert 0 < above <= early.certificate.duality_gap
    assert best.certificate.duality_gap < 1e-14


@pytest.mark.parametrize("unit", [1e-3, 1e3])
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "dual-ascent"])
def test_the_units_of_a_feature_do_not_matter(unit, solver):
    mdp, features = small_mdp(4, seed=12), random_features("sa", seed=12)
    demos = ix.rollout(mdp, ix.soft_plan(mdp, features @ np.ones(K)), num=100, key=jax.random.key(0))
    scaled = features * np.array([1, unit, 1])
    plain = ix.MCEIRL().fit(mdp, ix.LinearReward(features), demos)
    other = ix.MCEIRL(solver=solver, tol=1e-7).fit(mdp, ix.LinearReward(scaled), demos)
    assert other.converged
    np.testing.assert_allclose(other.reward.weights * np.array([1, unit, 1]), plain.reward.weights, rtol=1e-5)


@pytest.mark.parametrize("objective", ["feature-matching", "discounted-likelihood", "likelihood"])
def test_all_solvers_find_the_same_optimum(objective):
    mdp, features = small_mdp(4, seed=13), random_features("sa", seed=13)
    demos = ix.rollout(mdp, ix.soft_plan(mdp, features @ np.ones(K)), num=200, key=jax.random.key(0))
    fits = {
        name: ix.MCEIRL(objective=objective, solver=solver, l2=0.01, tol=1e-7).fit(
            mdp, ix.LinearReward(features), demos
        )
        for name, solver in {
            "newton": "newton",
            "lbfgs": "lbfgs",
            "dual-ascent": "dual-ascent",
            "constant steps": ix.DualAscent(step_size=0.2),
            "adam": ix.Adam(learning_rate=0.05, max_steps=3000, patience=3000),
        }.items()
        if not (objective != "feature-matching" and name == "adam")
    }
    for name, fit in fits.items():
        assert fit.converged, name
        np.testing.assert_allclose(fit.reward.weights, fits["newton"].reward.weights, atol=2e-6, err_msg=name)


def test_hessian_products_give_the_same_steps_as_the_matrix(monkeypatch):
    mdp, features = small_mdp(None, seed=14), random_features("sa", seed=14)
    expert = ix.soft_plan(mdp, features @ np.array([1.0, 2.0, -1.0]))
    dense = ix.MCEIRL(solver="newton").fit(mdp, ix.LinearReward(features), expert)
    monkeypatch.setattr("irlax.estimators.tabular.solvers.newton.DENSE_HESSIAN", 0)
    free = ix.MCEIRL(solver="newton").fit(mdp, ix.LinearReward(features), expert)
    assert free.converged
    np.testing.assert_allclose(free.reward.weights, dense.reward.weights, rtol=1e-6)


def test_one_reward_is_learned_from_several_mdps_in_proportion_to_their_episodes():
    features = random_features("sa", seed=15)
    mdps = [small_mdp(4, seed=seed) for seed in (0, 1)]
    demos = [
        ix.rollout(mdp, ix.soft_plan(mdp, features @ np.ones(K)), num=num, key=jax.random.key(num))
        for mdp, num in zip(mdps, (30, 10), strict=True)
    ]
    fit = ix.MCEIRL().fit(mdps, ix.LinearReward(features), demos)
    gaps = []
    for mdp, plan, data in zip(mdps, fit.plans, demos, strict=True):
        start = np.bincount(data.states[data.times == 0], minlength=5) / data.num_episodes
        weight = 0.9**data.times / data.num_episodes
        seen = np.zeros(K)
        for w, s, a in zip(weight, data.states, data.actions, strict=True):
            seen += w * features[s, a]
        gaps.append(seen - ix.feature_expectations(mdp.replace(initial=start), plan, features))
    # Neither demonstrator alone is matched; their mean over episodes is.
    assert np.abs(gaps[0]).max() > 1e-3
    np.testing.assert_allclose(0.75 * gaps[0] + 0.25 * gaps[1], 0, atol=1e-8)


def test_a_weight_counts_an_episode_that_many_times():
    mdp, features = small_mdp(4, seed=16), random_features("sa", seed=16)
    demos = ix.rollout(mdp, np.full((5, 3), 1 / 3), num=6, key=jax.random.key(0))
    twice = demos.select([0, 0, 1, 2, 3, 4, 4, 4, 5])
    weights = np.array([2.0, 1, 1, 1, 3, 1])
    states, actions = demos.states.reshape(6, 4), demos.actions.reshape(6, 4)
    weighted = ix.Demonstrations.from_arrays(states, actions, weights=weights)
    for objective in ("feature-matching", "likelihood"):
        estimator = ix.MCEIRL(objective=objective, l2=0.01)
        fits = [estimator.fit(mdp, ix.LinearReward(features), data) for data in (twice, weighted)]
        np.testing.assert_allclose(fits[0].reward.weights, fits[1].reward.weights, rtol=1e-8)
        np.testing.assert_allclose(fits[0].log_likelihood, fits[1].log_likelihood, rtol=1e-8)


def test_a_fit_starts_from_the_parameters_of_its_reward():
    mdp, features = small_mdp(4, seed=17), random_features("sa", seed=17)
    expert = ix.soft_plan(mdp, features @ np.ones(K))
    cold = ix.MCEIRL().fit(mdp, ix.LinearReward(features), expert)
    warm = ix.MCEIRL().fit(mdp, cold.reward, expert)
    assert warm.iterations == 0 < cold.iterations
    np.testing.assert_array_equal(warm.reward.weights, cold.reward.weights)


def test_a_terminated_episode_is_one_that_stays_in_its_absorbing_state():
    """Padding by hand to the horizon gives the same fit, the absorbing state's reward learned, not zero."""
    env = ix.envs.Gridworld(["S.G"], ends=True, stay=True, discount=0.9, horizon=6)
    mdp = env.mdp
    short = ix.Demonstrations.from_episodes([([0, 1, 2], [1, 1]), ([0, 0, 1, 2], [4, 1, 1])], terminated=True)
    states = np.array([[0, 1, 2, 2, 2, 2], [0, 0, 1, 2, 2, 2]])
    actions = np.array([[1, 1, 0, 0, 0, 0], [4, 1, 1, 0, 0, 0]])
    padded = ix.Demonstrations.from_arrays(states, actions)
    fits = [ix.MCEIRL(l2=0.01).fit(mdp, ix.TabularReward("s"), demos) for demos in (short, padded)]
    np.testing.assert_allclose(fits[0].reward.values, fits[1].reward.values, rtol=1e-8)
    assert fits[0].reward.values[2] > 0.5


def test_truncated_and_broken_episodes_are_refused_by_feature_matching_alone():
    mdp = small_mdp(4, seed=18)
    reward = ix.LinearReward(random_features("sa", seed=18))
    short = ix.Demonstrations.from_arrays([[0, 1]], [[0, 1]])
    states, actions, one = np.array([0, 1, 2]), np.array([0, 1, 0]), np.array([3])
    gapped = from_rows(states, actions, one, times=np.array([0, 1, 3]))
    late = from_rows(states, actions, one, times=np.array([1, 2, 3]))
    for demos, complaint in ((short, "do not have 4 steps"), (gapped, "gaps in time"), (late, "do not start at t = 0")):
        with pytest.raises(ValueError, match=f"whole episodes.*{complaint}.*likelihood"):
            ix.MCEIRL().fit(mdp, reward, demos)
        assert ix.MCEIRL(objective="likelihood", l2=0.1).fit(mdp, reward, demos).converged


def test_missing_mass_of_truncated_episodes_is_reported():
    mdp = small_mdp(None, seed=19)
    features = random_features("sa", seed=19)
    expert = ix.soft_plan(mdp, features @ np.ones(K))
    reward = ix.LinearReward(features)
    short = ix.rollout(mdp, expert, num=50, length=10, key=jax.random.key(0))
    with pytest.warns(UserWarning, match=r"34\.9% of the discounted mass"):
        fit = ix.MCEIRL().fit(mdp, reward, short)
    np.testing.assert_allclose(fit.missing_mass, 0.9**10, rtol=1e-12)
    long = ix.rollout(mdp, expert, num=50, length=100, key=jax.random.key(0))
    assert ix.MCEIRL().fit(mdp, reward, long).missing_mass < 1e-4


def test_the_model_starts_where_the_demonstrations_start_unless_told_otherwise():
    mdp, features = small_mdp(4, seed=20), random_features("sa", seed=20)
    demos = ix.rollout(mdp, np.full((5, 3), 1 / 3), num=8, key=jax.random.key(3))
    reward = ix.LinearReward(features)
    default = ix.MCEIRL(l2=0.01).fit(mdp, reward, demos)
    started = np.bincount(demos.states[demos.times == 0], minlength=5) / 8
    np.testing.assert_allclose(default.mdp.initial, started)
    np.testing.assert_allclose(ix.MCEIRL(l2=0.01, start="mdp").fit(mdp, reward, demos).mdp.initial, mdp.initial)
    np.testing.assert_allclose(ix.MCEIRL(l2=0.01).fit(mdp, reward, default.policy).mdp.initial, mdp.initial)


def test_undiscounted_route_choice_is_fitted_as_the_recursive_logit():
    """Against SciPy on the likelihood of routes through z = Mz + b."""
    env = ix.envs.Gridworld(["S..", "..G"], ends=True, discount=1.0)
    mdp = env.mdp
    length = np.full((6, 4), -1.0)
    turn = np.where(np.arange(4) % 2 == 0, -1.0, 0.0)[None, :].repeat(6, 0)
    features = np.stack([length, turn], axis=-1)
    features[5] = 0
    truth = np.array([2.0, 0.5])
    demos = ix.rollout(mdp, ix.soft_plan(mdp, features @ truth), num=300, length=200, key=jax.random.key(0))
    assert demos.terminated.all()
    reward = ix.LinearReward(features, truth)
    fit = ix.MCEIRL(objective="likelihood").fit(mdp, reward, demos)
    targets = np.argmax(mdp.dynamics.to_dense(), axis=-1)

    def loss(theta):
        pay = np.exp(features @ theta)
        matrix, end = np.zeros((5, 5)), np.zeros(5)
        for s, a in itertools.product(range(5), range(4)):
            if targets[s, a] == 5:
                end[s] += pay[s, a]
            else:
                matrix[s, targets[s, a]] += pay[s, a]
        z = np.append(np.linalg.solve(np.eye(5) - matrix, end), 1.0)
        chosen = pay[demos.states, demos.actions] * z[targets[demos.states, demos.actions]] / z[demos.states]
        return -np.log(chosen).sum()

    found = minimize(loss, truth, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10})
    np.testing.assert_allclose(fit.reward.weights, found.x, rtol=1e-5)
    np.testing.assert_allclose(fit.log_likelihood, -found.fun, rtol=1e-9)


def test_cross_validation_prefers_a_penalty_when_data_are_few():
    mdp, features = small_mdp(4, seed=21), random_features("sa", num=15, seed=21)
    truth = np.zeros(15)
    demos = ix.rollout(mdp, ix.soft_plan(mdp, features @ truth), num=10, key=jax.random.key(0))
    began = time.perf_counter()
    fit = ix.MCEIRL(objective="likelihood", l2="cv").fit(mdp, ix.LinearReward(features), demos)
    elapsed = time.perf_counter() - began
    # Choosing the penalty is part of the call, and most of its time.
    assert 0.9 * elapsed < fit.seconds < elapsed
    chosen = fit.cross_validation.l2
    assert chosen >= 0.1
    assert "l2 by cross-validation" in str(fit.summary())


def test_held_out_demonstrations_are_scored_and_not_learned_from():
    mdp, features = small_mdp(4, seed=22), random_features("sa", seed=22)
    plan = ix.soft_plan(mdp, features @ np.ones(K))
    train, test = (ix.rollout(mdp, plan, num=50, key=jax.random.key(k)) for k in (0, 1))
    fit = ix.MCEIRL().fit(mdp, ix.LinearReward(features), train, held_out=test)
    np.testing.assert_array_equal(
        fit.reward.weights, ix.MCEIRL().fit(mdp, ix.LinearReward(features), train).reward.weights
    )
    log_policy = np.log(fit.policy)
    np.testing.assert_allclose(
        fit.held_out_log_likelihood, log_policy[test.times, test.states, test.actions].sum(), rtol=1e-12
    )
    np.testing.assert_allclose(
        fit.log_likelihood, log_policy[train.times, train.states, train.actions].sum(), rtol=1e-12
    )


def test_expected_value_difference_is_zero_for_the_truth_and_positive_for_its_opposite():
    mdp, features = small_mdp(None, seed=23), random_features("s", seed=23)
    truth = features @ np.ones(K)
    good, bad = (ix.MCEIRL().fit(mdp, ix.LinearReward(features), ix.soft_plan(mdp, sign * truth)) for sign in (1, -1))
    assert abs(good.expected_value_difference(truth)) < 1e-9
    assert bad.expected_value_difference(truth) > 0.1
    soft = ix.expected_return(mdp, ix.hard_plan(mdp, truth), truth) - ix.expected_return(mdp, good.policy, truth)
    np.testing.assert_allclose(good.expected_value_difference(truth, policy="soft"), soft, rtol=1e-6)


def test_a_slippery_grid_with_a_weight_for_each_state_converges():
    env = ix.envs.Gridworld.open(10, 10, slip=0.1, stay=True, discount=1.0, horizon=50)
    truth = np.random.default_rng(0).normal(size=100)
    fit = ix.MCEIRL().fit(env.mdp, ix.TabularReward("s"), ix.soft_plan(env.mdp, truth))
    assert fit.converged
    assert np.abs(fit.feature_gap).max() <= 1e-6


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"objective": "nonsense"}, "objective"),
        ({"solver": "simplex"}, "solver"),
        ({"l2": -1.0}, "l2"),
        ({"tol": 0.0}, "tol"),
        ({"start": "here"}, "start"),
    ],
)
def test_bad_settings_are_refused_before_any_work(arguments, complaint, as_a_user):
    with pytest.raises(ValueError, match=complaint):
        ix.MCEIRL(**arguments)


def test_bad_demonstrators_are_refused_with_a_message(as_a_user):
    mdp, reward = small_mdp(4), ix.TabularReward("s")
    estimator = ix.MCEIRL()
    with pytest.raises(TypeError, match="exactly one"):
        estimator.fit(mdp, reward)
    with pytest.raises(TypeError, match="Demonstrations, DemoStatistics, a policy array or a plan"):
        estimator.fit(mdp, reward, "demos.csv")
    with pytest.raises(ValueError, match=r"policy.*shape"):
        estimator.fit(mdp, reward, np.ones((5, 2)))
    with pytest.raises(ValueError, match="discounted mass"):
        estimator.fit(mdp, reward, occupancy=np.ones((4, 5, 3)))
    with pytest.raises(TypeError, match="reward to learn"):
        estimator.fit(mdp, np.zeros(5), np.full((5, 3), 1 / 3))
    with pytest.raises(ValueError, match=r"state must lie in 0\.\.4.*row 1.*has 7"):
        estimator.fit(mdp, reward, ix.Demonstrations.from_arrays([[0, 7, 1, 1]], [[0, 0, 0, 0]]))
    with pytest.raises(ValueError, match="time must lie below the horizon 4"):
        estimator.fit(mdp, reward, ix.Demonstrations.from_arrays([[0] * 5], [[0] * 5]))
    with pytest.raises(ValueError, match="features"):
        estimator.fit(mdp, ix.LinearReward(np.ones((4, 2))), np.full((5, 3), 1 / 3))
