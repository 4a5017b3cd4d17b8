"""Experience: ends kept apart, true last observations, and what exploration may and may not touch."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.envs.environment import AbstractEnvironment, Step
from irlax.rl.policies import init_policy
from irlax.rl.ppo import generalised_advantage
from irlax.rl.rollout import begin, collect, spread_out
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

    def reset(self, key):
        return jnp.zeros(2, jnp.int32), jnp.zeros(2)

    def step(self, key, state, action):
        state = jnp.stack([state[0] + 1, jnp.where(state[0] == 0, action, state[1])]).astype(jnp.int32)
        terminated = (state[0] == 3) & (state[1] == 1)
        return Step(state, state.astype(jnp.float32), jnp.ones(()), terminated, (state[0] >= 5) & ~terminated)


ENV = Clock()
POLICY = init_policy(Discrete(2), 2, width=4, depth=1, activation="tanh", key=jr.key(0))


@eqx.filter_jit
def experience(share):
    runners = jax.vmap(lambda key: begin(ENV, share, key))(jr.split(jr.key(1), 6))
    return collect(ENV, POLICY, runners, length=40, share=share, key=jr.key(2))


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


def test_environments_begin_at_different_times():
    runners = eqx.filter_jit(lambda key: spread_out(ENV, 40, key=key))(jr.key(3))
    times = np.asarray(runners.state[:, 0])
    assert set(times) == {0, 1, 2, 3, 4}
    assert not np.asarray(runners.tracker.own).any()


def test_advantages_are_the_sums_written_out():
    rng = np.random.default_rng(0)
    reward, value, after = rng.normal(size=(3, 6, 2)).astype(np.float32)
    ends = rng.integers(4, size=(6, 2))
    terminated, truncated, discount, gae = ends == 0, ends == 1, 0.9, 0.8
    found = generalised_advantage(
        *map(jnp.asarray, (reward, value, after, terminated, truncated)), discount=discount, gae=gae
    )
    for n in range(2):
        for t in range(6):
            total, weight = 0.0, 1.0
            for k in range(t, 6):
                ahead = 0.0 if terminated[k, n] else discount * after[k, n]
                total += weight * (reward[k, n] + ahead - value[k, n])
                weight *= discount * gae
                if terminated[k, n] or truncated[k, n]:
                    break
            assert np.isclose(found[t, n], total, atol=1e-5)
