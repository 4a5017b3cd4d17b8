"""Fits to demonstrations with goals, against lists of MDPs, dense NumPy likelihoods and SciPy's minimiser."""

import dataclasses
import warnings

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

import irlax as ix
from irlax.demos.demonstrations import from_rows
from irlax.estimators.goals import estimate
from irlax.estimators.goals.goal_fit import simulated_demos
from irlax.estimators.tabular.solvers import newton
from irlax.planning.goals import goal_plan

TRUTH = np.array([-1.2, -0.8])
GRID = 4


def city(width=GRID):
    """A grid of streets both ways, with one dead end: tails, heads, and two attributes of each arc."""
    rng = np.random.default_rng(11)
    node = np.arange(width * width).reshape(width, width)
    pairs = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:])]
    tail = np.concatenate([np.concatenate([a.ravel(), b.ravel()]) for a, b in pairs] + [[0]])
    head = np.concatenate([np.concatenate([b.ravel(), a.ravel()]) for a, b in pairs] + [[width * width]])
    features = np.stack([rng.uniform(0.8, 2.0, len(tail)), rng.uniform(0.2, 1.0, len(tail))], axis=1)
    return tail, head, features


@pytest.fixture(scope="module")
def problem():
    """The MDP of the city, its reward, and 400 trips to four goals under the truth."""
    tail, head, features = city()
    num = GRID**2 + 1
    mdp = ix.MDP.from_actions(
        np.append(tail, num - 1), np.append(head, num - 1), np.full(num, 1 / num), discount=1.0, ends_at_goal=True
    )
    table = np.zeros((*mdp.table_shape, 2))
    table[mdp.cells(tail)] = features
    plan = goal_plan(mdp, table @ TRUTH, [0, 5, 15, 16])
    rng = np.random.default_rng(0)
    starts, goals = rng.integers(1, 15, 400), rng.choice([0, 5, 15, 16], 400)
    starts = np.where(starts == goals, 1, starts)
    demos = simulated_demos(plan, starts, goals, key=jax.random.key(3))
    return mdp, ix.LinearReward(table, names=["time", "length"]), demos


@pytest.fixture(scope="module")
def fit(problem):
    return ix.MCEIRL(objective="likelihood", progress=False).fit(*problem)


def dense_log_likelihood(theta, demos, by_episode=False):
    """Σ w log π, from one dense solve for each goal, in plain NumPy."""
    tail, head, features = city()
    num, rewards = GRID**2 + 1, features @ theta
    total = np.zeros(demos.num_episodes)
    for goal in np.unique(demos.goals):
        matrix = np.zeros((num, num))
        np.add.at(matrix, (tail, head), np.exp(rewards))
        matrix[goal] = 0
        with np.errstate(divide="ignore"):
            value = np.log(np.linalg.solve(np.eye(num) - matrix, np.eye(num)[goal]))
        for k in np.flatnonzero(demos.goals == goal):
            rows = slice(demos.offsets[k], demos.offsets[k + 1])
            for state, after in zip(demos.states[rows], demos.next_states[rows], strict=True):
                arc = np.flatnonzero((tail == state) & (head == after))[0]
                total[k] += rewards[arc] + value[after] - value[state]
    return total if by_episode else demos.weights @ total


def slopes(function, theta, size=1e-5):
    return np.array(
        [(function(theta + size * d) - function(theta - size * d)) / (2 * size) for d in np.eye(len(theta))]
    )


def test_the_estimate_is_the_one_of_a_general_minimiser(problem, fit):
    demos = problem[2]
    found = minimize(lambda theta: -dense_log_likelihood(theta, demos), TRUTH, method="Nelder-Mead", tol=1e-9)
    assert fit.status is ix.Status.CONVERGED
    assert np.allclose(fit.reward.weights, found.x, atol=1e-6)
    assert np.isclose(fit.log_likelihood, -found.fun, rtol=1e-12)
    assert np.isclose(fit.score(demos), fit.log_likelihood / demos.num_steps, rtol=1e-12)


