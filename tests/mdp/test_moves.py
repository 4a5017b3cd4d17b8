"""Dynamics made of a few moves, against the same dynamics listed state by state."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import irlax as ix
from irlax.mdp import Moves, Successors
from irlax.mdp.derived import reweighted, under_policy
from irlax.mdp.npz import load_mdp, save_mdp
from tests.planning.test_large import slippery

SIDE = 23
S = SIDE**2


@pytest.fixture(scope="module")
def pair():
    """A grid with slips, whose walls block two moves at once in the corners; and the same from matrices."""
    moves = slippery(SIDE, discount=0.9, horizon=4)
    matrices = moves.dynamics.to_scipy()
    assert all(matrix.has_canonical_format for matrix in matrices)
    listed = ix.MDP.from_scipy(matrices, moves.initial, discount=0.9, horizon=4)
    assert isinstance(moves.dynamics, Moves) and isinstance(listed.dynamics, Successors)
    assert moves.dynamics.chances.shape == (5, 5)
    return moves, listed


def test_both_directions_and_what_follows_from_them(pair):
    rng = np.random.default_rng(0)
    value, mass, policy = rng.normal(size=S), rng.random((S, 5)), rng.dirichlet(np.ones(5), S)
    matrices = np.stack([matrix.toarray() for matrix in pair[1].dynamics.to_scipy()], axis=1)
    for mdp in pair:
        np.testing.assert_allclose(mdp.dynamics.expect(value), matrices @ value, atol=1e-13)
        np.testing.assert_allclose(mdp.dynamics.push(mass), np.einsum("sa,sat->t", mass, matrices), atol=1e-13)
        with jax.enable_x64(True):
            chain = np.einsum("sa,sat->st", policy, matrices)
            np.testing.assert_allclose(mdp.dynamics.matrix(jnp.asarray(policy.T)), chain, atol=1e-14)
            alone = under_policy(mdp.dynamics, jnp.asarray(policy.T))
            np.testing.assert_allclose(alone.backward(jnp.asarray(value))[0], chain @ value, atol=1e-13)
            surprise = np.where(matrices > 0, -np.log(np.where(matrices > 0, matrices, 1)), 0)
            np.testing.assert_allclose(mdp.dynamics.entropy().T, (matrices * surprise).sum(axis=-1), atol=1e-13)


def test_values_of_transitions(pair):
    rng = np.random.default_rng(1)
    table = rng.normal(size=(S, 5, S))
    matrices = np.stack([matrix.toarray() for matrix in pair[1].dynamics.to_scipy()], axis=1)
    tilted = matrices * np.exp(table)
    for mdp in pair:
        dynamics = mdp.dynamics
        with jax.enable_x64(True):
            aligned = dynamics.align(jnp.asarray(table))
            np.testing.assert_allclose(dynamics.mean(aligned).T, (matrices * table).sum(axis=-1), atol=1e-13)
            expected = np.log(tilted.sum(axis=-1))
            np.testing.assert_allclose(dynamics.log_mean_exp(aligned).T, expected, atol=1e-13)
            tilt = reweighted(dynamics, aligned - dynamics.for_all_next(dynamics.log_mean_exp(aligned)))
        np.testing.assert_allclose(tilt.to_dense(), tilted / tilted.sum(axis=-1, keepdims=True), atol=1e-14)


def test_next_states_are_drawn_by_their_probabilities(pair):
    """In a corner, where two moves that are blocked and staying are one outcome."""
    corner, action = np.zeros(1000, int), np.full(1000, 3)
    for mdp in pair:
        with jax.enable_x64(True):
            drawn = mdp.dynamics.sample(corner, action, jnp.asarray((np.arange(1000) + 0.5) / 1000))
            told = mdp.dynamics.probability(corner, action, np.asarray(drawn))
        frequency = np.bincount(drawn, minlength=S) / 1000
        np.testing.assert_allclose(frequency[[0, 1, SIDE]], [0.15, 0.8, 0.05], atol=0.002)
        np.testing.assert_allclose(told, frequency[drawn], atol=0.002)


def test_fits_do_not_depend_on_how_transitions_are_stored(pair):
    reward = np.random.default_rng(2).normal(size=S)
    demos = ix.rollout(pair[0], ix.soft_plan(pair[0], reward), num=200, key=jax.random.key(0))
    features = np.random.default_rng(3).normal(size=(S, 5, 2))
    settings = {"progress": False, "l2": 1e-3}
    by_state = [ix.MCEIRL(**settings).fit(mdp, ix.LinearReward(features), demos).reward.weights for mdp in pair]
    np.testing.assert_allclose(*by_state, atol=1e-8)
    # Of transitions that two moves make, each has its share.
    by_step = np.random.default_rng(4).normal(size=(S, 1, S, 1)) * np.ones((1, 5, 1, 1))
    steps = [ix.MaxEntIRL(**settings).fit(mdp, ix.LinearReward(by_step), demos).reward.weights for mdp in pair]
    np.testing.assert_allclose(*steps, atol=1e-8)


def test_a_file_of_them_is_read_as_what_it_was(pair, tmp_path):
    save_mdp(tmp_path / "grid.npz", pair[0])
    again = load_mdp(tmp_path / "grid.npz")
    assert isinstance(again.dynamics, Moves)
    np.testing.assert_array_equal(again.dynamics.chances, pair[0].dynamics.chances)
    np.testing.assert_array_equal(again.dynamics.links.successors, pair[0].dynamics.links.successors)


def test_what_differs_from_state_to_state_is_listed():
    successors, probs = np.zeros((S, 2, 2), int), np.full((S, 2, 2), 0.5)
    successors[..., 1] = np.arange(S)[:, None]
    made = ix.MDP.from_successors(successors, probs, np.ones(S) / S, discount=0.9)
    assert isinstance(made.dynamics, Moves)
    probs[7, 1] = [0.4, 0.6]
    made = ix.MDP.from_successors(successors, probs, np.ones(S) / S, discount=0.9)
    assert isinstance(made.dynamics, Successors)
    # Five next states for each of three actions, no two alike: as moves there would be fifteen.
    anywhere = np.random.default_rng(0).integers(0, S, (S, 3, 5))
    made = ix.MDP.from_successors(anywhere, np.full(anywhere.shape, 0.2), np.ones(S) / S, discount=0.9)
    assert isinstance(made.dynamics, Successors)
