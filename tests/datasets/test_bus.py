"""Rust's data as the published rules bin them, fetching, and panels whose truth is known."""

import hashlib
import sys
import types
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import irlax as ix
from irlax.datasets import bus
from irlax.envs import BusEngine
from tests.rust import FOLDER, RAW, needs_rust_bus


@needs_rust_bus
def test_the_parse_is_the_published_table_month_by_month():
    panel = ix.datasets.rust_bus(RAW)
    table = pd.read_csv(FOLDER / "rust_bus_g1to4.csv")
    table = table[table.period > 0]
    np.testing.assert_array_equal(panel.demos.states, table.bin)
    np.testing.assert_array_equal(panel.demos.actions, table["replace"])
    np.testing.assert_array_equal(panel.demos.times, table.period)
    np.testing.assert_array_equal(panel.increments, table.usage)
    np.testing.assert_array_equal(panel.demos.labels[panel.demos.episode], table.bus_id)
    np.testing.assert_array_equal(panel.groups[panel.demos.episode], table.group)
    assert (panel.demos.num_steps, panel.demos.num_episodes, panel.demos.actions.sum()) == (8156, 104, 60)


@needs_rust_bus
def test_groups_and_bins_are_those_asked_for():
    counts = {(1, 2, 3): [1163, 2660, 41], (4,): [1682, 2555, 55]}
    for groups, expected in counts.items():
        panel = ix.datasets.rust_bus(str(RAW), groups=groups)
        assert set(panel.groups) == set(groups)
        assert panel.increment_counts.tolist() == expected
    assert ix.datasets.rust_bus(RAW, groups=[4, 1]).groups.tolist() == [1] * 15 + [4] * 37
    fine = ix.datasets.rust_bus(RAW, groups=[4], bins=175)
    assert fine.bins == 175
    np.testing.assert_allclose(fine.increment_shares, np.array([511, 2473, 1231, 68, 6, 3]) / 4292)


@needs_rust_bus
def test_the_pinned_checksums_are_those_of_the_files():
    for name, checksum in bus.FILES.checksums:
        assert hashlib.sha256((RAW / name).read_bytes()).hexdigest() == checksum


def test_wrong_groups_and_bins_are_refused(as_a_user, tmp_path):
    for groups in ([5], [1, 1], ["4"]):
        with pytest.raises(ValueError, match=r"some of the groups \[1, 2, 3, 4\]"):
            ix.datasets.rust_bus(tmp_path, groups=groups)
    for groups in (4, "4", []):
        with pytest.raises(TypeError, match="`groups` must be a list"):
            ix.datasets.rust_bus(tmp_path, groups=groups)
    with pytest.raises(ValueError, match="`bins` must be at least 2"):
        ix.datasets.rust_bus(tmp_path, bins=1)
    with pytest.raises(TypeError, match="`bins`"):
        ix.datasets.rust_bus(tmp_path, bins=9.5)


def test_missing_and_malformed_files_say_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder that holds g870\.asc"):
        ix.datasets.rust_bus(tmp_path / "nowhere", groups=[1])
    with pytest.raises(FileNotFoundError, match=r"lacks g870\.asc\. Or get the files from https://"):
        ix.datasets.rust_bus(tmp_path, groups=[1])
    (tmp_path / "g870.asc").write_text("1\n2\n")
    with pytest.raises(ValueError, match="must hold 540 numbers, 36 for each of 15 buses, but holds 2"):
        ix.datasets.rust_bus(tmp_path, groups=[1])
    (tmp_path / "g870.asc").write_text("1\nmany\n")
    with pytest.raises(ValueError, match="one whole number a line"):
        ix.datasets.rust_bus(tmp_path, groups=[1])


def pooch_that(fetch):
    """A stand-in for pooch, so that no test needs a network."""
    stub = types.ModuleType("pooch")
    stub.os_cache = Path
    stub.create = lambda **options: types.SimpleNamespace(fetch=lambda name: fetch(name, options))
    return stub


def test_without_pooch_or_a_network_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install irlax\[data\].*pass their folder as `path=`"):
        ix.datasets.rust_bus(groups=[1])

    def unreachable(name, options):
        raise OSError("no route to host")

    monkeypatch.setitem(sys.modules, "pooch", pooch_that(unreachable))
    with pytest.raises(ConnectionError, match=r"no route to host.*pass their folder as `path=`"):
        ix.datasets.rust_bus(groups=[1])


@needs_rust_bus
def test_files_are_fetched_from_a_pinned_commit_with_their_checksums(monkeypatch):
    asked = []

    def fetch(name, options):
        asked.append((options["base_url"] + name, options["registry"][name]))
        return str(RAW / name)

    monkeypatch.setitem(sys.modules, "pooch", pooch_that(fetch))
    panel = ix.datasets.rust_bus(groups=[2])
    assert panel.demos.num_episodes == 4
    ((address, checksum),) = asked
    assert address.startswith("https://") and "d39eb4d6da1cbdcadf7e5594672bb8495e3394b0" in address
    assert checksum == f"sha256:{dict(bus.FILES.checksums)['rt50.asc']}"


def test_simulated_panels_follow_the_truth():
    truth = BusEngine([0.3, 0.6, 0.1], bins=20, discount=0.95, parameters=[5.0, 400.0])
    panel = ix.datasets.simulated_bus(truth, buses=400, months=50, key=jax.random.key(0))
    assert (panel.demos.num_steps, panel.demos.num_episodes, panel.bins) == (20_000, 400, 20)
    np.testing.assert_allclose(panel.increment_shares, truth.increments, atol=0.012)
    policy = ix.soft_plan(truth.mdp, truth.reward.table(truth.mdp)).policy
    for x in (3, 8):
        here = panel.demos.states == x
        spread = np.sqrt(policy[x].prod() / here.sum())
        assert abs(panel.demos.actions[here].mean() - policy[x, 1]) < 4 * spread
    # An increment leads from the row before to its own, from bin 0 after a replacement.
    states, actions, moved = (
        array.reshape(400, 50) for array in (panel.demos.states, panel.demos.actions, panel.increments)
    )
    base = np.where(actions[:, :-1] == 1, 0, states[:, :-1])
    np.testing.assert_array_equal(np.where(moved[:, 1:] < 0, states[:, 1:] - base, moved[:, 1:]), states[:, 1:] - base)


def test_increments_that_the_last_bin_cuts_off_do_not_bias_their_estimate():
    """Hardly anybody replaces, so half of the rows stand so high that no increment can be told."""
    truth = BusEngine([0.5, 0.2, 0.3], bins=20, discount=0.95, parameters=[8.0, 0.0])
    panel = ix.datasets.simulated_bus(truth, buses=400, months=50, key=jax.random.key(1))
    assert (panel.increments < 0).mean() > 0.3
    np.testing.assert_allclose(panel.increment_shares, truth.increments, atol=0.015)
