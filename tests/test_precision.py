import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import irlax as ix
from irlax.precision import exact, is_traced
from tests.problems import S, T, as_mdp, random_policy, random_problem, random_reward

MODELS = {"soft": ix.soft_plan, "path": ix.path_plan, "hard": ix.hard_plan}


def test_importing_irlax_changes_no_jax_setting():
    """In a process of its own: this one has imported irlax already."""
    script = """
import jax, jax.numpy as jnp
before = dict(jax.config.values)
import irlax
changed = {name for name in before if jax.config.values[name] != before[name]}
assert not changed, changed
assert jnp.ones(1).dtype == jnp.float32
irlax.soft_plan(irlax.envs.RiskyPath().mdp, irlax.envs.RiskyPath().reward).policy
assert jax.config.values == before
assert jnp.ones(1).dtype == jnp.float32
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_flag_is_off_in_these_tests():
    assert jnp.ones(1).dtype == jnp.float32


def everything(mdp, horizon):
    """Each public quantity of the exact core, by name."""
    problem = random_problem(0, horizon=horizon)
    policy, reward = random_policy(problem, 0, stationary=horizon is None), random_reward(0)
    plans = {name: model(mdp, reward) for name, model in MODELS.items()}
    demos = ix.rollout(mdp, policy, num=3, length=None if horizon else 5, key=jax.random.key(0))
    for name, plan in plans.items():
        for field in ("value", "q", "policy", "log_policy", "error_bound"):
            yield f"{name}.{field}", getattr(plan, field)
    yield "occupancy", ix.occupancy(mdp, policy)
    yield "visits", ix.visits(mdp, plans["soft"])
    yield "believed", ix.believed_occupancy(mdp, plans["path"])
    yield "return", ix.expected_return(mdp, policy, reward)
    yield "features", ix.feature_expectations(mdp, policy, np.ones((S, 2)))
    for measure in (ix.causal_entropy, ix.transition_entropy, ix.trajectory_entropy, ix.conditional_entropy):
        yield measure.__name__, measure(mdp, policy)
    yield "log likelihood", ix.log_likelihood(mdp, plans["soft"], demos)
    yield "trajectory log likelihood", ix.trajectory_log_likelihood(mdp, plans["soft"], demos)
    yield "expect", mdp.dynamics.expect(reward[:, 0])
    yield "push", mdp.dynamics.push(reward)


@pytest.mark.parametrize(("store", "horizon"), [("dense", T), ("successors", None)])
def test_with_the_flag_off_every_result_is_float64_and_numpy(store, horizon):
    mdp = as_mdp(random_problem(0, horizon=horizon), store)
    for name, result in everything(mdp, horizon):
        assert isinstance(result, (np.ndarray, np.float64)), name
        assert result.dtype == np.float64, name


def test_results_are_the_same_with_the_flag_on():
    off = dict(everything(as_mdp(random_problem(0)), T))
    with jax.enable_x64(True):
        on = dict(everything(as_mdp(random_problem(0)), T))
    for name, result in off.items():
        np.testing.assert_allclose(result, on[name], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("reward", [random_reward(0).astype(np.float32), jnp.asarray(random_reward(0), jnp.float32)])
def test_float32_inputs_are_lifted(reward):
    plan = ix.soft_plan(as_mdp(random_problem(0)), reward)
    wide = ix.soft_plan(as_mdp(random_problem(0)), np.asarray(reward, np.float64))
    assert plan.value.dtype == np.float64
    assert np.array_equal(plan.value, wide.value)


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_probabilities_in_float32_are_probabilities(array):
    """What a network or a user's own JAX code hands over sums to 1 as far as float32 can tell."""
    problem = random_problem(0)
    narrow = [array(x.astype(np.float32)) for x in (problem.transitions, problem.initial, random_policy(problem, 0))]
    mdp = ix.MDP.from_dense(*narrow[:2], discount=0.9, horizon=T)
    occupancy = ix.occupancy(mdp, narrow[2])
    np.testing.assert_allclose(occupancy, ix.occupancy(as_mdp(problem), random_policy(problem, 0)), rtol=1e-5)


def test_values_are_more_exact_than_float32_can_be():
    problem = random_problem(0, horizon=None)
    plan = ix.soft_plan(as_mdp(problem), random_reward(0))
    assert np.abs(plan.value - plan.value.astype(np.float32)).max() > 1e-9
    assert plan.error_bound < 1e-9


# Inside the user's own transforms, the flag off: float32, and no warning (pytest turns them into errors).


@pytest.mark.parametrize(("model", "store"), [("soft", "dense"), ("path", "successors"), ("hard", "scipy")])
def test_inside_a_users_jit_results_follow_the_flag(model, store):
    for horizon in (T, None):
        mdp, reward = as_mdp(random_problem(0, horizon=horizon), store), random_reward(0)
        plan = MODELS[model](mdp, reward)
        inside = jax.jit(lambda reward, mdp=mdp: MODELS[model](mdp, reward).value)(jnp.asarray(reward, jnp.float32))
        assert inside.dtype == jnp.float32
        np.testing.assert_allclose(inside, plan.value, rtol=1e-4)


