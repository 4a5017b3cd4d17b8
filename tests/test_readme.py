"""Every Python block of the README and of the tutorials runs as printed."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

README = Path(__file__).parent.parent / "README.md"
TUTORIALS = ["two_step_mixtures_counterfactuals"]


def blocks_of(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(), re.S)


def test_the_readme_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dense = np.full((2, 2, 2), 0.5)
    # What a reader is told to bring.
    names = {
        "P": dense,
        "initial": np.array([1.0, 0.0]),
        "successors": np.zeros((2, 2, 1), int),
        "probs": np.ones((2, 2, 1)),
        "P_0": sp.csr_array(dense[:, 0]),
        "P_1": sp.csr_array(dense[:, 1]),
        "counts": np.ones((2, 2, 2)),
    }
    for block in blocks_of(README):
        exec(block, names)  # the blocks are ours
    assert names["fit"].converged
    assert names["found"].null_dim >= 1


@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_runs_as_printed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks_of(README.parent / "docs" / f"{name}.md"):
        exec(block, names)  # the blocks are ours
    assert (tmp_path / "demand.png").exists()
