import numpy as np
import pytest

from irlax import believed_occupancy, occupancy, path_plan, soft_plan
from irlax.envs import RiskyPath
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

LOG_2 = np.log(2)


@on_every_problem
def test_path_plan_is_the_literal_recursion(nature, discount, masked, store):
    problem = random_problem(20, nature, discount=discount, masked=masked)
    mdp = as_mdp(problem, store)
    for over in REWARDS:
        reward = random_reward(20, over)
        plan = path_plan(mdp, reward)
        q, value = oracles.plan("path", problem, reward)
        assert_equal(plan.q, q)
        assert_equal(plan.value, value)
    assert_equal(plan.policy, np.exp(q - value[..., None]))


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("nature", ["stochastic", "deterministic"])
def test_undiscounted_path_model_is_the_law_of_paths_weighted_by_their_return(nature, masked, store):
    problem = random_problem(21, nature, discount=1.0, masked=masked)
    mdp = as_mdp(problem, store)
    for over in REWARDS:
        reward = random_reward(21, over)
        plan = path_plan(mdp, reward)
        assert_equal(plan.value[0], oracles.log_sum_of_path_weights(problem, reward))
    law = oracles.path_law(problem, reward, tilt_start=False)
    marginals = oracles.state_action_marginals(law, (T, S, A))
    assert_equal(believed_occupancy(mdp, plan), marginals)
    reached = marginals.sum(axis=-1) > 0
    conditional = marginals[reached] / marginals[reached].sum(axis=-1, keepdims=True)
    assert_equal(plan.policy[reached], conditional)


@pytest.mark.parametrize(("store", "over"), [("dense", "sas"), ("successors", "sa")])
@pytest.mark.parametrize("horizon", [1, T, 5])
def test_law_of_paths_with_its_start_tilts_that_too(store, over, horizon):
    problem = random_problem(22, discount=1.0, horizon=horizon)
    mdp, reward = as_mdp(problem, store), random_reward(22, over)
    plan = path_plan(mdp, reward)
    law = oracles.path_law(problem, reward, tilt_start=True)
    marginals = oracles.state_action_marginals(law, (horizon, S, A))
    assert_equal(believed_occupancy(mdp, plan, tilt_start=True), marginals)
    assert np.abs(marginals[0].sum(axis=-1) - problem.initial).max() > 1e-2


@on_every_problem
def test_path_policy_really_does_what_enumeration_says(nature, discount, masked, store):
    problem = random_problem(23, nature, discount=discount, masked=masked)
    mdp = as_mdp(problem, store)
    plan = path_plan(mdp, random_reward(23, "sas"))
    assert_equal(occupancy(mdp, plan.policy), oracles.occupancy(problem, plan.policy))


@on_every_problem
def test_believed_marginals_follow_the_tilted_transitions(nature, discount, masked, store):
    """P̂_t(s'|s,a) ∝ P(s'|s,a)·exp(r + γV_{t+1}(s')), pushed forward with γᵗ by loops."""
    problem = random_problem(24, nature, discount=discount, masked=masked)
    mdp, reward = as_mdp(problem, store), random_reward(24, "sas")
    q, value = oracles.plan("path", problem, reward)
    mass, expected = problem.initial, np.zeros((T, S, A))
    for t in range(T):
        after = value[t + 1] if t + 1 < T else np.zeros(S)
        onward = np.zeros(S)
        for s, a in np.argwhere(problem.available):
            expected[t, s, a] = mass[s] * np.exp(q[t, s, a] - value[t, s])
            believed = problem.transitions[s, a] * np.exp(reward[s, a] + discount * after - q[t, s, a])
            onward += discount * expected[t, s, a] * believed
        mass = onward
    assert_equal(believed_occupancy(mdp, path_plan(mdp, reward)), expected)


@pytest.mark.parametrize(("store", "masked"), [("dense", True), ("successors", False)])
@pytest.mark.parametrize(("discount", "horizon"), [(0.0, T), (0.5, T), (0.9, T), (1.0, T), (0.9, None)])
def test_path_model_is_the_causal_one_when_deterministic(store, masked, discount, horizon):
    problem = random_problem(25, "deterministic", discount=discount, horizon=horizon, masked=masked)
    mdp = as_mdp(problem, store)
    for over in ("sa", "sas") if horizon else ("sas",):
        reward = random_reward(25, over)
        path, soft = path_plan(mdp, reward), soft_plan(mdp, reward)
        assert_equal(path.value, soft.value)
        assert_equal(path.policy, soft.policy)
        assert_equal(believed_occupancy(mdp, path), occupancy(mdp, soft))


def test_path_model_is_not_the_causal_one_when_stochastic():
    problem = random_problem(26, discount=0.9)
    mdp, reward = as_mdp(problem), random_reward(26)
    path, soft = path_plan(mdp, reward), soft_plan(mdp, reward)
    # Jensen: the mean of an exponential exceeds the exponential of the mean, from the last step but one on.
    assert (path.value[:-1] > soft.value[:-1] + 1e-3).all()
    assert_equal(path.value[-1], soft.value[-1])
    assert np.abs(believed_occupancy(mdp, path) - occupancy(mdp, path)).max() > 1e-2