def test_standard_errors_are_those_of_differences_of_the_dense_likelihood(problem, fit):
    demos, theta = problem[2], fit.reward.weights
    curvature = -slopes(lambda t: slopes(lambda u: dense_log_likelihood(u, demos), t, 1e-4), theta, 1e-4)
    scores = slopes(lambda t: dense_log_likelihood(t, demos, by_episode=True), theta).T
    inverse = np.linalg.inv(curvature)
    assert np.allclose(fit.standard_errors("hessian"), np.sqrt(np.diag(inverse)), rtol=1e-4)
    sandwich = inverse @ scores.T @ scores @ inverse
    assert np.allclose(fit.standard_errors("sandwich", cluster="episode"), np.sqrt(np.diag(sandwich)), rtol=1e-4)
    opg = np.sqrt(np.diag(np.linalg.inv(scores.T @ scores)))
    assert np.allclose(fit.standard_errors("opg", cluster="episode"), opg, rtol=1e-5)


def test_travellers_are_clusters(problem, fit):
    demos = problem[2]
    traveller = np.arange(demos.num_episodes) // 4
    scores = slopes(lambda t: dense_log_likelihood(t, demos, by_episode=True), fit.reward.weights).T
    summed = scores.reshape(-1, 4, 2).sum(axis=1)
    opg = np.sqrt(np.diag(np.linalg.inv(summed.T @ summed)))
    assert np.allclose(fit.standard_errors("opg", cluster=traveller), opg, rtol=1e-5)


def as_list(mdp, reward, demos):
    """One MDP for each goal, in which the goal is absorbing, with the trips that end there."""
    mdps, rewards, parts = [], [], []
    tail, head, features = city()
    num = GRID**2 + 1
    for goal in np.unique(demos.goals):
        ends = [goal] if goal == num - 1 else [goal, num - 1]
        keep = (tail != goal) & ((head != num - 1) | (goal == num - 1))
        states, successors = np.append(tail[keep], ends), np.append(head[keep], ends)
        one = ix.MDP.from_actions(states, successors, np.full(num, 1 / num), discount=1.0)
        table = np.zeros((*one.table_shape, 2))
        table[one.cells(states)] = np.concatenate([features[keep], np.zeros((len(ends), 2))])
        chosen = demos.select(demos.goals == goal)
        arcs = [np.flatnonzero((tail[keep] == s) & (head[keep] == t))[0] for s, t in _moves(chosen)]
        numbers = np.array([(tail[keep][:arc] == tail[keep][arc]).sum() for arc in arcs])
        mdps.append(one)
        rewards.append(ix.LinearReward(table))
        parts.append(from_rows(chosen.states, numbers, chosen.lengths, next_states=chosen.next_states, terminated=True))
    return mdps, rewards, parts


def _moves(demos):
    return zip(demos.states, demos.next_states, strict=True)


@pytest.mark.parametrize("objective", ["likelihood", "feature-matching"])
def test_goals_agree_with_a_list_of_mdps(problem, objective):
    goals = problem[2].goals != 16  # in a list, the way to the dead end needs an MDP in which all else leads there
    demos = problem[2].select(goals)
    estimator = ix.MCEIRL(objective=objective, progress=False)
    together, listed = estimator.fit(*problem[:2], demos), estimator.fit(*as_list(*problem[:2], demos))
    assert np.allclose(together.reward.weights, listed.reward.weights, atol=1e-8)
    assert np.isclose(together.log_likelihood, listed.log_likelihood, rtol=1e-10)
    if objective == "likelihood":
        for kind in ("hessian", "opg", "sandwich"):
            assert np.allclose(together.standard_errors(kind), listed.standard_errors(kind), rtol=1e-8)
    else:
        assert np.abs(together.feature_gap).max() < 1e-8


