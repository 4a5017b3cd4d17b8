import re
import warnings

import jax
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg
from scipy.sparse.csgraph import dijkstra
from scipy.special import logsumexp

from irlax import MDP, hard_plan, occupancy, path_plan, soft_plan
from irlax.envs import RandomMDP
from tests import oracles
from tests.problems import S, as_mdp, assert_equal, random_problem, random_reward


def scale(value):
    return max(1.0, np.abs(value).max())


# Discounted.


def bus_engine(discount, num_bins=90):
    """Rust's (1987) problem: mileage moves on by 0, 1 or 2 bins; replacing starts again from bin 0."""
    transitions = np.zeros((num_bins, 2, num_bins))
    for mileage in range(num_bins):
        for bins, chance in enumerate((0.35, 0.64, 0.01)):
            transitions[mileage, 0, min(mileage + bins, num_bins - 1)] += chance
            transitions[mileage, 1, bins] += chance
    reward = np.stack([-0.001 * 2.6 * np.arange(num_bins), np.full(num_bins, -9.75)], axis=1)
    available = np.ones((num_bins, 2), bool)
    return oracles.Problem(transitions, np.eye(num_bins)[0], discount, None, available), reward


@pytest.mark.parametrize("method", ["newton", "auto"])
def test_newton_needs_at_most_15_linear_solves_on_90_states_at_discount_9999(method):
    problem, reward = bus_engine(0.9999)
    plan = soft_plan(as_mdp(problem), reward, method=method)
    reference, doubt = oracles.soft_fixed_point_in_long_double(problem, reward)
    error = np.abs(plan.value - reference).max()
    assert plan.steps <= 15
    assert doubt < 1e-11
    assert error <= plan.error_bound <= 1e-10 * scale(plan.value)


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.999, 0.9999])
@pytest.mark.parametrize("method", ["newton", "value-iteration"])
def test_certified_bound_is_honest_up_to_discount_9999(discount, method):
    problem, reward = bus_engine(discount)
    plan = soft_plan(as_mdp(problem), reward, method=method)
    reference, doubt = oracles.soft_fixed_point_in_long_double(problem, reward)
    assert np.abs(plan.value - reference).max() <= plan.error_bound + doubt
    assert plan.error_bound <= 1e-10 * scale(plan.value)


@pytest.mark.parametrize("tol", [1e-2, 1e-7])
@pytest.mark.parametrize("method", ["newton", "value-iteration"])
@pytest.mark.parametrize("seed", range(3))
def test_certified_bound_is_honest_and_as_small_as_asked(tol, method, seed):
    problem = random_problem(seed, discount=0.95, horizon=None)
    reward = 3 * random_reward(seed)
    plan = soft_plan(as_mdp(problem), reward, method=method, tol=tol)
    reference, _ = oracles.soft_fixed_point_in_long_double(problem, reward)
    assert np.abs(plan.value - reference).max() <= plan.error_bound <= tol * scale(plan.value)


@pytest.mark.parametrize("model", [soft_plan, path_plan, hard_plan])
@pytest.mark.parametrize("discount", [0.3, 0.9, 0.99])
def test_value_iteration_and_newton_agree(model, discount):
    problem = random_problem(70, discount=discount, horizon=None)
    mdp, reward = as_mdp(problem), random_reward(70, "sas")
    newton, sweeps = (model(mdp, reward, method=method) for method in ("newton", "value-iteration"))
    difference = np.abs(newton.value - sweeps.value).max()
    assert difference <= newton.error_bound + sweeps.error_bound
    np.testing.assert_allclose(newton.value, sweeps.value, rtol=1e-9)
    assert newton.steps < 10


def test_value_iteration_takes_fewer_sweeps_for_a_looser_tolerance():
    mdp, reward = as_mdp(random_problem(71, discount=0.9, horizon=None)), random_reward(71)
    loose, tight = (soft_plan(mdp, reward, method="value-iteration", tol=tol) for tol in (1e-2, 1e-10))
    assert loose.steps < tight.steps
    assert loose.error_bound > tight.error_bound


