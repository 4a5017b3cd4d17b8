"""What must not change, or change in a known way, when a problem is told differently."""

from typing import NamedTuple

import numpy as np
import pytest

import irlax as ix

S, A, T = 5, 3, 6
MODELS = {"soft": ix.soft_plan, "path": ix.path_plan, "hard": ix.hard_plan}
#: Each model over a horizon and without; the discounts are such that rounding is no issue.
CASES = [(model, horizon) for model in MODELS for horizon in (T, None)]
every_case = pytest.mark.parametrize(("model", "horizon"), CASES)
OFFSETS, SCALES = (0.0, 1e3, -1e6, 1e6), (1.0, 1e-6, 1e6)


class Told(NamedTuple):
    """A problem as arrays; `reward` is r(s, a, s')."""

    transitions: np.ndarray
    initial: np.ndarray
    available: np.ndarray
    reward: np.ndarray

    def mdp(self, horizon, discount=0.95):
        return ix.MDP.from_dense(
            self.transitions, self.initial, discount=discount, horizon=horizon, available=self.available
        )

    def planned(self, model, horizon, discount=0.95):
        """The value at the start, the policy and the visits."""
        mdp = self.mdp(horizon, discount)
        plan = MODELS[model](mdp, self.reward)
        return plan.first_value, plan.policy, ix.visits(mdp, plan)


def told(seed=0):
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.full(S, 0.5), size=(S, A))
    available = np.ones((S, A), bool)
    available[1, 2] = available[3, 0] = False
    return Told(transitions, rng.dirichlet(np.ones(S)), available, rng.normal(size=(S, A, S)))


def close(actual, expected, rtol=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol)


@every_case
def test_other_numbers_for_states_and_actions_are_all_that_changes(model, horizon):
    first = told()
    rng = np.random.default_rng(1)
    states, actions = rng.permutation(S), rng.permutation(A)
    table = np.ix_(states, actions)
    second = Told(
        first.transitions[np.ix_(states, actions, states)],
        first.initial[states],
        first.available[table],
        first.reward[np.ix_(states, actions, states)],
    )
    value, policy, visits = first.planned(model, horizon)
    other_value, other_policy, other_visits = second.planned(model, horizon)
    close(other_value, value[states])
    close(other_policy, policy[..., states, :][..., actions])
    close(other_visits, visits[table])


@every_case
def test_a_state_that_nothing_leads_to_and_an_action_that_does_not_exist_change_nothing_else(model, horizon):
    first = told()
    transitions, reward = np.zeros((2, S + 1, A + 1, S + 1))
    transitions[:S, :A, :S], reward[:S, :A, :S] = first.transitions, first.reward
    # The new state leads to all others, and would be the best of them.
    transitions[S, :, :S], reward[S] = 1 / S, 100
    available = np.zeros((S + 1, A + 1), bool)
    available[:S, :A], available[S, 0] = first.available, True
    second = Told(transitions, np.append(first.initial, 0), available, reward)
    value, policy, visits = first.planned(model, horizon)
    other_value, other_policy, other_visits = second.planned(model, horizon)
    close(other_value[:S], value)
    close(other_policy[..., :S, :A], policy)
    close(other_visits[:S, :A], visits)
    assert (other_visits[S] == 0).all()
    assert (other_visits[:, A] == 0).all()


@every_case
def test_a_next_state_may_be_listed_in_parts(model, horizon):
    problem = told()
    each = np.broadcast_to(np.arange(S), (S, A, S))
    successors = np.concatenate([each, each[..., ::-1]], axis=-1)
    parts = np.concatenate([0.25 * problem.transitions, 0.75 * problem.transitions[..., ::-1]], axis=-1)
    mdp = ix.MDP.from_successors(
        successors, parts, problem.initial, discount=0.95, horizon=horizon, available=problem.available
    )
    plan = MODELS[model](mdp, problem.reward)
    value, policy, visits = problem.planned(model, horizon)
    close(plan.first_value, value)
    close(plan.policy, policy)
    close(ix.visits(mdp, plan), visits)


@every_case
def test_a_constant_reward_is_earned_in_every_period_whatever_is_done(model, horizon):
    problem, constant = told(), 3.0
    value, policy, visits = problem.planned(model, horizon)
    shifted = problem._replace(reward=problem.reward + constant).planned(model, horizon)
    periods = (1 - (0.0 if horizon is None else 0.95**horizon)) / (1 - 0.95)
    close(shifted[0], value + constant * periods)
    close(shifted[1], policy)
    close(shifted[2], visits)


@pytest.mark.parametrize("model", MODELS)
def test_a_potential_is_taken_off_the_values_and_leaves_the_policy(model):
    problem = told()
    potential = np.random.default_rng(2).normal(size=S)
    shaping = 0.95 * potential - potential[:, None, None]
    value, policy, visits = problem.planned(model, None)
    shaped = problem._replace(reward=problem.reward + shaping).planned(model, None)
    close(shaped[0], value - potential)
    close(shaped[1], policy)
    close(shaped[2], visits)


