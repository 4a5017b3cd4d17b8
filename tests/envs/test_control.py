"""Our dynamics against Gymnasium's own, and what our variants change."""

import functools

import gymnasium as gym
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from irlax.envs import Acrobot, CartPole, FixedHorizon, MountainCar, Pendulum, PointMaze, collect
from irlax.envs.timed import Timed
from tests.envs.policies import Always, RunUp, Uniform


def to_and_fro(observation, rng):
    """Push the way it swings, mostly: random actions alone never reach the goal."""
    return int(observation[-1] >= 0) * 2 if rng.random() < 0.9 else int(rng.integers(3))


CASES = {
    "CartPole-v1": (CartPole(), lambda seen, rng: int(rng.integers(2))),
    "Pendulum-v1": (Pendulum(), lambda seen, rng: rng.uniform(-3, 3, size=1).astype(np.float32)),
    "MountainCar-v0": (MountainCar(), to_and_fro),
    "Acrobot-v1": (Acrobot(), to_and_fro),
}


def gymnasium_steps(name, act, num=600):
    """(state, action, next state, observation, reward, terminated) of consecutive steps in several episodes."""
    env, rng, rows = gym.make(name).unwrapped, np.random.default_rng(0), []
    seen, _ = env.reset(seed=0)
    for _ in range(num):
        before, action = np.array(env.state, float), act(seen, rng)
        seen, reward, terminated, _, _ = env.step(action)
        rows.append((before, action, np.array(env.state, float), seen, float(reward), terminated))
        if terminated:
            seen, _ = env.reset()
    return [np.stack(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_every_step_is_gymnasiums(name):
    """To 1e-12 in float64; to 2e-6 of the largest entry in float32, in which we run."""
    env, act = CASES[name]
    before, action, after, seen, reward, terminated = gymnasium_steps(name, act)
    for double in (True, False):
        with jax.enable_x64(double):
            states = Timed(jnp.asarray(before, float), jnp.zeros(len(before), jnp.int32))
            step = jax.jit(jax.vmap(functools.partial(env.step, key=jr.key(0))))(states, action)
        close = {"rtol": 1e-12, "atol": 1e-12} if double else {"rtol": 2e-6, "atol": 2e-6 * np.abs(after).max()}
        np.testing.assert_allclose(step.state.inner, after, **close)
        np.testing.assert_allclose(step.reward, reward, **(close | {"atol": 2e-6 * np.abs(reward).max()}))
        # Gymnasium shows float32.
        np.testing.assert_allclose(step.observation, seen, rtol=2e-6, atol=2e-6 * np.abs(seen).max())
        assert (np.asarray(step.terminated) == terminated).all() and not np.asarray(step.truncated).any()
    assert terminated.any() == (name != "Pendulum-v1")


@pytest.mark.parametrize("name", CASES)
def test_starts_and_spaces_are_gymnasiums(name):
    env, theirs = CASES[name][0], gym.make(name)
    ours = np.asarray(jax.jit(jax.vmap(lambda key: env.start(key=key)))(jr.split(jr.key(1), 500)))
    starts = np.stack([np.ravel(theirs.unwrapped.state) for k in range(500) if theirs.reset(seed=k)])
    np.testing.assert_allclose(ours.min(axis=0), starts.min(axis=0), atol=0.05 * np.ptp(starts) + 1e-9)
    np.testing.assert_allclose(ours.max(axis=0), starts.max(axis=0), atol=0.05 * np.ptp(starts) + 1e-9)
    assert theirs.observation_space.shape == (env.observation_size,) and theirs.spec.max_episode_steps == env.horizon
    if isinstance(theirs.action_space, gym.spaces.Box):
        assert (env.actions.low == theirs.action_space.low).all() and (
            env.actions.high == theirs.action_space.high
        ).all()
    else:
        assert env.actions.num == theirs.action_space.n


def test_a_fixed_horizon_keeps_the_returns_and_hides_the_time_of_success():
    ends = collect(MountainCar(), RunUp(), 4, key=jr.key(0))
    fixed = collect(FixedHorizon(MountainCar()), RunUp(), 4, key=jr.key(0))
    assert ends.terminated.all() and len(set(ends.lengths.tolist())) > 1
    assert (fixed.lengths == 200).all() and not fixed.terminated.any()
    np.testing.assert_array_equal(fixed.returns, ends.returns)
    last = fixed.next_observations.reshape(4, 200, 2)
    for k, length in enumerate(ends.lengths):
        assert (last[k, length - 1 :] == last[k, length - 1]).all()
        # The same to rounding: they are two programs.
        np.testing.assert_allclose(last[k, length - 1], ends.next_observations[ends.offsets[k + 1] - 1], rtol=1e-5)


@pytest.mark.parametrize("wall, way_round", [("left", 1.0), ("right", -1.0)])
def test_the_barrier_is_open_on_the_side_without_the_wall(wall, way_round):
    """North alone is stopped by the barrier; east (or west) first, then north, gets to the goal's side."""
    env = PointMaze(wall=wall)
    step = jax.jit(jax.vmap(functools.partial(env.step, key=jr.key(0))))
    # Three walkers: straight north, round the open side, round the closed side.
    sides = np.array([0.0, way_round, -way_round])
    state, _ = jax.vmap(lambda key: env.reset(key=key))(jr.split(jr.key(0), 3))
    for t in range(40):
        action = np.stack([sides if t < 15 else np.zeros(3), np.zeros(3) if t < 15 else np.ones(3)], axis=1)
        after = step(state, action.astype(np.float32))
        state = after.state
    y = np.asarray(after.observation)[:, 1]
    assert y[1] > 0.1 and y[0] < -0.05 and y[2] < -0.05
    np.testing.assert_allclose(
        after.reward, -np.linalg.norm(np.asarray(after.observation) - [0, 0.6], axis=1), rtol=1e-5
    )


def test_nobody_walks_through_the_barrier_or_out_of_the_room():
    env = PointMaze()
    demos = collect(env, Uniform(env.actions), 100, key=jr.key(0))
    x, y = demos.next_observations.T
    inside = (x <= 0.3) & (np.abs(y) <= 0.05)
    assert not inside.any() and np.abs(demos.next_observations).max() <= 1
    demos = collect(env, Always(jnp.array([-1.0, 1.0])), 5, key=jr.key(0))
    np.testing.assert_array_equal(demos.next_observations[99::100, 0], -1.0)


def test_episodes_are_truncated_at_the_horizon_and_not_when_they_end_there():
    env = CartPole(horizon=3)
    step = jax.jit(functools.partial(env.step, key=jr.key(0)))
    fallen = jnp.array([2.41, 1.0, 0.0, 0.0])
    ended = step(Timed(fallen, jnp.array(2)), jnp.array(1))
    on = step(Timed(jnp.zeros(4), jnp.array(2)), jnp.array(1))
    assert ended.terminated and not ended.truncated
    assert on.truncated and not on.terminated


def test_a_wrong_wall_or_horizon_is_refused(as_a_user):
    with pytest.raises(ValueError, match="`horizon` must be at least 1"):
        CartPole(horizon=0)
    with pytest.raises(ValueError, match="`wall` must be one of 'left', 'right'"):
        PointMaze(wall="top")