def test_auto_sweeps_when_few_sweeps_are_enough_and_else_takes_newton():
    reward = random_reward(72)
    for discount, method in [(0.3, "value-iteration"), (0.99, "newton")]:
        mdp = as_mdp(random_problem(72, discount=discount, horizon=None))
        chosen, named = hard_plan(mdp, reward), hard_plan(mdp, reward, method=method)
        assert chosen.steps == named.steps
        assert np.array_equal(chosen.value, named.value)


@pytest.mark.parametrize("size", [1e3, 1e6])
@pytest.mark.parametrize("model", [soft_plan, path_plan, hard_plan])
def test_large_rewards_are_no_obstacle(model, size):
    problem = random_problem(73, discount=0.9, horizon=None)
    reward = size * random_reward(73)
    plan = model(as_mdp(problem), reward)
    name = model.__name__.removesuffix("_plan")
    after = oracles.backup(name, problem, reward, plan.value)[1]
    assert np.abs(after - plan.value).max() <= 1e-9 * size


def test_a_tolerance_below_the_rounding_floor_is_not_claimed():
    problem, reward = bus_engine(0.9999)
    with pytest.warns(UserWarning, match="Values are certified to ±.* only, not to the ±.* asked for") as said:
        plan = soft_plan(as_mdp(problem), reward, tol=1e-15)
    reference, doubt = oracles.soft_fixed_point_in_long_double(problem, reward)
    assert np.abs(plan.value - reference).max() <= plan.error_bound + doubt
    assert plan.error_bound > 1e-15 * scale(plan.value)
    assert said[0].filename == __file__


def test_finite_horizons_are_exact():
    plan = soft_plan(as_mdp(random_problem(74, horizon=5)), random_reward(74))
    assert plan.error_bound == 0
    assert plan.steps == 5


@pytest.mark.parametrize("tol", [0.0, -1e-3, np.nan, np.inf])
def test_tolerances_that_are_no_tolerances_are_refused(tol):
    with pytest.raises(ValueError, match="`tol` must be above 0 and finite"):
        soft_plan(as_mdp(random_problem(0, horizon=None)), np.zeros(S), tol=tol)


@pytest.mark.usefixtures("as_a_user")
def test_unknown_methods_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="`method` must be one of 'auto', 'newton', 'value-iteration', but is 'vi'"):
        soft_plan(as_mdp(random_problem(0, horizon=None)), np.zeros(S), method="vi")


# Beyond the size at which linear systems are factorised densely.


def test_large_sparse_problems_are_solved_iteratively_to_the_same_certificate():
    env = RandomMDP(num_states=2100, num_actions=2, branching=3, discount=0.99, seed=1)
    plan = soft_plan(env.mdp, env.reward, method="newton")
    ahead = np.stack([matrix @ plan.value for matrix in env.mdp.dynamics.to_scipy()], axis=1)
    q = env.reward + 0.99 * ahead
    residual = np.abs(logsumexp(q, axis=1) - plan.value).max()
    assert residual / (1 - 0.99) <= 1e-10 * scale(plan.value)
    assert plan.error_bound <= 1e-10 * scale(plan.value)
    np.testing.assert_allclose(plan.q, q, rtol=1e-9)


def test_large_sparse_occupancy_equals_a_sparse_solve():
    env = RandomMDP(num_states=2100, num_actions=2, branching=3, discount=0.99, seed=1)
    policy = np.random.default_rng(2).dirichlet(np.ones(2), size=2100)
    chain = sum(sp.diags_array(policy[:, a]) @ p for a, p in enumerate(env.mdp.dynamics.to_scipy()))
    system = sp.csc_array(sp.eye_array(2100) - 0.99 * chain.T)
    expected = scipy.sparse.linalg.spsolve(system, np.asarray(env.mdp.initial))
    np.testing.assert_allclose(occupancy(env.mdp, policy), expected[:, None] * policy, rtol=1e-8)


# Undiscounted and proper: a road network.

SIDE = 4
END = SIDE**2 - 1


