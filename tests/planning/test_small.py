"""Small MDPs are planned for on the host: the same numbers as the programs for large ones, and as plain sums."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.planning.small import SmallMDP, dense_transitions
from tests import oracles

S, A = 5, 3


def problem(horizon, *, kind="dense", seed=0):
    """An MDP in which one action does not exist in one state, and a reward."""
    rng = np.random.default_rng(seed)
    options = {"discount": 0.9, "horizon": horizon, "available": np.ones((S, A), bool)}
    options["available"][1, 2] = False
    initial, reward = rng.dirichlet(np.ones(S)), rng.normal(size=(S, A))
    if kind == "dense":
        return ix.MDP.from_dense(rng.dirichlet(np.ones(S), size=(S, A)), initial, **options), reward
    successors = rng.integers(S, size=(S, A, 2))
    return ix.MDP.from_successors(successors, rng.dirichlet(np.ones(2), size=(S, A)), initial, **options), reward


@pytest.mark.parametrize("kind", ["dense", "successors"])
@pytest.mark.parametrize("horizon", [None, 4])
def test_plans_and_visits_are_those_of_compiled_programs(horizon, kind):
    mdp, reward = problem(horizon, kind=kind)
    assert SmallMDP.of(mdp) is not None
    plan = ix.soft_plan(mdp, reward)
    with jax.enable_x64(True):
        compiled = jax.jit(ix.soft_plan)(mdp, jnp.asarray(reward))
        visits = np.asarray(jax.jit(ix.occupancy)(mdp, compiled))
        assert np.allclose(plan.value, compiled.value, rtol=1e-12, atol=1e-12)
        assert np.allclose(plan.policy, compiled.policy, rtol=1e-11)
        assert np.array_equal(np.isneginf(plan.log_policy), np.isneginf(compiled.log_policy))
    assert np.allclose(ix.occupancy(mdp, plan), visits, rtol=1e-11)
    assert np.allclose(ix.occupancy(mdp, plan.policy), visits, rtol=1e-11)
    assert np.allclose(ix.visits(mdp, plan), visits if horizon is None else visits.sum(axis=0), rtol=1e-11)


def test_values_are_log_sums_over_paths():
    rng = np.random.default_rng(1)
    moves, reward, initial = np.eye(3)[rng.integers(3, size=(3, 2))], rng.normal(size=(3, 2)), np.ones(3) / 3
    plan = SmallMDP.of(ix.MDP.from_dense(moves, initial, discount=1.0, horizon=4)).plan(reward.T)
    paths = oracles.Problem(moves, initial, 1.0, 4, np.ones((3, 2), bool))
    assert np.allclose(plan.values[0], oracles.log_sum_of_path_weights(paths, reward), rtol=1e-12)


@pytest.mark.parametrize("discount", [0.5, 0.9999])
def test_the_bound_holds(discount):
    """Against value iteration from above and below, in extended precision."""
    rng = np.random.default_rng(2)
    P, reward = rng.dirichlet(np.ones(S), size=(S, A)), rng.normal(size=(S, A))
    mdp = ix.MDP.from_dense(P, np.ones(S) / S, discount=discount)
    plan = ix.soft_plan(mdp, reward)
    value = np.asarray(plan.value, np.longdouble)
    for _ in range(3):
        q = reward.astype(np.longdouble) + discount * (P.astype(np.longdouble) @ value)
        top = q.max(axis=1)
        after = top + np.log(np.exp(q - top[:, None]).sum(axis=1))
        change, value = after - value, after
    exact = value + discount / (1 - np.longdouble(discount)) * (change.min() + change.max()) / 2
    assert np.abs(plan.value - exact).max() <= plan.error_bound < 1e-6


def test_transitions_of_any_storage_are_written_out():
    mdp, _ = problem(None, kind="successors")
    assert np.allclose(dense_transitions(mdp.dynamics), np.swapaxes(mdp.dynamics.to_dense(), 0, 1), rtol=1e-15)
    grid = ix.envs.Gridworld(["S.#", "..G"], slip=0.2, discount=0.9, horizon=5).mdp
    assert np.allclose(dense_transitions(grid.dynamics), np.swapaxes(grid.dynamics.to_dense(), 0, 1), rtol=1e-15)


def test_what_is_large_undiscounted_narrow_or_traced_is_left_to_programs():
    wide = ix.MDP.from_successors(np.zeros((600, 1, 1), int), np.ones((600, 1, 1)), np.ones(600) / 600, discount=0.9)
    assert SmallMDP.of(wide) is None
    ends = ix.MDP.from_dense([[[0.5, 0.5]], [[0.0, 1.0]]], [1.0, 0.0], discount=1.0)
    assert SmallMDP.of(ends) is None
    mdp = problem(None)[0]
    assert SmallMDP.of(dataclasses.replace(mdp, initial=mdp.initial.astype(np.float32))) is None

    def seen(mdp):
        assert SmallMDP.of(mdp) is None
        return mdp.initial

    jax.jit(seen)(problem(None)[0])


@pytest.mark.parametrize("kind", ["dense", "successors"])
def test_the_same_random_numbers_make_the_same_episodes(kind):
    module = sys.modules["irlax.demos.rollout"]
    mdp, reward = problem(6, kind=kind)
    policy, key = np.asarray(ix.soft_plan(mdp, reward).policy), jr.key(0)
    with jax.enable_x64(True):
        compiled = module._sample(mdp, jnp.asarray(policy), 64, 6, key)
        draws = [np.asarray(draw) for draw in module._uniform(64, 6, key)]
    for one, other in zip(compiled, module._sample_on_host(mdp, policy, *draws), strict=True):
        assert np.array_equal(one, other)
