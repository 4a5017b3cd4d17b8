"""Tutorials that take minutes with their own settings, run with small ones, to the end."""

import functools
import re
import runpy

import numpy as np
import pytest
from docs.tools.pages import ROOT

import irlax as ix

#: Policies without hidden layers, and one gradient step for each batch: half of the time to compile.
SMALL = {"depth": 0, "epochs": 1, "minibatches": 1}


@pytest.fixture
def printed(monkeypatch, capsys):
    learner = ix.rl.PPO(temperature=1.0, explore=0.0, **SMALL)
    monkeypatch.setattr(ix, "AIRL", functools.partial(ix.AIRL, learner=learner))
    monkeypatch.setattr(ix.rl, "PPO", functools.partial(ix.rl.PPO, **SMALL))
    monkeypatch.setattr(ix, "BehaviouralCloning", functools.partial(ix.BehaviouralCloning, depth=0))

    def run(name, *arguments):
        monkeypatch.setattr("sys.argv", [name, *arguments])
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


def test_cartpole(printed):
    lines = printed("cartpole.py", "--rounds", "2", "--episodes", "2", "--methods", "AIRL", "BehaviouralCloning")
    assert lines[0] == "demonstrations: 20, true return 500"
    airl, upright, leaning, cloning = lines[1:]
    assert airl.startswith("AIRL") and "after 2 rounds" in airl and cloning.startswith("BehaviouralCloning")
    assert "upright" in upright and "leaning" in leaning
    # Two rounds teach nothing; twenty demonstrations suffice to clone.
    learned, cloned = (float(re.search(r"return (\d+)", line)[1]) for line in (airl, cloning))
    assert 0 < learned < 450 < cloned <= 500


def test_transfer(printed):
    lines = printed("transfer.py", "--rounds", "2", "--episodes", "4", "--steps", "8192")
    named = ["demonstrations", "where it was learned", "wall moved", "wall moved"]
    assert [line.split(":")[0].split("  ")[0] for line in lines] == named
    # A step pays minus a distance that no point of the room exceeds; the demonstrator is better than two rounds.
    returns = np.array([float(line.split()[-1]) for line in lines])
    assert (returns < 0).all() and (returns > -100 * np.hypot(1, 1.6)).all()
    assert returns[0] > returns[1:].max()
