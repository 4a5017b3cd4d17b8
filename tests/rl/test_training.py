"""Training is watched, and a killed run goes on as if nothing had happened."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from irlax import RunFolder
from irlax.envs import make
from irlax.rl import load_policy, save_policy
from irlax.rl.policies import init_policy
from irlax.rl.policy_file import read_policy
from tests.probes import HostBandit, NormalBandit, Probe, seen
from tests.rl.test_learners import LEARNERS, SMALL_PPO, on_both

ENV = Probe.of(both=2.0)


class KilledError(Exception):
    pass


def killer(at):
    def callback(iterate):
        if iterate.step >= at:
            raise KilledError

    return callback


def leaves(tree):
    return [
        jr.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf for leaf in jax.tree.leaves(tree)
    ]


def lines(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


@on_both
def test_a_killed_run_ends_bit_for_bit_as_one_that_was_not(name, tmp_path):
    learner = LEARNERS[name][0]
    steps = learner.warmup_steps + 10 * learner.steps_per_round
    arguments = {"key": jr.key(7), "steps": steps}
    whole = learner.train(ENV, run=RunFolder(tmp_path / "whole", checkpoint_every=0), **arguments)
    with pytest.raises(KilledError):
        cut = RunFolder(tmp_path / "cut", checkpoint_every=0)
        learner.train(ENV, run=cut, callback=killer(steps - 5 * learner.steps_per_round), **arguments)
    # As if the kill had come between the log and the checkpoint.
    with (tmp_path / "cut" / "log.jsonl").open("a") as file:
        file.write('{"steps": 1}\n{"ste')
    resumed = learner.train(ENV, run=RunFolder(tmp_path / "cut", resume=True), **arguments)
    for one, other in zip(leaves(whole.state), leaves(resumed.state), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(whole.returns, resumed.returns)
    logs = [lines(tmp_path / run) for run in ("whole", "cut")]
    assert logs[0] == logs[1] and len(logs[0]) == 10
    assert {"step", "return", "loss", "entropy"} <= set(logs[0][0])


def test_a_run_is_neither_overwritten_nor_mixed_with_another(tmp_path):
    arguments = {"key": jr.key(0), "steps": 512, "run": tmp_path / "run"}
    again = {**arguments, "run": RunFolder(tmp_path / "run", resume=True)}
    SMALL_PPO.train(ENV, **arguments)
    before = (tmp_path / "run" / "checkpoint.npz").read_bytes()
    with pytest.raises(FileExistsError, match="resume"):
        SMALL_PPO.train(ENV, **arguments)
    with pytest.raises(ValueError, match="another key"):
        SMALL_PPO.train(ENV, **{**again, "key": jr.key(1)})
    with pytest.raises(ValueError, match="another learner"):
        eqx.tree_at(lambda ppo: ppo.clip, SMALL_PPO, 0.3).train(ENV, **again)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="folder"):
        SMALL_PPO.train(ENV, **{**arguments, "run": tmp_path / "file"})
    assert (tmp_path / "run" / "checkpoint.npz").read_bytes() == before
    (tmp_path / "run" / "checkpoint.npz").write_bytes(before[:-10])
    with pytest.raises(ValueError, match="cannot be read as a checkpoint"):
        SMALL_PPO.train(ENV, **again)


def test_a_policy_on_disk_is_the_policy(tmp_path):
    trained = SMALL_PPO.train(ENV, key=jr.key(0), steps=512, run=tmp_path / "run")
    loaded, about = read_policy(tmp_path / "run")
    here, action = seen(1.0), jnp.asarray(1)
    assert loaded.log_prob(here, action) == trained.policy.log_prob(here, action)
    assert about["learner"] == "PPO" and about["environment"] == "Probe"
    box = init_policy(NormalBandit().actions, 1, width=4, depth=2, activation="relu", key=jr.key(0))
    save_policy(tmp_path / "box.npz", box)
    again = load_policy(tmp_path / "box.npz")
    assert again.log_prob(jnp.ones(1), jnp.array([0.5])) == box.log_prob(jnp.ones(1), jnp.array([0.5]))
    assert eqx.tree_equal(again, box)


@pytest.mark.parametrize("damage", [lambda whole: b"", lambda whole: whole[:-5], lambda whole: whole + b"x" * 70_000])
def test_a_damaged_policy_is_a_value_error(tmp_path, damage):
    path = tmp_path / "policy.npz"
    save_policy(path, init_policy(ENV.actions, 1, width=4, depth=1, activation="tanh", key=jr.key(0)))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match="policy"):
        load_policy(path)


def network(record):
    return record["policy"]["fields"]["network"]["fields"]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda record, arrays: record.update(format="irlax-policy-9"), "format"),
        (lambda record, arrays: record.update(policy=record["policy"]["fields"]["network"]), "not a policy"),
        (lambda record, arrays: network(record).update(activation="sine"), "activation"),
        (lambda record, arrays: arrays.update({"network.weights.0": np.zeros((4, 2), np.float32)}), "normaliser"),
        (lambda record, arrays: arrays.update({"network.weights.1": np.zeros((2, 9), np.float32)}), "layers"),
        (lambda record, arrays: arrays.pop("network.biases.0"), "biases"),
    ],
)
def test_a_policy_that_cannot_be_is_a_value_error(tmp_path, edit, message):
    path = tmp_path / "policy.npz"
    save_policy(path, init_policy(ENV.actions, 1, width=4, depth=1, activation="tanh", key=jr.key(0)))
    with np.load(path) as file:
        arrays = dict(file)
    record = json.loads(str(arrays["header"]))
    edit(record, arrays)
    np.savez(path, **arrays | {"header": json.dumps(record)})
    with pytest.raises(ValueError, match=message):
        load_policy(path)


@pytest.mark.parametrize("name", ["PPO"])
def test_the_host_steps_and_jax_learns(name, tmp_path):
    learner = LEARNERS[name][0]
    steps = learner.warmup_steps + (40 if name == "PPO" else 100) * learner.steps_per_round
    result = learner.train(HostBandit(16), key=jr.key(0), steps=steps, run=tmp_path / "run")
    # Two actions, worth 0 and 2: the softmax of the difference, and five steps of it.
    share = 1 / (1 + np.exp(-2))
    assert abs(np.exp(result.policy.log_prob(jnp.ones(4), jnp.asarray(1))) - share) < 0.05
    assert abs(result.final_return - 10 * share) < 1
    with pytest.raises(ValueError, match="num_envs=16"):
        learner.train(HostBandit(3), key=jr.key(0))
    with pytest.raises(ValueError, match="Train one by one"):
        learner.train(HostBandit(16), key=jr.key(0), seeds=2)


def test_the_host_goes_on_from_a_checkpoint_and_loses_nothing_to_a_bad_observation(tmp_path):
    arguments = {"key": jr.key(0), "steps": 20 * SMALL_PPO.steps_per_round}
    folder = RunFolder(tmp_path, checkpoint_every=0)
    with pytest.raises(ValueError, match="NaN or infinite"):
        SMALL_PPO.train(HostBandit(16, poison_at=10 * SMALL_PPO.length + 3), run=folder, **arguments)
    assert len(lines(tmp_path)) == 10
    result = SMALL_PPO.train(HostBandit(16), run=RunFolder(tmp_path, resume=True), **arguments)
    assert len(result.steps) == 20 and result.steps[-1] == arguments["steps"]


def test_what_is_not_finite_stops_training_with_a_reason():
    with pytest.raises(FloatingPointError, match="NaN or infinite after"):
        SMALL_PPO.train(Probe.of(action=np.nan), key=jr.key(0), steps=512)


def test_an_environment_of_gymnasiums_own_is_learned_on():
    """A policy that has learned nothing is uniform to 1%; a few rounds teach it to follow the pole."""
    env = make("gymnasium:CartPole-v1", num_envs=SMALL_PPO.num_envs)
    result = SMALL_PPO.train(env, key=jr.key(0), steps=6 * SMALL_PPO.steps_per_round)
    env.close()
    assert np.nanmin(result.returns) >= 8 and np.nanmax(result.returns) <= 500
    leaning = jnp.array([0.0, 0.0, 0.1, 0.5])
    right, left = (float(jnp.exp(result.policy.log_prob(side * leaning, jnp.asarray(1)))) for side in (1, -1))
    assert right - left > 0.1
