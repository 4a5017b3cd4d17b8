"""Gymnasium's environments as ours, and our rewards as Gymnasium's."""

import warnings

import equinox as eqx
import gymnasium as gym
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from irlax.envs import GymnasiumEnvironment, RewardWrapper, collect, evaluate, make, refuse_variable_length
from irlax.networks import Normaliser
from irlax.rewards import RewardNet
from irlax.spaces import Discrete
from tests.envs.counts import Counts
from tests.envs.policies import Always, Uniform


def test_copies_are_reset_where_they_end_and_the_final_observation_is_kept():
    made = []
    env = GymnasiumEnvironment(lambda: made.append(Counts()) or made[-1], 2, horizon=10)
    assert env.reset(seed=0).tolist() == [[0], [0]]
    for t in (1, 2):
        after = env.step(np.array([0, 1]))
        assert after.observation.tolist() == after.final_observation.tolist() == [[t], [t]]
        assert not after.terminated.any() and not after.truncated.any()
    after = env.step(np.array([0, 1]))
    assert after.final_observation.tolist() == [[3], [3]] and after.observation.tolist() == [[0], [0]]
    assert after.terminated.all() and not after.truncated.any() and after.reward.tolist() == [3, 3]
    # Their first action is 5.
    assert [copy.seen for copy in made[-2:]] == [[5, 5, 5], [6, 6, 6]]


def test_the_time_limit_truncates_and_an_end_at_the_limit_terminates():
    env = GymnasiumEnvironment(lambda: Counts(ends=False), horizon=3)
    env.reset(seed=0)
    steps = [env.step(np.array([0])) for _ in range(4)]
    assert [bool(step.truncated[0]) for step in steps] == [False, False, True, False]
    assert steps[2].final_observation.tolist() == [[3]] and steps[3].observation.tolist() == [[1]]
    env = GymnasiumEnvironment(Counts, horizon=3)
    env.reset(seed=0)
    last = [env.step(np.array([0])) for _ in range(3)][-1]
    assert last.terminated[0] and not last.truncated[0]


@pytest.mark.parametrize("after_end, shown", [("absorbing", [0.0, 1.0]), ("fixed-horizon", [3.0])])
def test_what_follows_an_end_is_shown_up_to_the_horizon(after_end, shown):
    env = GymnasiumEnvironment(Counts, 2, horizon=6, after_end=after_end)
    demos = collect(env, Always(jnp.array(1)), 3, key=jr.key(0))
    assert demos.lengths.tolist() == [6, 6, 6] and not demos.terminated.any() and env.fixed_horizon
    assert demos.next_observations[2:6].tolist()[1:] == [shown] * 3 and demos.rewards[:6].tolist() == [1, 2, 3, 0, 0, 0]
    refuse_variable_length(env, demos)


def test_episodes_of_an_id_are_what_gymnasium_itself_plays():
    env = make("gymnasium:CartPole-v1", num_envs=2)
    demos = collect(env, Always(jnp.array(1)), 3, key=jr.key(0))
    assert demos.terminated.all() and (demos.returns == demos.lengths).all() and demos.num_episodes == 3
    assert not env.fixed_horizon and env.horizon == 500
    theirs = gym.make("CartPole-v1").unwrapped
    theirs.reset(seed=0)
    theirs.state = demos.observations[0].astype(float)
    for after in demos.next_observations[: demos.lengths[0]]:
        np.testing.assert_allclose(theirs.step(1)[0], after, rtol=1e-4, atol=1e-5)


def test_continuous_actions_are_clipped_and_evaluated():
    env = make("gymnasium:Pendulum-v1", horizon=20)
    assert env.horizon == 20 and env.fixed_horizon and env.actions.high.tolist() == [2]
    found = evaluate(env, Uniform(env.actions), num=2, key=jr.key(0))
    assert found.shape == (2,) and (found < 0).all()
    env.reset(seed=0)
    wild = env.step(np.array([[100.0]]))
    env.reset(seed=0)
    assert wild.reward == env.step(np.array([[2.0]])).reward
    with pytest.raises(ValueError, match="`actions` must be finite"):
        env.step(np.array([[np.nan]]))
    env.close()


