import re

import jax
import numpy as np
import pytest

from irlax import MDP, Demonstrations, hard_plan, occupancy, rollout, soft_plan
from irlax.envs import cliff
from tests.problems import A, S, T, as_mdp, random_policy, random_problem, random_reward

KEY = jax.random.key(0)


def refuses(message, error=ValueError):
    return pytest.raises(error, match=re.escape(message))


def frequencies(demos, num_steps):
    """The share of episodes in (s, a) at each time, [T, S, A]."""
    counts = np.zeros((num_steps, S, A))
    np.add.at(counts, (demos.times, demos.states, demos.actions), 1)
    return counts / demos.num_episodes


def assert_sampled_from(shares, probabilities, num):
    """Multinomial shares, each within 4.5 of its standard errors; where the probability is 0 nothing is seen."""
    error = np.sqrt(probabilities * (1 - probabilities) / num)
    assert (shares[probabilities == 0] == 0).all()
    assert (np.abs(shares - probabilities) <= 4.5 * error + 1e-12).all()


@pytest.mark.parametrize(
    ("store", "nature", "masked"),
    [("dense", "stochastic", True), ("successors", "stochastic", False), ("scipy", "deterministic", True)],
)
def test_frequencies_match_occupancy(store, nature, masked):
    problem = random_problem(100, nature, discount=1.0, masked=masked)
    mdp, policy, num = as_mdp(problem, store), random_policy(problem, 100), 20_000
    demos = rollout(mdp, policy, num=num, key=KEY)
    assert_sampled_from(frequencies(demos, T), occupancy(mdp, policy), num)


def test_moves_follow_the_transitions():
    problem = random_problem(101)
    demos = rollout(as_mdp(problem, "successors"), random_policy(problem, 101), num=10_000, key=KEY)
    counts = np.zeros((S, A, S))
    np.add.at(counts, (demos.states, demos.actions, demos.next_states), 1)
    seen = counts.sum(axis=-1, keepdims=True)
    assert seen.min() > 1000
    assert_sampled_from(counts / seen, problem.transitions, seen)
    within = np.flatnonzero(demos.times < T - 1)
    assert np.array_equal(demos.next_states[within], demos.states[within + 1])


@pytest.mark.parametrize("horizon", [T, None])
def test_episodes_and_steps_do_not_depend_on_how_many_follow(horizon):
    """Whether or not their numbers are rounded up before they are sampled: 40,000 episodes of 40 steps are not."""
    problem = random_problem(107, horizon=horizon)
    mdp, policy = as_mdp(problem), random_policy(problem, 107, stationary=True)
    few, many = ({} if horizon else {"length": length} for length in (7, 40))
    one = rollout(mdp, policy, num=3, key=KEY, **few)
    for num in (70, 40_000):
        other = rollout(mdp, policy, num=num, key=KEY, **many)
        for name in ("states", "actions", "next_states"):
            rows = getattr(other, name).reshape(num, -1)[:3, : one.lengths[0]]
            np.testing.assert_array_equal(getattr(one, name), rows.ravel())


def test_endless_frequencies_match_occupancy_when_discounted():
    problem = random_problem(102, discount=0.5, horizon=None)
    mdp, policy, num = as_mdp(problem), random_policy(problem, 102, stationary=True), 20_000
    demos = rollout(mdp, policy, num=num, length=40, key=KEY)
    assert (demos.lengths == 40).all()
    assert not demos.terminated.any()
    discounted = np.zeros((num, S, A))
    np.add.at(discounted, (demos.episode, demos.states, demos.actions), 0.5**demos.times)
    error = discounted.std(axis=0) / np.sqrt(num)
    assert (np.abs(discounted.mean(axis=0) - occupancy(mdp, policy)) <= 4.5 * error).all()


def test_a_finite_horizon_is_truncated_after_as_many_steps():
    problem = random_problem(103)
    demos = rollout(as_mdp(problem), random_policy(problem, 103), num=7, key=KEY)
    assert isinstance(demos, Demonstrations)
    assert demos.num_episodes == 7
    assert demos.lengths.tolist() == [T] * 7
    assert demos.times.tolist() == list(range(T)) * 7
    assert not demos.terminated.any()


def test_the_same_key_gives_the_same_episodes_and_another_gives_others():
    problem = random_problem(104)
    mdp, policy = as_mdp(problem), random_policy(problem, 104)
    first, again = (rollout(mdp, policy, num=50, key=jax.random.key(3)) for _ in range(2))
    with jax.enable_x64(True):
        with_the_flag_on = rollout(mdp, policy, num=50, key=jax.random.key(3))
    other = rollout(mdp, policy, num=50, key=jax.random.key(4))
    for field in ("states", "actions", "next_states"):
        assert np.array_equal(getattr(first, field), getattr(again, field))
        assert np.array_equal(getattr(first, field), getattr(with_the_flag_on, field))
        assert not np.array_equal(getattr(first, field), getattr(other, field))


