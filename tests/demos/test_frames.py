import dataclasses
import subprocess
import sys

import equinox as eqx
import numpy as np
import pandas as pd
import pytest

from irlax import Demonstrations
from tests.demos.panels import ALL_NAMES, NAMES, assert_holds, episodes, random_panel, shuffled

FORMS = [{"text": text, "gaps": gaps, "mark_last": last} for text in (0, 1) for gaps in (0, 1) for last in (0, 1)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_from_frame_groups_rows_as_plain_loops_do(seed, form):
    frame = random_panel(seed, **form)
    demos = Demonstrations.from_frame(shuffled(frame, seed), **ALL_NAMES)
    assert_holds(demos, episodes(frame))


@pytest.mark.parametrize("form", FORMS)
def test_the_order_of_rows_has_no_meaning(form):
    frame = random_panel(1, **form)
    in_order = Demonstrations.from_frame(frame, **ALL_NAMES)
    for seed in range(3):
        assert eqx.tree_equal(in_order, Demonstrations.from_frame(shuffled(frame, seed), **ALL_NAMES))


def test_without_optional_columns_episodes_are_truncated_and_count_once():
    demos = Demonstrations.from_frame(random_panel(0), **NAMES)
    assert demos.next_states is None
    assert not demos.terminated.any()
    assert (demos.weights == 1).all()


@pytest.mark.parametrize(
    "dtypes",
    [
        {"s": "int8", "a": "uint8", "t": "uint64"},
        {"s": "float64", "a": "float32", "t": "float64", "id": "float64"},
        {"s": "Int64", "a": "Int8", "end": "boolean", "w": "Float64", "id": "Int64"},
        {"s": "int64[pyarrow]", "end": "bool[pyarrow]", "w": "double[pyarrow]", "id": "int32[pyarrow]"},
        {"s": "category", "id": "category"},
        {"end": "int64", "w": "float32"},
        {"end": "float64"},
    ],
    ids=str,
)
def test_the_type_of_a_column_has_no_meaning_as_long_as_its_values_fit(dtypes):
    frame = random_panel(2)
    assert eqx.tree_equal(
        Demonstrations.from_frame(frame.astype(dtypes), **ALL_NAMES), Demonstrations.from_frame(frame, **ALL_NAMES)
    )


@pytest.mark.parametrize("dtype", ["str", "object", "string", "string[pyarrow]", "category"])
def test_labels_may_be_text_of_any_kind(dtype):
    frame = random_panel(3, text=True)
    demos = Demonstrations.from_frame(frame.astype({"id": dtype}), **ALL_NAMES)
    assert demos.labels.tolist() == sorted(set(frame["id"]))
    assert demos.labels.dtype.kind == "U"


def test_large_unsigned_labels_are_kept():
    frame = random_panel(3, num=2).assign(id=np.uint64(2**64 - 1))
    demos = Demonstrations.from_frame(frame.drop_duplicates(["id", "t"]).assign(w=1.0, end=False), **ALL_NAMES)
    assert demos.labels.tolist() == [2**64 - 1]


@pytest.mark.parametrize("form", FORMS)
def test_to_frame_and_back(form):
    demos = Demonstrations.from_frame(random_panel(4, **form), **ALL_NAMES)
    frame = demos.to_frame()
    assert list(frame) == ["episode", "t", "state", "action", "next_state", "terminated", "weight"]
    again = Demonstrations.from_frame(
        shuffled(frame),
        episode="episode",
        time="t",
        state="state",
        action="action",
        next_state="next_state",
        terminated="terminated",
        weight="weight",
    )
    assert eqx.tree_equal(demos, again)


def test_to_frame_shows_only_what_there_is():
    frame = random_panel(5)[["id", "t", "s", "a"]]
    demos = Demonstrations.from_frame(frame, **NAMES)
    expected = frame.set_axis(["episode", "t", "state", "action"], axis=1)
    pd.testing.assert_frame_equal(demos.to_frame(), expected)
    assert dataclasses.replace(demos, labels=None).to_frame()["episode"].iloc[-1] == demos.num_episodes - 1


def test_repeated_labels_cannot_be_told_apart_in_a_table():
    demos = Demonstrations.from_frame(random_panel(5), **ALL_NAMES)
    with pytest.raises(ValueError, match="-7 is the label of 2"):
        demos.select([0, 1, 0]).to_frame()


SMALL = pd.DataFrame(
    {
        "id": ["ann", "ann", "ann", "bob", "bob"],
        "t": [0, 1, 2, 0, 1],
        "s": [0, 1, 2, 3, 4],
        "a": [0, 1, 0, 1, 0],
        "s2": [1, 2, 3, 4, 0],
        "end": [False, False, True, False, False],
        "w": [1.0, 1.0, 1.0, 2.0, 2.0],
    }
)


def changed(column, row, value):
    frame = SMALL.copy()
    frame[column] = frame[column].astype(object)
    frame.loc[row, column] = value
    return frame.assign(**{column: frame[column].infer_objects()})


@pytest.mark.parametrize(
    "frame, error, message",
    [
        (SMALL.drop(columns="s"), ValueError, r"no column `s` for `state`.*`id`, `t`, `a`"),
        (SMALL.drop(columns="w"), ValueError, "no column `w` for `weight`"),
        (SMALL.drop(columns=list(SMALL)), ValueError, "no columns"),
        (SMALL.iloc[:0], ValueError, "no rows"),
        (SMALL.set_axis(["id", "t", "s", "a", "s", "end", "w"], axis=1), ValueError, "more than one column `s`"),
        (changed("s", 2, np.nan), ValueError, "`s`.*row 2 has none"),
        (changed("id", 3, None), ValueError, "`id`.*row 3 has none"),
        (changed("w", 1, np.nan), ValueError, "`w`.*row 1 has none"),
        (changed("end", 2, None), ValueError, "`end`.*row 2 has none"),
        (SMALL.assign(s=pd.array([0, 1, None, 2, 3], "Int64")), ValueError, "`s`.*row 2 has none"),
        (changed("s", 3, 1.5), ValueError, r"`s` must hold whole numbers, but row 3 has 1.5"),
        (changed("t", 3, np.inf), ValueError, "`t`.*row 3 has inf"),
        (changed("a", 3, 1e300), ValueError, r"`a`.*row 3 has 1e\+300"),
        (changed("a", 4, -1), ValueError, "`a` must hold whole numbers from 0 on, but row 4 has -1"),
        (changed("t", 0, -2), ValueError, "`t`.*row 0 has -2"),
        (SMALL.assign(s=np.array([0, 1, 2, 2**63, 4], np.uint64)), ValueError, "row 3 has 9223372036854775808"),
        (SMALL.astype({"s": str}), TypeError, "`s`.*numbers written as text"),
        (SMALL.assign(s=list("01x34")).astype({"s": "string"}), TypeError, "row 2 has 'x'"),
        (SMALL.astype({"a": object}), TypeError, "`a`.*dtype object: row 0 has 0"),
        (SMALL.astype({"a": bool}), TypeError, "`a`.*type bool"),
        (SMALL.assign(t=pd.Timestamp("2020-01-01")), TypeError, "`t`.*timestamp"),
        (SMALL.assign(a=1j), TypeError, "`a`.*complex128"),
        (SMALL.assign(id=[1.5, 1.5, 1.5, 2, 2]), ValueError, "`id`.*row 0 has 1.5"),
        (SMALL.assign(id=["ann", 1, 1, 2, 2]), TypeError, "`id`"),
        (SMALL.assign(id=[(1,), (1,), (1,), (2,), (2,)]), TypeError, "`id`"),
        (SMALL.assign(id=["a\0", "a\0", "a\0", "a", "a"]), ValueError, "null character"),
        (SMALL.assign(id=["ann", "ann", "ann", "", ""]), ValueError, "row 3 has an empty name"),
        (changed("t", 2, 2**63 - 1), ValueError, "`t`.*row 2 has 9223372036854775807"),
        (SMALL.assign(id=SMALL["id"] == "ann"), TypeError, "`id`.*bool"),
        (SMALL.assign(end=[0, 0, 2, 0, 0]), ValueError, "`end` must hold true or false.*row 2 has 2"),
        (SMALL.assign(end=list("nnyny")), TypeError, "`end`"),
        (SMALL.assign(w=list("11122")), TypeError, "`w`"),
        (SMALL.assign(w=-SMALL["w"]), ValueError, r"`w`.*row 0 has -1.0"),
        (SMALL.assign(w=[1, 1, 1, np.inf, np.inf]), ValueError, "`w`.*row 3 has inf"),
        (SMALL.assign(w=0), ValueError, "not all of them zero"),
        (SMALL.assign(w=1e308), ValueError, "finite sum"),
        (SMALL.assign(w=[1, 1, 3, 2, 2]), ValueError, r"`w` must be the same.*row 2 \(episode 'ann', t = 2\) has 3.0"),
        (SMALL.assign(end=[False, True, False, False, False]), ValueError, r"row 1 \(episode 'ann', t = 1\) is not"),
        (SMALL.assign(end=[False, True, True, False, False]), ValueError, "row 1 .* is not the last"),
        (SMALL.assign(end=[True, True, False, False, False]), ValueError, "row 1 .* is not the last"),
        (changed("t", 4, 0), ValueError, r"row 4 repeats row 3 \(episode 'bob', t = 0\)"),
        (SMALL.to_dict(), TypeError, "must be a pandas DataFrame, but is a dict"),
    ],
)
def test_a_malformed_frame_is_refused_with_the_place_of_the_fault(as_a_user, frame, error, message):
    with pytest.raises(error, match=f"(?s){message}") as caught:
        Demonstrations.from_frame(frame, **ALL_NAMES)
    assert type(caught.value) is error


def test_a_column_must_be_named(as_a_user):
    with pytest.raises(TypeError, match="which column holds the state"):
        Demonstrations.from_frame(SMALL, episode="id", time="t", state=None, action="a")


def test_rows_are_counted_in_the_users_order():
    frame = changed("t", 4, 0).iloc[::-1]
    with pytest.raises(ValueError, match="row 1 repeats row 0"):
        Demonstrations.from_frame(frame, **ALL_NAMES)


def test_ten_thousand_labels_of_great_length_are_refused():
    frame = pd.DataFrame({"id": [str(k) for k in range(10_000)], "t": 0, "s": 0, "a": 0})
    frame.loc[0, "id"] = "x" * 30_000
    with pytest.raises(ValueError, match="label of 30,000 characters"):
        Demonstrations.from_frame(frame, **NAMES)


def test_importing_irlax_loads_no_reader():
    code = "import sys, irlax; print(sorted({'pandas', 'pyarrow', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