def test_random_moves_and_a_discount_agree_with_a_list_of_mdps():
    rng = np.random.default_rng(4)
    chances, features = rng.dirichlet(np.ones(6), size=(6, 3)), rng.normal(size=(6, 3, 2))
    mdp = ix.MDP.from_dense(chances, np.full(6, 1 / 6), discount=0.9)
    plan = goal_plan(mdp, features @ [1.0, -0.5], [2, 5])
    starts, goals = rng.integers(0, 2, 300), rng.choice([2, 5], 300)
    demos = simulated_demos(plan, starts, goals, key=jax.random.key(0))
    mdps, rewards, parts = [], [], []
    for goal in (2, 5):
        absorbed, zeroed, available = chances.copy(), features.copy(), np.ones((6, 3), bool)
        absorbed[goal], zeroed[goal], available[goal, 1:] = np.eye(6)[goal], 0, False
        mdps.append(ix.MDP.from_dense(absorbed, np.full(6, 1 / 6), discount=0.9, available=available))
        rewards.append(ix.LinearReward(zeroed))
        parts.append(dataclasses.replace(demos.select(demos.goals == goal), goals=None))
    for objective in ("likelihood", "discounted-likelihood", "feature-matching"):
        estimator = ix.MCEIRL(objective=objective, progress=False)
        together = estimator.fit(mdp, ix.LinearReward(features), demos)
        listed = estimator.fit(mdps, rewards, parts)
        assert np.allclose(together.reward.weights, listed.reward.weights, atol=1e-7), objective
        assert np.isclose(together.log_likelihood, listed.log_likelihood, rtol=1e-9), objective
    assert together.converged


def test_truncated_trips_have_a_likelihood_but_no_feature_expectations(problem):
    mdp, reward, demos = problem
    rows = np.flatnonzero(demos.times < 2)
    cut = from_rows(
        demos.states[rows],
        demos.actions[rows],
        np.minimum(demos.lengths, 2),
        next_states=demos.next_states[rows],
        terminated=demos.lengths <= 2,
        goals=demos.goals,
    )
    found = ix.MCEIRL(objective="likelihood", progress=False).fit(mdp, reward, cut)
    oracle = minimize(lambda theta: -dense_log_likelihood(theta, cut), TRUTH, method="Nelder-Mead", tol=1e-9)
    assert np.allclose(found.reward.weights, oracle.x, atol=1e-5)
    with pytest.raises(ValueError, match="objective='likelihood'"):
        ix.MCEIRL(progress=False).fit(mdp, reward, cut)


def test_a_weight_of_two_is_two_copies(problem):
    mdp, reward, demos = problem
    weighted = dataclasses.replace(demos, weights=1.0 + (np.arange(400) < 100))
    copied = demos.select(np.concatenate([np.arange(400), np.arange(100)]))
    one, other = (
        ix.MCEIRL(objective="likelihood", progress=False).fit(mdp, reward, each) for each in (weighted, copied)
    )
    assert np.allclose(one.reward.weights, other.reward.weights, atol=1e-9)
    for kind in ("hessian", "opg", "sandwich"):
        errors = [fit.standard_errors(kind, cluster=None if kind == "hessian" else "episode") for fit in (one, other)]
        assert np.allclose(*errors, rtol=1e-8)


def test_what_nobody_ever_does_has_no_finite_weight(problem):
    mdp, reward, demos = problem
    never = np.zeros((*mdp.table_shape, 1))
    never[mdp.cells([5], [0])] = 1.0
    used = (demos.states == 5) & (demos.actions == 0)
    keep = np.setdiff1d(np.arange(400), demos.episode[used])
    wider = ix.LinearReward(np.concatenate([reward.features, never], axis=-1))
    with pytest.warns(ix.UnfinishedWarning, match="no finite optimum"):
        found = ix.MCEIRL(objective="likelihood", progress=False).fit(mdp, wider, demos.select(keep))
    assert found.status is ix.Status.UNBOUNDED
    penalised = ix.MCEIRL(objective="likelihood", l2=1e-3, progress=False).fit(mdp, wider, demos.select(keep))
    assert penalised.converged


def test_a_fit_that_stops_early_is_uncertain_and_not_unbounded(problem):
    with pytest.warns(ix.UnfinishedWarning, match="whether a finite optimum exists is not known"):
        found = ix.MCEIRL(objective="likelihood", tol=100.0, progress=False).fit(*problem)
    assert found.status is ix.Status.UNCERTAIN