@every_case
def test_single_precision_is_right_to_its_own_rounding(model, horizon):
    problem = told()
    mdp = problem.mdp(horizon)
    options = {} if horizon else {"tol": 1e-4}
    plan = MODELS[model](mdp.single_precision(), problem.reward, **options)
    value, policy, visits = problem.planned(model, horizon)
    assert plan.value.dtype == np.float32
    close(plan.first_value, value, rtol=2e-5)
    close(plan.policy, policy, rtol=1e-5)
    close(ix.visits(mdp.single_precision(), plan), visits, rtol=1e-4)


# Ties of optimal policies.

HARD = [
    (0.9999, None, "newton"),
    (0.9999, None, "value-iteration"),
    (0.9, None, "newton"),
    (0.9, None, "value-iteration"),
    (1.0, 1000, "auto"),
]
every_solver = pytest.mark.parametrize(("discount", "horizon", "method"), HARD)


def in_other_units(reward):
    """The reward with constants added to it, in units of several sizes: the same preferences."""
    return [scale * (reward + offset) for offset in OFFSETS for scale in SCALES]


@every_solver
def test_the_best_policy_does_not_depend_on_units(discount, horizon, method):
    problem = told(3)
    mdp, reward = problem.mdp(horizon, discount), problem.reward[..., 0]
    expected = ix.hard_plan(mdp, reward, method=method).policy
    assert set(np.unique(expected)) == {0, 1}
    for other in in_other_units(reward):
        assert np.array_equal(ix.hard_plan(mdp, other, method=method).policy, expected)


def test_the_best_policy_is_the_best_of_all_policies_far_from_zero():
    """Values of 10¹⁰, against policy iteration on rewards near zero."""
    problem = told(4)
    reward = problem.reward[..., 0] + 1e6
    for method in ("newton", "value-iteration"):
        found = ix.hard_plan(problem.mdp(None, 0.9999), reward, method=method).policy.argmax(axis=1)
        assert np.array_equal(found, best_actions(problem, problem.reward[..., 0], 0.9999))


def best_actions(problem, reward, discount):
    """Howard's policy iteration in NumPy."""
    each, choice = np.arange(S), problem.available.argmax(axis=1)
    while True:
        chain = problem.transitions[each, choice]
        value = np.linalg.solve(np.eye(S) - discount * chain, reward[each, choice])
        q = np.where(problem.available, reward + discount * problem.transitions @ value, -np.inf)
        if (q.max(axis=1) <= q[each, choice] + 1e-9).all():
            return choice
        choice = q.argmax(axis=1)


SIDE = 5


def symmetric_grid(discount, horizon):
    """A square with its goal in the middle, and wind from all sides alike; moves are up, right, down and left."""
    size, moves = SIDE**2, np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])
    places = np.array([(row, column) for row in range(SIDE) for column in range(SIDE)])
    aims = np.clip(places[:, None] + moves, 0, SIDE - 1)
    aims = aims[..., 0] * SIDE + aims[..., 1]
    certain = np.eye(size)[aims]
    transitions = 0.7 * certain + 0.3 * certain.mean(axis=1, keepdims=True)
    mdp = ix.MDP.from_dense(transitions, np.full(size, 1 / size), discount=discount, horizon=horizon)
    return mdp, np.where(places == SIDE // 2, 1.0, 0.0).prod(axis=1)


@every_solver
def test_what_is_symmetric_shares_the_policy(discount, horizon, method):
    mdp, reward = symmetric_grid(discount, horizon)
    reference = None
    for other in in_other_units(reward):
        plan = ix.hard_plan(mdp, other, method=method)
        policy = plan.policy.reshape(-1, SIDE, SIDE, 4)
        # Reflected, up is down and left is right; transposed, up is left.
        assert np.array_equal(policy, policy[:, ::-1, :, [2, 1, 0, 3]])
        assert np.array_equal(policy, policy.transpose(0, 2, 1, 3)[..., [3, 2, 1, 0]])
        assert np.allclose(policy[0, 0, 0], [0, 0.5, 0.5, 0])
        reference = policy if reference is None else reference
        assert np.array_equal(policy, reference)


@pytest.mark.parametrize("method", ["newton", "value-iteration"])
def test_equal_by_arithmetic_is_a_tie_too(method):
    """0.1 and then 0.2, or 0.3 at once: equal at γ = 1 but for rounding, and so at γ = .9 with 0.2 / γ."""
    successors = np.array([[1, 2], [3, 3], [3, 3], [3, 3]])[..., None]
    for discount, horizon in ((1.0, 3), (0.9, None)):
        mdp = ix.MDP.from_successors(successors, np.ones((4, 2, 1)), np.eye(4)[0], discount=discount, horizon=horizon)
        reward = np.array([[0.1, 0.3], [0.2 / discount] * 2, [0, 0], [0, 0]])
        for other in in_other_units(reward):
            policy = ix.hard_plan(mdp, other, method=method).policy.reshape(-1, 4, 2)
            assert np.array_equal(policy[0, 0], [0.5, 0.5])
