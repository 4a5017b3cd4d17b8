"""Rust (1987), whose printed figures are reproduced, and the tutorial that does so, which runs as printed.

In one file, because they share what is costly: the compilation of one and the same problem.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import irlax as ix
from tests.rust import RAW, needs_rust_bus

TUTORIAL = Path(__file__).parent.parent / "docs" / "dynamic_discrete_choice.md"
# Rust (1987), as printed: groups, (RC, θ₁₁), log likelihood, their standard errors.
TABLE_IX = [
    ((1, 2, 3), (11.7270, 4.8259), -2708.366, (2.602, 1.792)),
    ((4,), (10.0750, 2.2930), -3304.155, (1.582, 0.639)),
    ((1, 2, 3, 4), (9.7558, 2.6275), -6055.250, (1.227, 0.618)),
]
TABLE_IX_STATIC = [((4,), (7.6358, 71.5133), -3306.028), ((1, 2, 3, 4), (7.3055, 70.2769), -6061.641)]
TABLE_X = [
    ((1, 2, 3), (11.7257, 2.4569), -3993.991),
    ((4,), (10.0896, 1.1732), -4495.135),
    ((1, 2, 3, 4), (9.7687, 1.3428), -8607.889),
]


def rust(groups, bins=90, discount=0.9999):
    buses = ix.datasets.rust_bus(RAW, groups=groups, bins=bins)
    engine = ix.envs.BusEngine.from_panel(buses, discount=discount)
    # From nearer than zero: the way from there takes three times as many steps.
    start = engine.reward.with_parameters(np.array([8.0, 2.0]))
    fit = ix.MCEIRL(objective="likelihood").fit(engine.mdp, start, buses.demos)
    assert fit.converged
    counts = buses.increment_counts
    return buses, engine, fit, fit.log_likelihood + counts @ np.log(counts / counts.sum())


def as_printed(found, printed, digits):
    """To two units of the last printed digit."""
    np.testing.assert_allclose(found, printed, atol=2 * 10.0**-digits + 1e-9, rtol=0)


@needs_rust_bus
@pytest.mark.parametrize(("groups", "estimates", "log_likelihood", "errors"), TABLE_IX)
def test_rust_table_ix(groups, estimates, log_likelihood, errors):
    buses, engine, fit, total = rust(groups)
    as_printed(fit.reward.weights, estimates, 4)
    as_printed(total, log_likelihood, 3)
    full = ix.full_likelihood(fit, engine.nature(buses))
    as_printed(full.log_likelihood, log_likelihood, 3)
    np.testing.assert_allclose(full.standard_errors("opg")[:2], errors, atol=0.0005 + 1e-9, rtol=0)
    # The paper does not print the other two, which are smaller here, the sandwich most.
    opg, hessian, sandwich = (full.standard_errors(kind)[:2] for kind in ("opg", "hessian", "sandwich"))
    assert np.all(sandwich < hessian) and np.all(hessian < opg)


@needs_rust_bus
@pytest.mark.parametrize(("groups", "estimates", "log_likelihood"), TABLE_IX_STATIC)
def test_rust_table_ix_without_foresight(groups, estimates, log_likelihood):
    _, _, fit, total = rust(groups, discount=0.0)
    as_printed(fit.reward.weights, estimates, 4)
    as_printed(total, log_likelihood, 3)


@needs_rust_bus
@pytest.mark.parametrize(("groups", "estimates", "log_likelihood"), TABLE_X)
def test_rust_table_x(groups, estimates, log_likelihood):
    _, _, fit, total = rust(groups, bins=175)
    as_printed(fit.reward.weights, estimates, 4)
    as_printed(total, log_likelihood, 3)


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
