"""Everything jits, vmaps and differentiates. In float64, as users of transforms choose it for themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from irlax import (
    MDP,
    believed_occupancy,
    causal_entropy,
    expected_return,
    feature_expectations,
    hard_plan,
    occupancy,
    path_plan,
    soft_plan,
    trajectory_entropy,
    visits,
)
from irlax.envs import RandomMDP
from tests.planning.test_fixed_point import PAY, ROADS, reward_of
from tests.problems import A, S, T, as_mdp, assert_equal, random_policy, random_problem, random_reward

MODELS = {"soft": soft_plan, "path": path_plan, "hard": hard_plan}
HORIZONS = [T, None]


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def close(actual, expected, rtol=1e-9):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol)


# jit.


@pytest.mark.parametrize(("model", "horizon"), [("soft", T), ("path", None), ("hard", T)])
def test_a_jitted_plan_is_the_plan(model, horizon):
    mdp, reward = as_mdp(random_problem(80, horizon=horizon), "successors"), random_reward(80, "sas")
    value, policy, mass = jax.jit(
        lambda mdp, reward: (
            (plan := MODELS[model](mdp, reward)).value,
            plan.policy,
            believed_occupancy(mdp, plan),
        )
    )(mdp, reward)
    plan = MODELS[model](mdp, reward)
    assert isinstance(value, jax.Array)
    close(value, plan.value)
    close(policy, plan.policy)
    close(mass, believed_occupancy(mdp, plan))


@pytest.mark.parametrize("horizon", HORIZONS)
def test_jitted_measures_are_the_measures(horizon):
    problem = random_problem(81, horizon=horizon)
    mdp, policy = as_mdp(problem), random_policy(problem, 81, stationary=horizon is None)
    reward = random_reward(81)

    def measured(mdp, policy):
        return (
            occupancy(mdp, policy),
            visits(mdp, policy),
            expected_return(mdp, policy, reward),
            causal_entropy(mdp, policy),
            trajectory_entropy(mdp, policy),
        )

    for inside, outside in zip(jax.jit(measured)(mdp, policy), measured(mdp, policy), strict=True):
        close(inside, outside)


@pytest.mark.parametrize("what", ["policy", "plan", "features", "everything", "MDP"])
def test_constants_beside_traced_arguments_are_no_obstacle(what):
    """Inside jit JAX stages what is done to constants too, so a function cannot tell by its own arguments."""
    problem = random_problem(80)
    mdp, policy, reward = as_mdp(problem), random_policy(problem, 80), random_reward(80)
    plan = soft_plan(mdp, reward)
    function = {
        "policy": lambda reward: expected_return(mdp, policy, reward),
        "plan": lambda reward: expected_return(mdp, plan, reward),
        "features": lambda reward: feature_expectations(mdp, policy, reward[..., None]),
        "everything": lambda reward: reward.sum() + soft_plan(mdp, np.ones(S)).value,
        "MDP": lambda reward: soft_plan(as_mdp(problem), reward).value,
    }[what]
    close(jax.jit(function)(jnp.asarray(reward)), function(reward))


# vmap.


@pytest.mark.parametrize(("model", "horizon"), [("soft", None), ("path", T), ("hard", None)])
def test_a_batch_of_rewards_is_planned_as_each_alone(model, horizon):
    mdp = as_mdp(random_problem(82, horizon=horizon), "successors")
    rewards = np.stack([random_reward(seed) for seed in range(4)])
    values = jax.vmap(lambda reward: MODELS[model](mdp, reward).value)(jnp.asarray(rewards))
    close(values, [MODELS[model](mdp, reward).value for reward in rewards])


@pytest.mark.parametrize(("store", "horizon"), [("dense", None), ("successors", T)])
def test_a_batch_of_mdps_is_a_stack_of_pytrees(store, horizon):
    problems = [random_problem(seed, horizon=horizon, discount=d) for seed, d in ((0, 0.5), (1, 0.8), (2, 0.9))]
    mdps = [as_mdp(problem, store) for problem in problems]
    rewards = np.stack([random_reward(seed) for seed in range(3)])
    stack = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *mdps)

    def planned(mdp, reward):
        plan = soft_plan(mdp, reward)
        return plan.value, visits(mdp, plan)

    values, masses = jax.vmap(planned)(stack, jnp.asarray(rewards))
    for mdp, reward, value, mass in zip(mdps, rewards, values, masses, strict=True):
        plan = soft_plan(mdp, reward)
        close(value, plan.value)
        close(mass, visits(mdp, plan))


@pytest.mark.parametrize("horizon", HORIZONS)
def test_mdps_can_be_built_inside_vmap(horizon):
    problems = [random_problem(seed, horizon=horizon) for seed in range(3)]
    transitions = jnp.stack([problem.transitions for problem in problems])
    initial, reward = problems[0].initial, random_reward(0)

    def planned(transitions):
        return soft_plan(MDP.from_dense(transitions, initial, discount=0.9, horizon=horizon), reward).value

    expected = [planned(problem.transitions) for problem in problems]
    close(jax.vmap(planned)(transitions), expected)


def test_sparse_mdps_can_be_built_inside_vmap():
    successors = np.array([[[0, 1], [1, 2]], [[2, 0], [0, 1]], [[1, 2], [2, 0]]])
    probs = np.random.default_rng(0).dirichlet(np.ones(2), size=(4, S, A))

    def planned(probs):
        mdp = MDP.from_successors(successors, probs, np.eye(S)[0], discount=0.9, horizon=T)
        return soft_plan(mdp, random_reward(0)).value

    close(jax.vmap(planned)(jnp.asarray(probs)), [planned(each) for each in probs])


@pytest.mark.parametrize("horizon", HORIZONS)
def test_discounts_can_be_batched(horizon):
    problem, reward = random_problem(83, horizon=horizon), random_reward(83)

    def planned(discount):
        mdp = MDP.from_dense(problem.transitions, problem.initial, discount=discount, horizon=horizon)
        return soft_plan(mdp, reward).value

    discounts = [0.1, 0.5, 0.9]
    close(jax.vmap(planned)(jnp.asarray(discounts)), [planned(discount) for discount in discounts])


def test_undiscounted_problems_can_be_batched_over_rewards():
    pay = np.stack([PAY, PAY - 1, 2 * PAY])
    rewards = np.stack([reward_of(each) for each in pay])
    values = jax.vmap(lambda reward: soft_plan(ROADS, reward).value)(jnp.asarray(rewards))
    close(values, [soft_plan(ROADS, reward).value for reward in rewards])


# Derivatives.


def slope(function, at, direction, step=1e-3):
    """d/dε function(at + ε·direction) by central differences, exact up to ε⁴."""
    near, far = (
        (function(at + k * step * direction) - function(at - k * step * direction)) / (2 * k * step) for k in (1, 2)
    )
    return (4 * near - far) / 3


def first(value):
    return value if value.ndim == 1 else value[0]


def start_value(model, mdp):
    return lambda reward: jnp.asarray(mdp.initial) @ first(MODELS[model](mdp, reward, method="newton").value)


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize(("model", "over"), [("soft", "sa"), ("path", "sas")])
def test_gradients_and_directional_derivatives_are_those_of_finite_differences(model, over, horizon):
    mdp, reward = as_mdp(random_problem(84, horizon=horizon)), random_reward(84, over)
    direction = random_reward(85, over)
    function = jax.jit(start_value(model, mdp))
    expected = slope(function, reward, direction)
    close((jax.jit(jax.grad(function))(reward) * direction).sum(), expected, rtol=1e-8)
    pushed = jax.jit(lambda reward, direction: jax.jvp(function, (reward,), (direction,))[1])
    close(pushed(reward, direction), expected, rtol=1e-8)


@pytest.mark.parametrize(("model", "horizon"), [("soft", None), ("path", T)])
def test_hessians_are_those_of_finite_differences_and_of_a_convex_function(model, horizon):
    mdp, reward = as_mdp(random_problem(86, horizon=horizon), "successors"), random_reward(86)
    function = start_value(model, mdp)
    gradient = jax.jit(jax.grad(function))
    hessian = np.asarray(jax.jit(jax.hessian(function))(reward)).reshape(S * A, S * A)
    columns = [slope(gradient, reward, e.reshape(S, A)).ravel() for e in np.eye(S * A)]
    close(hessian, columns, rtol=1e-7)
    close(hessian, hessian.T)
    assert np.linalg.eigvalsh(hessian).min() > -1e-9


@pytest.mark.parametrize(("model", "horizon"), [("soft", T), ("path", None)])
def test_what_follows_from_a_plan_differentiates_too(model, horizon):
    mdp, reward, truth = (
        as_mdp(random_problem(87, horizon=horizon)),
        random_reward(87),
        random_reward(88),
    )

    @jax.jit
    def regretless(reward):
        plan = MODELS[model](mdp, reward, method="newton")
        return expected_return(mdp, plan, truth) + causal_entropy(mdp, plan.policy)

    direction = random_reward(89)
    gradient = jax.jit(jax.grad(regretless))(reward)
    close((gradient * direction).sum(), slope(regretless, reward, direction), rtol=1e-8)


@pytest.mark.parametrize("horizon", HORIZONS)
def test_values_differentiate_in_the_discount_and_in_the_transitions(horizon):
    problem, reward = random_problem(90, horizon=horizon), random_reward(90)
    other = random_problem(91).transitions

    @jax.jit
    def function(discount, mixture):
        transitions = (1 - mixture) * problem.transitions + mixture * other
        mdp = MDP.from_dense(transitions, problem.initial, discount=0.9, horizon=horizon)
        return first(soft_plan(mdp.replace(discount=discount), reward, method="newton").value).sum()

    in_discount, in_mixture = jax.jit(jax.grad(function, argnums=(0, 1)))(0.8, 0.3)
    close(in_discount, slope(lambda d: function(d, 0.3), 0.8, 1.0), rtol=1e-7)
    close(in_mixture, slope(lambda m: function(0.8, m), 0.3, 1.0), rtol=1e-7)


def test_gradient_of_an_undiscounted_start_value_is_the_number_of_visits():
    reward = reward_of(PAY)
    gradient = jax.jit(jax.grad(lambda reward: soft_plan(ROADS, reward).value[0]))(reward)
    assert_equal(gradient, occupancy(ROADS, soft_plan(ROADS, reward)))


def test_gradients_pass_through_large_sparse_problems():
    """A random graph above the dense limit is solved by Krylov iterations, and so are transposes."""
    env = RandomMDP(num_states=2100, num_actions=2, branching=3, discount=0.99, seed=1)
    mdp, reward = env.mdp.replace(initial=np.full(2100, 1 / 2100)), env.reward
    gradient = jax.jit(jax.grad(lambda reward: soft_plan(mdp, reward, method="newton").value.mean()))(reward)
    close(gradient, visits(mdp, soft_plan(mdp, reward, method="newton")), rtol=1e-8)
