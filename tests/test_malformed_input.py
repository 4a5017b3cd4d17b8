"""Malformed frames, arrays and files: each ends in a valid object or in a message, never in anything else.

A thousand of them, drawn by hypothesis from a fixed seed. The files are valid ones in which bytes were
changed, cut, repeated or removed, archives whose members are nonsense or pickles, and tables whose columns
hold what they should not. A pickle that is opened would leave a marker behind.
"""

import io
import os
import tempfile
import zipfile
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from irlax import Demonstrations
from irlax.demos import DemoStatistics, read_demos, statistics_from_parquet, write_demos
from irlax.mdp.npz import load_mdp, save_mdp
from tests.demos.panels import ALL_NAMES, random_panel
from tests.demos.test_npz import Trap
from tests.problems import as_mdp, random_problem

SIZES = {"num_states": 5, "num_actions": 3, "discount": 0.9}
USUAL = ["episode", "t", "state", "action", "next_state", "terminated", "weight"]


def examples(number):
    return settings(
        max_examples=number,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.differing_executors],
    )


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """A folder for all examples, whose `marker` must never appear."""
    folder = tmp_path_factory.mktemp("malformed")
    yield folder
    assert not (folder / "marker").exists()


def ends_well(read, *args, **options):
    """The call returns an object without NaN, or raises a ValueError or TypeError with a message."""
    try:
        found = read(*args, **options)
    except (ValueError, TypeError) as error:
        assert type(error) in (ValueError, TypeError), type(error)
        message = str(error)
        assert len(message) > 20 and message.rstrip().endswith((".", "?"))
        assert "beartype" not in message and "jaxtyping" not in message and "Traceback" not in message
        return None
    for leaf in jax.tree.leaves(found):
        if hasattr(leaf, "dtype") and leaf.dtype.kind == "f":
            assert np.isfinite(leaf.data if sp.issparse(leaf) else np.asarray(leaf)).all()
    return found


# Frames.

VALUES = st.one_of(
    st.integers(-3, 8),
    st.sampled_from([None, np.nan, np.inf, -np.inf, 1.5, 1e300, -0.0, 2**62, 2**63, 2**70, True, "", "x", "3", "\0"]),
    st.sampled_from([b"3", 1j, (1, 2), pd.NaT, pd.NA, pd.Timestamp("2020-01-01"), [1], {"a": 1}, object]),
)
NUMBERS = ["int8", "uint64", "float16", "float64", "bool", "Int64", "boolean", "complex128", "int64[pyarrow]"]
OTHERS = ["str", "object", "string", "category", "datetime64[ns]", "timedelta64[ns]", "Sparse[int]", "string[pyarrow]"]


@st.composite
def malformed_frames(draw):
    """A valid panel in which up to three things went wrong."""
    frame = random_panel(draw(st.integers(0, 3)), num=3, text=draw(st.booleans()), gaps=draw(st.booleans()))
    for _ in range(draw(st.integers(1, 3))):
        column = draw(st.sampled_from(list(frame)))
        fault = draw(st.sampled_from(["value", "value", "value", "column", "dtype", "drop", "repeat", "rename"]))
        frame = _with_fault(draw, frame, column, fault)
        if not len(frame.columns):
            break
    return frame


def _with_fault(draw, frame, column, fault):
    if fault == "drop":
        return draw(st.sampled_from([frame.drop(columns=column), frame.iloc[:0], frame.iloc[:1]]))
    if fault == "repeat":
        return draw(st.sampled_from([pd.concat([frame, frame]), pd.concat([frame, frame[[column]]], axis=1)]))
    if fault == "rename":
        return frame.rename(columns={column: draw(st.sampled_from(["t", 7, None, "x"]))})
    if not frame.columns.is_unique or not len(frame):
        return frame
    if fault == "dtype":
        dtype = draw(st.sampled_from(NUMBERS + OTHERS))
        return _unless_pandas_objects(lambda: frame.astype({column: dtype}), frame)
    if fault == "column":
        values = [draw(VALUES)] * len(frame)
    else:
        values = frame[column].tolist()
        values[draw(st.integers(0, len(frame) - 1))] = draw(VALUES)
    objects = pd.Series(values, index=frame.index, dtype=object)
    series = _unless_pandas_objects(lambda: pd.Series(values, index=frame.index), objects)
    return frame.assign(**{str(column): series})


def _unless_pandas_objects(make, otherwise):
    """Not everything can be put into a frame; that is no business of ours."""
    try:
        return make()
    except Exception:
        return otherwise


@examples(150)
@given(frame=malformed_frames(), names=st.sampled_from([ALL_NAMES, {k: ALL_NAMES[k] for k in list(ALL_NAMES)[:4]}]))
def test_frames(frame, names):
    demos = ends_well(Demonstrations.from_frame, frame, **names)
    if demos is not None:
        ends_well(DemoStatistics.from_demos, demos, **SIZES)


# Files with changed bytes.


def corrupted(draw, valid):
    """The bytes with one to four changes: flipped, cut off, repeated, removed, inserted or overwritten."""
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(valid) - 1, 0)))
        width = draw(st.sampled_from([1, 2, 8, 64]))
        new = draw(st.binary(min_size=1, max_size=8))
        match draw(st.sampled_from(["flip", "flip", "flip", "cut", "repeat", "remove", "insert", "zero"])):
            case "flip":
                valid = valid[:place] + new + valid[place + len(new) :]
            case "cut":
                valid = valid[:place]
            case "repeat":
                valid = valid[: place + width] + valid[place:]
            case "remove":
                valid = valid[:place] + valid[place + width :]
            case "insert":
                valid = valid[:place] + new + valid[place:]
            case "zero":
                valid = valid[:place] + bytes(width) + valid[place + width :]
    return valid


