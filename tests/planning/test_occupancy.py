import itertools
import re

import numpy as np
import pytest

from irlax import (
    MDP,
    expected_return,
    feature_expectations,
    hard_plan,
    occupancy,
    path_plan,
    soft_plan,
    visits,
)
from tests import oracles
from tests.problems import (
    REWARDS,
    A,
    K,
    S,
    T,
    as_mdp,
    assert_equal,
    on_every_problem,
    random_policy,
    random_problem,
    random_reward,
)

ENDLESS = [("dense", "stochastic", False), ("successors", "stochastic", True), ("scipy", "deterministic", False)]


@on_every_problem
def test_occupancy_is_the_discounted_frequency_over_all_paths(nature, discount, masked, store):
    problem = random_problem(50, nature, discount=discount, masked=masked)
    mdp, policy = as_mdp(problem, store), random_policy(problem, 50)
    expected = oracles.occupancy(problem, policy)
    assert_equal(occupancy(mdp, policy), expected)
    assert_equal(visits(mdp, policy), expected.sum(axis=0))
    assert_equal(expected.sum(axis=(1, 2)), discount ** np.arange(T))


@on_every_problem
def test_expected_return_and_features_are_means_over_all_paths(nature, discount, masked, store):
    problem = random_problem(51, nature, discount=discount, masked=masked)
    mdp, policy = as_mdp(problem, store), random_policy(problem, 51)
    rng = np.random.default_rng(51)
    for over in REWARDS:
        reward = random_reward(51, over)
        assert_equal(expected_return(mdp, policy, reward), oracles.expected_return(problem, policy, reward))
        features = rng.normal(size=(*reward.shape, K))
        expected = oracles.feature_expectations(problem, policy, features)
        assert_equal(feature_expectations(mdp, policy, features), expected)


@pytest.mark.parametrize("horizon", [1, 2, 5])
def test_occupancy_has_a_row_for_each_decision(horizon):
    problem = random_problem(52, horizon=horizon)
    mdp, policy = as_mdp(problem), random_policy(problem, 52)
    assert_equal(occupancy(mdp, policy), oracles.occupancy(problem, policy))


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("store", "nature", "masked"), ENDLESS)
def test_endless_occupancy_is_a_long_sum_and_a_dense_solve(store, nature, masked, discount):
    problem = random_problem(53, nature, discount=discount, horizon=None, masked=masked)
    mdp, policy = as_mdp(problem, store), random_policy(problem, 53, stationary=True)
    found = occupancy(mdp, policy)
    assert found.shape == (S, A)
    assert_equal(found, oracles.stationary_occupancy(problem, policy, num_steps=400))
    chain = np.einsum("sa,sat->st", policy, problem.transitions)
    states = np.linalg.solve(np.eye(S) - discount * chain.T, problem.initial)
    assert_equal(found, states[:, None] * policy)
    assert_equal(visits(mdp, policy), found)
    assert_equal(found.sum(), 1 / (1 - discount))
    reward = random_reward(53, "sas")
    value = np.linalg.solve(
        np.eye(S) - discount * chain, np.einsum("sa,sat,sat->s", policy, problem.transitions, reward)
    )
    assert_equal(expected_return(mdp, policy, reward), problem.initial @ value)


@pytest.mark.parametrize("horizon", [T, None])
def test_mass_flows_into_a_state_as_it_starts_there_or_is_pushed_there(horizon):
    problem = random_problem(54, horizon=horizon, discount=0.9)
    mdp = as_mdp(problem)
    mass = occupancy(mdp, random_policy(problem, 54, stationary=horizon is None))
    if horizon is None:
        assert_equal(mass.sum(axis=1), problem.initial + 0.9 * mdp.dynamics.push(mass))
    else:
        assert_equal(mass[0].sum(axis=1), problem.initial)
        for before, after in itertools.pairwise(mass):
            assert_equal(after.sum(axis=1), 0.9 * mdp.dynamics.push(before))


@pytest.mark.parametrize(("model", "horizon"), [(soft_plan, T), (soft_plan, None), (path_plan, T), (hard_plan, None)])
def test_a_plan_stands_for_its_policy(model, horizon):
    problem = random_problem(55, horizon=horizon)
    mdp, reward = as_mdp(problem, "successors"), random_reward(55)
    plan = model(mdp, reward)
    assert_equal(occupancy(mdp, plan), occupancy(mdp, plan.policy))
    assert_equal(visits(mdp, plan), visits(mdp, plan.policy))
    assert_equal(expected_return(mdp, plan, reward), expected_return(mdp, plan.policy, reward))


def test_a_stationary_policy_is_the_same_at_all_times():
    problem = random_problem(56)
    mdp, policy = as_mdp(problem), random_policy(problem, 56, stationary=True)
    always = np.broadcast_to(policy, (T, S, A))
    assert_equal(occupancy(mdp, policy), occupancy(mdp, always))
    assert_equal(visits(mdp, policy), visits(mdp, always))


