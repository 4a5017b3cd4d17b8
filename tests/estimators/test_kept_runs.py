"""Runs that were saved once, and are kept: whatever the store was when it was written, it is read as it was."""

import json
from pathlib import Path

import pytest

import irlax as ix
from tests.kept_runs.make import expected

KEPT = Path(__file__).parents[1] / "kept_runs"
RUNS = sorted(KEPT.glob("irlax-run-*/*.json"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_kept_run_is_read_as_it_was_saved(path):
    fit = ix.load(path.with_suffix(""))
    known, found = json.loads(path.read_text()), expected(fit)
    assert fit.method in str(fit.summary())
    for name in ("parameters", "log_likelihood"):
        one, other = found.pop(name), known.pop(name)
        assert one is other is None or one == pytest.approx(other, rel=1e-9)
    assert contains(found, known)


def contains(found, known):
    """Whether all that was written is there: a field that came later has its default."""
    if isinstance(known, dict):
        return set(known) <= set(found) and all(contains(found[name], value) for name, value in known.items())
    return found == known


def test_a_run_of_each_kind_of_fit_is_kept():
    kinds = {json.loads(path.read_text())["class"] for path in RUNS}
    assert {"TabularFit", "MixtureFit", "SwitchingFit", "DriftingFit", "GoalFit", "SampledFit", "ImitationFit"} <= kinds