@pytest.mark.parametrize("horizon", [T, None])
def test_a_plan_is_rolled_out_by_its_policy(horizon):
    mdp = as_mdp(random_problem(105, horizon=horizon))
    plan = soft_plan(mdp, random_reward(105))
    length = None if horizon else 6
    by_plan, by_policy = (rollout(mdp, policy, num=20, length=length, key=KEY) for policy in (plan, plan.policy))
    assert np.array_equal(by_plan.actions, by_policy.actions)
    assert np.array_equal(by_plan.states, by_policy.states)


def test_a_stationary_policy_is_followed_at_all_times():
    problem = random_problem(106)
    mdp, policy = as_mdp(problem), random_policy(problem, 106, stationary=True)
    short, long = (rollout(mdp, given, num=20, key=KEY) for given in (policy, np.broadcast_to(policy, (T, S, A))))
    assert np.array_equal(short.actions, long.actions)


# γ = 1 with no horizon: episodes end.


def two_ways_home():
    """From 0 to 1 or straight to the end 2; from 1 on to 2 at even odds."""
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 1] = transitions[0, 1, 2] = 1
    transitions[1, :, 1] = transitions[1, :, 2] = 0.5
    transitions[2, :, 2] = 1
    available = np.array([[True, True], [True, False], [True, False]])
    return MDP.from_dense(transitions, [1.0, 0.0, 0.0], discount=1, available=available)


def test_undiscounted_episodes_end_where_the_problem_ends():
    policy = np.array([[0.25, 0.75], [1.0, 0.0], [1.0, 0.0]])
    num = 4000
    demos = rollout(two_ways_home(), policy, num=num, length=5, key=KEY)
    last = demos.offsets[1:] - 1
    assert np.array_equal(demos.terminated, demos.next_states[last] == 2)
    assert (demos.states < 2).all()
    # Truncated after five steps: by way of 1, and four times in a row not home.
    assert (demos.lengths[~demos.terminated] == 5).all()
    shares = np.bincount(demos.lengths, minlength=6)[1:] / num
    expected = np.array([0.75, 0.25 / 2, 0.25 / 4, 0.25 / 8, 0.25 / 8])
    assert_sampled_from(shares, expected, num)
    assert_sampled_from(np.mean(~demos.terminated), np.array(0.25 / 16), num)


def test_undiscounted_frequencies_match_occupancy():
    policy, num = np.array([[0.25, 0.75], [1.0, 0.0], [1.0, 0.0]]), 4000
    mdp = two_ways_home()
    demos = rollout(mdp, policy, num=num, length=60, key=KEY)
    assert demos.terminated.all()
    visits = np.zeros((num, 3, 2))
    np.add.at(visits, (demos.episode, demos.states, demos.actions), 1)
    error = visits.std(axis=0) / np.sqrt(num)
    assert (np.abs(visits.mean(axis=0) - occupancy(mdp, policy)) <= 4.5 * error).all()


def test_a_discounted_problem_goes_on_in_its_absorbing_states():
    env = cliff(height=2, width=3, discount=0.9, horizon=6)
    demos = rollout(env.mdp, hard_plan(env.mdp, env.reward), num=2, key=KEY)
    goal = env.state_at[1, 2]
    assert demos.states.reshape(2, 6)[:, -1].tolist() == [goal, goal]
    assert not demos.terminated.any()


def test_starting_at_the_end_is_refused():
    mdp = two_ways_home().replace(initial=[0.0, 0.0, 1.0])
    with refuses("`initial` starts some episodes in an absorbing state, where nothing can be demonstrated."):
        rollout(mdp, np.array([[1.0, 0.0]] * 3), num=5, length=5, key=KEY)


# Errors.


def test_an_endless_problem_needs_a_length():
    with refuses("With an infinite horizon, say how many steps to sample: `length=`."):
        rollout(as_mdp(random_problem(0, horizon=None)), np.full((S, A), 0.5), num=5, key=KEY)


def test_a_finite_horizon_takes_no_other_length():
    mdp, policy = as_mdp(random_problem(0)), np.full((S, A), 0.5)
    with refuses("`length` is for infinite horizons; this MDP has a horizon of 4 steps."):
        rollout(mdp, policy, num=5, length=9, key=KEY)
    assert rollout(mdp, policy, num=5, length=T, key=KEY).num_steps == 5 * T


@pytest.mark.parametrize(("num", "length"), [(0, 5), (-1, 5), (5, 0)])
def test_numbers_below_one_are_refused(num, length):
    with pytest.raises(ValueError, match=r"`(num|length)` must be at least 1"):
        rollout(as_mdp(random_problem(0, horizon=None)), np.full((S, A), 0.5), num=num, length=length, key=KEY)


def test_policies_that_are_no_policies_are_refused():
    with refuses("`policy` must sum to 1"):
        rollout(as_mdp(random_problem(0)), np.full((S, A), 0.4), num=5, key=KEY)
    with refuses("`policy` must have shape"):
        rollout(as_mdp(random_problem(0)), np.full((A, S), 0.5), num=5, key=KEY)


@pytest.mark.parametrize("horizon", [T + 1, None])
def test_a_plan_for_another_horizon_is_refused(horizon):
    plan = soft_plan(as_mdp(random_problem(0)), np.zeros(S))
    length = None if horizon else T
    with refuses("horizon"):
        rollout(as_mdp(random_problem(0, horizon=horizon)), plan, num=5, length=length, key=KEY)