def valid_demos(suffix, seed):
    """A valid file, as bytes."""
    demos = Demonstrations.from_frame(random_panel(seed, text=seed % 2 == 0, gaps=True), **ALL_NAMES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"demos.{suffix}"
        write_demos(path, demos)
        return path.read_bytes()


def plain_parquet(seed):
    """Without checksums, compression or dictionaries: what is changed in it comes through."""
    frame, buffer = random_panel(seed).set_axis(USUAL, axis=1), io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame), buffer, compression="none", use_dictionary=False)
    return buffer.getvalue()


def stored_archive(valid):
    """The same archive without compression, whose checksums are then made to fit whatever the members hold."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(valid)) as source, zipfile.ZipFile(buffer, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    return buffer.getvalue()


VALID = {
    "csv": [valid_demos("csv", 0), valid_demos("csv", 1)],
    "parquet": [valid_demos("parquet", 0), plain_parquet(1), plain_parquet(2)],
    "npz": [valid_demos("npz", 0), stored_archive(valid_demos("npz", 1))],
}


@examples(200)
@given(data=st.data(), suffix=st.sampled_from(sorted(VALID)))
def test_files_of_demonstrations(workshop, data, suffix):
    path = workshop / f"demos.{suffix}"
    path.write_bytes(corrupted(data.draw, VALID[suffix][data.draw(st.integers(0, len(VALID[suffix]) - 1))]))
    ends_well(read_demos, path)
    if suffix == "parquet":
        ends_well(statistics_from_parquet, path, **SIZES)


def valid_mdp(seed):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mdp.npz"
        problem = random_problem(seed, ("stochastic", "deterministic")[seed % 2], masked=seed > 1)
        mdp = as_mdp(problem, ("dense", "scipy")[seed % 2])
        save_mdp(path, mdp.labelled(layout=["..."], states=list("abc"), state_unit="km"))
        return path.read_bytes()


MDPS = [make(valid_mdp(seed)) for seed in range(3) for make in (bytes, stored_archive)]


@examples(75)
@given(data=st.data())
def test_files_of_mdps(workshop, data):
    path = workshop / "mdp.npz"
    path.write_bytes(corrupted(data.draw, MDPS[data.draw(st.integers(0, len(MDPS) - 1))]))
    ends_well(load_mdp, path)


# Archives with valid checksums and nonsense inside.


def array_header(shape, descr):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 5, -1, 2**31, 2**62]), max_size=4).map(tuple)
DESCRIPTIONS = st.sampled_from(["<i8", ">i4", "|u1", "<f8", "<f2", "|b1", "<U3", "|S3", "|O", "<c16", "<M8[s]", "<U0"])


@st.composite
def strange_members(draw, folder):
    """The bytes of one member: an array of any shape and type, a header that lies, a pickle, or noise."""
    match draw(st.sampled_from(["array", "array", "array", "header", "pickle", "noise"])):
        case "array":
            shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
            kind = draw(st.sampled_from(["<i8", ">i4", "|u1", "<f8", "<f2", "|b1", "<U3", "|S3", "<c16", "<M8[s]"]))
            size = int(np.prod(shape, dtype=int)) * np.dtype(kind).itemsize
            return array_header(shape, kind) + draw(st.binary(min_size=size, max_size=size))
        case "header":
            return array_header(draw(SHAPES), draw(DESCRIPTIONS)) + draw(st.binary(max_size=64))
        case "pickle":
            buffer = io.BytesIO()
            np.save(buffer, np.array([Trap(folder / "marker")] * draw(st.integers(0, 3)), object), allow_pickle=True)
            return buffer.getvalue()
        case _:
            return draw(st.sampled_from([b"", b"\x93NUMPY", b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 9000])) + draw(
                st.binary(max_size=64)
            )


@examples(150)
@given(data=st.data(), which=st.sampled_from(["demos", "mdp"]))
def test_archives_of_nonsense(workshop, data, which):
    path = workshop / f"{which}.npz"
    choices = VALID["npz"] if which == "demos" else MDPS
    valid = choices[data.draw(st.integers(0, len(choices) - 1))]
    with zipfile.ZipFile(io.BytesIO(valid)) as source:
        members = {name: source.read(name) for name in source.namelist()}
    for name in data.draw(st.lists(st.sampled_from(sorted(members)), min_size=1, max_size=3)):
        if data.draw(st.integers(0, 4)):
            members[name] = data.draw(strange_members(workshop))
        else:
            members.pop(name, None)
    with zipfile.ZipFile(path, "w", data.draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))) as target:
        for name, member in members.items():
            target.writestr(name, member)
    ends_well(read_demos if which == "demos" else load_mdp, path)
    assert not (workshop / "marker").exists()


# Parquet files that are sound, but hold the wrong things.


@examples(60)
@given(frame=malformed_frames(), rows=st.integers(1, 5))
def test_parquet_files_of_malformed_frames(workshop, frame, rows):
    path = workshop / "frame.parquet"
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        pq.write_table(table, path, row_group_size=rows)
    except (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError, NotImplementedError):
        return
    ends_well(read_demos, path, **ALL_NAMES)
    ends_well(statistics_from_parquet, path, **SIZES, **ALL_NAMES)
    assert os.path.exists(path)
