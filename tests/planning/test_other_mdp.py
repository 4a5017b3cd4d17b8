"""Plans that are carried out in another MDP than the one they were made in."""

import re

import jax
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from tests.problems import assert_equal

ACTIONS = np.array([[True, False], [True, True]])


def two_states(*, available=None, horizon=None, discount=0.9):
    """Action 0 leads to state 1, action 1 to state 0, which is the start."""
    transitions = np.zeros((2, 2, 2))
    transitions[:, 0, 1] = transitions[:, 1, 0] = 1
    return ix.MDP.from_dense(transitions, [1, 0], discount=discount, horizon=horizon, available=available)


DEMOS = ix.Demonstrations.from_arrays([[0, 1, 1]], [[0, 0, 0]], next_states=[[1, 1, 1]])

MEASURES = {
    "occupancy": ix.occupancy,
    "visits": ix.visits,
    "believed_occupancy": ix.believed_occupancy,
    "expected_return": lambda mdp, plan: ix.expected_return(mdp, plan, np.ones((2, 2))),
    "feature_expectations": lambda mdp, plan: ix.feature_expectations(mdp, plan, np.ones((2, 2, 1))),
    "causal_entropy": ix.causal_entropy,
    "trajectory_entropy": ix.trajectory_entropy,
    "transition_entropy": ix.transition_entropy,
    "conditional_entropy": ix.conditional_entropy,
    "long_run": ix.long_run,
    "rollout": lambda mdp, plan: ix.rollout(mdp, plan, num=2, length=3, key=jr.key(0)),
    "log_likelihood": lambda mdp, plan: ix.log_likelihood(mdp, plan, DEMOS),
    "demonstrator": lambda mdp, plan: ix.MCEIRL(progress=False).fit(mdp, ix.LinearReward(np.ones((2, 2, 1))), plan),
}


def refuses(message):
    return pytest.raises(ValueError, match=re.escape(message))


@pytest.mark.parametrize("measure", MEASURES)
def test_a_plan_that_takes_actions_that_do_not_exist_here_is_refused(measure):
    plan = ix.soft_plan(two_states(), np.zeros((2, 2)))
    with refuses("puts probability on actions that do not exist in this one, at (state, action) (0, 1). Plan in this"):
        MEASURES[measure](two_states(available=ACTIONS), plan)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_plan_of_other_states_is_refused(measure):
    larger = ix.MDP.from_dense(np.full((3, 2, 3), 1 / 3), [1, 0, 0], discount=0.9)
    plan = ix.soft_plan(larger, np.zeros((3, 2)))
    message = "The plan was made for an MDP with 3 states and tables of shape (3, 2), but this one has 2 and (2, 2)."
    with refuses(message):
        MEASURES[measure](two_states(), plan)


@pytest.mark.parametrize("planner", [ix.soft_plan, ix.path_plan])
def test_soft_and_path_plans_take_every_action_over_a_horizon_too(planner):
    plan = planner(two_states(horizon=3), np.zeros((2, 2)))
    with refuses("at (state, action) (0, 1)"):
        ix.occupancy(two_states(horizon=3, available=ACTIONS), plan)


@pytest.mark.parametrize("horizon", [None, 3])
def test_a_hard_plan_is_refused_only_if_it_takes_a_missing_action(horizon):
    everything, less = two_states(horizon=horizon), two_states(horizon=horizon, available=ACTIONS)
    takes, leaves = np.array([[0.0, 1], [0, 0]]), np.array([[1.0, 0], [0, 0]])
    with refuses("at (state, action) (0, 1)"):
        ix.visits(less, ix.hard_plan(everything, takes))
    plan = ix.hard_plan(everything, leaves)
    assert_equal(ix.visits(less, plan), ix.visits(less, plan.policy))


def test_an_action_taken_at_one_time_only_is_found():
    """Staying in state 0 pays less than leaving, but for the last decision."""
    everything, less = two_states(horizon=3, discount=1.0), two_states(horizon=3, discount=1.0, available=ACTIONS)
    plan = ix.hard_plan(everything, np.array([[0.0, 0.4], [1, 0]]))
    assert [bool(now[0, 1] > 0) for now in plan.policy] == [False, False, True]
    with refuses("at (state, action) (0, 1)"):
        ix.visits(less, plan)


def test_a_plan_with_fewer_actions_is_carried_out_where_there_are_more():
    everything, less = two_states(), two_states(available=ACTIONS)
    plan = ix.soft_plan(less, np.zeros((2, 2)))
    assert_equal(ix.occupancy(everything, plan), ix.occupancy(everything, plan.policy))


def test_equal_masks_need_not_be_the_same_array():
    first, second = (two_states(available=ACTIONS) for _ in range(2))
    plan = ix.soft_plan(first, np.zeros((2, 2)))
    assert_equal(ix.occupancy(second, plan), ix.occupancy(first, plan))


def test_plans_of_states_with_other_numbers_of_actions_are_refused():
    def star(hub):
        """One state with 40 ways, and one with 41: tables of the same shape, filled otherwise."""
        counts = np.full(60, 2)
        counts[[hub, 7 - hub]] = 40, 41
        states = np.repeat(np.arange(60), counts)
        return ix.MDP.from_actions(states, np.arange(len(states)) % 60, np.eye(60)[0], discount=0.9)

    plan = ix.soft_plan(star(3), np.zeros(star(3).table_shape))
    with refuses("states 3, 4 have 40, 41 actions, but here they have 41, 40, and stand elsewhere in tables."):
        ix.visits(star(4), plan)
    assert_equal(ix.visits(star(3), plan), ix.visits(plan.mdp, plan))


def test_inside_jit_nothing_is_looked_at():
    everything, less = two_states(), two_states(available=ACTIONS)
    with jax.enable_x64(True):
        run = jax.jit(lambda reward: ix.visits(less, ix.hard_plan(everything, reward)))
        found = run(np.array([[1.0, 0], [0, 0]]))
    assert_equal(np.asarray(found).sum(), 10)