def roads():
    """A grid of streets, both ways, and no way out of the end; each road has its own cost."""
    edges = [
        (row * SIDE + column, (row + down) * SIDE + column + right)
        for row in range(SIDE)
        for column in range(SIDE)
        for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0))
        if 0 <= row + down < SIDE and 0 <= column + right < SIDE and row * SIDE + column != END
    ]
    return np.array(edges), -np.random.default_rng(0).uniform(0.5, 2, size=len(edges))


EDGES, PAY = roads()
#: The action that takes each road: the how-manieth it is of those that leave its crossing.
WAY = np.array([(EDGES[:i, 0] == before).sum() for i, (before, _) in enumerate(EDGES)])
#: Added to the reward of every road, this makes cycles earn as much as they cost.
CRITICAL = -np.log(oracles.spectral_radius(oracles.edge_matrix(EDGES, PAY, END + 1)))


def road_mdp():
    """One action for each road out of a crossing, and one that stays at the end."""
    successors, available = np.zeros((END + 1, 4, 1), int), np.zeros((END + 1, 4), bool)
    successors[EDGES[:, 0], WAY, 0], available[EDGES[:, 0], WAY] = EDGES[:, 1], True
    successors[END], available[END, 0] = END, True
    probs, initial = np.ones(successors.shape), np.eye(END + 1)[0]
    return MDP.from_successors(successors, probs, initial, discount=1, available=available)


ROADS = road_mdp()


def reward_of(pay):
    reward = np.zeros((END + 1, 4))
    reward[EDGES[:, 0], WAY] = pay
    return reward


def road_values(pay):
    return oracles.recursive_logit(oracles.edge_matrix(EDGES, pay, END + 1), END)


@pytest.mark.parametrize("extra", [0.0, -3.0, CRITICAL - 0.1, CRITICAL - 1e-2, CRITICAL - 1e-3])
@pytest.mark.parametrize("model", [soft_plan, path_plan])
def test_undiscounted_values_are_those_of_the_recursive_logit(model, extra):
    plan = model(ROADS, reward_of(PAY + extra))
    expected = road_values(PAY + extra)
    np.testing.assert_allclose(plan.value, expected, rtol=1e-10, atol=1e-10)
    assert plan.error_bound <= 1e-10 * scale(plan.value)
    before, after = EDGES.T
    chosen = np.exp(PAY + extra + expected[after] - expected[before])
    np.testing.assert_allclose(plan.policy[before, WAY], chosen, rtol=1e-8)


@pytest.mark.parametrize("margin", [1e-5, 1e-7])
def test_just_below_criticality_it_still_solves_and_admits_what_it_cannot_certify(margin):
    pay = PAY + CRITICAL - margin
    with pytest.warns(UserWarning, match="Values are certified to"):
        plan = soft_plan(ROADS, reward_of(pay))
    error = np.abs(plan.value - road_values(pay)).max()
    assert error <= plan.error_bound < 1e-3


@pytest.mark.parametrize("margin", [1e-9, 1e-6, 1e-2, 1.0, 100.0])
@pytest.mark.parametrize("model", [soft_plan, path_plan])
def test_above_criticality_the_error_says_that_there_is_no_value_and_why(model, margin):
    message = "The soft fixed point does not exist: at discount = 1 the reward and the entropy of some cycle"
    with pytest.raises(ValueError, match=re.escape(message)):
        model(ROADS, reward_of(PAY + CRITICAL + margin))


@pytest.mark.parametrize("margin", [1e-6, 1.0])
def test_inside_jit_a_value_that_does_not_exist_is_infinite(margin):
    with jax.enable_x64(True):
        value = jax.jit(lambda mdp, reward: soft_plan(mdp, reward).value)(ROADS, reward_of(PAY + CRITICAL + margin))
    assert (np.asarray(value) == np.inf).all()


@pytest.mark.parametrize("factor", [10, 30, 100])
def test_costly_roads_have_values_too(factor):
    """However much a cycle costs, the way to the end stays finite: only rewards can be too high."""
    plan = soft_plan(ROADS, reward_of(factor * PAY))
    np.testing.assert_allclose(plan.value, road_values(factor * PAY), rtol=1e-9)