def test_a_plan_is_carried_out_in_the_mdp_that_is_given():
    """A plan made under wrong beliefs still meets the true transitions and the true discount."""
    believed, true = random_problem(57, discount=0.9), random_problem(58, discount=0.5)
    plan = soft_plan(as_mdp(believed), random_reward(57))
    assert_equal(occupancy(as_mdp(true), plan), oracles.occupancy(true, plan.policy))


# γ = 1 with no horizon.


def drunkards_walk(length=5):
    """Left, right or along with the wind, until the last cell; the first is a wall."""
    places = np.arange(length)
    transitions = np.zeros((length, 2, length))
    for s in places[:-1]:
        transitions[s, 0, max(s - 1, 0)] += 0.7
        transitions[s, 0, s + 1] += 0.3
        transitions[s, 1, s + 1] = 1
    transitions[-1, :, -1] = 1
    available = np.ones((length, 2), bool)
    available[-1, 0] = False
    initial = np.full(length, 1 / (length - 1)) * (places < length - 1)
    return oracles.Problem(transitions, initial, 1.0, None, available)


@pytest.mark.parametrize("store", ["dense", "successors"])
def test_undiscounted_occupancy_counts_decisions_until_the_end(store):
    problem = drunkards_walk()
    mdp, policy = as_mdp(problem, store), random_policy(problem, 59, stationary=True)
    found = occupancy(mdp, policy)
    going_on = problem._replace(transitions=np.where(np.arange(5) < 4, problem.transitions, 0))
    expected = oracles.stationary_occupancy(going_on, policy, num_steps=4000)
    assert_equal(found, expected)
    assert (found[-1] == 0).all()
    chain = np.einsum("sa,sat->st", policy, problem.transitions)[:-1, :-1]
    steps_to_end = np.linalg.solve(np.eye(4) - chain, np.ones(4))
    assert_equal(found.sum(), problem.initial[:-1] @ steps_to_end)
    cost = np.append(-np.ones(4), 0)
    assert_equal(expected_return(mdp, policy, cost), -found.sum())


# Errors.


def refuses(message):
    return pytest.raises(ValueError, match=re.escape(message))


@pytest.mark.parametrize("function", [occupancy, visits])
def test_policies_of_another_shape_are_refused(function):
    with refuses("`policy` must have shape (T, S, A) = (4, 3, 2) or (S, A) = (3, 2), but has (3, 3, 2)."):
        function(as_mdp(random_problem(0)), np.full((T - 1, S, A), 0.5))
    with refuses("`policy` must have shape (S, A) = (3, 2), but has (4, 3, 2)."):
        function(as_mdp(random_problem(0, horizon=None)), np.full((T, S, A), 0.5))


def test_policies_that_are_no_probabilities_are_refused():
    mdp, policy = as_mdp(random_problem(0)), np.full((S, A), 0.5)
    advice = "Divide it by its sum over the actions of each state first."
    with refuses(f"`policy` must sum to 1 along its last axis, but is off by up to 0.5 in rows 1. {advice}"):
        occupancy(mdp, policy + np.array([[0, 0], [0.5, 0], [0, 0]]))
    with refuses("`policy` must not be negative, but is at (1, 0)"):
        occupancy(mdp, policy + np.array([[0, 0], [-1, 1], [0, 0]]))
    with refuses("`policy` must be finite, but has NaN or infinite entries at (2, 1)"):
        occupancy(mdp, policy + np.array([[0, 0], [0, 0], [0, np.nan]]))


def test_policies_that_choose_what_does_not_exist_are_refused():
    available = np.array([[True, True], [True, False], [True, True]])
    problem = random_problem(0)._replace(available=available)
    with refuses("`policy` puts probability on actions that do not exist, at (1, 1)."):
        occupancy(as_mdp(problem), np.full((S, A), 0.5))


def test_a_plan_for_another_horizon_is_refused():
    plan = soft_plan(as_mdp(random_problem(0)), np.zeros(S))
    with refuses("The plan was made for horizon 4, but the MDP has 5."):
        occupancy(as_mdp(random_problem(0, horizon=5)), plan)


@pytest.mark.parametrize("shape", [(S,), (S, A, S, K, 1)])
def test_features_without_a_feature_axis_are_refused(shape):
    with refuses(f"`features` must have shape (S, K), (S, A, K) or (S, A, S', K), but has {shape}."):
        feature_expectations(as_mdp(random_problem(0)), np.full((S, A), 0.5), np.zeros(shape))


def test_features_of_another_mdp_are_refused():
    with refuses("(S, A) = (3, 2)"):
        feature_expectations(as_mdp(random_problem(0)), np.full((S, A), 0.5), np.zeros((A, S, K)))


def test_return_of_a_reward_in_an_undiscounted_end_is_refused():
    mdp = MDP.from_dense(np.ones((1, 1, 1)), [1.0], discount=1)
    with refuses("`reward` must be 0 in absorbing states"):
        expected_return(mdp, np.ones((1, 1)), np.ones(1))