def test_a_repeated_feature_is_not_identified_and_the_summary_names_it(problem):
    mdp, reward, demos = problem
    twice = ix.LinearReward(np.concatenate([reward.features, reward.features[..., :1]], axis=-1), names=["a", "b", "c"])
    found = ix.MCEIRL(objective="likelihood", progress=False).fit(mdp, twice, demos)
    assert found.converged
    assert np.isnan(found.standard_errors()[[0, 2]]).all() and np.isfinite(found.standard_errors()[1])
    assert "2 of 3 dimensions" in str(found.summary()) and "·a" in str(found.summary())


def test_features_of_both_signs_start_by_the_linear_programme(problem):
    """Minus the time plus a constant: only combinations of both make every cycle costly."""
    mdp, reward, demos = problem
    mixed = np.stack([reward.features[..., 0] - 1.3, reward.features[..., 1] - 0.6], axis=-1)
    mixed = np.concatenate(
        [mixed * (reward.features > 0).any(axis=-1, keepdims=True), reward.features[..., :1]], axis=-1
    )
    found = ix.MCEIRL(objective="likelihood", progress=False).fit(mdp, ix.LinearReward(mixed), demos)
    assert found.converged


def test_without_a_cost_there_is_no_start_and_the_features_are_named(problem):
    mdp, _, demos = problem
    toll = np.zeros((*mdp.table_shape, 1))
    toll[mdp.cells([5], [0])] = 1.0
    with pytest.raises(ValueError, match="toll some cycle"):
        ix.MCEIRL(objective="likelihood", progress=False).fit(mdp, ix.LinearReward(toll, names=["toll"]), demos)


def test_free_rewards_of_all_arcs_agree_with_a_general_minimiser(problem):
    mdp, _, demos = problem
    tail, head, _ = city()
    found = ix.MCEIRL(objective="likelihood", l2=0.05, progress=False).fit(mdp, ix.TabularReward("sa"), demos)
    cells = mdp.cells(np.append(tail, GRID**2))
    arcs = np.asarray(found.reward.table(mdp))[cells][:-1]
    num = GRID**2 + 1

    def loss(rewards):
        total = 0.5 * 0.05 * rewards @ rewards
        for goal in np.unique(demos.goals):
            matrix = np.zeros((num, num))
            np.add.at(matrix, (tail, head), np.exp(rewards))
            matrix[goal] = 0
            z = np.linalg.solve(np.eye(num) - matrix, np.eye(num)[goal])
            if (z < 0).any():
                return 1e9
            chosen = demos.select(demos.goals == goal)
            uses = np.zeros(len(tail))
            for state, after in _moves(chosen):
                uses[(tail == state) & (head == after)] += 1
            total -= (uses @ rewards - np.log(z[chosen.start_states]).sum()) / demos.num_episodes
        return total

    assert np.abs(slopes(loss, arcs, 1e-6)).max() < 1e-6
    with pytest.raises(ValueError, match="solver='newton'"):
        ix.MCEIRL(l2=0.05, solver="lbfgs", progress=False).fit(mdp, ix.TabularReward("sa"), demos)


def test_conjugate_gradients_find_what_the_matrix_of_curvature_finds(problem, monkeypatch):
    mdp, _, demos = problem
    estimator = ix.MCEIRL(objective="likelihood", l2=0.05, progress=False)
    by_matrix = estimator.fit(mdp, ix.TabularReward("sa"), demos)
    monkeypatch.setattr(newton, "DENSE_HESSIAN", 10)
    by_products = estimator.fit(mdp, ix.TabularReward("sa"), demos)
    assert np.allclose(by_products.reward.table(mdp), by_matrix.reward.table(mdp), atol=1e-6)


def test_products_with_the_hessian_are_its_columns(fit):
    theta, objective = fit.reward.weights, fit.objective
    matrix = objective.hessian(theta)
    for k, direction in enumerate(np.eye(2)):
        assert np.allclose(objective.hessian_product(theta, direction), matrix[:, k], rtol=1e-9)


