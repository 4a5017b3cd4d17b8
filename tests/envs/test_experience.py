"""Experience: ends kept apart, true last observations, and what exploration may and may not touch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.envs import HostStep
from irlax.envs.environment import AbstractEnvironment, Step
from irlax.envs.experience import Transition, collect_episodes, collect_steps, init_runner, init_runners
from irlax.envs.host import HostRunner
from irlax.envs.rollout import cut
from irlax.rl import SAC
from irlax.rl.policies import init_policy
from irlax.spaces import Discrete


class Clock(AbstractEnvironment):
    """Observes the time; terminates after 3 steps if the action of the first was 1, is truncated after 5."""

    horizon: int = eqx.field(static=True, default=5)
    fixed_horizon: bool = eqx.field(static=True, default=False)

    @property
    def observation_size(self):
        return 2

    @property
    def actions(self):
        return Discrete(2)

    def reset(self, *, key):
        return jnp.zeros(2, jnp.int32), jnp.zeros(2)

    def step(self, state, action, *, key):
        state = jnp.stack([state[0] + 1, jnp.where(state[0] == 0, action, state[1])]).astype(jnp.int32)
        terminated = (state[0] == 3) & (state[1] == 1)
        return Step(state, state.astype(jnp.float32), jnp.ones(()), terminated, (state[0] >= 5) & ~terminated)


ENV = Clock()
POLICY, POLICY_OF_ONE = (
    init_policy(Discrete(2), size, width=4, depth=1, activation="tanh", key=jr.key(0)) for size in (2, 1)
)


@eqx.filter_jit
def experience(share):
    runners = jax.vmap(lambda key: init_runner(ENV, share, key=key))(jr.split(jr.key(1), 6))
    return collect_steps(ENV, POLICY, runners, length=40, explore=share, key=jr.key(2))


def test_ends_are_apart_and_the_last_observation_is_the_true_one():
    _, batch, episodes = experience(0.0)
    time, after = np.asarray(batch.observation[..., 0]), np.asarray(batch.next_observation[..., 0])
    np.testing.assert_array_equal(after, time + 1)
    terminated, truncated = np.asarray(batch.terminated), np.asarray(batch.truncated)
    assert terminated.any() and truncated.any() and not (terminated & truncated).any()
    assert (after[terminated] == 3).all() and (after[truncated] == 5).all()
    ended = terminated | truncated
    assert (time[1:][ended[:-1]] == 0).all() and (time[1:][~ended[:-1]] == after[:-1][~ended[:-1]]).all()
    assert not np.asarray(batch.explored).any()
    assert episodes.count == ended.sum()
    assert np.isclose(episodes.mean, after[ended].mean())


def test_random_steps_come_first_and_their_episodes_are_not_counted():
    _, batch, episodes = experience(0.5)
    explored, time = np.asarray(batch.explored), np.asarray(batch.observation[..., 0])
    assert explored.any() and not explored.all()
    # Within an episode, a random step never follows one of the policy's.
    assert not (explored[1:] & ~explored[:-1] & (time[1:] > 0)).any()
    ended = np.asarray(batch.terminated | batch.truncated)
    assert 0 < episodes.count < ended.sum()


def test_random_actions_are_held_where_a_share_explores_and_drawn_anew_where_none_does():
    for explore, low, high in ((0.0, 0.4, 0.6), (0.1, 0.75, 1.0)):
        first = SAC(explore=explore).first_policy(ENV.actions)

        @eqx.filter_jit
        def taken(first, key):
            return collect_steps(ENV, first, init_runners(ENV, 6, first, key=key), length=60, key=key)[1].action

        actions = np.asarray(taken(first, jr.key(0)))
        assert low < (actions[1:] == actions[:-1]).mean() < high
        assert 0.3 < actions.mean() < 0.7


def test_environments_start_at_different_times():
    runners = eqx.filter_jit(lambda key: init_runners(ENV, 40, key=key))(jr.key(3))
    times = np.asarray(runners.state[:, 0])
    assert set(times) == {0, 1, 2, 3, 4}
    assert not np.asarray(runners.running.own).any()


def test_whole_episodes_start_at_the_start_and_are_not_restarted():
    batch = eqx.filter_jit(collect_episodes)(ENV, POLICY, 7, key=jr.key(4))
    time = np.asarray(batch.observation[..., 0])
    np.testing.assert_array_equal(time, np.broadcast_to(np.arange(5)[:, None], (5, 7)))
    assert np.asarray(batch.terminated).any() and not np.asarray(batch.explored).any()


def test_episodes_are_cut_where_they_ended():
    """Four environments whose episodes have lengths 2 and 3, 5, 1 and 1 and 2, and 4: each has its quota of them."""
    lengths, quota = [[2, 3], [5], [1, 1, 2, 1], [4, 1]], [2, 1, 3, 1]
    ended = np.zeros((5, 4), bool)
    for env, ends in enumerate(lengths):
        ended[np.cumsum(ends) - 1, env] = True
    number = np.arange(20).reshape(5, 4)
    seen = number[..., None].astype(np.float32)
    blank = np.zeros((5, 4), bool)
    batch = Transition(seen, number, 1.0 * number, seen, ended & (number % 2 == 0), ended, blank, 1.0 * number)
    episodes = cut(batch, np.array(quota))
    assert episodes.lengths.tolist() == [2, 3, 5, 1, 1, 2, 4]
    rows = [t * 4 + env for env, ends in enumerate(lengths) for t in range(sum(ends[: quota[env]]))]
    assert episodes.rows.action.tolist() == rows
    last = [rows[k] for k in np.cumsum(episodes.lengths) - 1]
    assert episodes.terminated.tolist() == [row % 2 == 0 for row in last]


class CountDown:
    """Copies on the host; episode k of copy i has i + k steps, k = 1, 2, …, of which the t-th pays t."""

    observation_size, horizon, actions = 1, 20, Discrete(2)

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def reset(self, seed):
        self.time, self.episode = np.zeros(self.num_envs), np.ones(self.num_envs)
        return self.time[:, None]

    def step(self, actions):
        self.time += 1
        final, reward = self.time[:, None].copy(), self.time.copy()
        ended = self.time >= np.arange(self.num_envs) + self.episode
        self.episode += ended
        self.time[ended] = 0
        return HostStep(self.time[:, None].copy(), final, reward, ended, np.zeros(self.num_envs, bool))


def test_the_host_collects_as_many_episodes_of_each_copy_as_are_wanted():
    quota = np.array([3, 1, 2])
    batch = HostRunner(CountDown(3), seed=0).collect_episodes(POLICY_OF_ONE, quota, key=jr.key(0))
    episodes = cut(batch, quota)
    lengths = [copy + k for copy in range(3) for k in range(1, quota[copy] + 1)]
    assert episodes.lengths.tolist() == lengths and episodes.terminated.all()
    expected = [time for length in lengths for time in range(1, length + 1)]
    assert episodes.rows.reward.tolist() == episodes.rows.next_observation[:, 0].tolist() == expected


class Counting:
    """A policy that no leaf of is an array; its code runs whenever it is compiled, and not in a step."""

    def __init__(self):
        self.compiled = 0

    def sample_and_log_prob(self, observation, *, key):
        self.compiled += 1
        return jr.randint(key, (), 0, 2), jnp.zeros(())


def test_a_policy_of_any_kind_is_compiled_once_for_all_steps_on_the_host():
    policy = Counting()
    HostRunner(CountDown(2), seed=0).collect_episodes(policy, np.array([3, 3]), key=jr.key(0))
    assert policy.compiled == 1


def test_steps_on_the_host_go_on_where_the_last_ones_stopped():
    runner = HostRunner(CountDown(2), seed=0)
    parts = [runner.collect_steps(POLICY_OF_ONE, 4, 0.0, key=jr.key(k)) for k in range(2)]
    time = np.concatenate([batch.observation[:, :, 0] for batch, _ in parts])
    np.testing.assert_array_equal(time[:, 0], [0, 0, 1, 0, 1, 2, 0, 1])
    np.testing.assert_array_equal(time[:, 1], [0, 1, 0, 1, 2, 0, 1, 2])
    # Returns are 1, 3, 6 … of episodes with 1, 2, 3 … steps, in the order of their ends.
    assert [returns for _, returns in parts] == [[1.0, 3.0, 3.0], [6.0, 6.0]]