@pytest.mark.parametrize("horizon", [T, None])
def test_inside_a_users_vmap_and_grad_results_follow_the_flag(horizon):
    mdp = as_mdp(random_problem(0, horizon=horizon))
    reward = jnp.asarray(random_reward(0), jnp.float32)

    def start_value(reward):
        value = ix.soft_plan(mdp, reward).value
        return jnp.asarray(mdp.initial, jnp.float32) @ (value if horizon is None else value[0])

    gradient = jax.grad(start_value)(reward)
    assert gradient.dtype == jnp.float32
    np.testing.assert_allclose(gradient, ix.visits(mdp, ix.soft_plan(mdp, reward)), rtol=1e-3)
    batch = jax.vmap(start_value)(jnp.stack([reward, reward + 1]))
    assert batch.dtype == jnp.float32
    np.testing.assert_allclose(batch[0], start_value(reward), rtol=1e-5)


def test_measures_inside_a_users_jit_follow_the_flag():
    problem = random_problem(0)
    mdp = as_mdp(problem, "successors")
    policy, reward = jnp.asarray(random_policy(problem, 0), jnp.float32), random_reward(0)
    measured = jax.jit(
        lambda policy: (
            ix.occupancy(mdp, policy),
            ix.expected_return(mdp, policy, reward),
            ix.trajectory_entropy(mdp, policy),
            mdp.dynamics.push(policy[0]),
        )
    )(policy)
    expected = (
        ix.occupancy(mdp, random_policy(problem, 0)),
        ix.expected_return(mdp, random_policy(problem, 0), reward),
        ix.trajectory_entropy(mdp, random_policy(problem, 0)),
        mdp.dynamics.push(random_policy(problem, 0)[0]),
    )
    for inside, outside in zip(measured, expected, strict=True):
        assert inside.dtype == jnp.float32
        np.testing.assert_allclose(inside, outside, rtol=1e-4)


@pytest.mark.parametrize("what", ["policy", "plan", "everything", "MDP", "likelihood"])
def test_constants_beside_traced_arguments_follow_the_flag(what):
    problem = random_problem(0)
    mdp, policy, reward = as_mdp(problem), random_policy(problem, 0), random_reward(0)
    plan = ix.soft_plan(mdp, reward)
    demos = ix.rollout(mdp, policy, num=3, key=jax.random.key(0))
    function = {
        "policy": lambda reward: ix.expected_return(mdp, policy, reward),
        "plan": lambda reward: ix.expected_return(mdp, plan, reward),
        "everything": lambda reward: reward.sum() * ix.soft_plan(mdp, np.ones(S)).value.sum(),
        "MDP": lambda reward: ix.soft_plan(as_mdp(problem), reward).value.sum(),
        "likelihood": lambda reward: ix.log_likelihood(mdp, ix.soft_plan(mdp, reward), demos),
    }[what]
    inside = jax.jit(function)(jnp.asarray(reward, jnp.float32))
    assert inside.dtype == jnp.float32
    np.testing.assert_allclose(inside, function(reward), rtol=1e-4)
    gradient = jax.grad(function)(jnp.asarray(reward, jnp.float32))
    assert gradient.dtype == jnp.float32
    assert np.isfinite(gradient).all()


def test_an_mdp_given_to_a_users_jit_as_an_argument_is_planned_in_float32():
    mdp, reward = as_mdp(random_problem(0)), random_reward(0)
    narrow = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), mdp)
    value = jax.jit(lambda mdp, reward: ix.soft_plan(mdp, reward).value)(narrow, reward.astype(np.float32))
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, ix.soft_plan(mdp, reward).value, rtol=1e-4)


# The decorator itself.


def test_exact_computes_in_float64_and_leaves_the_flag_as_it_was():
    doubled = exact(lambda x: jnp.asarray(x) * 2)(np.float64(0.1))
    assert isinstance(doubled, np.ndarray)
    assert doubled.dtype == np.float64
    assert doubled == 0.2
    assert jnp.ones(1).dtype == jnp.float32


def test_exact_leaves_the_flag_as_it_was_when_it_fails():
    def fail(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        exact(fail)(1.0)
    assert jnp.ones(1).dtype == jnp.float32


def test_exact_results_stay_traced_inside_a_trace():
    seen = []

    def look(x):
        seen.append(is_traced(exact(lambda x: x + 1)(x)))
        return x

    jax.jit(look)(1.0)
    assert seen == [True]
    assert not is_traced(exact(lambda x: jnp.asarray(x) + 1)(1.0))
