import re

import jax
import numpy as np
import pytest

from irlax import Demonstrations, log_likelihood, path_plan, rollout, soft_plan, trajectory_log_likelihood
from irlax.demos.demonstrations import from_rows
from tests import oracles
from tests.problems import S, T, as_mdp, assert_equal, random_problem, random_reward

KEY = jax.random.key(1)


def refuses(message):
    return pytest.raises(ValueError, match=re.escape(message))


def by_episode(demos, *fields):
    """The given arrays of each episode."""
    ends = zip(demos.offsets[:-1], demos.offsets[1:], strict=True)
    return [tuple(field[start:end] for field in fields) for start, end in ends]


def choices(plan, demos, discount):
    """Σ γᵗ log π of each episode, by loops."""
    policy = plan.policy if plan.policy.ndim == 3 else np.broadcast_to(plan.policy, (50, *plan.policy.shape))
    return np.array(
        [
            oracles.log_likelihood_of_choices(policy, s, a, t, discount)
            for s, a, t in by_episode(demos, demos.states, demos.actions, demos.times)
        ]
    )


def sampled(problem, store="dense", model=soft_plan, num=9):
    mdp = as_mdp(problem, store)
    plan = model(mdp, random_reward(110))
    length = None if problem.horizon else 6
    return mdp, plan, rollout(mdp, plan, num=num, length=length, key=KEY)


@pytest.mark.parametrize("horizon", [T, None])
@pytest.mark.parametrize(("model", "discount"), [(soft_plan, 0.0), (soft_plan, 0.5), (path_plan, 0.9)])
def test_log_likelihood_is_the_mean_of_discounted_log_policies(model, discount, horizon):
    problem = random_problem(110, discount=discount, horizon=horizon, masked=True)
    mdp, plan, demos = sampled(problem, "successors", model)
    assert_equal(log_likelihood(mdp, plan, demos), choices(plan, demos, discount).mean())


@pytest.mark.parametrize("horizon", [T, None])
def test_undiscounted_likelihood_counts_every_choice_once_though_the_agent_discounts(horizon):
    mdp, plan, demos = sampled(random_problem(111, discount=0.5, horizon=horizon))
    once = log_likelihood(mdp, plan, demos, discounted=False)
    assert_equal(once, choices(plan, demos, 1.0).mean())
    assert once < log_likelihood(mdp, plan, demos)


@pytest.mark.parametrize("nature", ["stochastic", "deterministic"])
@pytest.mark.parametrize("store", ["dense", "successors"])
@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
def test_trajectory_likelihood_has_nature_undiscounted_and_choices_discounted(nature, store, discount):
    problem = random_problem(112, nature, discount=discount)
    mdp, plan, demos = sampled(problem, store)
    nature_alone = [
        oracles.log_probability_of_moves(problem, [*s, after[-1]], a)
        for s, a, after in by_episode(demos, demos.states, demos.actions, demos.next_states)
    ]
    expected = np.array(nature_alone) + choices(plan, demos, discount)
    assert_equal(trajectory_log_likelihood(mdp, plan, demos), expected)


def test_undiscounted_trajectory_likelihoods_of_all_paths_sum_to_one():
    problem = random_problem(113, discount=1.0, horizon=2)
    mdp = as_mdp(problem)
    plan = soft_plan(mdp, random_reward(113))
    law = dict(oracles.paths(problem, plan.policy))
    demos = Demonstrations.from_episodes([(path[::2], path[1::2]) for path in law])
    likelihood = np.exp(trajectory_log_likelihood(mdp, plan, demos))
    assert_equal(likelihood, list(law.values()))
    assert_equal(likelihood.sum(), 1.0)


def test_deterministic_trajectories_have_likelihood_exp_return_over_exp_start_value():
    """Primer, section 3.3: Maximum Entropy and Maximum Causal Entropy agree when nothing is random."""
    problem = random_problem(114, "deterministic", discount=0.9)
    mdp, plan, demos = sampled(problem)
    reward = oracles.full_reward(problem, random_reward(110))
    returns = [
        oracles.discounted_return([*np.stack([s, a], axis=1).ravel(), after[-1]], reward, 0.9)
        for s, a, after in by_episode(demos, demos.states, demos.actions, demos.next_states)
    ]
    start = demos.start_states
    expected = np.log(problem.initial[start]) + returns - plan.value[0][start]
    assert_equal(trajectory_log_likelihood(mdp, plan, demos), expected)


@pytest.mark.parametrize("discounted", [True, False])
def test_weights_count_an_episode_as_often(discounted):
    mdp, plan, demos = sampled(random_problem(115))
    weights = np.array([3, 1, 0, 2, 1, 0, 5, 1, 1])
    weighted = from_rows(demos.states, demos.actions, demos.lengths, weights=weights)
    repeated = demos.select(np.repeat(np.arange(9), weights))
    expected = log_likelihood(mdp, plan, repeated, discounted=discounted)
    assert_equal(log_likelihood(mdp, plan, weighted, discounted=discounted), expected)
    each = choices(plan, demos, 0.9 if discounted else 1.0)
    assert_equal(expected, (weights * each).sum() / weights.sum())


