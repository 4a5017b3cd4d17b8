"""One MDP in several processes, each of which loads its own states: as one process that holds all of them."""

import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.mdp import save_part
from tests.planning.test_large import dense_soft
from tests.shards import DISCOUNT, HORIZON, part, results

SIDE = 12
STATES = SIDE**2
ROOT = Path(__file__).parents[1]


def whole():
    successors, probs, initial = part(0, STATES, SIDE)
    return ix.MDP.from_successors(successors, probs, initial, discount=DISCOUNT, horizon=HORIZON)


@pytest.fixture(scope="module")
def expected():
    return results(whole(), SIDE)


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_with_a_share_each_find_what_one_finds(tmp_path, expected, processes):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.shards", *map(str, (port, number, processes, tmp_path, SIDE))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for number in range(processes)
    ]
    for process in started:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err[-2000:]
        said = json.loads(out.splitlines()[-1])
        assert said["own"] * processes == said["whole"]
    with np.load(tmp_path / "found.npz") as found:
        for name, value in expected.items():
            assert np.abs(found[name] - value).max() < 1e-10, name


def mesh():
    return jax.make_mesh((1,), ("states",))


def test_parts_in_a_folder_make_the_same_mdp(tmp_path, monkeypatch):
    monkeypatch.setattr("irlax.mdp.shards.AT_ONCE", 16 * 50)  # three pieces, across the borders of parts
    for first, last in ((0, 40), (40, 140), (140, STATES)):
        save_part(tmp_path, first, *part(first, last, SIDE))
    mdp = ix.MDP.from_shards(tmp_path, mesh(), discount=DISCOUNT, horizon=HORIZON)
    reward = np.random.default_rng(0).normal(size=STATES)
    assert np.abs(ix.soft_plan(mdp, reward).value - ix.soft_plan(whole(), reward).value).max() < 1e-12
    (tmp_path / "part-000000000040.npz").unlink()
    with pytest.raises(ValueError, match="must hold 140 states, but holds 40"):
        ix.MDP.from_shards(tmp_path, mesh(), discount=DISCOUNT, horizon=HORIZON)


def one_device(source=lambda first, last: part(first, last, SIDE), **options):
    return ix.MDP.from_shards(source, mesh(), num_states=STATES, discount=DISCOUNT, horizon=HORIZON, **options)


def test_next_states_that_all_actions_share_are_given_once():
    def shared(first, last):
        successors, *rest = part(first, last, SIDE)
        return successors[:, :1], *rest

    mdp, reward = one_device(shared), np.random.default_rng(0).normal(size=STATES)
    assert mdp.dynamics.links.successors.shape == (4, 1, STATES)
    expected = ix.visits(whole(), ix.soft_plan(whole(), reward))
    assert np.abs(ix.visits(mdp, ix.soft_plan(mdp, reward)) - expected).max() < 1e-12


def test_compiled_plans_of_parts_are_those_of_dense_matrices():
    side, horizon = 24, 5  # too many states for plans on the host
    reward = np.random.default_rng(0).normal(size=side**2)
    successors, probs, initial = part(0, side**2, side)
    whole = ix.MDP.from_successors(successors, probs, initial, discount=DISCOUNT, horizon=horizon)
    value, expected = dense_soft(whole, reward, horizon)
    for narrow, accuracy in ((False, 1e-12), (True, 1e-5)):
        mdp = ix.MDP.from_shards(
            lambda first, last: (successors[first:last, :1], probs[first:last], initial[first:last]),
            mesh(),
            num_states=side**2,
            discount=DISCOUNT,
            horizon=horizon,
            single_precision=narrow,
        )
        stored = whole.single_precision() if narrow else whole
        assert mdp.dynamics.probs.dtype == mdp.initial.dtype == stored.initial.dtype
        assert np.array_equal(mdp.dynamics.to_dense(), stored.dynamics.to_dense())
        plan = ix.soft_plan(mdp, reward)
        assert np.abs(plan.value - value).max() < accuracy
        assert np.abs(ix.visits(mdp, plan) - expected).max() < accuracy


@pytest.mark.parametrize("shape", [(), (2,), (4, 2)])
def test_a_table_is_loaded_a_few_rows_at_a_time(monkeypatch, shape):
    monkeypatch.setattr("irlax.mdp.shards.AT_ONCE", 50 * math.prod(shape))  # three pieces
    table = np.random.default_rng(0).normal(size=(STATES, *shape))
    called = []

    def rows(first, last):
        called.append(last - first)
        return table[first:last]

    assert np.array_equal(one_device().load_table(rows), table)
    assert called == [1, 50, 50, 50]


def test_placed_features_weigh_as_those_of_the_host():
    mdp, rng = one_device(), np.random.default_rng(0)
    features, known = rng.normal(size=(STATES, 4, 3)), rng.normal(size=(STATES, 4))
    features[..., 2] = 0
    weights = np.array([1.0, -0.5, 2.0])
    table = mdp.load_table(lambda first, last: features[first:last])
    reward = ix.LinearReward(table, weights, known=mdp.load_table(lambda first, last: known[first:last]))
    assert np.abs(reward.table(mdp) - (features @ weights + known)).max() < 1e-12
    assert np.array_equal(reward.scales(mdp), [*np.abs(features).max(axis=(0, 1))[:2], 1])
    with jax.enable_x64(True):
        wrong = table.at[3, 1, 0].set(np.nan)
    with pytest.raises(ValueError, match=r"`features` must be finite.*\(3, 1, 0\)"):
        ix.LinearReward(wrong)


def test_features_stay_where_the_states_are(expected):
    mdp = one_device(single_precision=True)
    state = np.arange(STATES)
    features = np.stack([np.sin(state), np.cos(3.0 * state)], axis=-1)
    table = mdp.load_table(lambda first, last: features[first:last])
    assert table.sharding.is_equivalent_to(mdp.initial.sharding, 1) and table.dtype == np.float32
    reward = ix.LinearReward(table)
    assert reward.features is table
    expert = ix.soft_plan(mdp, ix.LinearReward(table, [1.0, -0.5]))
    assert np.abs(expert.value[0] - expected["value"][0]).max() < 1e-5
    fit = ix.MCEIRL(solver="lbfgs", tol=1e-4, progress=False).fit(mdp, reward, expert)
    assert fit.converged and np.abs(fit.reward.weights - [1.0, -0.5]).max() < 1e-3


def test_a_table_without_a_place_or_with_other_numbers_is_refused():
    with pytest.raises(ValueError, match="spread over devices"):
        whole().load_table(lambda first, last: np.zeros(last - first))
    with pytest.raises(ValueError, match="must have shape"):
        one_device().load_table(lambda first, last: np.zeros((1, 2)))
    with pytest.raises(ValueError, match="must be finite"):
        one_device().load_table(lambda first, last: np.full(last - first, np.nan))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, p, i: (s + STATES, p, i), "successors.* must lie in 0..143"),
        (lambda s, p, i: (s, 2 * p, i), "must be at least 0 and sum to 1"),
        (lambda s, p, i: (s, p, 2 * i), "must sum to 1 over all parts"),
        (lambda s, p, i: (s, p, i[1:]), "must have shape"),
    ],
)
def test_a_wrong_part_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        ix.MDP.from_shards(
            lambda first, last: change(*part(first, last, SIDE)), mesh(), num_states=STATES, discount=0.9, horizon=3
        )
