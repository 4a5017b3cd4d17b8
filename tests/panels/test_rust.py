"""Rust's (1987) Table IX from a data frame."""

import pandas as pd
import pytest

import irlax as ix
from tests.rust import FOLDER, needs_rust_bus


@needs_rust_bus
def test_table_nine_in_ten_lines_from_the_frame():
    buses = pd.read_csv(FOLDER / "rust_bus_g1to4.csv")
    buses = buses[buses.period > 0].replace({"replace": {0: "keep", 1: "new"}})
    panel = ix.Panel.from_frame(
        buses, individual="bus_id", period="period", action="replace", state={"bin": ix.panels.Levels(range(90))},
        transitions={"bin": ix.panels.Increments(observed="usage", restart={"new": 0})},
    )  # fmt: skip
    fit = panel.fit({"RC": "-new", "theta_11": "-bin * keep / 1000"}, discount=0.9999)
    full = fit.full_likelihood()
    printed = [*fit.reward.weights.round(4), round(full.log_likelihood, 3), *full.standard_errors("opg")[:2].round(3)]
    assert printed == pytest.approx([9.7557, 2.6276, -6055.250, 1.227, 0.618], abs=1e-9)
