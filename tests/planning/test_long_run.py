"""The long run of a policy, against powers of its matrix and simulation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import irlax as ix
from irlax.planning import chain
from irlax.planning.chain import Chain
from tests.problems import bus_like

POLICY = np.random.default_rng(0).dirichlet(np.ones(2), size=12)


def powers(mdp, policy):
    """The mean of many powers of P_π, each row the long run from one start."""
    matrix = np.einsum("sa,sat->st", policy, mdp.dynamics.to_dense())
    return np.mean([np.linalg.matrix_power(matrix, n) for n in range(4000, 4012)], axis=0)


@pytest.mark.parametrize("store", ["successors", "dense"])
def test_the_long_run_is_where_powers_of_the_matrix_go(store):
    mdp = bus_like(num_bins=12, store=store)
    found = ix.long_run(mdp, POLICY)
    np.testing.assert_allclose(found, powers(mdp, POLICY)[0][:, None] * POLICY, atol=1e-12)
    # The start does not matter.
    elsewhere = mdp.replace(initial=np.eye(12)[7])
    np.testing.assert_allclose(ix.long_run(elsewhere, POLICY), found, atol=1e-12)


def test_a_periodic_chain_has_a_long_run_and_a_plan_will_do():
    mdp = ix.envs.TwoStateCycle().mdp
    plan = ix.soft_plan(mdp, np.zeros(2))
    np.testing.assert_allclose(ix.long_run(mdp, plan).sum(axis=1), 0.5, atol=1e-14)


def test_large_problems_are_solved_without_the_matrix(monkeypatch):
    mdp = bus_like(num_bins=12)
    dense = ix.long_run(mdp, POLICY).sum(axis=1)
    monkeypatch.setattr(chain, "DENSE_LIMIT", 0)
    with jax.enable_x64(True):
        found = Chain(jnp.asarray(POLICY.T), mdp.dynamics, 1.0).long_run(jnp.asarray(mdp.initial))
    np.testing.assert_allclose(found, dense, atol=1e-10)


def test_the_long_run_is_what_a_long_simulation_counts():
    mdp = bus_like(num_bins=12)
    demos = ix.rollout(mdp, POLICY, num=200, length=500, key=jax.random.key(0))
    states = demos.states.reshape(200, 500)[:, 100:]
    share = np.stack([(states == s).mean(axis=1) for s in range(12)], axis=1)
    error = share.std(axis=0, ddof=1) / np.sqrt(200)
    assert (np.abs(share.mean(axis=0) - ix.long_run(mdp, POLICY).sum(axis=1)) < 4 * error + 1e-6).all()


def test_a_long_run_that_depends_on_the_start_is_refused():
    two_ends = ix.MDP.from_dense(np.eye(3)[[[0], [1], [0]]], np.ones(3) / 3, discount=0.9)
    with pytest.raises(ValueError, match="depends on the start"):
        ix.long_run(two_ends, np.ones((3, 1)))
    with pytest.raises(ValueError, match="horizon"):
        ix.long_run(two_ends.replace(horizon=4), np.ones((3, 1)))
