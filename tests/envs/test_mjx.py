"""MuJoCo inside JAX against Gymnasium's own environments."""

import re
import sys
from xml.etree import ElementTree

import equinox as eqx
import gymnasium as gym
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from irlax.envs import disabled_ant, make


@pytest.mark.parametrize(
    "name, options, error, message",
    [
        ("hoper", {}, ValueError, "no task 'hoper' of MuJoCo's here. There are hopper, walker2d"),
        ("hopper", {"contact_cost_weight": 1.0}, TypeError, "mjx:hopper has no option 'contact_cost_weight'. It has"),
        ("hopper", {"horizontal": 2}, TypeError, "has no option 'horizontal'"),
        ("ant", {"frame_skip": 0}, ValueError, "`frame_skip` must be at least 1"),
        ("ant", {"iterations": 0}, ValueError, "`iterations` must be at least 1"),
        ("ant", {"after_end": "stop"}, ValueError, "`after_end` must be one of"),
        ("ant", {"xml_file": "nowhere.xml"}, ValueError, "`xml_file` must be the path of a model"),
    ],
)
def test_bad_input_is_refused(name, options, error, message, as_a_user):
    with pytest.raises(error, match=message):
        make(f"mjx:{name}", **options)


def test_without_mujoco_the_cure_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match=r"MJX cannot be imported .* `pip install irlax\[mjx\]`"):
        make("mjx:hopper")


def test_the_disabled_ant_has_two_short_weak_legs_and_is_otherwise_the_ant(tmp_path):
    ant = gym.__path__[0] + "/envs/mujoco/assets/ant.xml"
    whole, disabled = (ElementTree.parse(path).getroot() for path in (ant, disabled_ant(tmp_path / "ant.xml")))
    gears = [[motor.get("gear") for motor in root.iter("motor")] for root in (whole, disabled)]
    assert gears == [["150"] * 8, ["1", "1", "150", "150", "150", "150", "1", "1"]]
    reach = [{geom.get("name"): reach_of(geom) for geom in root.iter("geom")} for root in (whole, disabled)]
    shrunk = {name for name in reach[0] if reach[1][name] != reach[0][name]}
    assert shrunk == {"back_leg_geom", "third_ankle_geom", "rightback_leg_geom", "fourth_ankle_geom"}
    assert all(reach[1][name] == pytest.approx(reach[0][name] / 2) for name in shrunk)
    texts = [re.sub(r"[-\d. ]+", " ", ElementTree.tostring(root, encoding="unicode")) for root in (whole, disabled)]
    assert texts[0] == texts[1]


def reach_of(geom):
    numbers = [float(number) for number in geom.get("fromto", "0 0 0 0 0 0").split()]
    return float(np.linalg.norm(np.subtract(numbers[3:], numbers[:3])))


@pytest.fixture(scope="module")
def hopper():
    # The class that imports MuJoCo says so itself; it needs the package `mujoco-mjx` too.
    pytest.importorskip("mujoco.mjx", reason="MuJoCo's MJX is in the extra `mjx`", exc_type=ImportError)
    with jax.enable_x64(True):
        yield make("mjx:hopper", horizon=3, healthy_reward=2.0, ctrl_cost_weight=0.1, frame_skip=2)


@pytest.mark.parametrize("task, name", [("swimmer", "Swimmer"), ("ant-disabled", "Ant"), ("humanoid", "Humanoid")])
def test_sizes_and_bounds_are_those_of_gymnasium(hopper, task, name):
    ours, theirs = make(f"mjx:{task}"), gym.make(f"{name}-v5")
    assert ours.observation_size == theirs.observation_space.shape[0]
    assert ours.observation_size == jax.eval_shape(lambda: ours.reset(key=jr.key(0))[1]).shape[0]
    np.testing.assert_allclose(ours.actions.low, theirs.action_space.low)
    np.testing.assert_allclose(ours.actions.high, theirs.action_space.high)


def test_models_that_the_integrator_does_not_know_are_refused(hopper, tmp_path):
    body = '<body><joint type="ball"/><geom size="1"/></body>'
    (tmp_path / "ball.xml").write_text(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    with pytest.raises(ValueError, match="free joint at its root; all others must be hinges"):
        make("mjx:swimmer", xml_file=str(tmp_path / "ball.xml"))


def test_steps_rewards_and_ends_are_those_of_gymnasium(hopper):
    """Three steps from eight states, of which some have fallen, in double precision as MuJoCo's own."""
    from irlax.envs.mjx.physics import Motion

    env = gym.make("Hopper-v5", healthy_reward=2.0, ctrl_cost_weight=0.1, frame_skip=2).unwrapped
    assert hopper.observation_size == env.observation_space.shape[0]
    rng = np.random.default_rng(0)
    lean = np.linspace(-0.3, 0.3, 8)[:, None] * [0, 1, 1, 0, 0, 0]
    qpos = env.init_qpos + lean + rng.uniform(-0.05, 0.05, (8, 6))
    qvel, actions = rng.normal(size=(8, 6)), rng.uniform(-1.2, 1.2, (8, 3, 3)).astype(np.float32)

    @eqx.filter_jit
    def steps(env, qpos, qvel, actions):
        def one(qpos, qvel, actions):
            state, _ = env.reset(key=jr.key(0))
            state = state._replace(inner=env.at(Motion(qpos, qvel, jnp.zeros_like(qvel))))

            def step(state, action):
                after = env.step(state, action, key=jr.key(0))
                return after.state, after[1:]

            return jax.lax.scan(step, state, actions)[1]

        return jax.vmap(one)(qpos, qvel, actions)

    ours = [np.asarray(column) for column in steps(hopper, qpos, qvel, actions)]
    assert not ours[3][:, :2].any() and (ours[3][:, 2] == ~ours[2][:, 2]).all()
    for copy in range(8):
        env.reset(seed=0)
        env.set_state(qpos[copy], qvel[copy])
        for time in range(3):
            # Actions are clipped to their box on both roads.
            observation, reward, terminated, _, _ = env.step(np.clip(actions[copy, time], -1, 1))
            np.testing.assert_allclose(ours[0][copy, time], observation, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(ours[1][copy, time], reward, rtol=1e-6, atol=1e-6)
            assert ours[2][copy, time] == terminated
    assert 0 < ours[2][:, 0].sum() < 8
