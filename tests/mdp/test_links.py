"""The pattern of sparse dynamics in both directions, and unrolled arithmetic, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from irlax import MDP
from irlax.mdp.links import Links, Predecessors
from irlax.mdp.sparse import Successors
from irlax.mdp.unrolled import LONG, UNROLL, joined, log_sum_exp, softmax, split, unrolled_map, unrolled_sum

S = LONG + 8


def pattern(groups, width=3, goal=None):
    """Random links; with a `goal`, half of them lead there. One in eight is padding."""
    rng = np.random.default_rng(0)
    successors = rng.integers(0, S, size=(width, groups, S))
    if goal is not None:
        successors = np.where(rng.random(successors.shape) < 0.5, goal, successors)
    return successors, rng.random(successors.shape) < 7 / 8


@pytest.mark.parametrize("goal", [None, 5])
def test_collecting_is_the_transpose_of_looking_up(goal):
    successors, present = pattern(2, goal=goal)
    links = Links.of(successors, present)
    rng = np.random.default_rng(1)
    value, flow = rng.normal(size=S), np.where(present, rng.normal(size=present.shape), 0)
    expected = np.zeros(S)
    np.add.at(expected, successors, flow)
    with jax.enable_x64(True):
        np.testing.assert_array_equal(links.next_values(jnp.asarray(value)), value[successors])
        np.testing.assert_allclose(links.collect(jnp.asarray(flow)), expected, atol=1e-12)

        def loss(value):
            return (jnp.asarray(flow) * links.next_values(value) ** 3).sum()

        gradient, curvature = jax.jit(jax.grad(loss)), jax.jit(jax.jvp, static_argnums=0)
        by_link = np.zeros(S)
        np.add.at(by_link, successors, 3 * flow * value[successors] ** 2)
        np.testing.assert_allclose(gradient(jnp.asarray(value)), by_link, atol=1e-12)
        _, product = curvature(jax.grad(loss), (jnp.asarray(value),), (jnp.ones(S),))
        by_link = np.zeros(S)
        np.add.at(by_link, successors, 6 * flow * value[successors])
        np.testing.assert_allclose(product, by_link, atol=1e-12)
        several = jax.vmap(links.collect)(jnp.stack([flow, 2 * flow]))
        np.testing.assert_allclose(several[1], 2 * expected, atol=1e-12)


def test_a_goal_that_everything_enters_does_not_widen_the_table():
    successors = np.stack([np.zeros(S, int), np.arange(S)])[:, None]
    entries = Links.of(successors, np.ones(successors.shape, bool)).predecessors.entries
    assert entries.size < 3 * successors.size
    assert (np.sort(entries[entries >= 0]) == np.arange(successors.size)).all()


@pytest.mark.parametrize("goal", [None, 5])
def test_links_are_listed_on_a_device_as_they_are_on_the_host(goal):
    successors, present = pattern(2, goal=goal)
    host = Predecessors.of(successors, present, S)
    with jax.enable_x64(True):
        device = Predecessors.on_device(jnp.asarray(successors, jnp.int32), jnp.asarray(present))
    np.testing.assert_array_equal(device.entries, host.entries)
    np.testing.assert_array_equal(device.owners, host.owners)
    assert len(host.owners) > 0


@pytest.mark.parametrize("groups", [1, 3])
def test_links_listed_on_a_device_carry_mass_as_a_matrix_does(groups):
    successors, present = pattern(groups, goal=5)
    rng = np.random.default_rng(3)
    probs = np.where(present, rng.random((3, 3, S)), 0)
    mass, matrix = rng.random((3, S)), np.zeros((S, S))
    wide = np.broadcast_to(successors, probs.shape)
    np.add.at(matrix, (np.broadcast_to(np.arange(S), wide.shape), wide), probs * mass)
    with jax.enable_x64(True):
        listed = jnp.asarray(successors, jnp.int32)
        links = Links(listed, Predecessors.on_device(listed, jnp.asarray(present)))
        np.testing.assert_allclose(Successors(links, probs).forward(mass), matrix.sum(axis=0), rtol=1e-12)


def test_successors_that_actions_share_are_listed_once():
    near = (np.arange(S)[:, None, None] + np.arange(4)) % S
    rng = np.random.default_rng(2)
    shared = MDP.from_successors(
        np.broadcast_to(near, (S, 3, 4)), rng.dirichlet(np.ones(4), (S, 3)), np.ones(S) / S, discount=0.9
    )
    far = rng.integers(0, S, size=(S, 3, 4))
    apart = MDP.from_successors(far, rng.dirichlet(np.ones(4), (S, 3)), np.ones(S) / S, discount=0.9)
    assert shared.dynamics.links.successors.shape == (4, 1, S)
    assert apart.dynamics.links.successors.shape == (4, 3, S)
    value, mass = rng.normal(size=S), rng.random((S, 3))
    for mdp in (shared, apart):
        matrices = mdp.dynamics.to_scipy()
        expected = np.stack([matrix @ value for matrix in matrices], axis=1)
        np.testing.assert_allclose(mdp.dynamics.expect(value), expected, atol=1e-13)
        pushed = sum(matrix.T @ mass[:, a] for a, matrix in enumerate(matrices))
        np.testing.assert_allclose(mdp.dynamics.push(mass), pushed, atol=1e-12)


def test_actions_that_do_not_exist_do_not_lengthen_the_lists():
    rng = np.random.default_rng(3)
    near = np.broadcast_to((np.arange(S)[:, None, None] + 1 + np.arange(2)) % S, (S, 4, 2))
    available = rng.random((S, 4)) < 0.5
    available[:, 0] = True
    mdp = MDP.from_successors(near, np.full((S, 4, 2), 0.5), np.ones(S) / S, discount=0.9, available=available)
    assert mdp.dynamics.links.successors.shape == (2, 1, S)
    value = rng.normal(size=S)
    expected = value[near].mean(axis=-1)
    np.testing.assert_allclose(mdp.dynamics.expect(value)[available], expected[available], atol=1e-13)


@pytest.mark.parametrize("length", [5, UNROLL + 3])
@pytest.mark.parametrize("size", [7, S])
def test_arithmetic_by_rows(length, size):
    rows = np.random.default_rng(4).normal(size=(length, size)) * 30
    rows[1] = -np.inf
    with jax.enable_x64(True):
        array = jnp.asarray(rows)
        np.testing.assert_allclose(log_sum_exp(array), scipy.special.logsumexp(rows, axis=0), rtol=1e-14)
        total, shares = softmax(array)
        np.testing.assert_allclose(total, scipy.special.logsumexp(rows, axis=0), rtol=1e-14)
        np.testing.assert_allclose(shares, scipy.special.softmax(rows, axis=0), rtol=1e-12)
        finite = jnp.asarray(rows[2:])
        np.testing.assert_allclose(unrolled_sum(jnp.multiply, finite, finite), (rows[2:] ** 2).sum(axis=0), rtol=1e-13)
        np.testing.assert_array_equal(unrolled_map(lambda row: 2 * row, finite), 2 * rows[2:])
        np.testing.assert_array_equal(joined(split(finite)), rows[2:])
