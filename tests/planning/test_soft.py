import jax
import numpy as np
import pytest

from irlax import causal_entropy, expected_return, occupancy, soft_plan, visits
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
    random_policy,
    random_problem,
    random_reward,
)


@on_every_problem
def test_soft_plan_is_the_literal_recursion(nature, discount, masked, store):
    problem = random_problem(0, nature, discount=discount, masked=masked)
    mdp = as_mdp(problem, store)
    for over in REWARDS:
        reward = random_reward(1, over)
        plan = soft_plan(mdp, reward)
        q, value = oracles.plan("soft", problem, reward)
        assert_equal(plan.q, q)
        assert_equal(plan.value, value)
    assert_equal(plan.log_policy, q - value[..., None])
    assert_equal(plan.policy, np.exp(q - value[..., None]))


@pytest.mark.parametrize("horizon", [1, 2, 5])
@pytest.mark.parametrize("store", ["dense", "successors"])
def test_every_horizon_has_as_many_decisions(horizon, store):
    problem = random_problem(2, discount=0.9, horizon=horizon)
    reward = random_reward(2)
    plan = soft_plan(as_mdp(problem, store), reward)
    q, value = oracles.plan("soft", problem, reward)
    assert plan.value.shape == (horizon, S)
    assert_equal(plan.value, value)
    assert_equal(plan.q, q)
    assert_equal(plan.q[-1], reward)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("masked", [False, True])
def test_soft_value_is_the_log_sum_over_paths_when_deterministic(store, masked):
    """At γ = 1 only: (Σ e^x)^γ is not Σ e^(γx)."""
    problem = random_problem(3, "deterministic", discount=1.0, masked=masked)
    mdp = as_mdp(problem, store)
    for over in REWARDS:
        reward = random_reward(3, over)
        assert_equal(soft_plan(mdp, reward).value[0], oracles.log_sum_of_path_weights(problem, reward))


@on_every_problem
def test_start_value_is_return_plus_causal_entropy_of_the_policy(nature, discount, masked, store):
    problem = random_problem(4, nature, discount=discount, masked=masked)
    reward = random_reward(4, "sas")
    plan = soft_plan(as_mdp(problem, store), reward)
    gained = oracles.expected_return(problem, plan.policy, reward)
    entropy = oracles.causal_entropy(oracles.decision_law(problem, plan.policy), discount)
    assert_equal(problem.initial @ plan.value[0], gained + entropy)


@pytest.mark.parametrize("discount", [0.5, 1.0])
@pytest.mark.parametrize("masked", [False, True])
def test_no_policy_has_more_return_plus_causal_entropy(discount, masked):
    """The shortfall of another policy is its discounted relative entropy to the soft one."""
    problem = random_problem(5, discount=discount, masked=masked)
    mdp, reward = as_mdp(problem), random_reward(5)
    plan = soft_plan(mdp, reward)
    best = problem.initial @ plan.value[0]
    for seed in range(3):
        policy = random_policy(problem, seed)
        achieved = expected_return(mdp, policy, reward) + causal_entropy(mdp, policy)
        ratio = np.where(policy > 0, np.log(np.where(policy > 0, policy, 1)) - plan.log_policy, 0)
        shortfall = (oracles.occupancy(problem, policy) * ratio).sum()
        assert shortfall > 1e-3
        assert_equal(best - achieved, shortfall)


@pytest.mark.parametrize("horizon", [T, None])
@pytest.mark.parametrize(
    ("store", "nature", "masked"),
    [("dense", "stochastic", False), ("successors", "stochastic", True), ("scipy", "deterministic", False)],
)
def test_gradient_of_start_value_is_occupancy(horizon, store, nature, masked):
    problem = random_problem(6, nature, discount=0.9, horizon=horizon, masked=masked)
    mdp, reward = as_mdp(problem, store), random_reward(6)

    def start_value(reward):
        value = soft_plan(mdp, reward).value
        return mdp.initial @ (value if horizon is None else value[0])

    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(start_value))(reward)
    plan = soft_plan(mdp, reward)
    assert_equal(gradient, visits(mdp, plan))
    assert_equal(gradient, occupancy(mdp, plan.policy).reshape(-1, S, A).sum(axis=0))


@pytest.mark.parametrize("horizon", [T, None])
@pytest.mark.parametrize("over", ["s", "sas"])
def test_gradient_in_a_reward_over_states_or_transitions_is_their_occupancy(horizon, over):
    problem = random_problem(6, discount=0.9, horizon=horizon)
    mdp, reward = as_mdp(problem, "successors"), random_reward(6, over)

    def start_value(reward):
        value = soft_plan(mdp, reward).value
        return mdp.initial @ (value if horizon is None else value[0])

    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(start_value))(reward)
    seen = visits(mdp, soft_plan(mdp, reward))
    expected = seen.sum(axis=1) if over == "s" else seen[..., None] * problem.transitions
    assert_equal(gradient, expected)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("horizon", [T, None])