@pytest.mark.parametrize("horizon", [T, None])
def test_causal_model_believes_in_what_really_happens(horizon):
    problem = random_problem(26, discount=0.9, horizon=horizon)
    mdp = as_mdp(problem)
    plan = soft_plan(mdp, random_reward(26))
    assert_equal(believed_occupancy(mdp, plan), occupancy(mdp, plan))


@pytest.mark.parametrize(("store", "masked", "over"), [("dense", False, "sas"), ("successors", True, "sa")])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.9])
def test_endless_path_value_is_a_dense_fixed_point_and_a_long_horizon(store, masked, over, discount):
    problem = random_problem(27, discount=discount, horizon=None, masked=masked)
    mdp, reward = as_mdp(problem, store), random_reward(27, over)
    plan, long = path_plan(mdp, reward), path_plan(mdp.replace(horizon=300), reward)
    np.testing.assert_allclose(plan.value, oracles.fixed_point("path", problem, reward), rtol=1e-8)
    np.testing.assert_allclose(plan.value, long.value[0], rtol=1e-8)
    np.testing.assert_allclose(plan.policy, long.policy[0], rtol=1e-8)
    for tilt_start in (False, True):
        believed = believed_occupancy(mdp, plan, tilt_start=tilt_start)
        step_by_step = believed_occupancy(long.mdp, long, tilt_start=tilt_start)
        np.testing.assert_allclose(believed, step_by_step.sum(axis=0), rtol=1e-8, atol=1e-12)


def test_path_model_does_not_average_a_reward_over_transitions():
    problem = random_problem(28, discount=1.0)
    mdp, reward = as_mdp(problem), random_reward(28, "sas")
    mean = (problem.transitions * reward).sum(axis=-1)
    assert (path_plan(mdp, reward).value[0] > path_plan(mdp, mean).value[0] + 1e-3).all()


def test_path_values_stay_in_log_space():
    """Returns of ±1000 overflow exp; the recursion must not."""
    problem = random_problem(29, discount=1.0)
    mdp = as_mdp(problem, "successors")
    for sign in (-1, 1):
        plan = path_plan(mdp, np.full((S, A), sign * 1000.0))
        assert_equal(plan.value[0], np.full(S, sign * 1000.0 * T + T * LOG_2))
        assert_equal(believed_occupancy(mdp, plan, tilt_start=True).sum(axis=(1, 2)), np.ones(T))


# RiskyPath.


def risky(model, discount):
    env = RiskyPath(discount=discount)
    return model(env.mdp, env.reward).log_policy[0] @ [-1.0, 1.0]


@pytest.mark.parametrize("discount", [0.01, 0.1, 0.3, 0.5, 0.6, 0.69, LOG_2 - 1e-3, LOG_2 - 1e-6])
def test_path_model_takes_the_safe_way_below_log_2(discount):
    assert risky(path_plan, discount) < 0


@pytest.mark.parametrize("discount", [LOG_2 + 1e-6, LOG_2 + 1e-3, 0.7, 0.8, 0.9, 0.95, 0.99])
def test_path_model_takes_the_risk_above_log_2(discount):
    assert risky(path_plan, discount) > 0


@pytest.mark.parametrize("discount", [0.2, LOG_2, 0.9])
def test_odds_of_the_risk_under_the_path_model(discount):
    """log odds = γ − log 2 + log(1 + e^{−101γ/(1−γ)}), from V(s2) = 1/(1−γ) and V(s3) = −100/(1−γ)."""
    luck = np.log1p(np.exp(-101 * discount / (1 - discount)))
    np.testing.assert_allclose(risky(path_plan, discount), discount - LOG_2 + luck, atol=1e-9)


@pytest.mark.parametrize("discount", [0.01, 0.3, LOG_2 - 1e-6, LOG_2 + 1e-6, 0.9, 0.99, 0.999])
def test_causal_model_never_takes_the_risk(discount):
    # −49.5·γ/(1−γ) against γ²/(1−γ)
    expected = -discount * (49.5 + discount) / (1 - discount)
    assert risky(soft_plan, discount) < 0
    np.testing.assert_allclose(risky(soft_plan, discount), expected, rtol=1e-9)


def test_path_model_believes_that_luck_is_on_its_side():
    env = RiskyPath(discount=0.9)
    plan = path_plan(env.mdp, env.reward)
    really, believed = occupancy(env.mdp, plan), believed_occupancy(env.mdp, plan)
    gamble = plan.policy[0, RiskyPath.RISKY]
    # What enters the hazard stays there, discounted, for ever.
    assert_equal(really[3, 0], gamble * 0.5 * 0.9 / 0.1)
    assert believed[3, 0] < 1e-12
