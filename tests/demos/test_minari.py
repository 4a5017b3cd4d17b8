import sys

import gymnasium as gym
import numpy as np
import pytest

from irlax.demos import from_minari, to_minari
from irlax.demos.demonstrations import from_rows


def walks(actions):
    """Two episodes of 2 and 3 steps, the second terminated."""
    seen = np.arange(14.0, dtype=np.float32).reshape(7, 2)
    return from_rows(
        None,
        actions,
        np.array([2, 3]),
        terminated=np.array([False, True]),
        observations=seen[[0, 1, 3, 4, 5]],
        next_observations=seen[[1, 2, 4, 5, 6]],
        rewards=np.arange(5.0),
    )


@pytest.fixture
def minari(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return pytest.importorskip("minari", reason="minari is in the extra `minari`", exc_type=ImportError)


@pytest.mark.parametrize("actions", [np.array([0, 1, 2, 1, 0]), np.linspace(-1, 1, 5, dtype=np.float32)[:, None]])
def test_what_is_written_is_read_back(minari, actions):
    demos = walks(actions)
    to_minari(demos, "irlax/walks-v0", author="us")
    back = from_minari("irlax/walks-v0")
    for name in ("observations", "next_observations", "actions", "rewards", "terminated", "offsets"):
        np.testing.assert_array_equal(getattr(back, name), getattr(demos, name), err_msg=name)
    episode = minari.load_dataset("irlax/walks-v0")[0]
    assert episode.truncations.tolist() == [False, True] and not episode.terminations.any()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning")
def test_a_dataset_that_minari_collected_itself_loads(minari):
    env = minari.DataCollector(gym.make("CartPole-v1"), data_format="arrow")
    env.action_space.seed(0)
    for seed in range(3):
        env.reset(seed=seed)
        while not any(env.step(env.action_space.sample())[2:4]):
            pass
    dataset = env.create_dataset("cartpole/random-v0")
    env.close()
    demos = from_minari(dataset)
    assert demos.num_episodes == 3 and demos.terminated.all() and (demos.returns == demos.lengths).all()
    assert demos.observations.shape == (demos.num_steps, 4)


def test_a_dataset_that_is_not_there_is_named(minari):
    with pytest.raises(ValueError, match=r"no Minari dataset 'nope-v0' on this machine .*minari download nope-v0"):
        from_minari("nope-v0")


def test_without_minari_the_cure_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ImportError, match=r"pip install irlax\[minari\]"):
        from_minari("x-v0")
