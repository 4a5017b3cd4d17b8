"""Shaping, and rewards that want the same."""

import numpy as np
import pytest

import irlax as ix
from irlax.analysis import canonical, rescaling, same_hard_policy


def world(horizon=None, seed=0):
    rng = np.random.default_rng(seed)
    mdp = ix.envs.RandomMDP(4, 3, discount=0.8, horizon=horizon, seed=seed).mdp
    return mdp, rng.normal(size=(4, 3, 4)), rng.normal(size=4)


@pytest.mark.parametrize("seed", range(3))
def test_shaping_leaves_the_soft_policy_of_an_infinite_horizon(seed):
    mdp, reward, potential = world(seed=seed)
    shaped = ix.shape(mdp, reward, potential)
    np.testing.assert_allclose(ix.soft_plan(mdp, shaped).policy, ix.soft_plan(mdp, reward).policy, atol=1e-10)
    assert ix.same_soft_policy(mdp, reward, shaped)
    assert ix.same_soft_policy(mdp, reward, shaped, under="all")


def test_a_finite_horizon_keeps_its_policy_only_if_the_last_potential_is_dropped():
    mdp, reward, potential = world(horizon=3)
    plan = ix.soft_plan(mdp, reward)
    shaped = ix.soft_plan(mdp, ix.shape(mdp, reward, potential))
    assert np.abs(shaped.policy - plan.policy).max() > 1e-3
    # By hand, a last step that pays −Φ(s) alone: then every advantage is as before.
    dense = mdp.dynamics.to_dense()
    plain = np.einsum("sax,sax->sa", dense, reward)
    ahead = 0.8 * np.einsum("sax,x->sa", dense, potential) - potential[:, None]
    value = np.zeros(4)
    for t in reversed(range(3)):
        last = -potential[:, None] if t == 2 else ahead
        q = plain + last + 0.8 * np.einsum("sax,x->sa", dense, value)
        value = np.log(np.exp(q).sum(axis=1))
        np.testing.assert_allclose(np.exp(q - value[:, None]), plan.policy[t], atol=1e-10)


def test_rescaling_changes_the_soft_policy_and_not_the_hard_one():
    mdp, reward, potential = world(seed=2)
    scaled = 3 * ix.shape(mdp, reward, potential)
    assert not ix.same_soft_policy(mdp, reward, scaled)
    assert not ix.same_soft_policy(mdp, reward, scaled, under="all")
    assert same_hard_policy(mdp, reward, scaled)
    assert same_hard_policy(mdp, reward, scaled, under="all")
    assert not same_hard_policy(mdp, reward, -scaled)
    assert not same_hard_policy(mdp, reward, -scaled, under="all")


@pytest.mark.parametrize(("discount", "horizon"), [(0.9999, None), (0.9, 40)])
def test_a_constant_leaves_the_hard_policy_however_large_it_is(discount, horizon):
    rng = np.random.default_rng(5)
    transitions, reward = rng.dirichlet(np.ones(6), size=(6, 3)), rng.normal(size=(6, 3))
    mdp = ix.MDP.from_dense(transitions, np.eye(6)[0], discount=discount, horizon=horizon)
    for constant in (1e3, 1e6):
        assert same_hard_policy(mdp, reward, reward + constant)
        assert not same_hard_policy(mdp, reward, constant - reward)


def test_rewards_may_agree_under_these_dynamics_and_not_under_all():
    mdp = ix.envs.TwoStateCycle().mdp
    one, two = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    assert ix.same_soft_policy(mdp, one, two)
    assert not ix.same_soft_policy(mdp, one, two, under="all")


def test_the_canonical_reward_is_the_same_for_all_shapings_and_is_itself_a_shaping():
    mdp, reward, potential = world(seed=3)
    representative = canonical(mdp, reward)
    np.testing.assert_allclose(canonical(mdp, ix.shape(mdp, reward, potential)), representative, atol=1e-12)
    np.testing.assert_allclose(canonical(mdp, representative), representative, atol=1e-12)
    assert ix.same_soft_policy(mdp, representative, reward)


def test_causal_entropy_falls_as_the_reward_is_scaled_up():
    mdp, reward, _ = world(seed=4)
    entropy = [row[1] for row in rescaling(mdp, reward).rows]
    assert np.all(np.diff(entropy) < 0)
