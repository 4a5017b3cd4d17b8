import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from irlax import Demonstrations, rollout, storage
from irlax.demos import read_demos, write_demos
from tests.demos.panels import ALL_NAMES, assert_holds, episodes, random_panel, shuffled
from tests.demos.test_trajectories import continuous, tabular
from tests.problems import as_mdp, random_policy, random_problem

SUFFIXES = ("csv", "parquet", "npz")
USUAL = ["episode", "t", "state", "action", "next_state", "terminated", "weight"]


def labelled(text=True, gaps=True):
    return Demonstrations.from_frame(random_panel(0, text=text, gaps=gaps), **ALL_NAMES)


def rolled_out():
    problem = random_problem(0)
    return rollout(as_mdp(problem), random_policy(problem, 0), num=7, key=jax.random.key(0))


def awkward():
    """Names and numbers that a careless writer would spoil."""
    frame = random_panel(1, num=6)
    names = ["007", "a,b", 'quo"te', " blank ", "NA", "línea\nnueva\r"]
    frame["id"] = frame["id"].map(dict(zip(sorted(set(frame["id"])), names, strict=True)))
    frame["w"] = frame["id"].map(dict(zip(names, [0.1, 1 / 3, 1e-300, 1e15 + 0.3, 2 / 3, 0.1 + 0.2], strict=True)))
    return Demonstrations.from_frame(frame.assign(s=frame["s"] + 2**53, s2=frame["s2"] + 2**53), **ALL_NAMES)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("demos", [labelled(), labelled(False, False), rolled_out(), awkward()])
def test_round_trips_are_exact(tmp_path, demos, suffix):
    path = tmp_path / f"demos.{suffix}"
    write_demos(path, demos)
    assert eqx.tree_equal(read_demos(str(path)), demos)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("trajectories", [tabular(0), continuous(0), continuous(0, discrete=True)])
def test_npz_holds_rewards_and_observations(tmp_path, trajectories):
    demos = Demonstrations.from_trajectories(trajectories)
    write_demos(tmp_path / "demos.npz", demos)
    again = read_demos(tmp_path / "demos.npz")
    assert eqx.tree_equal(again, demos)
    assert again.actions.dtype == demos.actions.dtype
    for suffix in ("csv", "parquet"):
        with pytest.raises(ValueError, match="Write an .npz file instead" if demos.rewards is not None else "npz"):
            write_demos(tmp_path / f"demos.{suffix}", demos)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_of_other_programs_are_read_in_any_order_by_the_names_of_their_columns(tmp_path, suffix):
    frame, path = random_panel(2, text=True), tmp_path / f"panel.{suffix}"
    extra = shuffled(frame).assign(note="x")
    extra.to_csv(path, index=False) if suffix == "csv" else extra.to_parquet(path)
    assert_holds(read_demos(path, **ALL_NAMES), episodes(frame))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_optional_columns_are_used_where_they_have_their_usual_names(tmp_path, suffix):
    frame, path = random_panel(3), tmp_path / f"panel.{suffix}"
    usual = frame.set_axis(USUAL, axis=1)
    usual.to_csv(path, index=False) if suffix == "csv" else usual.to_parquet(path)
    assert_holds(read_demos(path), episodes(frame))


@pytest.mark.parametrize(
    "text, labels",
    [
        ("1\n2\n10", [1, 2, 10]),
        ("-3\n2\n0", [-3, 0, 2]),
        ("01\n1\n2", ["01", "1", "2"]),
        ("1.0\n2\n3", ["1.0", "2", "3"]),
        ("99999999999999999999\n1\n2", ["1", "2", "99999999999999999999"]),
        ("True\nNA\nnan", ["NA", "True", "nan"]),
        ("0\n2\n1", None),
    ],
)
def test_labels_in_csv_are_integers_if_all_are_written_so(tmp_path, text, labels):
    path = tmp_path / "panel.csv"
    path.write_text("episode,t,state,action\n" + "".join(f"{label},0,1,1\n" for label in text.split("\n")))
    found = read_demos(path).labels
    assert (None if found is None else found.tolist()) == labels


def test_csv_may_hold_floats_blanks_and_capital_truths(tmp_path):
    path = tmp_path / "panel.CSV"
    path.write_text("﻿episode,t,state,action,terminated\nann,0, 1.0,2,FALSE\nann,1,2,0,TRUE\n", encoding="utf-8")
    demos = read_demos(path)
    assert demos.states.tolist() == [1, 2] and demos.terminated.tolist() == [True]


CSV_FAULTS = {
    "episode,t,state,action,next_state\nann,0,1,0,2\nann,1,0,0,1\n": (
        r"`next_state`.*row 0 \(episode 'ann', t = 0\) leads to state 2, and row 1 is in state 0"
    ),
    "": "cannot be read as a CSV file",
    "episode,t,state\n1,0,0\n": "no column `action` for `action`.*`episode`, `t`, `state`",
    "episode,t,state,action\n": "no rows",
    "episode,t,state,action\n1,0,x,0\n": "`state`.*row 0 has 'x'",
    "episode,t,state,action\n1,0,,0\n": "`state`.*row 0 has none",
    "episode,t,state,action\n1,0,NA,0\n": "`state`.*row 0 has none",
    "episode,t,state,action\n,0,1,0\n": "`episode`.*row 0 has an empty name",
    "episode,t,state,action\n1,0,1,0,7\n": "cannot be read as a CSV file",
    "episode,t,state,action\n1,0,1\n": "cannot be read as a CSV file: .*Expected 4 columns, got 3",
    "episode,t,state,state,action\n1,0,1,1,0\n": "more than one column `state`",
    "episode,t,state,action\n1,0,1,0\n1,0,1,0\n": "row 1 repeats row 0",
    "episode,t,state,action,terminated\n1,0,1,0,maybe\n": "`terminated`.*row 0 has 'maybe'",
    "episode;t;state;action\n1;0;1;0\n": "no column `episode`",
    'episode,t,state,action\n"1,0,1,0\n': "cannot be read as a CSV file",
}


