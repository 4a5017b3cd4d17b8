"""Problems large enough for the code that small ones never reach."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.planning.krylov import solve
from tests.problems import as_mdp, random_problem, random_reward

SIDE, DISCOUNT = 24, 0.9


def slippery(side, **options):
    """A grid whose five actions (four moves and staying) go astray one time in five."""
    cells = np.arange(side * side).reshape(side, side)
    padded = np.pad(cells, 1, mode="edge")
    around = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:], cells)
    successors = np.stack([cell.ravel() for cell in around], axis=-1)
    shape = (side * side, 5, 5)
    probs = np.full((5, 5), 0.05) + 0.75 * np.eye(5)
    start = np.random.default_rng(0).dirichlet(np.ones(side * side))
    return ix.MDP.from_successors(
        np.broadcast_to(successors[:, None], shape), np.broadcast_to(probs, shape), start, **options
    )


def dense_soft(mdp, reward, horizon):
    """Values and visits by backward and forward recursions on dense matrices."""
    matrices = np.stack([matrix.toarray() for matrix in mdp.dynamics.to_scipy()])
    values = [np.zeros(mdp.num_states)]
    policies = []
    for _ in range(horizon):
        q = reward + mdp.discount * matrices @ values[0]
        top = q.max(axis=0)
        values.insert(0, top + np.log(np.exp(q - top).sum(axis=0)))
        policies.insert(0, np.exp(q - values[0]))
    mass, total = np.asarray(mdp.initial), 0.0
    for policy in policies:
        joint = mass * policy
        total = total + joint
        mass = mdp.discount * np.einsum("as,ast->t", joint, matrices)
    return np.array(values[:-1]), total.T


@pytest.mark.parametrize("horizon", [1, 7, 9])
def test_written_out_rows_agree_with_dense_recursions_with_and_without_low_memory(horizon):
    mdp = slippery(SIDE, discount=DISCOUNT, horizon=horizon)
    reward = np.random.default_rng(1).normal(size=SIDE**2)
    values, visits = dense_soft(mdp, reward, horizon)
    for low_memory in (False, True):
        plan = ix.soft_plan(mdp, reward, low_memory=low_memory)
        np.testing.assert_allclose(plan.value, values, rtol=1e-12)
        np.testing.assert_allclose(ix.visits(mdp, plan), visits, atol=1e-13)
        np.testing.assert_allclose(ix.occupancy(mdp, plan).sum(axis=0), visits, atol=1e-13)
    assert plan.kept.shape[0] == {1: 1, 7: 3, 9: 3}[horizon]


def test_large_endless_problems_are_certified_and_agree_with_value_iteration():
    mdp = slippery(46, discount=0.99)
    assert mdp.num_states > 2000
    reward = np.random.default_rng(2).normal(size=mdp.num_states)
    by_newton = ix.soft_plan(mdp, reward, method="newton")
    by_sweeps = ix.soft_plan(mdp, reward, method="value-iteration")
    assert by_newton.error_bound < 1e-9 * np.abs(by_newton.value).max()
    apart = np.abs(by_newton.value - by_sweeps.value).max()
    assert apart <= by_newton.error_bound + by_sweeps.error_bound
    assert by_newton.steps < by_sweeps.steps / 20
    visits = ix.visits(mdp, by_newton)
    balance = visits.sum(axis=1) - mdp.initial - 0.99 * mdp.dynamics.push(visits)
    assert np.abs(balance).max() < 1e-11 * visits.max()


def test_a_guess_changes_the_work_and_not_the_result():
    from irlax.planning.backup import SoftBackup
    from irlax.planning.fixed_point import fixed_point

    mdp = slippery(46, discount=0.99)
    rng = np.random.default_rng(3)
    with jax.enable_x64(True):
        backup = SoftBackup(mdp, jnp.asarray(rng.normal(size=(5, mdp.num_states))))
        cold = fixed_point(backup, 1e-10, "newton")
        warm = fixed_point(backup, 1e-10, "newton", start=cold.value + 1e-3 * rng.normal(size=mdp.num_states))
        broken = fixed_point(backup, 1e-10, "newton", start=jnp.full(mdp.num_states, jnp.nan))
    assert int(warm.steps) < int(cold.steps) == int(broken.steps)
    np.testing.assert_allclose(warm.value, cold.value, atol=2 * float(cold.error_bound))


@pytest.mark.parametrize("exact_after_one", [False, True])
def test_bicgstab_solves_what_lapack_solves(exact_after_one):
    rng = np.random.default_rng(4)
    matrix = np.eye(60) - 0.9 * rng.dirichlet(np.ones(60), size=60)
    # A constant is an eigenvector: the recurrence is then done at once, and must not divide by zero.
    rhs = np.ones(60) if exact_after_one else rng.normal(size=60)
    with jax.enable_x64(True):
        found = solve(lambda x: jnp.asarray(matrix) @ x, jnp.asarray(rhs), 1e-13)
    np.testing.assert_allclose(found, np.linalg.solve(matrix, rhs), rtol=1e-10, atol=1e-11)


def test_single_precision_is_as_good_as_it_says():
    mdp = slippery(SIDE, discount=DISCOUNT, horizon=30)
    reward = np.random.default_rng(5).normal(size=SIDE**2)
    exact, narrow = ix.soft_plan(mdp, reward), ix.soft_plan(mdp.single_precision(), reward)
    assert narrow.value.dtype == np.float32
    assert np.abs(narrow.value - exact.value).max() < 3e-6 * np.abs(exact.value).max()
    there, here = ix.visits(mdp, exact), ix.visits(mdp.single_precision(), narrow)
    assert here.dtype == np.float32
    assert 0 < np.abs(there - here).max() < 1e-5 * there.max()


@pytest.mark.parametrize("changes", [{"discount": 0.5}, {"horizon": 3}, {"initial": [0.1, 0.2, 0.7]}])
def test_single_precision_survives_other_settings(changes):
    mdp = as_mdp(random_problem(0))
    narrow, wide = mdp.single_precision().replace(**changes), mdp.replace(**changes)
    assert_single(narrow)
    np.testing.assert_allclose(narrow.initial, wide.initial, rtol=1e-6)
    assert wide.initial.dtype == np.float64
    value = ix.soft_plan(narrow, random_reward(0)).value
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, ix.soft_plan(wide, random_reward(0)).value, rtol=1e-4, atol=1e-5)


def assert_single(mdp):
    arrays = [leaf for leaf in jax.tree.leaves((mdp.dynamics, mdp.initial)) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert {str(array.dtype) for array in arrays} == {"float32"}


def test_single_precision_survives_a_fit_to_demonstrations():
    mdp = as_mdp(random_problem(0))
    demos = ix.rollout(mdp, ix.soft_plan(mdp, random_reward(0)), num=50, key=jr.key(0))
    reward = ix.LinearReward(np.eye(3)[:, :2])
    narrow, wide = (
        ix.MCEIRL(tol=1e-4, progress=False).fit(problem, reward, demos) for problem in (mdp.single_precision(), mdp)
    )
    assert_single(narrow.mdp)
    assert narrow.plan.value.dtype == np.float32
    np.testing.assert_allclose(narrow.reward.weights, wide.reward.weights, atol=2e-3)
    first = np.bincount(demos.start_states, minlength=3) / 50
    np.testing.assert_allclose(narrow.mdp.initial, first, rtol=1e-6)
