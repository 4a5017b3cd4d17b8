"""Termination bias, and the two wrappers against it."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.envs import (
    Absorbing,
    CartPole,
    FixedHorizon,
    Pendulum,
    Tabular,
    check_demos,
    collect,
    refuse_variable_length,
)
from irlax.envs.absorbing import cut_where_still
from tests.envs.policies import Always, Uniform

HORIZON = 40


@pytest.fixture(scope="module")
def terminating():
    env = CartPole(horizon=HORIZON)
    return env, collect(env, Uniform(env.actions), 5, key=jr.key(0))


@pytest.mark.parametrize("wrapper", [Absorbing, FixedHorizon])
def test_padded_demonstrations_are_what_the_wrapped_environment_shows(wrapper, terminating):
    """The same keys give the same episodes, inside and outside; after the end only actions are drawn anew."""
    env, inner = terminating
    wrapped = wrapper(env)
    shown = collect(wrapped, Ignoring(Uniform(env.actions), env.observation_size), 5, key=jr.key(0))
    padded = wrapped.pad(inner, key=jr.key(1))
    check_demos(wrapped, padded)
    refuse_variable_length(wrapped, padded)
    for name in ("observations", "next_observations", "rewards", "times", "terminated", "offsets"):
        np.testing.assert_array_equal(getattr(padded, name), getattr(shown, name), err_msg=name)
    before = np.concatenate([np.arange(HORIZON) < length for length in inner.lengths])
    np.testing.assert_array_equal(padded.actions[before], inner.actions)
    assert 0.3 < padded.actions[~before].mean() < 0.7
    assert inner.terminated.any() and (padded.returns == inner.returns).all()


class Ignoring(eqx.Module):
    """A policy that looks only at what the environment inside shows."""

    policy: Uniform
    size: int

    def __call__(self, observation, *, key):
        return self.policy(observation[: self.size], key=key)


def test_the_indicator_tells_the_absorbing_state(terminating):
    env, inner = terminating
    padded = Absorbing(env).pad(inner, key=jr.key(0))
    indicator = padded.observations[:, -1]
    assert set(indicator) == {0, 1} and not padded.observations[indicator == 1, :-1].any()
    first = [int(np.argmax(indicator[k * HORIZON : (k + 1) * HORIZON])) for k in range(5) if inner.terminated[k]]
    assert first == inner.lengths[inner.terminated].tolist()
    # The step that ends an episode leads into it.
    assert (padded.next_observations[:-1, -1] == 1).sum() >= (indicator == 1).sum()


def test_truncated_episodes_are_not_carried_on(terminating):
    env, inner = terminating
    cut = dataclasses.replace(inner, terminated=np.zeros(5, bool))
    padded = Absorbing(env).pad(cut, key=jr.key(0))
    assert (padded.lengths == inner.lengths).all() and not padded.observations[:, -1].any()


def test_demonstrations_that_stand_still_are_cut_where_they_ended(terminating):
    """What `FixedHorizon` shows, cut, is what the environment inside shows; what never fell is whole."""
    env, inner = terminating
    cut = cut_where_still(collect(FixedHorizon(env), Uniform(env.actions), 5, key=jr.key(0)))
    for name in ("observations", "next_observations", "rewards", "actions", "terminated", "offsets"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(inner, name), err_msg=name)
    swings = collect(Pendulum(horizon=HORIZON), Uniform(Pendulum().actions), 2, key=jr.key(0))
    assert (cut_where_still(swings).lengths == HORIZON).all() and not cut_where_still(swings).terminated.any()


def test_variable_lengths_are_refused_with_the_reason_and_both_cures(terminating):
    env, inner = terminating
    with pytest.raises(ValueError, match=r"termination bias.*`envs.Absorbing`.*`envs.FixedHorizon`"):
        refuse_variable_length(env, inner)
    with pytest.raises(ValueError, match=r"are terminated.*`envs.Absorbing` or `envs.FixedHorizon`"):
        refuse_variable_length(FixedHorizon(CartPole(horizon=HORIZON)), inner)
    refuse_variable_length(Pendulum(), collect(Pendulum(), Uniform(Pendulum().actions), 1, key=jr.key(0)))


def test_only_what_can_be_carried_on_is_wrapped_or_padded(as_a_user, terminating):
    env, inner = terminating
    with pytest.raises(TypeError, match="after_end='absorbing'"):
        Absorbing(ix.envs.make("gymnasium:CartPole-v1"))
    with pytest.raises(ValueError, match="need `observations` and `next_observations`"):
        FixedHorizon(env).pad(dataclasses.replace(inner, next_observations=None), key=jr.key(0))


# An agent that lives in state 0, where it may stay (0) or leave (1) for the end, state 1.
STAY, LEAVE = 0, 1


def lives_and_leaves(reward_alive, reward_end):
    mdp = ix.MDP.from_dense(
        [[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [1, 0], discount=1.0, horizon=20, available=[[True, True], [True, False]]
    )
    return mdp, np.array([reward_alive, reward_end])


@pytest.mark.parametrize("sign", [1, -1])
def test_without_a_reward_after_the_end_the_sign_decides_whatever_the_parameters(sign):
    """Where the end counts as 0, a reward forced positive stays and one forced negative leaves, for every θ."""
    for theta in (-3.0, -1.0, 0.0, 1.0, 3.0):
        # Beyond log 2 for each step, which is what the entropy of two actions can be worth.
        forced = sign * (np.log1p(np.exp(theta)) + np.log(2))
        policy = ix.soft_plan(*lives_and_leaves(forced, 0.0)).policy
        assert (policy[:-1, 0, STAY] > 0.5).all() if sign > 0 else (policy[:-1, 0, LEAVE] > 0.5).all()


@pytest.mark.parametrize("action, end_is", [(STAY, "low"), (LEAVE, "high")])
def test_the_learned_reward_of_the_end_is_low_for_who_survives_and_high_for_who_seeks_it(action, end_is):
    """Demonstrations of a terminating environment, padded with its absorbing state, whose reward is then learned."""
    mdp, reward = lives_and_leaves(0.0, 0.0)
    env = Tabular(mdp, reward, terminates=True)
    mostly = Mostly(action)
    padded = Absorbing(env).pad(collect(env, mostly, 50, key=jr.key(0)), key=jr.key(1))
    # The absorbing state of the wrapper stands for the MDP's, in which there is one action.
    states = padded.observations[:, -1].astype(int).reshape(50, 20)
    actions = np.where(states == 1, 0, padded.actions.reshape(50, 20))
    demos = ix.Demonstrations.from_arrays(states, actions)
    fit = ix.MCEIRL(l2=0.01).fit(mdp, ix.LinearReward(np.eye(2)), demos)
    alive, end = fit.reward.weights
    assert end < alive if end_is == "low" else end > alive


class Mostly(eqx.Module):
    action: int

    def __call__(self, observation, *, key):
        return jnp.where(jax.random.bernoulli(key, 0.95), self.action, 1 - self.action)


def test_an_ended_world_stands_still_and_pays_nothing():
    env = FixedHorizon(CartPole(horizon=HORIZON))
    demos = collect(env, Always(jnp.array(1)), 1, key=jr.key(0))
    fell = int(demos.rewards.sum())
    assert fell < HORIZON and not demos.rewards[fell:].any()
    assert (demos.observations[fell:] == demos.observations[fell]).all()