def test_a_reward_that_is_not_linear_is_learned_by_its_gradient():
    """At γ < 1 values exist everywhere, so that a network may start where it starts."""
    rng = np.random.default_rng(4)
    mdp = ix.MDP.from_dense(rng.dirichlet(np.ones(5), size=(5, 2)), np.full(5, 0.2), discount=0.8)
    plan = goal_plan(mdp, rng.normal(size=(5, 2)), [1, 4])
    demos = simulated_demos(plan, np.zeros(200, int), rng.choice([1, 4], 200), key=jax.random.key(0))
    reward = ix.NeuralReward(np.eye(5), width=8, depth=1, key=jax.random.key(1))
    estimator = ix.MCEIRL(objective="likelihood", l2=1e-4, solver=ix.Adam(max_steps=60), progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ix.UnfinishedWarning)
        found = estimator.fit(mdp, reward, demos)
    assert found.history.loss[-1] < found.history.loss[0] - 0.05
    # The loss is the mean of the likelihood of an episode and the penalty, by one plan for each goal.
    logs = sum(
        float(weights @ goal_plan(mdp, found.reward, [goal]).log_policy(goal)[states, actions])
        for goal in (1, 4)
        for states, actions, weights in [_choices_to(demos, goal)]
    )
    assert np.isclose(found.log_likelihood, logs, rtol=1e-8)


def _choices_to(demos, goal):
    rows = np.repeat(demos.goals == goal, demos.lengths)
    return demos.states[rows], demos.actions[rows], np.ones(rows.sum())


def test_the_penalty_is_chosen_by_held_out_trips(problem, monkeypatch):
    mdp, reward, demos = problem
    monkeypatch.setattr(estimate, "CANDIDATES", (1e-4, 1e-2, 1.0))
    some = demos.select(np.arange(60))
    found = ix.MCEIRL(objective="likelihood", l2="cv", progress=False).fit(mdp, reward, some)
    assert found.cross_validation is not None and found.l2 == found.cross_validation.l2 < 1
    scores = ix.cross_validate(ix.MCEIRL(objective="likelihood", l2=found.l2, progress=False), mdp, reward, some)
    assert np.isclose(scores.mean(), found.cross_validation.log_likelihood, atol=0.05)


def test_a_saved_fit_is_the_same_fit(fit, problem, tmp_path):
    fit.save(tmp_path / "run")
    loaded = ix.load(tmp_path / "run")
    assert isinstance(loaded, ix.GoalFit) and loaded.estimator == fit.estimator
    assert np.array_equal(loaded.reward.weights, fit.reward.weights)
    assert np.array_equal(loaded.standard_errors("sandwich"), fit.standard_errors("sandwich"))
    assert loaded.score(problem[2]) == fit.score(problem[2])
    assert "time" in str(loaded.summary()) and "<" in loaded._repr_html_()
    assert loaded.describe()["goals"] == 4


def test_a_fit_is_drawn_and_reported(fit):
    assert fit.plot().savefig
    assert "400 episodes to 4 goals" in fit.page().render()


def test_simulated_trips_of_the_fit_reach_their_goals(fit):
    demos = fit.simulate([1, 2, 3], [15, 15, 0], key=jax.random.key(0))
    assert demos.goals.tolist() == [15, 15, 0] and np.isfinite(fit.score(demos))
    with pytest.raises(ValueError, match="starts at its goal"):
        fit.simulate([1], [1], key=jax.random.key(0))


def test_malformed_calls_are_refused(problem):
    mdp, reward, demos = problem
    with pytest.raises(TypeError, match="one MDP and one reward"):
        ix.MCEIRL(progress=False).fit([mdp], [reward], demos)
    with pytest.raises(ValueError, match="leave `start`"):
        ix.MCEIRL(start="mdp", progress=False).fit(mdp, reward, demos)
    with pytest.raises(ValueError, match="goal"):
        ix.MCEIRL(progress=False).fit(mdp, reward, dataclasses.replace(demos, goals=np.full(400, 7)))
    with pytest.raises(ValueError, match="no goals"):
        ix.DemoStatistics.from_demos(demos, num_states=17, num_actions=4, discount=1.0)
    for estimator in (ix.MaxEntIRL(progress=False), ix.ApprenticeshipIRL(progress=False)):
        with pytest.raises(ValueError, match="goals"):
            estimator.fit(mdp, reward, demos)