def learned(observation, action, after):
    return jnp.sum(after) - 2.0 * observation[0]


def test_a_learned_reward_passes_gymnasiums_own_checks():
    env = RewardWrapper(gym.make("CartPole-v1").unwrapped, learned)
    with warnings.catch_warnings():
        # That a wrapper is a wrapper, and that a class is not registered.
        warnings.filterwarnings("ignore", category=UserWarning, module="gymnasium")
        check_env(env, skip_render_check=True)
    before, _ = env.reset(seed=0)
    after, paid, _, _, info = env.step(1)
    assert type(paid) is float and info["true_reward"] == 1
    np.testing.assert_allclose(paid, after.sum() - 2 * before[0], rtol=1e-5)


class PaysAfterTheEnd:
    after_end = -3.0

    def __call__(self, observation, action, after):
        return 1.0


def test_a_learned_reward_is_given_relative_to_that_after_the_end():
    for options, expected in (({}, 4.0), ({"scale": 0.5}, 2.0)):
        env = RewardWrapper(gym.make("CartPole-v1"), PaysAfterTheEnd(), **options)
        env.reset(seed=0)
        assert env.step(0)[1] == expected


def test_a_network_pays_what_it_pays_outside():
    network = eqx.filter_jit(RewardNet(width=4, depth=1).init)(Normaliser.init(4), Discrete(2), key=jr.key(0))
    network = eqx.tree_at(lambda it: it.end, network, jnp.float32(-2.0), is_leaf=lambda leaf: leaf is None)
    env = RewardWrapper(gym.make("CartPole-v1"), network)
    before, _ = env.reset(seed=0)
    after, paid, *_ = env.step(1)
    assert paid == pytest.approx(float(network(before, np.int32(1), after)) + 2, rel=1e-5)


def test_a_learned_reward_must_be_one_finite_number():
    env = RewardWrapper(gym.make("CartPole-v1"), lambda observation, action, after: np.nan)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="one finite number, but gave array"):
        env.step(0)


SPACES = gym.spaces


@pytest.mark.parametrize(
    "options, message",
    [
        ({"observation_space": SPACES.Discrete(3)}, r"flat Box of floats, but the space is Discrete\(3\)"),
        ({"observation_space": SPACES.Box(0, 1, (2, 2))}, "FlattenObservation"),
        ({"observation_space": SPACES.Box(0, 255, (3,), np.uint8)}, "flat Box of floats"),
        ({"action_space": SPACES.MultiDiscrete([2, 2])}, "Discrete or a flat Box of floats"),
        ({"action_space": SPACES.Box(-np.inf, np.inf, (2,))}, "Actions must be bounded.*RescaleAction"),
    ],
)
def test_spaces_that_are_not_supported_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GymnasiumEnvironment(lambda: Counts(**options), horizon=5)


def test_bad_input_is_refused(as_a_user):
    with pytest.raises(ValueError, match=r"no Gymnasium environment 'CartPool-v1'.*CartPole"):
        make("gymnasium:CartPool-v1")
    with pytest.raises(ValueError, match="no time limit; say"):
        GymnasiumEnvironment(Counts)
    with pytest.raises(ValueError, match="`after_end` must be one of"):
        GymnasiumEnvironment(Counts, horizon=5, after_end="stop")
    with pytest.raises(TypeError, match="callable as reward"):
        RewardWrapper(Counts(), 3.0)
    with pytest.raises(ValueError, match="`scale` must be above 0"):
        RewardWrapper(Counts(), PaysAfterTheEnd(), scale=0.0)
    with pytest.raises(TypeError, match="or a function that makes one"):
        GymnasiumEnvironment(Counts(), horizon=5)
    env = GymnasiumEnvironment(lambda: Counts(shows=np.nan), horizon=5)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"Counts gave an observation with NaN .* from its step\(\)"):
        env.step(np.array([0]))
    with pytest.raises(ValueError, match=r"`actions` must lie in 0\.\.1"):
        env.step(np.array([2]))
    with pytest.raises(ValueError, match=r"`actions` must have shape \(1\)"):
        env.step(np.array([0, 1]))
