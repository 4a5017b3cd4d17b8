"""Distances between rewards, against literal transcriptions of their definitions."""

import itertools

import numpy as np
import pytest

import irlax as ix
from irlax.analysis import epic_distance_of_samples, regret, starc_distance

S, A, GAMMA = 4, 3, 0.8
MDP = ix.envs.RandomMDP(S, A, discount=GAMMA).mdp


def reward(seed, over="sas"):
    return np.random.default_rng(seed).normal(size=(S, A, S)[: len(over)])


def literal_epic(first, second, weight, states, actions):
    """Definitions 4.1 and 4.2 of Gleave et al. (2020), with loops."""
    canonical = []
    for table in (first, second):

        def mean(s, table=table):
            return sum(actions[a] * states[x] * table[s, a, x] for a in range(A) for x in range(S))

        overall = sum(states[s] * mean(s) for s in range(S))
        canonical.append(
            np.array(
                [
                    table[s, a, x] + GAMMA * mean(x) - mean(s) - GAMMA * overall
                    for s, a, x in itertools.product(range(S), range(A), range(S))
                ]
            )
        )
    covariance = np.cov(np.stack(canonical), aweights=weight.ravel(), ddof=0)
    rho = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    return np.sqrt((1 - rho) / 2)


@pytest.mark.parametrize("seed", range(4))
def test_epic_is_the_literal_definition_under_any_coverage(seed):
    rng = np.random.default_rng(seed)
    one, two = reward(seed), reward(seed + 100)
    states, actions = rng.dirichlet(np.ones(S)), rng.dirichlet(np.ones(A))
    weight = rng.dirichlet(np.ones(S * A * S)).reshape(S, A, S)
    found = ix.epic_distance(MDP, one, two, transitions=weight, states=states, actions=actions)
    np.testing.assert_allclose(found, literal_epic(one, two, weight, states, actions), rtol=1e-10)
    uniform = literal_epic(one, two, np.ones((S, A, S)), np.full(S, 1 / S), np.full(A, 1 / A))
    np.testing.assert_allclose(ix.epic_distance(MDP, one, two), uniform, rtol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_epic_ignores_shaping_and_scale(seed):
    one, two = reward(seed), reward(seed + 100)
    potential = np.random.default_rng(seed).normal(size=S)
    copy = 3 * ix.shape(MDP, one, potential) + 2
    assert ix.epic_distance(MDP, one, copy) < 1e-9
    np.testing.assert_allclose(ix.epic_distance(MDP, copy, two), ix.epic_distance(MDP, one, two), rtol=1e-9)
    np.testing.assert_allclose(ix.epic_distance(MDP, one, -copy), 1, rtol=1e-9)


def test_epic_is_a_pseudometric():
    for seed in range(30):
        a, b, c = (reward(1000 * k + seed) for k in range(3))
        ab, bc, ac = (ix.epic_distance(MDP, x, y) for x, y in ((a, b), (b, c), (a, c)))
        assert ac <= ab + bc + 1e-12
        assert 0 <= ab <= 1
        np.testing.assert_allclose(ab, ix.epic_distance(MDP, b, a), rtol=1e-12)


def test_arrays_are_not_folded_before_comparing():
    one = reward(0)
    folded = np.einsum("sax,sax->sa", MDP.dynamics.to_dense(), one)
    assert ix.same_soft_policy(MDP, one, folded)
    assert ix.epic_distance(MDP, one, folded) > 0.05


def test_starc_is_zero_exactly_for_what_the_dynamics_cannot_tell_apart():
    one = reward(0)
    potential = np.random.default_rng(0).normal(size=S)
    folded = np.einsum("sax,sax->sa", MDP.dynamics.to_dense(), one)
    assert starc_distance(MDP, one, 5 * ix.shape(MDP, one, potential)) < 1e-9
    assert starc_distance(MDP, one, folded) < 1e-9
    assert starc_distance(MDP, one, reward(1)) > 0.1
    np.testing.assert_allclose(starc_distance(MDP, one, -one), 1, rtol=1e-9)


def test_epic_from_samples_approaches_the_exact_one():
    one, two = reward(0), reward(1)
    rng = np.random.default_rng(0)
    transitions = (rng.integers(S, size=1500), rng.integers(A, size=1500), rng.integers(S, size=1500))
    grid = np.array(list(itertools.product(range(A), range(S))))
    found = epic_distance_of_samples(
        lambda s, a, x: one[s, a, x],
        lambda s, a, x: two[s, a, x],
        transitions=transitions,
        states=grid[:, 1],
        actions=grid[:, 0],
        discount=GAMMA,
    )
    np.testing.assert_allclose(found, ix.epic_distance(MDP, one, two), atol=0.02)


def test_regret_is_the_return_lost_here_and_in_a_changed_world():
    truth, wrong = reward(0, "s"), -reward(0, "s")
    assert regret(MDP, 2 * truth, truth) < 1e-9
    changed = ix.envs.RandomMDP(S, A, discount=GAMMA, seed=9).mdp
    for mdp in (MDP, changed):
        best = max(
            ix.expected_return(mdp, np.eye(A)[list(actions)], truth)
            for actions in itertools.product(range(A), repeat=S)
        )
        got = ix.expected_return(mdp, ix.hard_plan(mdp, wrong).policy, truth)
        np.testing.assert_allclose(regret(mdp, wrong, truth), best - got, rtol=1e-9)
