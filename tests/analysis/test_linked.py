"""Linked states and decomposability, as the Primer defines and illustrates them."""

import itertools

import numpy as np
import pytest

import irlax as ix
from irlax.analysis import cao_state_only, cao_two_environments, kim_aperiodic, linked, rolland_experts


def literal_links(mdp):
    """The Primer's definition, by loops: 1-step links, then their transitive closure."""
    dense, available = mdp.dynamics.to_dense(), mdp.available
    size = mdp.num_states
    one = np.zeros((size, size), bool)
    for s, a, b in itertools.product(range(size), range(mdp.num_actions), range(mdp.num_actions)):
        if available[s, a] and available[s, b]:
            for u, v in itertools.product(range(size), repeat=2):
                one[u, v] |= dense[s, a, u] > 0 and dense[s, b, v] > 0
    by_steps = [one]
    for _ in range(size):
        previous = by_steps[-1]
        by_steps.append(previous | ((previous.astype(int) @ one.astype(int)) > 0))
    return by_steps


def ring(size, *, stay, discount=0.9):
    here = np.arange(size)
    moves = [(here + 1) % size, (here - 1) % size] + ([here] if stay else [])
    successors = np.stack(moves, axis=1)[..., None]
    return ix.MDP.from_successors(successors, np.ones(successors.shape), np.full(size, 1 / size), discount=discount)


def test_two_state_cycle_is_decomposable_only_with_self_loops():
    assert not ix.is_decomposable(ix.envs.TwoStateCycle().mdp)
    assert ix.is_decomposable(ix.envs.TwoStateCycle(self_loops=True).mdp)


@pytest.mark.parametrize("stay", [False, True])
def test_a_grid_without_stay_falls_into_the_colours_of_a_checkerboard(stay):
    env = ix.envs.Gridworld.open(4, 5, bump="unavailable", stay=stay)
    component = env.to_board(ix.linked_components(env.mdp))
    colours = np.add.outer(np.arange(4), np.arange(5)) % 2
    assert ix.is_decomposable(env.mdp) == stay
    if not stay:
        assert len(set(zip(component.ravel(), colours.ravel(), strict=True))) == 2


def test_bumping_into_a_wall_is_a_stay():
    assert ix.is_decomposable(ix.envs.Gridworld.open(3, 3).mdp)


@pytest.mark.parametrize("seed", range(6))
def test_components_and_n_step_links_are_those_of_the_definition(seed):
    mdp = ix.envs.RandomMDP(7, 2, branching=1 + seed % 2, unavailable=0.3, seed=seed).mdp
    literal = literal_links(mdp)
    for steps in (1, 2, 3):
        np.testing.assert_array_equal(linked(mdp, steps), literal[steps - 1])
    component = ix.linked_components(mdp)
    same = component[:, None] == component[None, :]
    apart = ~np.eye(7, dtype=bool)
    np.testing.assert_array_equal(same[apart], literal[-1][apart])


def test_components_of_a_million_states():
    env = ix.envs.Gridworld.open(1000, 1000, bump="unavailable")
    component = ix.linked_components(env.mdp)
    assert component.max() == 1
    assert (component == 0).sum() == 500_000


@pytest.mark.parametrize(("size", "stay", "identified"), [(6, False, False), (6, True, True), (5, False, True)])
def test_rings_and_the_rank_condition_of_cao(size, stay, identified):
    mdp = ring(size, stay=stay)
    assert bool(cao_state_only(mdp)) == identified
    plan = ix.soft_plan(mdp, np.random.default_rng(0).normal(size=size))
    assert (ix.identify(mdp, ix.TabularReward("s"), plan).null_dim == 1) == identified


@pytest.mark.parametrize("seed", range(4))
def test_two_environments_identify_what_one_does_not(seed):
    one = ix.envs.RandomMDP(4, 3, seed=seed, discount=0.9).mdp
    other = ix.envs.RandomMDP(4, 3, seed=seed + 10, discount=0.8).mdp
    assert cao_two_environments(one, other)
    assert not cao_two_environments(one, one)
    assert rolland_experts([one, other])
    assert not rolland_experts([one])


def test_the_period_decides_for_deterministic_state_only_rewards_over_a_long_horizon():
    outcomes = set()
    for mdp in [ring(6, stay=False), ring(5, stay=False), ring(6, stay=True)] + [
        ix.envs.RandomMDP(4, 2, branching=1, seed=seed).mdp for seed in range(30)
    ]:
        try:
            passes = bool(kim_aperiodic(mdp))
        except ValueError as error:
            assert "strongly connected" in str(error)
            continue
        long = mdp.replace(horizon=20)
        found = ix.identify(long, ix.TabularReward("s"), ix.soft_plan(long, np.zeros(mdp.num_states)))
        assert (found.null_dim == 1) == passes
        outcomes.add(passes)
    assert outcomes == {True, False}
    with pytest.raises(ValueError, match="deterministic"):
        kim_aperiodic(ix.envs.RandomMDP(4, 2).mdp)


@pytest.mark.parametrize("with_constant", [False, True])
def test_with_features_one_expert_may_do_and_collinear_ones_never(with_constant):
    rng = np.random.default_rng(0)
    mdp = ix.envs.RandomMDP(5, 3, seed=1).mdp
    features = rng.normal(size=(5, 3, 3))
    if with_constant:
        features[..., 2] = 1.0
    assert rolland_experts([mdp], features)
    found = ix.identify(mdp, ix.LinearReward(features), ix.soft_plan(mdp, np.zeros(5)))
    assert found.kinds == (("constant",) if with_constant else ())
    features[..., 1] = 2 * features[..., 0]
    assert not rolland_experts([mdp, ix.envs.RandomMDP(5, 3, seed=2).mdp], features)
