"""One MDP in several processes, each of which loads its own states: as one process that holds all of them."""

import json
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
