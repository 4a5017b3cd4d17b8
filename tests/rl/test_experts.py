"""Experts and demonstrations from the command line."""

import numpy as np
import pytest

from irlax.demos import read_demos
from tests.command_line import irlax


@pytest.mark.parametrize(
    "command", ["expert train nowhere --out run", "demos collect cartpole --policy no --out d.npz"]
)
def test_a_mistake_is_one_line_and_writes_nothing(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = irlax(*command.split())
    assert ended.code == 2 and ended.err.startswith("irlax: ") and ended.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_an_expert_is_trained_and_demonstrates(tmp_path):
    trained = irlax("expert", "train", "cartpole", "--out", tmp_path / "expert", "--steps", 8192, "--num", 3)
    assert trained.code == 0 and "over 3 episodes" in trained.out, trained.err
    again = irlax("expert", "train", "cartpole", "--out", tmp_path / "expert", "--steps", 8192)
    assert again.code == 2 and "--resume" in again.err
    path = tmp_path / "demos.npz"
    collected = irlax("demos", "collect", "cartpole", "--policy", tmp_path / "expert", "--num", 3, "--out", path)
    assert collected.code == 0, collected.err
    demos = read_demos(path)
    assert demos.num_episodes == 3 and np.isfinite(demos.returns).all()
