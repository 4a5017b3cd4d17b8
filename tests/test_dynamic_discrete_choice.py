"""Rust (1987), whose printed figures are reproduced, and the tutorial that does so, which runs as printed.

In one file, because they share what is costly: the compilation of one and the same problem.
"""

import re
from pathlib import Path

import numpy as np

from irlax.reproduce.rust_1987 import RESULT
from tests.rust import FOLDER, RAW, needs_rust_bus

TUTORIAL = Path(__file__).parent.parent / "docs" / "dynamic_discrete_choice.md"


def as_number(text):
    return float(text.replace("−", "-"))


@needs_rust_bus
def test_every_printed_figure_of_tables_ix_and_x_is_reproduced():
    """Estimates and log likelihoods to two units of the last digit, standard errors to all digits."""
    outcome = RESULT.run(FOLDER)
    assert len(outcome.lines) == 8 * 3 + 3 * 2
    for line in outcome.lines:
        assert line.holds, line
        unit = 10.0 ** -len(line.published.partition(".")[2])
        units = 0 if "s.e." in line.what else 2
        np.testing.assert_allclose(as_number(line.ours), as_number(line.published), atol=units * unit + 1e-9, rtol=0)


@needs_rust_bus
def test_the_tutorial_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", TUTORIAL.read_text(), re.S)
    # What a reader is told to bring.
    names = {"path": RAW}
    for block in blocks:
        exec(block, names)  # the blocks are ours
    assert [f"{error:.3f}" for error in names["full"].standard_errors("opg")[:2]] == ["1.227", "0.618"]
    assert all(names[fit].converged for fit in ("fit", "other", "check"))
    # The paper does not print the other two, which are smaller here, the sandwich most.
    opg, hessian, sandwich = (names["full"].standard_errors(kind)[:2] for kind in ("opg", "hessian", "sandwich"))
    assert np.all(sandwich < hessian) and np.all(hessian < opg)