@pytest.mark.parametrize("text, message", CSV_FAULTS.items())
def test_a_malformed_csv_file_is_refused(tmp_path, text, message):
    path = tmp_path / "panel.csv"
    path.write_text(text)
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}") as caught:
        read_demos(path)
    assert str(path) in str(caught.value)


def test_bytes_that_are_not_text_are_refused(tmp_path):
    for suffix in SUFFIXES:
        path = tmp_path / f"panel.{suffix}"
        path.write_bytes(b"\x93NUMPY\xff\xfe\x00" * 9)
        with pytest.raises(ValueError, match="cannot be read as"):
            read_demos(path)


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"state": [[0], [1]]}, "`state`.*list"),
        ({"state": [{"x": 0}, {"x": 1}]}, "`state`.*struct"),
        ({"state": [b"0", b"1"]}, "`state`.*binary"),
        ({"state": [None, None]}, "`state`.*row 0 has none"),
        ({"state": ["0", "1"]}, "`state`.*numbers written as text"),
        ({"episode": [1.5, 1.5]}, "`episode`.*row 0 has 1.5"),
        ({"state": pa.array([0, 1], pa.decimal128(5, 2))}, "`state`.*decimal"),
    ],
)
def test_a_parquet_file_of_other_types_is_refused(tmp_path, columns, message):
    table = pa.table({"episode": [0, 0], "t": [0, 1], "state": [0, 1], "action": [0, 1]} | columns)
    pq.write_table(table, tmp_path / "panel.parquet")
    with pytest.raises((ValueError, TypeError), match=f"(?s){message}"):
        read_demos(tmp_path / "panel.parquet")


def test_flipped_bits_in_a_parquet_file_are_noticed(tmp_path):
    """In its data pages; what stands in the heading may be of no consequence."""
    path = tmp_path / "panel.parquet"
    write_demos(path, labelled())
    valid, demos = path.read_bytes(), read_demos(path)
    for place in range(100, len(valid), 97):
        path.write_bytes(valid[:place] + bytes([valid[place] ^ 0x10]) + valid[place + 1 :])
        try:
            again = read_demos(path)
        except (ValueError, TypeError):
            continue
        assert eqx.tree_equal(again, demos)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_truncated_file_is_refused(tmp_path, suffix):
    path = tmp_path / f"demos.{suffix}"
    write_demos(path, labelled())
    valid = path.read_bytes()
    # A CSV file that is cut between two rows is a valid one.
    for length in (0, 10, *(() if suffix == "csv" else (len(valid) // 2, len(valid) - 4))):
        path.write_bytes(valid[:length])
        with pytest.raises(ValueError):
            read_demos(path)


def test_what_is_not_there_or_not_a_file_or_of_no_known_kind(tmp_path, as_a_user):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileNotFoundError, match=r"There is no file .*panel\.csv"):
        read_demos(tmp_path / "panel.csv")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        read_demos(tmp_path / "folder.csv")
    with pytest.raises(ValueError, match=r"must end in \.csv or \.parquet or \.npz, but is 'panel\.xlsx'"):
        read_demos(tmp_path / "panel.xlsx")
    with pytest.raises(TypeError, match="must be the name of a file"):
        read_demos(3)
    with pytest.raises(ValueError, match="must end in"):
        write_demos(tmp_path / "panel.pkl", labelled())
    with pytest.raises(FileNotFoundError, match="no directory"):
        write_demos(tmp_path / "absent" / "panel.csv", labelled())
    with pytest.raises(TypeError, match="must be Demonstrations"):
        write_demos(tmp_path / "panel.csv", pd.DataFrame())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"demos.{suffix}"
    path.write_text("before")

    def fail(*_args, **_options):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    monkeypatch.setattr(pq, "write_table", fail)
    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(OSError, match="disk full"):
        write_demos(path, labelled())
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "before"


def test_a_parquet_file_too_large_for_the_memory_names_the_way_out(tmp_path, monkeypatch):
    write_demos(tmp_path / "demos.parquet", labelled())
    monkeypatch.setattr(storage, "MAX_BYTES", 10)
    with pytest.raises(ValueError, match="`statistics_from_parquet` reads it in pieces"):
        read_demos(tmp_path / "demos.parquet")


def test_empty_lines_of_a_csv_file_and_the_ends_of_its_lines_mean_nothing(tmp_path):
    (tmp_path / "panel.csv").write_bytes(b'\r\nepisode,t,state,action\r\n"a, b",0, 1,0\r\n\r\n"a, b",1,2,1\r\n')
    demos = read_demos(tmp_path / "panel.csv")
    assert demos.labels.tolist() == ["a, b"] and demos.states.tolist() == [1, 2] and demos.actions.tolist() == [0, 1]