def test_undiscounted_hard_values_are_shortest_ways():
    """Not every greedy policy ends: the one for V = 0 stays in a cycle."""
    graph = sp.csr_array((-PAY, (EDGES[:, 1], EDGES[:, 0])), shape=(END + 1, END + 1))
    plan = hard_plan(ROADS, reward_of(PAY))
    assert_equal(plan.value, -dijkstra(graph, indices=END))


def test_undiscounted_value_iteration_is_refused_for_want_of_a_bound():
    with pytest.raises(ValueError, match="'value-iteration'` has no error bound at discount = 1"):
        soft_plan(ROADS, reward_of(PAY), method="value-iteration")


# Undiscounted and proper: random transitions.


def walk(num_cells=5):
    """Right, or left against a wind that blows right at times; the last cell is the end."""
    transitions = np.zeros((num_cells, 2, num_cells))
    for cell in range(num_cells - 1):
        transitions[cell, 0, max(cell - 1, 0)] += 0.7
        transitions[cell, 0, cell + 1] += 0.3
        transitions[cell, 1, cell + 1] = 1
    transitions[-1, :, -1] = 1
    available = np.ones((num_cells, 2), bool)
    available[-1, 1] = False
    return oracles.Problem(transitions, np.eye(num_cells)[0], 1.0, None, available)


@pytest.mark.parametrize(
    ("model", "store"), [("soft", "dense"), ("soft", "successors"), ("path", "dense"), ("hard", "successors")]
)
@pytest.mark.parametrize("cost", [1.0, 5.0])
def test_undiscounted_stochastic_values_are_the_limit_of_long_horizons(model, store, cost):
    problem, reward = walk(), np.append(-cost * np.ones(4), 0)
    plan = {"soft": soft_plan, "path": path_plan, "hard": hard_plan}[model](as_mdp(problem, store), reward)
    np.testing.assert_allclose(plan.value, oracles.iterated(model, problem, reward, 600), rtol=1e-10)
    assert plan.value[-1] == 0


def test_undiscounted_soft_value_is_return_plus_entropy_until_the_end():
    problem, reward = walk(), np.append(-np.ones(4), 0)
    mdp = as_mdp(problem)
    plan = soft_plan(mdp, reward)
    visits = occupancy(mdp, plan)
    going_on = problem.available & (visits > 0)
    gained = (visits.sum(axis=1) * reward).sum()
    entropy = -(visits[going_on] * plan.log_policy[going_on]).sum()
    assert_equal(plan.value[0], gained + entropy)


def path_criticality(problem):
    """At γ = 1 exp V of the path model is linear: z = e^r P z + b, summed over actions."""
    matrix = problem.transitions.sum(axis=1)
    matrix[-1] = 0
    return matrix, -np.log(oracles.spectral_radius(sp.csc_array(matrix)))


@pytest.mark.parametrize("margin", [1e-3, 0.1, 1.0])
def test_undiscounted_path_values_solve_a_linear_system_too(margin):
    problem = walk()
    matrix, critical = path_criticality(problem)
    reward = np.append(np.full(4, critical - margin), 0)
    plan = path_plan(as_mdp(problem), reward)
    expected = oracles.recursive_logit(sp.csc_array(np.exp(reward)[:, None] * matrix), 4)
    np.testing.assert_allclose(plan.value, expected, rtol=1e-9)


@pytest.mark.parametrize("margin", [1e-6, 1e-2])
def test_path_model_diverges_where_the_causal_one_does_not(margin):
    """It believes that it can have the wind blow as it likes, so cycles stop losing earlier for it."""
    problem = walk()
    _, critical = path_criticality(problem)
    reward = np.append(np.full(4, critical + margin), 0)
    with pytest.raises(ValueError, match="The soft fixed point does not exist"):
        path_plan(as_mdp(problem), reward)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(soft_plan(as_mdp(problem), reward).value).all()