def test_truncated_episodes_count_what_was_seen():
    problem = random_problem(116)
    mdp, plan, demos = sampled(problem)
    lengths = np.array([1, 2, 3, 4, 1, 2, 3, 4, 4])
    states, actions = demos.states.reshape(9, T), demos.actions.reshape(9, T)
    short = Demonstrations.from_arrays(states, actions, lengths=lengths)
    assert short.lengths.tolist() == lengths.tolist()
    assert_equal(log_likelihood(mdp, plan, short), choices(plan, short, 0.9).mean())
    expected = [
        oracles.log_probability_of_moves(random_problem(116), s, a[:-1])
        for s, a in by_episode(short, short.states, short.actions)
    ]
    assert_equal(trajectory_log_likelihood(mdp, plan, short), np.array(expected) + choices(plan, short, 0.9))


def test_gaps_leave_out_the_choices_and_moves_that_were_not_seen():
    problem = random_problem(117)
    mdp, plan, demos = sampled(problem, num=2)
    seen = np.array([True, True, False, True, True, False, True, True])
    gapped = from_rows(demos.states[seen], demos.actions[seen], np.array([3, 3]), times=demos.times[seen])
    assert_equal(log_likelihood(mdp, plan, gapped), choices(plan, gapped, 0.9).mean())
    p, s, a = problem.transitions, demos.states, demos.actions
    nature = np.log([problem.initial[s[0]] * p[s[0], a[0], s[1]], problem.initial[s[4]] * p[s[6], a[6], s[7]]])
    assert_equal(trajectory_log_likelihood(mdp, plan, gapped), nature + choices(plan, gapped, 0.9))


def test_late_starts_keep_their_times_and_say_nothing_of_the_start():
    """The first state seen is not S_0, so the initial distribution has no part in it."""
    problem = random_problem(118)
    mdp, plan, demos = sampled(problem, num=2)
    late = demos.times >= 2
    kept = from_rows(demos.states[late], demos.actions[late], np.array([2, 2]), times=demos.times[late])
    assert_equal(log_likelihood(mdp, plan, kept), choices(plan, kept, 0.9).mean())
    p, s, a = problem.transitions, kept.states, kept.actions
    nature = np.log([p[s[0], a[0], s[1]], p[s[2], a[2], s[3]]])
    assert_equal(trajectory_log_likelihood(mdp, plan, kept), nature + choices(plan, kept, 0.9))


def test_plans_of_another_problem_can_be_judged_by_the_data_of_this_one():
    """An agent may plan with wrong beliefs; the discount of the weights is that of the MDP that is given."""
    mdp, _, demos = sampled(random_problem(119, discount=0.9))
    believed = soft_plan(as_mdp(random_problem(120, discount=0.3)), random_reward(120))
    assert_equal(log_likelihood(mdp, believed, demos), choices(believed, demos, 0.9).mean())


def test_log_likelihood_is_best_on_average_for_the_policy_that_acted():
    problem = random_problem(121)
    mdp, plan, demos = sampled(problem, num=3000)
    other = soft_plan(mdp, random_reward(122))
    assert log_likelihood(mdp, plan, demos) > log_likelihood(mdp, other, demos) + 0.05


@pytest.mark.parametrize("horizon", [T, None])
def test_log_likelihood_jits_and_its_gradient_is_that_of_finite_differences(horizon):
    mdp, _, demos = sampled(random_problem(122, horizon=horizon))
    reward, direction = random_reward(123), random_reward(124)

    def function(reward):
        return log_likelihood(mdp, soft_plan(mdp, reward), demos)

    with jax.enable_x64(True):
        assert_equal(jax.jit(function)(reward), function(reward))
        slope = (jax.grad(function)(reward) * direction).sum()
    near, far = ((function(reward + e * direction) - function(reward - e * direction)) / (2 * e) for e in (1e-3, 2e-3))
    np.testing.assert_allclose(slope, (4 * near - far) / 3, rtol=1e-7)


# What cannot be.


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        ([[0, S]], [[0, 0]], "the state must lie in 0..2, but row 1 (episode 0, t = 1) has 3."),
        ([[0, 1]], [[0, 2]], "the action must lie in 0..1, but row 1 (episode 0, t = 1) has 2."),
        ([[0] * 5], [[0] * 5], "the time must lie below the horizon 4, but row 4 (episode 0, t = 4) has 4."),
        ([[0, 2]], [[0, 0]], "moves from state 0 by action 0 to state 2, which has probability 0 in the MDP."),
    ],
)
@pytest.mark.parametrize("measure", [log_likelihood, trajectory_log_likelihood])
def test_rows_that_cannot_be_are_named(measure, states, actions, message):
    problem = random_problem(123)
    assert problem.transitions[0, 0, 2] == 0
    mdp = as_mdp(problem)
    demos = Demonstrations.from_arrays(np.array(states), np.array(actions))
    with refuses(message):
        measure(mdp, soft_plan(mdp, np.zeros(S)), demos)


def test_actions_that_do_not_exist_are_named():
    problem = random_problem(124)._replace(available=np.array([[True, True], [True, False], [True, True]]))
    mdp = as_mdp(problem)
    demos = Demonstrations.from_arrays([[1]], [[1]])
    with refuses("the action must be available in its state, but row 0 (episode 0, t = 0) has 1."):
        log_likelihood(mdp, soft_plan(mdp, np.zeros(S)), demos)


def test_a_plan_for_another_horizon_is_refused():
    mdp, _, demos = sampled(random_problem(125))
    plan = soft_plan(as_mdp(random_problem(125, horizon=T + 1)), np.zeros(S))
    with refuses("The plan was made for horizon 5, but the MDP has 4."):
        log_likelihood(mdp, plan, demos)
