"""Large sparse chains by LU factorisation, against dense systems written down in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

import irlax as ix
from irlax.planning import chain, direct, fixed_point, small
from irlax.planning.chain import Chain

SIDE = 12
pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="accelerators solve these iteratively")


@pytest.fixture(autouse=True, scope="module")
def _sparse():
    """Every problem counts as large, and what was compiled for small ones is not used, nor kept for other files.

    JAX keeps programs by the precision of products, which changes nothing here: CPUs have one.
    """
    with pytest.MonkeyPatch.context() as patch, jax.default_matmul_precision("highest"):
        for module in (chain, fixed_point):
            patch.setattr(module, "DENSE_LIMIT", 0)
        patch.setattr(small, "MAX_TRANSITIONS", 0)
        yield


@pytest.fixture(autouse=True)
def _no_factors(monkeypatch):
    monkeypatch.setattr(direct, "FACTORS", direct._Factors())


def grid(side, discount):
    """Four moves that go astray one time in five; at γ = 1 the middle is the end."""
    cells = np.arange(side * side).reshape(side, side)
    padded = np.pad(cells, 1, mode="edge")
    around = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
    dense = np.zeros((side * side, 4, side * side))
    for a in range(4):
        for b, cell in enumerate(around):
            np.add.at(dense, (cells.ravel(), a, cell.ravel()), 0.85 if a == b else 0.05)
    available, goal = np.ones((side * side, 4), bool), side * side // 2 + side // 2
    if discount == 1:
        dense[goal] = np.eye(side * side)[goal]
        available[goal, 1:] = False
    matrices = [sp.csr_array(dense[:, a]) for a in range(4)]
    start = np.full(side * side, side**-2.0)
    mdp = ix.MDP.from_scipy(matrices, start, discount=discount, available=available)
    cost = -1.0 - np.random.default_rng(0).uniform(1, 2, size=side * side)
    if discount == 1:
        cost[goal] = 0
    return mdp, cost, dense, available


def dense_plan(cost, dense, available, discount, steps=30):
    """Soft policy iteration on dense matrices: values, policy and visits from a uniform start."""
    size = len(cost)
    ends = (available.sum(axis=1) == 1) & (discount == 1)
    policy = available / available.sum(axis=1, keepdims=True)
    for _ in range(steps):
        matrix = discount * np.einsum("sa,sat->st", policy, dense) * ~ends[:, None]
        entropy = -np.where(policy > 0, policy * np.log(np.where(policy > 0, policy, 1)), 0).sum(axis=1)
        value = np.linalg.solve(np.eye(size) - matrix, np.where(ends, 0, cost + entropy))
        q = np.where(available, cost[:, None] + discount * dense @ value, -np.inf)
        top = q.max(axis=1, keepdims=True)
        new = np.exp(q - top) / np.exp(q - top).sum(axis=1, keepdims=True)
        if np.abs(new - policy).max() < 1e-13:
            break
        policy = new
    visits = np.linalg.solve((np.eye(size) - matrix).T, np.full(size, 1 / size))
    return value, policy, np.where(ends, 0, visits)[:, None] * policy


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(("discount", "ends"), [(0.9, 0), (0.9999, 0), (1.0, 3)])
def test_chains_are_solved_as_by_lapack(discount, ends, transpose, monkeypatch):
    monkeypatch.setattr(chain, "EVEN", 0.0)
    rng = np.random.default_rng(1)
    size = 300
    # A long band, in which some links are listed twice and some have probability 0 (to state 0, as padding has).
    successors = np.clip(np.arange(size)[:, None] + rng.integers(-4, 4, size=(size, 6)), 0, size - 1)
    successors[1:, 0] = np.arange(size - 1)  # so that the end is reached from everywhere
    probs = rng.dirichlet([3.0, 1, 1, 1, 1, 1], size=size)
    successors[:, 5], probs[:, 4], probs[:, 5] = 0, probs[:, 4] + probs[:, 5], 0
    matrix = np.zeros((size, size))
    np.add.at(matrix, (np.arange(size)[:, None], successors), probs)
    terminal = np.arange(size) < ends
    matrix[terminal] = 0
    system = np.eye(size) - discount * matrix
    rhs = rng.normal(size=size)
    mdp = ix.MDP.from_successors(successors[:, None], probs[:, None], np.full(size, 1 / size), discount=0.9)
    with jax.enable_x64(True):
        own = Chain(jnp.ones((1, size)), mdp.dynamics, discount, jnp.asarray(terminal) if ends else None)
        found = (own.solve_visits if transpose else own.solve_values)(jnp.asarray(rhs))
    expected = np.linalg.solve(system.T if transpose else system, rhs)
    assert direct.FACTORS.count == 1
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("discount", [0.9, 0.9999, 1.0])
def test_plans_and_visits_are_those_of_dense_policy_iteration(discount):
    mdp, cost, dense, available = grid(SIDE, discount)
    plan = ix.soft_plan(mdp, cost, method="newton")
    value, policy, visits = dense_plan(cost, dense, available, discount)
    assert np.abs(plan.value - value).max() <= plan.error_bound + 1e-13 * np.abs(value).max() / (1 - min(discount, 0.9))
    np.testing.assert_allclose(plan.policy, policy, atol=1e-8)
    np.testing.assert_allclose(ix.visits(mdp, plan), visits, atol=1e-8 * visits.max())
    # At γ = .9 iterations are few, and nothing is factorised.
    assert (direct.FACTORS.count > 0) == (discount > 0.9)
    floor = fixed_point.ROUNDING * np.finfo(float).eps * np.abs(value).max()
    assert plan.error_bound >= floor


def test_derivatives_of_first_and_second_order():
    mdp, cost, dense, available = grid(SIDE, 1.0)
    direction = np.random.default_rng(3).normal(size=SIDE**2) * (cost != 0)

    def state_visits(reward):
        return dense_plan(reward, dense, available, 1.0)[2].sum(axis=1)

    @jax.jit
    def gradient_and_product(reward, direction):
        gradient = jax.grad(lambda reward: ix.soft_plan(mdp, reward).value.mean())
        return jax.jvp(gradient, (reward,), (direction,))

    with jax.enable_x64(True):
        gradient, product = gradient_and_product(jnp.asarray(cost), jnp.asarray(direction))
    np.testing.assert_allclose(gradient, state_visits(cost), atol=1e-11)
    step = 1e-4
    change = state_visits(cost + step * direction) - state_visits(cost - step * direction)
    np.testing.assert_allclose(product, change / (2 * step), atol=1e-6 * np.abs(product).max())
    assert direct.FACTORS.count > 0


def test_derivatives_of_visits_in_the_policy():
    mdp, cost, dense, available = grid(SIDE, 1.0)
    rng = np.random.default_rng(4)
    policy = available * rng.uniform(0.5, 1, size=available.shape)
    policy /= policy.sum(axis=1, keepdims=True)
    weights, change = rng.normal(size=SIDE**2), rng.normal(size=available.shape) * available
    change -= policy * change.sum(axis=1, keepdims=True)

    def expected(step):
        matrix = np.einsum("sa,sat->st", policy + step * change, dense) * (cost != 0)[:, None]
        visits = np.linalg.solve((np.eye(SIDE**2) - matrix).T, np.full(SIDE**2, SIDE**-2.0))
        return (visits * (cost != 0)) @ weights

    @jax.jit
    def slope(policy, change):
        gradient = jax.grad(lambda policy: ix.visits(mdp, policy).sum(axis=1) @ jnp.asarray(weights))(policy)
        return (gradient * change).sum()

    with jax.enable_x64(True):
        found = slope(jnp.asarray(policy), jnp.asarray(change))
    # Visits are counted over actions, whose probabilities change as well: their sum does not.
    np.testing.assert_allclose(found, (expected(1e-6) - expected(-1e-6)) / 2e-6, rtol=1e-5)
    assert direct.FACTORS.count == 1


def test_vmap_over_rewards_and_over_right_hand_sides():
    mdp, cost, _, _ = grid(SIDE, 0.9999)
    scales = np.array([1.0, 1.3])
    with jax.enable_x64(True):
        together = jax.jit(jax.vmap(lambda scale: ix.soft_plan(mdp, scale * jnp.asarray(cost), method="newton").value))(
            scales
        )
        plans = [ix.soft_plan(mdp, scale * cost, method="newton") for scale in scales]
        np.testing.assert_allclose(together, [plan.value for plan in plans], rtol=1e-10)
        before = direct.FACTORS.count
        policy = plans[0].policy / plans[0].policy.sum(axis=1, keepdims=True)
        own = Chain(jnp.asarray(policy).T, mdp.dynamics, 0.9999)
        inverse = jax.vmap(own.solve_values)(jnp.eye(SIDE**2))
        visits = own.solve_visits(jnp.asarray(mdp.initial))
    # One factorisation for all right-hand sides and for the transpose.
    assert direct.FACTORS.count == before + 1
    np.testing.assert_allclose(np.asarray(mdp.initial) @ np.asarray(inverse).T, visits, rtol=1e-8)


def test_states_with_several_rows():
    rng = np.random.default_rng(4)
    size = 400
    counts = np.full(size, 2)
    counts[::100] = 30
    states = np.repeat(np.arange(size), counts)
    successors = np.clip(states + rng.integers(-5, 6, len(states)), 0, size - 1)
    initial, reward = np.full(size, 1 / size), rng.normal(size=size)
    mdp = ix.MDP.from_actions(states, successors, initial, discount=0.9999)
    assert not mdp.rows.one_per_state
    plan = ix.soft_plan(mdp, reward, method="newton")
    q = reward[states] + 0.9999 * plan.value[successors]
    total = np.bincount(states, np.exp(q - plan.value[states]))
    np.testing.assert_allclose(total, 1, atol=1e-9)
    matrix = np.zeros((size, size))
    np.add.at(matrix, (states, successors), np.exp(q - plan.value[states]))
    expected = np.linalg.solve(np.eye(size) - 0.9999 * matrix.T, initial)
    by_state = np.bincount(states, np.asarray(ix.visits(mdp, plan))[mdp.cells(states)])
    np.testing.assert_allclose(by_state, expected, rtol=1e-6)
    assert direct.FACTORS.count > 0


def test_a_random_graph_is_left_to_iterations():
    rng = np.random.default_rng(5)
    size = 20_000
    successors, probs = rng.integers(size, size=(size, 1, 5)), np.full((size, 1, 5), 0.2)
    mdp = ix.MDP.from_successors(successors, probs, np.full(size, 1 / size), discount=0.9999)
    visits = ix.visits(mdp, np.ones((size, 1)))
    balance = visits[:, 0] - 1 / size - 0.9999 * mdp.dynamics.push(visits)
    assert direct.FACTORS.count == 0
    assert np.abs(balance).max() < 1e-10


def test_what_is_affordable():
    def pattern(rows, columns, size):
        return sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(size, size))

    size, every = 10_000, np.arange(10_000)
    band = pattern(every[1:], every[:-1], size)
    hub = pattern(every, np.zeros(size, int), size)
    random = pattern(every.repeat(5), np.random.default_rng(0).integers(size, size=5 * size), size)
    assert direct.is_affordable(band)
    assert direct.is_affordable(sp.csr_array(band + hub))
    assert not direct.is_affordable(random)
    # Two random graphs, joined by a long band: narrow in the middle does not help.
    joined = sp.csr_array(sp.block_diag([random, band, random], format="csr"))
    assert not direct.is_affordable(joined)


def test_factors_are_kept_within_bounds(monkeypatch):
    monkeypatch.setattr(direct, "MAX_KEPT", 2)
    size = 100
    successors, owners = np.roll(np.arange(size, dtype=np.int32), 1)[None], np.arange(size, dtype=np.int32)
    for k in (1, 2, 3, 3, 1):
        factors = direct.FACTORS.of(np.full((1, size), 0.1 * k), successors, owners, size)
        assert factors is not None
        assert np.allclose(factors.solve(np.ones(size)), 1 / (1 - 0.1 * k))
    assert (len(direct.FACTORS.kept), direct.FACTORS.count) == (2, 4)
