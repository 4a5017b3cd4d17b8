import jax.random as jr
import numpy as np
import pytest
from matplotlib import image

from irlax.envs import Absorbing, CartPole, collect, make
from irlax.envs.strips import save_strip, strip
from tests.envs.policies import Uniform


@pytest.mark.parametrize("name", ["cartpole", "pendulum", "mountain-car", "acrobot", "point-maze", "gridworld"])
def test_an_episode_is_drawn_at_a_few_times(name, tmp_path):
    env = make(name, horizon=5)
    demos = collect(env, Uniform(env.actions), 2, key=jr.key(0))
    figure = strip(env, demos, episode=1, frames=3)
    assert [ax.get_title() for ax in figure.axes] == ["t = 0", "t = 2", "t = 4"]
    assert all(ax.lines for ax in figure.axes)
    save_strip(tmp_path / "strip.png", env, demos, frames=2)
    picture = image.imread(tmp_path / "strip.png")
    # Not blank, and not one picture twice.
    assert np.unique(picture.reshape(-1, picture.shape[-1]), axis=0).shape[0] > 3


def test_the_absorbing_state_is_written():
    env = Absorbing(CartPole(horizon=60))
    demos = collect(env, Uniform(env.actions), 1, key=jr.key(0))
    last = strip(env, demos, frames=2).axes[-1]
    assert [text.get_text() for text in last.texts] == ["ended"]


def test_what_cannot_be_drawn_is_refused():
    env = make("risky-path", horizon=5)
    demos = collect(env, Uniform(env.actions), 1, key=jr.key(0))
    with pytest.raises(ValueError, match="needs a layout"):
        strip(env, demos)
    with pytest.raises(ValueError, match=r"`episodes` must lie in 0\.\.0"):
        strip(env, demos, episode=1)
