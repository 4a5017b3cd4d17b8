import jax
import numpy as np
import pytest

from irlax import hard_plan, occupancy, soft_plan, visits
from tests import oracles
from tests.problems import (
    REWARDS,
    STORES,
    A,
    S,
    T,
    as_mdp,
    assert_equal,
    on_every_problem,
    random_problem,
    random_reward,
)


@on_every_problem
def test_hard_plan_is_the_literal_recursion(nature, discount, masked, store):
    problem = random_problem(40, nature, discount=discount, masked=masked)
    mdp = as_mdp(problem, store)
    for over in REWARDS:
        reward = random_reward(40, over)
        plan = hard_plan(mdp, reward)
        q, value = oracles.plan("hard", problem, reward)
        assert_equal(plan.q, q)
        assert_equal(plan.value, value)
        best = np.isclose(q, value[..., None], rtol=0, atol=1e-9)
        assert_equal(plan.policy, best / best.sum(axis=-1, keepdims=True))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("store", STORES)
def test_hard_value_is_the_best_return_of_any_policy(store, masked):
    problem = random_problem(41, discount=0.9, horizon=2, masked=masked)
    reward = random_reward(41, "sas")
    value = hard_plan(as_mdp(problem, store), reward).value
    assert_equal(value[0], oracles.best_return_of_any_policy(problem, reward))


@pytest.mark.parametrize(("store", "masked"), [("dense", True), ("successors", False)])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9, 0.999])
def test_endless_hard_value_is_the_best_of_all_stationary_policies(store, masked, discount):
    problem = random_problem(42, discount=discount, horizon=None, masked=masked)
    reward = random_reward(42)
    plan = hard_plan(as_mdp(problem, store), reward)
    np.testing.assert_allclose(plan.value, oracles.best_stationary_value(problem, reward), rtol=1e-8)
    assert sorted(set(plan.policy.ravel())) == [0, 1]


@pytest.mark.parametrize("horizon", [T, None])
def test_equally_good_actions_share_the_policy(horizon):
    problem = random_problem(43, discount=0.5, horizon=horizon)
    # The same row for both actions in state 1: nothing tells them apart.
    transitions = problem.transitions.copy()
    transitions[1, 1] = transitions[1, 0]
    reward = np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 1.0]])
    policy = hard_plan(as_mdp(problem._replace(transitions=transitions)), reward).policy
    assert_equal(policy[..., 1, :], np.full(policy[..., 1, :].shape, 0.5))
    assert_equal(policy[..., 0, :].max(axis=-1), np.ones(policy.shape[:-2]))


@pytest.mark.parametrize("horizon", [T, None])
@pytest.mark.parametrize("scale", [1.0, 10.0, 1000.0])
def test_soft_value_exceeds_the_hard_one_by_at_most_log_actions_a_step(horizon, scale):
    problem = random_problem(44, discount=0.9, horizon=horizon)
    mdp, reward = as_mdp(problem), random_reward(44)
    hard = hard_plan(mdp, reward).value
    excess = soft_plan(mdp, scale * reward).value / scale - hard
    most = np.log(A) * (10 if horizon is None else sum(0.9**t for t in range(T))) / scale
    assert (excess > -1e-9).all()
    assert (excess <= most + 1e-9).all()


@pytest.mark.parametrize("horizon", [T, None])
def test_gradient_of_the_best_return_is_the_occupancy_of_the_best_policy(horizon):
    problem = random_problem(45, discount=0.9, horizon=horizon)
    mdp, reward = as_mdp(problem), random_reward(45)

    def start_value(reward):
        value = hard_plan(mdp, reward).value
        return mdp.initial @ (value if horizon is None else value[0])

    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(start_value))(reward)
    plan = hard_plan(mdp, reward)
    assert_equal(gradient, visits(mdp, plan))
    assert_equal(gradient, occupancy(mdp, plan.policy).reshape(-1, S, A).sum(axis=0))
