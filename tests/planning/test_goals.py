"""Plans that end at goals, against dense solves, enumeration of routes, and fixed-point iteration in NumPy."""

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.planning.fixed_point import NoFixedPointError
from irlax.planning.goals import GoalPlanner, goal_plan, shared, simulate
from irlax.planning.goals.separate import SeparateBlock, SeparatePattern, goal_system


def random_graph(seed, num=9):
    """A strongly connected graph with parallel arcs and a dead end: tails, heads, and costs of its arcs."""
    rng = np.random.default_rng(seed)
    ring = np.arange(num - 1)
    tail = np.concatenate([ring, rng.integers(num - 1, size=2 * num), [0, 0]])
    head = np.concatenate([(ring + 1) % (num - 1), rng.integers(num, size=2 * num), [1, 1]])
    keep = tail != head
    tail, head = np.append(tail[keep], 3), np.append(head[keep], num - 1)
    return tail, head, -rng.uniform(1.2, 3.0, len(tail))


def graph_mdp(tail, head, num, **settings):
    """The MDP of arcs; a state without any gets one back to itself."""
    lost = np.setdiff1d(np.arange(num), tail)
    states, successors = np.concatenate([tail, lost]), np.concatenate([head, lost])
    settings = {"discount": 1.0, "ends_at_goal": True} | settings
    return ix.MDP.from_actions(states, successors, np.full(num, 1 / num), **settings)


def table_of(mdp, tail, rewards):
    table = np.zeros(mdp.table_shape)
    table[mdp.cells(tail)] = rewards
    return table


def dense_value(tail, head, rewards, num, goal):
    """log of the solution of z = Mz, z(goal) = 1, in plain NumPy."""
    matrix = np.zeros((num, num))
    np.add.at(matrix, (tail, head), np.exp(rewards))
    matrix[goal] = 0
    with np.errstate(divide="ignore"):
        return np.log(np.linalg.solve(np.eye(num) - matrix, np.eye(num)[goal]))


def route_weights(tail, head, rewards, *, start, goal, longest):
    """exp(return) of every route of at most `longest` arcs that ends when it first meets the goal."""
    found, open_routes = [], [(start, 0.0)]
    for _ in range(longest):
        following = []
        for state, total in open_routes:
            for arc in np.flatnonzero(tail == state):
                reached = (int(head[arc]), total + rewards[arc])
                (found if reached[0] == goal else following).append(reached)
        open_routes = following
    return np.exp([total for _, total in found])


@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_a_dense_solve(seed):
    tail, head, rewards = random_graph(seed)
    mdp, goals = graph_mdp(tail, head, 9), np.arange(9)
    plan = goal_plan(mdp, table_of(mdp, tail, rewards), goals)
    for goal in goals:
        assert np.allclose(plan.value[goal], dense_value(tail, head, rewards, 9, goal), rtol=0, atol=1e-12)
    assert (plan.error_bound < 1e-11).all()


def test_a_value_is_the_log_sum_over_routes():
    tail, head, rewards = random_graph(1, num=5)
    rewards = 3 * rewards
    mdp = graph_mdp(tail, head, 5)
    plan = goal_plan(mdp, table_of(mdp, tail, rewards), [2])
    for start in (0, 1, 3):
        weights = route_weights(tail, head, rewards, start=start, goal=2, longest=9)
        assert np.isclose(plan.value[0, start], np.log(weights.sum()), rtol=0, atol=1e-8)


def test_a_goal_that_cannot_be_reached_has_value_minus_infinity():
    mdp = graph_mdp(np.array([0, 1, 1, 2]), np.array([1, 0, 2, 3]), 4)
    plan = goal_plan(mdp, -np.ones(mdp.table_shape) * [[1, 1]] * ~mdp.absorbing[:, None], [0, 3])
    assert np.isfinite(plan.value[1]).all() and plan.value[0, 0] == 0
    assert (plan.value[0, 2:] == -np.inf).all()
    assert np.isnan(plan.policy(0)[2:]).any() and np.isclose(plan.policy(3)[1].sum(), 1)


@pytest.mark.parametrize("size", [50.0, 2_000.0, 40_000.0])
def test_values_far_below_the_range_of_exponentials_are_exact(size):
    """A corridor both ways, whose routes are known: with c a step, V = −c·d + log of the routes that turn back."""
    num, step = 60, size / 59
    tail = np.concatenate([np.arange(num - 1), np.arange(1, num)])
    head = np.concatenate([np.arange(1, num), np.arange(num - 1)])
    mdp = graph_mdp(tail, head, num)
    plan = goal_plan(mdp, table_of(mdp, tail, np.full(len(tail), -step)), np.arange(num))
    # On a half-line the weight of all first passages by one step solves w = x + x·w·w, x = exp(−step), up to the end
    # of the corridor: w_0 = x, w_k = x / (1 − x·w_{k−1}).
    x, passage = np.exp(-step), [np.exp(-step)]
    for _ in range(num - 2):
        passage.append(x / (1 - x * passage[-1]))
    expected = np.concatenate([np.cumsum(np.log(passage)[::-1])[::-1], [0.0]])
    assert np.allclose(plan.value[num - 1], expected, rtol=1e-12, atol=0)
    assert np.allclose(plan.value[0], expected[::-1], rtol=1e-12, atol=0)
    assert np.isfinite(plan.error_bound).all()


