"""MuJoCo's tasks in JAX, by MuJoCo itself and by MJX, against Gymnasium's own environments."""

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
from irlax.envs.experience import collect_steps, init_runner


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
    if "iterations" not in options:
        with pytest.raises(error, match=message.replace("mjx:", "mujoco:")):
            make(f"mujoco:{name}", **options)


@pytest.mark.parametrize("library, what", [("mjx", "MuJoCo's MJX"), ("mujoco", "MuJoCo")])
def test_without_mujoco_the_cure_is_named(library, what, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(ImportError, match=rf"{what} cannot be imported .* `pip install irlax\[mjx\]`"):
        # A model that no other test has loaded.
        make(f"{library}:hopper", xml_file="reacher.xml")


@pytest.fixture
def mujoco():
    return pytest.importorskip("mujoco", reason="MuJoCo is in the extra `mjx`", exc_type=ImportError)


@pytest.mark.parametrize("task, name", [("hopper", "Hopper"), ("ant", "Ant"), ("humanoid", "Humanoid")])
def test_mujoco_itself_takes_gymnasiums_steps_to_the_last_digit(mujoco, task, name):
    """Three steps from each of four first states, contact forces and the other quantities of bodies included."""
    env = gym.make(f"{name}-v5").unwrapped
    rng, episodes = np.random.default_rng(0), []
    for seed in range(4):
        env.reset(seed=seed)
        # Low enough to touch the ground, and high enough to fall.
        env.set_state(env.data.qpos - 0.02 * seed * (np.arange(env.model.nq) == 2), env.data.qvel)
        start = env.data.qpos.copy(), env.data.qvel.copy()
        actions = rng.uniform(env.action_space.low, env.action_space.high, (3, env.model.nu)).astype(np.float32)
        observations, rewards, ends, *_ = zip(*map(env.step, actions), strict=True)
        episodes.append((*start, actions, observations, rewards, ends))
    qpos, qvel, actions, *theirs = map(np.stack, zip(*episodes, strict=True))
    with jax.enable_x64(True):
        # Four copies as two times two: a `vmap` within another is one call, too.
        apart = [array.reshape(2, 2, *array.shape[1:]) for array in (qpos, qvel, actions)]
        ours = [np.asarray(column).reshape(4, *column.shape[2:]) for column in _steps(make(f"mujoco:{task}"), *apart)]
    np.testing.assert_array_equal(ours[0], theirs[0])
    # Gymnasium adds up costs in single precision.
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)
    np.testing.assert_array_equal(ours[2], theirs[2])


@eqx.filter_jit
def _steps(env, qpos, qvel, actions):
    """Observations, rewards and ends of copies [2, 2] of an environment, from given states and by given actions."""
    from irlax.envs.mujoco.physics import Motion

    def one(qpos, qvel, actions):
        def step(inner, action):
            after = env.move(inner, action, key=jr.key(0))
            return after, (env.observe(after), env.reward_of(inner, action, after), env.ended(after))

        return jax.lax.scan(step, env.at(Motion(qpos, qvel, jnp.zeros_like(qvel))), actions)[1]

    return jax.vmap(jax.vmap(one))(qpos, qvel, actions)


def test_mujoco_itself_in_single_precision_with_falls_and_new_episodes(mujoco):
    env = make("mujoco:hopper", horizon=30)
    runners = eqx.filter_jit(jax.vmap(lambda key: init_runner(env, 0.0, key=key)))(jr.split(jr.key(0), 6))
    runners, batch, _ = eqx.filter_jit(collect_steps)(env, None, runners, length=80, key=jr.key(1))
    assert batch.observation.dtype == jnp.float32 and np.isfinite(batch.observation).all()
    ended = np.asarray(batch.terminated | batch.truncated)
    assert batch.terminated.any() and batch.truncated.any()
    # A height below .7 or an angle beyond .2 is a fall, and the only one here.
    fallen = (batch.next_observation[..., 0] <= 0.7) | (abs(batch.next_observation[..., 1]) >= 0.2)
    np.testing.assert_array_equal(batch.terminated, fallen)
    # A new episode starts near the model's own position, at a height of 1.25.
    np.testing.assert_allclose(batch.observation[1:][ended[:-1]][:, 0], 1.25, atol=6e-3)
    going_on = ~ended[:-1]
    np.testing.assert_array_equal(batch.observation[1:][going_on], batch.next_observation[:-1][going_on])


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
    from irlax.envs.mujoco.physics import Motion

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


def test_what_diverges_starts_again_where_it_is(tmp_path, monkeypatch):
    """From speeds at which MuJoCo gives up, or goes on with numbers of 10¹⁶, among copies that are well."""
    from irlax.envs.mujoco.physics import Motion

    monkeypatch.chdir(tmp_path)  # MuJoCo writes a log
    env = make("mujoco:ant")
    first, speeds = env.physics.first, np.random.default_rng(0).normal(size=(40, env.physics.sizes.nv))
    size = np.repeat([0.1, 300.0], 20)[:, None]
    qpos = np.tile(np.asarray(first.qpos), (40, 1))
    qpos[:, 0] = 7.0

    @jax.jit
    @jax.vmap
    def after(qpos, qvel):
        before = env.at(Motion(qpos, qvel, jnp.zeros_like(qvel)))
        return env.move(before, jnp.zeros(8), key=jr.key(0))

    moved = after(jnp.asarray(qpos, jnp.float32), jnp.asarray(size * speeds, jnp.float32))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(moved))
    assert np.abs(moved.motion.qvel).max() < 1e4
    again = (np.asarray(moved.motion.qpos)[:, 1:] == np.asarray(first.qpos)[1:]).all(axis=1)
    assert not again[:20].any() and again[20:].any()
    assert (np.asarray(moved.motion.qvel)[again] == 0).all() and np.allclose(np.asarray(moved.x)[again], 7.0)
