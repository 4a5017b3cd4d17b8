"""Tutorials that take minutes with their own settings, run with small ones: to the end, and what they print is sound."""

import re
import runpy

import numpy as np
import pytest
from docs.tools.pages import ROOT


@pytest.fixture
def printed(monkeypatch, capsys):
    def run(name, *arguments):
        monkeypatch.setattr("sys.argv", [name, *arguments])
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


def test_cartpole(printed):
    lines = printed("cartpole.py", "--rounds", "2", "--episodes", "2")
    assert lines[0] == "demonstrations: 20, true return 500"
    methods = [line for line in lines if "true return" in line][1:]
    assert [line.split(":")[0] for line in methods] == ["SampledMCEIRL", "AIRL", "BehaviouralCloning"]
    returns = [float(re.search(r"return (\d+)", line)[1]) for line in methods]
    assert all(0 < number <= 500 for number in returns)
    assert all("after 2 rounds" in line for line in methods[:2])
    # Two rounds teach nothing; twenty demonstrations suffice to clone.
    assert returns[2] > 450 > max(returns[:2])


def test_transfer(printed):
    lines = printed("transfer.py", "--rounds", "2", "--episodes", "4", "--steps", "8192")
    assert [line.split(":")[0] for line in lines] == ["where it was learned"] + 3 * ["wall moved"]
    # A step pays minus a distance that no point of the room exceeds.
    returns = np.array([float(line.split()[-1]) for line in lines])
    assert (returns < 0).all() and (returns > -100 * np.hypot(1, 1.6)).all()