def test_goals_far_apart_get_factorisations_of_their_own_and_agree():
    tail, head, rewards = random_graph(2)
    mdp = graph_mdp(tail, head, 9)
    planner = GoalPlanner.of(mdp)
    options = planner.options
    scaled = table_of(mdp, tail, 150 * rewards)[options.row, options.column]
    assert len(shared.shared_blocks(planner.pattern, scaled, np.arange(8))) > 1
    together = goal_plan(mdp, table_of(mdp, tail, 150 * rewards), np.arange(8)).value
    for goal in range(8):
        alone = goal_plan(mdp, table_of(mdp, tail, 150 * rewards), [goal]).value[0]
        assert np.allclose(together[goal], alone, rtol=1e-12, atol=1e-12)


def separate_block(mdp, rewards, goals):
    pattern = SeparatePattern.of(GoalPlanner.of(mdp).options)
    return SeparateBlock(pattern, rewards, goals, tuple(goal_system(pattern, rewards, int(goal)) for goal in goals))


def test_common_and_separate_systems_agree_in_all_they_offer():
    rng = np.random.default_rng(0)
    tail, head, rewards = random_graph(3)
    mdp, goals = graph_mdp(tail, head, 9), np.array([0, 4, 8])
    planner = GoalPlanner.of(mdp)
    options, features = planner.options, rng.normal(size=(len(planner.options.state), 3))
    rewards = table_of(mdp, tail, rewards)[options.row, options.column]
    ((_, one),) = planner.blocks(rewards, goals)
    other = separate_block(mdp, rewards, goals)
    start = rng.normal(size=(9, 3))
    start[goals, np.arange(3)] = 0
    start[8, :2] = 0  # the dead end reaches no goal but itself
    assert np.allclose(one.value, other.value, rtol=0, atol=1e-12)
    for name, arguments in [("mass", (start,)), ("flow", (start,)), ("policy", ()), ("tangents", (features,))]:
        assert np.allclose(getattr(one, name)(*arguments), getattr(other, name)(*arguments), rtol=0, atol=1e-11), name
    assert np.allclose(one.curvature(start, features)[0], other.curvature(start, features)[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("goal", [0, 8])
def test_derivatives_are_those_of_differences_of_dense_solves(goal):
    rng = np.random.default_rng(5)
    tail, head, _ = random_graph(4)
    features, theta = rng.uniform(0.5, 1.5, (len(tail), 2)), np.array([-1.1, -0.9])
    start = rng.uniform(size=9) * (np.arange(9) < 8)
    start[goal] = 0

    def total(theta):
        value = dense_value(tail, head, features @ theta, 9, goal)
        return start[start > 0] @ value[start > 0]

    def slope(theta, size=1e-4):
        return np.array([(total(theta + size * d) - total(theta - size * d)) / (2 * size) for d in np.eye(2)])

    mdp = graph_mdp(tail, head, 9)
    planner = GoalPlanner.of(mdp)
    options = planner.options
    table = np.stack([table_of(mdp, tail, column)[options.row, options.column] for column in features.T], axis=1)
    ((_, block),) = planner.blocks(table @ theta, np.array([goal]))
    assert np.allclose(table.T @ block.flow(start[:, None]), slope(theta), rtol=1e-7)
    curvature = np.array([(slope(theta + 1e-3 * d) - slope(theta - 1e-3 * d)) / 2e-3 for d in np.eye(2)])
    assert np.allclose(block.curvature(start[:, None], table)[0], curvature, rtol=1e-4)


@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_random_moves_have_the_values_of_a_fixed_point_iteration(discount):
    rng = np.random.default_rng(7)
    chances, rewards = rng.dirichlet(np.ones(5), size=(5, 3)), -rng.uniform(1.5, 3.0, (5, 3))
    mdp = ix.MDP.from_dense(chances, np.full(5, 0.2), discount=discount, ends_at_goal=True)
    plan = goal_plan(mdp, rewards, [1, 4])
    for row, goal in enumerate((1, 4)):
        value = np.zeros(5)
        for _ in range(5_000):
            value = np.log(np.exp(rewards + discount * chances @ value).sum(axis=1))
            value[goal] = 0
        assert np.allclose(plan.value[row], value, rtol=0, atol=1e-11)
    assert (plan.error_bound < 1e-10).all()


def test_an_action_that_may_miss_the_goal_for_ever_is_not_taken():
    # Action 1 of state 0 ends in a trap with probability ½; state 3 has no other action.
    chances = np.zeros((4, 2, 4))
    chances[0, 0, 1] = chances[1, :, 1] = chances[2, :, 2] = 1
    chances[0, 1, [1, 2]] = chances[3, :, 1] = chances[3, :, 2] = 0.5
    mdp = ix.MDP.from_dense(chances, np.full(4, 0.25), discount=1.0, ends_at_goal=True)
    rewards = np.where(mdp.absorbing[:, None], 0.0, -1.0) * np.ones((4, 2))
    plan = goal_plan(mdp, rewards, [1])
    assert np.allclose(plan.value[0], [-1, 0, -np.inf, -np.inf])
    assert np.allclose(plan.policy(1)[0], [1, 0])


def test_scales_by_state_have_the_values_of_a_fixed_point_iteration():
    tail, head, rewards = random_graph(6)
    scale = np.random.default_rng(6).uniform(0.6, 1.3, 9)
    mdp = graph_mdp(tail, head, 9)
    plan = goal_plan(mdp, table_of(mdp, tail, rewards), [2], scale=scale)
    value = np.zeros(9)
    for _ in range(5_000):
        total = np.zeros(9)
        np.add.at(total, tail, np.exp((rewards + value[head]) / scale[tail]))
        with np.errstate(divide="ignore"):
            value = np.maximum(scale * np.log(total), -1e9)
        value[2] = 0
    assert np.allclose(plan.value[0, :8], value[:8], rtol=0, atol=1e-10)


@pytest.mark.parametrize("rewards", [0.0, -0.2, 0.7])
def test_values_that_do_not_exist_are_refused(rewards):
    tail, head, _ = random_graph(0)
    mdp = graph_mdp(tail, head, 9)
    with pytest.raises(NoFixedPointError, match="do not exist"):
        goal_plan(mdp, table_of(mdp, tail, np.full(len(tail), rewards)), [0, 4])


def test_the_message_says_what_each_feature_gains_on_the_worst_cycles():
    tail, head, _ = random_graph(0)
    rng = np.random.default_rng(0)
    features, theta = rng.uniform(0.2, 1.0, (len(tail), 2)), np.array([-0.4, 0.5])
    mdp = graph_mdp(tail, head, 9)
    table = np.stack([table_of(mdp, tail, column) for column in features.T], axis=-1)
    with pytest.raises(NoFixedPointError) as caught:
        goal_plan(mdp, ix.LinearReward(table, theta, names=["minutes", "view"]), [0])
    matrix = np.zeros((9, 9))
    np.add.at(matrix, (tail, head), np.exp(features @ theta))
    gain = np.log(np.abs(np.linalg.eigvals(matrix)).max())
    assert f"a step gains {gain:+.3g}" in str(caught.value)
    # Along the walk that gains most the mean of a feature is the derivative of log ρ in its weight.
    moved = matrix.copy() * 0
    np.add.at(moved, (tail, head), np.exp(features @ (theta + np.array([0, 1e-6]))))
    view = (np.log(np.abs(np.linalg.eigvals(moved)).max()) - gain) / 1e-6 * theta[1]
    assert f"view {view:+.2g}"[:9] in str(caught.value)


def test_values_exist_for_a_goal_although_they_would_not_on_the_way_past_it():
    # The ring through the goal gains, but a trip ends there: the common system is no M-matrix, that of the goal is.
    tail, head, rewards = np.array([0, 1, 2, 2]), np.array([1, 2, 0, 1]), np.array([0.5, 0.5, 0.5, -2.0])
    mdp = graph_mdp(tail, head, 3)
    plan = goal_plan(mdp, table_of(mdp, tail, rewards), [0, 2])
    for row, goal in enumerate((0, 2)):
        assert np.allclose(plan.value[row], dense_value(tail, head, rewards, 3, goal), atol=1e-12)


def test_a_plan_at_a_discount_of_one_needs_goals_to_be_named():
    tail, head, rewards = random_graph(0)
    mdp = graph_mdp(tail, head, 9)
    with pytest.raises(ValueError, match="goal_plan"):
        ix.soft_plan(mdp, table_of(mdp, tail, rewards))
    with pytest.raises(ValueError, match="lists 3 several times"):
        goal_plan(mdp, table_of(mdp, tail, rewards), [3, 3])
    with pytest.raises(ValueError, match="horizon"):
        goal_plan(mdp.replace(horizon=4), table_of(mdp, tail, rewards), [3])


@pytest.mark.parametrize("stochastic", [False, True])
def test_simulated_episodes_have_the_policy_s_frequencies(stochastic):
    if stochastic:
        rng = np.random.default_rng(8)
        mdp = ix.MDP.from_dense(rng.dirichlet(np.ones(4), size=(4, 2)), np.full(4, 0.25), discount=0.9)
        table = rng.normal(size=(4, 2))
    else:
        tail, head, rewards = random_graph(8)
        mdp = graph_mdp(tail, head, 9)
        table = table_of(mdp, tail, rewards)
    plan = goal_plan(mdp, table, [1, 2])
    starts, goals = np.zeros(8_000, int), np.tile([1, 2], 4_000)
    states, actions, after, lengths = simulate(plan, starts, goals, jax.random.key(0))
    ends = np.cumsum(lengths)
    assert np.array_equal(after[ends - 1], goals) and np.array_equal(states[ends - lengths], starts)
    owner = np.repeat(goals, lengths)
    policy = plan.policy(2)
    for action in range(policy.shape[1]):
        share = (actions[(owner == 2) & (states == 0)] == action).mean()
        assert abs(share - policy[0, action]) < 0.025
