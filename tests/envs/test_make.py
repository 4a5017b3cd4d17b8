"""Environments by name, those of other libraries, and demonstrations that fit them or not."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.envs import NAMES, AbstractEnvironment, check_demos, collect, make
from tests.envs.policies import Uniform


@pytest.mark.parametrize("name", NAMES)
def test_every_name_gives_an_environment_with_a_fixed_horizon(name):
    env = make(name, horizon=9)
    assert isinstance(env, AbstractEnvironment) and env.fixed_horizon and env.horizon == 9
    state, observation = jax.eval_shape(env.reset, key=jr.key(0))
    assert observation.shape == (env.observation_size,) and observation.dtype == jnp.float32
    action = jax.eval_shape(lambda: Uniform(env.actions)(jnp.zeros(env.observation_size), key=jr.key(0)))
    step = jax.eval_shape(env.step, state, action, key=jr.key(0))
    # What is carried keeps its types, so that a rollout is one scan.
    assert jax.tree.map(lambda x: (x.shape, x.dtype), step.state) == jax.tree.map(lambda x: (x.shape, x.dtype), state)
    assert step.observation.shape == observation.shape and step.reward.shape == ()
    assert step.reward.dtype == jnp.float32 and step.terminated.dtype == step.truncated.dtype == bool


@pytest.mark.parametrize(
    "name, message",
    [
        ("cart_pole", "Did you mean 'cartpole'"),
        ("MountainCar", "Did you mean 'mountain-car'"),
        ("gymnasium", "Did you mean 'gymnasium:'"),
        ("zzz", "There is no environment 'zzz'. There are cartpole, pendulum"),
    ],
)
def test_unknown_names_are_met_with_close_ones(name, message):
    with pytest.raises(ValueError, match=message):
        make(name)


def test_options_reach_the_environment(as_a_user):
    assert make("point-maze", wall="right").wall == "right"
    assert make("gridworld", layout=["SG"], horizon=4).observation_size == 2
    assert not make("cliff", terminates=True).fixed_horizon
    with pytest.raises(TypeError, match="wal"):
        make("point-maze", wal="right")
    with pytest.raises(TypeError, match="must be the name of an environment"):
        make(3)


@pytest.mark.parametrize("name", ["gymnax:CartPole-v1", "brax:ant"])
def test_a_library_that_is_not_installed_is_named_with_the_cure(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name.split(":")[0], None)
    with pytest.raises(ImportError, match=r"cannot be imported .* `pip install irlax\[envs\]`"):
        make(name)


def test_gymnax_plays_the_same_cartpole_as_we_do():
    pytest.importorskip("gymnax", reason="gymnax is in the extra `envs`", exc_type=ImportError)
    theirs = make("gymnax:CartPole-v1", horizon=20)
    demos = collect(theirs, Uniform(theirs.actions), 4, key=jr.key(0))
    ours = collect(ix.envs.CartPole(horizon=20), Uniform(theirs.actions), 4, key=jr.key(0))
    np.testing.assert_allclose(demos.observations, ours.observations, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(demos.terminated, ours.terminated)
    with pytest.raises(ValueError, match="no gymnax environment 'Nope'"):
        make("gymnax:Nope")


# What brax stands on warns of its own age.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_brax_environments_roll_out():
    pytest.importorskip("brax", reason="brax is in the extra `envs`", exc_type=ImportError)
    env = make("brax:fast", horizon=5)
    demos = collect(env, Uniform(env.actions), 2, key=jr.key(0))
    check_demos(env, demos)
    assert demos.lengths.tolist() == [5, 5] and not demos.terminated.any()
    with pytest.raises(ValueError, match="no brax environment 'nope'"):
        make("brax:nope")


@pytest.fixture(scope="module")
def walks():
    env = make("point-maze", horizon=4)
    return env, collect(env, Uniform(env.actions), 2, key=jr.key(0))


def changed(array, value):
    array = array.copy()
    array[5] = value
    return array


@pytest.mark.parametrize(
    "field, change, error, message",
    [
        ("observations", lambda x: x[:, :1], ValueError, r"`observations` must have shape \(8, 2\)"),
        (
            "observations",
            lambda x: changed(x, np.nan),
            ValueError,
            r"observations must be finite, but row 5 \(episode 1, t",
        ),
        ("next_observations", lambda x: changed(x, np.inf), ValueError, "next_observations must be finite"),
        ("rewards", lambda x: changed(x, np.inf), ValueError, "rewards must be finite"),
        ("actions", lambda x: changed(x, 1.5), ValueError, r"action must lie in \[-1, 1\], \[-1, 1\], but row 5"),
        ("actions", lambda x: x[:, :1], ValueError, r"`actions` must have shape \(8, 2\)"),
        ("actions", lambda x: np.zeros(8, int), TypeError, "continuous actions, but the demonstrations' are int64"),
        ("times", lambda x: x + 1, ValueError, "time must lie below the horizon 4"),
        ("observations", lambda x: None, TypeError, r"Collect them in the environment"),
    ],
)
def test_demonstrations_that_do_not_fit_are_refused(walks, field, change, error, message):
    env, demos = walks
    check_demos(env, demos)
    with pytest.raises(error, match=message):
        check_demos(env, dataclasses.replace(demos, **{field: change(getattr(demos, field))}))


def test_discrete_actions_that_do_not_fit_are_refused(as_a_user, walks):
    env, demos = make("two-state-cycle", horizon=4), walks[1]
    seen = np.eye(2)[np.zeros(8, int)]
    demos = dataclasses.replace(demos, observations=seen, next_observations=seen)
    with pytest.raises(TypeError, match="2 discrete actions, but the demonstrations' are float32"):
        check_demos(env, demos)
    with pytest.raises(ValueError, match=r"action must lie in 0\.\.1, but row 5 .* has 2"):
        check_demos(env, dataclasses.replace(demos, actions=changed(np.zeros(8, int), 2)))
    with pytest.raises(TypeError, match="`demos` must be Demonstrations"):
        check_demos(env, [demos])
