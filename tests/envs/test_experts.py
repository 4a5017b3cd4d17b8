import re

import gymnasium as gym
import numpy as np
import pytest

from irlax import envs
from irlax.demos import npz
from irlax.demos.demonstrations import from_rows
from irlax.envs import expert_demos, experts


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    demos = from_rows(
        None, np.zeros(3, int), np.array([1, 2]), observations=np.zeros((3, 4)), rewards=np.array([1.0, 2.0, 3.0])
    )
    npz.save(tmp_path / "mountain-car.npz", demos)
    monkeypatch.setattr(experts, "_FOLDER", tmp_path)


def test_a_file_that_ships_is_read_with_its_returns(shipped):
    assert expert_demos("mountain-car").returns.tolist() == [1, 5]


def test_a_name_without_a_file_is_met_with_those_that_have_one(shipped, as_a_user):
    with pytest.raises(ValueError, match=r"for 'mountain_car'. Did you mean 'mountain-car'\?.*envs.collect"):
        expert_demos("mountain_car")
    with pytest.raises(TypeError, match="must be the name of an environment"):
        expert_demos(1)


#: Gymnasium's own environments, and the state that an observation tells; after its end ours stands still.
SIMULATORS = {
    "cartpole": ("CartPole-v1", lambda seen: seen),
    "pendulum": ("Pendulum-v1", lambda seen: np.array([np.arctan2(seen[1], seen[0]), seen[2]])),
    "mountain-car": ("MountainCar-v0", lambda seen: seen),
    "acrobot": (
        "Acrobot-v1",
        lambda seen: np.array([np.arctan2(seen[1], seen[0]), np.arctan2(seen[3], seen[2]), *seen[4:]]),
    ),
}
README = (experts._FOLDER / "README.md").read_text()


def paid_anew(name, demos, rows):
    """What Gymnasium pays for these steps, each from the observation on record, and what it shows after them."""
    env_id, state = SIMULATORS[name]
    env = gym.make(env_id).unwrapped
    env.reset(seed=0)
    ended, results = False, []
    for row in rows:
        if ended:
            results.append((0.0, demos.observations[row]))
            continue
        env.state = state(demos.observations[row].astype(float))
        shown, reward, ended, _, _ = env.step(demos.actions[row])
        results.append((float(reward), shown))
    rewards, shown = zip(*results, strict=True)
    return np.array(rewards), np.stack(shown)


@pytest.mark.parametrize("name", SIMULATORS)
def test_an_experts_steps_are_gymnasiums(name):
    demos = expert_demos(name)
    rows = range(demos.offsets[3], demos.offsets[4])
    rewards, shown = paid_anew(name, demos, rows)
    np.testing.assert_allclose(rewards, demos.rewards[rows], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(shown, demos.next_observations[rows], rtol=1e-3, atol=1e-4)


def test_an_experts_way_through_the_maze_pays_minus_the_distance():
    demos = expert_demos("point-maze")
    far = np.linalg.norm(demos.next_observations - [0.0, 0.6], axis=1)
    np.testing.assert_allclose(demos.rewards, -far, rtol=1e-4, atol=1e-5)
    x, y = demos.observations.T
    # Through the gap, which lies to the right of x = 0.3; each step is at most a stride in each coordinate.
    assert (x[np.abs(y) <= 0.05] > 0.3).all() and (np.abs(y) <= 0.05).any()
    assert np.abs(demos.next_observations - demos.observations).max() <= 0.05 + 1e-6


@pytest.mark.parametrize("name", [*SIMULATORS, "point-maze"])
def test_the_experts_that_ship_are_as_good_as_their_table_says(name):
    demos, env = expert_demos(name), envs.make(name)
    envs.check_demos(env, demos)
    envs.refuse_variable_length(env, demos)
    assert demos.num_episodes == 20 and (demos.lengths == env.horizon).all()
    assert demos.observations.dtype == demos.next_observations.dtype == demos.rewards.dtype == np.float32
    joined = np.flatnonzero(np.diff(demos.episode) == 0)
    assert (demos.next_observations[joined] == demos.observations[joined + 1]).all()
    stated = re.search(rf"^\| {name} \| (\S+) ± (\S+) \| (\S+) \|", README, re.MULTILINE)
    numbers = demos.returns.mean(), demos.returns.std(), demos.returns.min()
    assert stated.groups() == tuple(f"{number:.1f}" for number in numbers)
    assert (experts._FOLDER / f"{name}.npz").stat().st_size < 400_000


@pytest.mark.parametrize("name", [*SIMULATORS, "point-maze"])
def test_experts_are_shown_as_the_environment_shows_what_follows_the_end(name):
    demos, env = expert_demos(name, after_end="absorbing"), envs.make(name, after_end="absorbing")
    envs.check_demos(env, demos)
    assert isinstance(env, envs.Absorbing) == (name in ("cartpole", "mountain-car", "acrobot"))
    still = expert_demos(name)
    assert (demos.returns == still.returns).all() and (demos.lengths == env.horizon).all()
    if name in ("mountain-car", "acrobot"):
        # They pay −1 a step until the goal; the step that reaches it is free in Acrobot.
        over = np.arange(env.horizon) >= (name == "acrobot") - demos.returns[:, None]
        assert (demos.observations[:, -1].reshape(20, -1) == over).all()
        assert not demos.observations[over.ravel(), :-1].any()


def test_what_follows_the_end_is_one_of_two(as_a_user):
    with pytest.raises(ValueError, match="`after_end` must be one of"):
        expert_demos("acrobot", after_end="reset")