def test_reward_over_transitions_folds_into_its_mean(store, horizon):
    problem = random_problem(7, discount=0.9, horizon=horizon)
    mdp, reward = as_mdp(problem, store), random_reward(7, "sas")
    mean = (problem.transitions * reward).sum(axis=-1)
    assert_equal(soft_plan(mdp, reward).q, soft_plan(mdp, mean).q)


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(
    ("store", "nature", "masked"),
    [("dense", "stochastic", True), ("successors", "stochastic", False), ("scipy", "deterministic", True)],
)
def test_endless_value_is_a_dense_fixed_point_and_a_long_horizon(store, nature, masked, discount):
    problem = random_problem(8, nature, discount=discount, horizon=None, masked=masked)
    mdp = as_mdp(problem, store)
    for over in REWARDS:
        reward = random_reward(8, over)
        plan = soft_plan(mdp, reward)
        assert plan.value.shape == (S,)
        assert plan.policy.shape == plan.q.shape == plan.log_policy.shape == (S, A)
        np.testing.assert_allclose(plan.value, oracles.fixed_point("soft", problem, reward), rtol=1e-8)
        q, value = oracles.backup("soft", problem, reward, plan.value)
        np.testing.assert_allclose(plan.q, q, rtol=1e-8)
        np.testing.assert_allclose(plan.policy, np.exp(q - value[:, None]), rtol=1e-8)
        long = soft_plan(mdp.replace(horizon=300), reward)
        np.testing.assert_allclose(plan.value, long.value[0], rtol=1e-8)
        np.testing.assert_allclose(plan.policy, long.policy[0], rtol=1e-8)


@pytest.mark.parametrize("horizon", [T, None])
@pytest.mark.parametrize("store", STORES)
def test_constant_reward_earns_itself_and_the_log_of_the_number_of_actions(horizon, store):
    problem = random_problem(9, discount=0.9, horizon=horizon)
    value = soft_plan(as_mdp(problem, store), np.full(S, 0.3)).value
    steps = [sum(0.9**k for k in range(T - t)) for t in range(T)] if horizon else 10.0
    expected = np.multiply.outer(steps, (0.3 + np.log(A)) * np.ones(S))
    assert_equal(value, expected)


def test_potential_shaping_changes_no_policy_and_lowers_values_by_the_potential():
    problem = random_problem(10, discount=0.9, horizon=None)
    mdp, reward, potential = as_mdp(problem), random_reward(10, "sas"), random_reward(11, "s")
    shaped = reward + 0.9 * potential[None, None, :] - potential[:, None, None]
    plain, other = soft_plan(mdp, reward), soft_plan(mdp, shaped)
    np.testing.assert_allclose(other.policy, plain.policy, rtol=1e-8)
    np.testing.assert_allclose(other.value, plain.value - potential, rtol=1e-8)


@pytest.mark.parametrize("horizon", [T, None])
@pytest.mark.parametrize("store", STORES)
def test_reward_of_actions_that_do_not_exist_is_not_earned(horizon, store):
    problem = random_problem(4, discount=0.9, horizon=horizon, masked=True)
    mdp, reward = as_mdp(problem, store), random_reward(4)
    plan = soft_plan(mdp, reward)
    richer = soft_plan(mdp, np.where(problem.available, reward, 1e6))
    assert_equal(richer.value, plan.value)
    absent = np.broadcast_to(~problem.available, plan.policy.shape)
    assert (richer.policy[absent] == 0).all()
    assert (richer.q[absent] == -np.inf).all()
    assert (richer.log_policy[absent] == -np.inf).all()
    assert_equal(richer.policy.sum(axis=-1), np.ones(plan.policy.shape[:-1]))


@pytest.mark.parametrize("shape", [(S, A, S + 1), (A, S), (S + 1,), (), (T, S, A), (1, S)])
def test_rewards_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"`reward` must have shape \(S,\) = \(3,\), \(S, A\) = \(3, 2\) or"):
        soft_plan(as_mdp(random_problem(0)), np.zeros(shape))


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_rewards_that_are_not_finite_are_refused(entry):
    reward = random_reward(0)
    reward[2, 1] = entry
    with pytest.raises(ValueError, match=r"`reward` must be finite, but has NaN or infinite entries at \(2, 1\)"):
        soft_plan(as_mdp(random_problem(0)), reward)


def test_rewards_that_are_no_numbers_are_refused():
    with pytest.raises(TypeError, match="`reward` must be an array of numbers"):
        soft_plan(as_mdp(random_problem(0)), ["high", "low", "low"])
