"""Bad input to the command line: a message of one line, exit code 2, and nothing written; whatever the input."""

import json
import pickle
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from irlax import load as load_fit
from irlax.demos import read_demos
from irlax.rewards.reward import flat
from tests.command_line import contents, irlax, small_files

FIT = ("--reward", "s", "--l2", "0.1")


@pytest.fixture(scope="module")
def whole_files(tmp_path_factory):
    return small_files(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def files(whole_files, tmp_path):
    return shutil.copytree(whole_files, tmp_path, dirs_exist_ok=True)


def refused(files, message, *arguments):
    """The command ends with exit code 2 and one line that says `message`; the folder is as it was."""
    before = contents(files)
    end = irlax(*arguments)
    assert end.code == 2, end
    assert end.err.startswith("irlax: ") and end.err.count("\n") == 1 and end.err.endswith("\n"), end.err
    assert end.out == "" and "Traceback" not in end.err
    assert all(word in end.err for word in message.split("|")), end.err
    assert contents(files) == before
    assert not (files / "run").exists()


def fit(files, panel="panel.csv", *options, mdp="mdp.npz"):
    return "fit", files / mdp, files / panel, *(options or FIT), "--out", files / "run"


def cell(row, column, value):
    """A panel with another value in one place."""

    def change(frame):
        frame = frame.astype({column: object})
        frame.loc[row, column] = value
        return frame

    return change


PANELS = {
    # The first row of an episode, of which no row before it says what it should be.
    "state out of range": (cell(4, "state", 3), "row 4|state|0..2"),
    "negative state": (cell(3, "state", -1), "state|-1"),
    "action out of range": (cell(5, "action", 2), "row 5|action|0..1"),
    "fractional action": (cell(5, "action", 0.5), "action|0.5"),
    "text for a state": (cell(5, "state", "home"), "state|home"),
    "state missing": (cell(5, "state", None), "state"),
    "time missing": (cell(5, "t", None), "`t`"),
    "episode missing": (cell(5, "episode", None), "episode"),
    "infinite state": (cell(5, "state", np.inf), "state|inf"),
    "enormous state": (cell(5, "state", 10**30), "state"),
    "negative weight": (lambda frame: frame.assign(weight=-1.0), "weight"),
    "weight that varies": (lambda frame: frame.assign(weight=np.arange(len(frame)) + 1.0), "weight"),
    "NaN weight": (lambda frame: frame.assign(weight=np.nan), "weight"),
    "no state column": (lambda frame: frame.drop(columns="state"), "state|episode"),
    "no columns that fit": (lambda frame: frame.rename(columns=str.upper), "episode|EPISODE"),
    "no rows": (lambda frame: frame.iloc[:0], "rows"),
    "duplicate rows": (lambda frame: pd.concat([frame, frame.iloc[[4]]]), "row|repeats"),
    "late start": (lambda frame: frame[frame["t"] > 0], "t = 0|likelihood"),
    "gap in time": (lambda frame: frame.drop(index=1).drop(columns="next_state"), "gap|--objective likelihood"),
    "short episode": (lambda frame: frame.drop(index=3), "whole episodes|--objective likelihood"),
    "longer than the horizon": (lambda frame: frame.assign(t=frame["t"] + 1), "horizon 4"),
    # From each state the ring leads on, never back.
    "impossible move": (
        lambda frame: frame.assign(next_state=frame["next_state"].where(frame["t"] < 3, (frame["state"] + 2) % 3)),
        "probability 0|row 3",
    ),
    "next state that is not the next row's": (
        lambda frame: frame.assign(next_state=(frame["state"] + 2) % 3),
        "row 0|next_state|row 1 is in state",
    ),
    "terminated where nothing ends": (lambda frame: frame.assign(terminated=True), "terminated|absorbing"),
    "terminated in the middle": (lambda frame: frame.assign(terminated=frame["t"] == 1), "terminated|last"),
}


#: Where Parquet, which has types and missing values of its own, is read in another way.
TYPED = ("state out of range", "fractional action", "text for a state", "state missing", "infinite state", "no rows")


@pytest.mark.parametrize(
    ("panel", "suffix"), [*((panel, "csv") for panel in PANELS), *((panel, "parquet") for panel in TYPED)]
)
def test_a_bad_panel_is_refused(files, panel, suffix):
    change, message = PANELS[panel]
    frame = read_demos(files / "panel.csv").to_frame()
    frame = change(frame)
    path = files / f"bad.{suffix}"
    if suffix == "csv":
        frame.to_csv(path, index=False)
    else:
        mixed = {name: str for name in frame if frame[name].map(type).nunique() > 1 and "home" in set(frame[name])}
        frame.astype(mixed).to_parquet(path)
    refused(files, message, *fit(files, path.name))


FILES = {
    "no file": (lambda path: path.unlink(), "no file"),
    "folder": (lambda path: (path.unlink(), path.mkdir()), "directory"),
    "empty": (lambda path: path.write_bytes(b""), "read"),
    "garbage": (lambda path: path.write_bytes(bytes(range(256)) * 4), ""),
    "cut in half": (lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]), ""),
    "pickle": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), ""),
}


@pytest.mark.parametrize("name", ["mdp.npz", "panel.parquet", "panel.npz", "features.npy"])
@pytest.mark.parametrize("harm", FILES)
def test_a_damaged_file_is_refused(files, name, harm):
    change, message = FILES[harm]
    change(files / name)
    panel = name if name.startswith("panel") else "panel.csv"
    reward = ("--features", files / "features.npy") if name == "features.npy" else FIT
    refused(files, f"{name}|{message}", *fit(files, panel, *reward))


@pytest.mark.parametrize(
    "text", ["", "\n", "episode,t\n", "a,b,c\n1,2,3\n", "episode,t,state,action\n1,0,0\n,,,\n", '"']
)
def test_a_bad_csv_is_refused(files, text):
    (files / "bad.csv").write_text(text)
    refused(files, "bad.csv", *fit(files, "bad.csv"))


ROW = np.zeros((3, 2, 3))
MDPS = {
    "not a distribution": ({"transitions": np.full((3, 2, 3), 0.5)}, "sum to 1"),
    "negative": ({"transitions": np.stack([[[1.5, -0.5, 0.0]] * 2] * 3)}, "negative"),
    "NaN": ({"transitions": np.full((3, 2, 3), np.nan)}, "finite"),
    "wrong shape": ({"transitions": np.full((3, 2, 4), 0.25)}, "shape"),
    "no start": ({"initial": None}, "initial"),
    "discount": ({"discount": np.array(1.5)}, "discount"),
    "NaN discount": ({"discount": np.array(np.nan)}, "discount"),
    "horizon": ({"horizon": np.array(0)}, "horizon"),
    "fractional horizon": ({"horizon": np.array(2.5)}, "horizon"),
    "enormous horizon": ({"horizon": np.array(10**13)}, "GiB"),
    "endless without discount": ({"horizon": None, "discount": np.array(1.0)}, "absorbing"),
    "no action": ({"available": np.zeros((3, 2), bool)}, "available"),
    "names": ({"state_names": np.array(["a"])}, "state_names"),
    "stranger": ({"reward": np.zeros(3)}, "reward"),
}


@pytest.mark.parametrize("change", MDPS)
def test_a_bad_mdp_is_refused(files, change):
    arrays, message = MDPS[change]
    with np.load(files / "mdp.npz") as file:
        arrays = {name: array for name, array in (dict(file) | arrays).items() if array is not None}
    np.savez(files / "bad.npz", **arrays)
    refused(files, f"bad.npz|{message}", *fit(files, mdp="bad.npz"))


FEATURES = {
    "states": (np.ones((4, 2)), "shape"),
    "one axis": (np.ones(3), "shape"),
    "five axes": (np.ones((3, 1, 1, 1, 1)), "shape"),
    "no columns": (np.ones((3, 0)), ""),
    "NaN": (np.full((3, 2), np.nan), "finite"),
    "infinite": (np.full((3, 2), np.inf), "finite"),
    "text": (np.full((3, 2), "1"), "numbers"),
    "complex": (np.ones((3, 2), complex), "numbers"),
    "records": (np.ones((3, 2), [("a", float)]), "numbers"),
}


@pytest.mark.parametrize("kind", FEATURES)
def test_bad_features_are_refused(files, kind):
    array, message = FEATURES[kind]
    np.save(files / "bad.npy", array)
    refused(files, message, *fit(files, "panel.csv", "--features", files / "bad.npy"))


def test_features_that_lie_about_their_size_fill_no_memory(files):
    with (files / "bad.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)})
        file.write(b"\0" * 64)
    refused(files, "bad.npy", *fit(files, "panel.csv", "--features", files / "bad.npy"))


OPTIONS = {
    "no reward": (("--l2", 1), "--features|--reward"),
    "two rewards": (("--reward", "s", "--features", "f.npy"), "exactly one"),
    "unknown reward": (("--reward", "ss"), "ss"),
    "names of nothing": (("--reward", "s", "--feature-names", "a"), "--features"),
    "negative l2": (("--reward", "s", "--l2", -1), "l2"),
    "NaN l2": (("--reward", "s", "--l2", "nan"), "l2"),
    "l2 in words": (("--reward", "s", "--l2", "little"), "--l2|little"),
    "tol": (("--reward", "s", "--tol", 0), "tol"),
    "tol in words": (("--reward", "s", "--tol", "tight"), "--tol"),
    "method": (("--reward", "s", "--method", "gail"), "gail"),
    "solver": (("--reward", "s", "--solver", "sgd"), "sgd"),
    "objective of maxent": (("--reward", "s", "--method", "maxent", "--objective", "likelihood"), "--objective"),
    "cv of maxent": (("--reward", "s", "--method", "maxent", "--l2", "cv"), "l2"),
    "setting": (("--reward", "s", "--set", "speed=9"), "speed|NAME=VALUE"),
    "setting without value": (("--reward", "s", "--set", "tol"), "NAME=VALUE"),
    "setting of no solver": (("--reward", "s", "--set", "step_size=1"), "step_size"),
    "bad setting": (("--reward", "s", "--solver", "newton", "--set", "max_steps=-1"), "max_steps"),
    "unknown flag": (("--reward", "s", "--fast"), "--fast"),
    "held out": (("--reward", "s", "--held-out", "nowhere.csv"), "nowhere.csv"),
    "column": (("--reward", "s", "--episode", "id"), "id|episode"),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_a_bad_option_is_refused(files, option):
    options, message = OPTIONS[option]
    refused(files, message, *fit(files, "panel.csv", *options))


def test_bad_names_of_features_are_refused(files):
    for names, message in (("a", "2 features"), ("a,a", "separated by commas"), ("a,,b", "separated by commas")):
        options = ("--features", files / "features.npy", "--feature-names", names)
        refused(files, message, *fit(files, "panel.csv", *options))


def test_held_out_data_are_checked_before_the_fit(files):
    frame = read_demos(files / "panel.csv").to_frame().assign(state=7)
    frame.to_csv(files / "held.csv", index=False)
    refused(files, "held.csv|state|row 0", *fit(files, "panel.csv", *FIT, "--held-out", files / "held.csv"))


def test_nothing_but_a_fit_is_replaced(files):
    (files / "mine").mkdir()
    (files / "mine" / "thesis.tex").write_text("")
    for out in ("mine", "mdp.npz", "mdp.npz/run"):
        refused(files, str(files), "fit", files / "mdp.npz", files / "panel.csv", *FIT, "--out", files / out)


def test_other_commands_refuse_what_is_not_there(files):
    for arguments in (("show", files / "none"), ("show", files), ("report", files / "mdp.npz"), ("show",), ("fly",)):
        refused(files, "", *arguments)
    for arguments in (
        ("mdp", "grid", files / "none.txt", "--out", files / "m.npz"),
        ("demo", "--out", files / "mdp.npz"),
    ):
        refused(files, str(files), *arguments)
    refused(files, "folder|report.html", "diagnose", files / "mdp.npz", "--out", files)
    (files / "bad.txt").write_text("S?G")
    for options in (("--out", files / "m.npz"), ("--out", files / "m.txt")):
        refused(files, "", "mdp", "grid", files / "bad.txt", *options)
    (files / "good.txt").write_text("S.G")
    grid = ("mdp", "grid", files / "good.txt", "--out", files / "m.npz")
    for options in (
        ("--slip", 2),
        ("--horizon", 0),
        ("--discount", 3),
        ("--demos", files / "d.xls"),
        ("--num", 0),
    ):
        refused(files, "", *grid, "--demos", files / "d.csv", *options)


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (open, (str(self.marker), "w"))


@pytest.mark.parametrize("name", ["mdp.npz", "panel.npz", "features.npy"])
def test_objects_in_files_are_never_unpickled(files, tmp_path_factory, name):
    marker = tmp_path_factory.mktemp("marker") / "marker"
    bomb = np.array([[Bomb(marker)] * 2] * 3, dtype=object)
    if name == "features.npy":
        np.save(files / name, bomb, allow_pickle=True)
    else:
        with np.load(files / name) as file:
            arrays = dict(file)
        np.savez(files / name, **arrays | {"initial" if name == "mdp.npz" else "weights": bomb})
    panel = name if name.startswith("panel") else "panel.csv"
    reward = ("--features", files / "features.npy") if name == "features.npy" else FIT
    refused(files, name, *fit(files, panel, *reward))
    assert not marker.exists()


# Property: whatever is done to a file, a command ends in a message or in a sound result.

NASTY = st.sampled_from(
    ["", "nan", "-1", "99", "1e400", "0.5", "<script>", "\x00", '"', "9" * 40, "True", "1,2", "−1", "0"]
)
VALUES = st.sampled_from(
    [np.nan, np.inf, -1, 0, 1, 2, 99, 10**18, -(2**63), "text", True, None, 0.5, [], [1], [[0, 1]], 1e308, b"x"]
)
DTYPES = st.sampled_from(["f8", "f4", "i8", "i4", "u8", "?", "U3", "S3", "c16", "O", "M8[s]", "f2"])


@st.composite
def harms(draw, names):
    """A file to harm, and how."""
    name = draw(st.sampled_from(names))
    ways = ["flip", "cut", "insert", "blank"]
    ways += {"npz": ["array", "array"], "csv": ["cell"] * 3, "json": ["entry"] * 3}.get(name.split(".")[-1], [])
    way = draw(st.sampled_from(ways))
    place = draw(st.floats(0, 1, exclude_max=True))
    content = {"cell": NASTY, "entry": VALUES, "array": st.tuples(DTYPES, VALUES, st.integers(0, 3))}
    return name, way, place, draw(content.get(way, st.binary(min_size=1, max_size=8)))


def harmed(folder, name, way, place, content):
    path = folder / name
    data = path.read_bytes()
    at = int(place * len(data))
    if way == "array":
        harmed_arrays(path, place, *content)
    elif way == "cell":
        rows = [line.split(",") for line in data.decode().split("\n")]
        row = rows[int(place * len(rows))]
        row[int(place * 7919) % len(row)] = content
        path.write_bytes("\n".join(",".join(row) for row in rows).encode())
    elif way == "entry":
        harmed_record(path, place, content)
    else:
        change = {
            "flip": lambda: (
                data[:at] + bytes(x ^ y for x, y in zip(data[at:], content, strict=False)) + data[at + len(content) :]
            ),
            "cut": lambda: data[:at],
            "insert": lambda: data[:at] + content + data[at:],
            "blank": lambda: data[:at] + b"\0" * len(content) + data[at + len(content) :],
        }
        path.write_bytes(change[way]())


def harmed_arrays(path, place, dtype, value, axes):
    """One array replaced by another one: its first entry changed, its type, or its shape."""
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    name = list(arrays)[int(place * len(arrays))]
    changed = arrays[name].copy()
    try:
        if axes == 0:
            changed.flat[int(place * changed.size) if changed.size else 0] = value
        elif axes == 1:
            changed = changed.astype(dtype)
        elif axes == 2:
            changed = changed[..., None] if changed.ndim < 2 else changed[:-1]
        else:
            changed = np.array(value)
    except (TypeError, ValueError, OverflowError, IndexError):
        changed = np.array("unfit")
    np.savez(path, **arrays | {name: changed})


def harmed_record(path, place, value):
    """One entry of a JSON record replaced, at any depth."""
    record = json.loads(path.read_text())
    entries = []

    def walk(node):
        for key in node if isinstance(node, dict) else range(len(node)):
            entries.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    walk(record)
    node, key = entries[int(place * len(entries))]
    node[key] = value.decode() if isinstance(value, bytes) else value
    path.write_text(json.dumps(record))


def sound(end):
    """A command that did not succeed said why in one line; none shows NaN."""
    assert end.code in (0, 1, 2), end
    assert "Traceback" not in end.err
    if end.code == 2:
        assert end.err.startswith("irlax: ") and end.err.count("irlax: ") == end.err.count("\n") <= 3
        assert end.out == ""
    else:
        assert "nan" not in end.out.lower()
    assert all(line.startswith("irlax: ") for line in end.err.splitlines())


PROPERTY = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    files = small_files(tmp_path_factory.mktemp("originals"))
    assert irlax(*fit(files, "panel.csv", "--features", files / "features.npy", "--l2", 0.1)).code == 0
    return files


@settings(PROPERTY, max_examples=100)
@given(harm=harms(["mdp.npz", "panel.csv", "panel.parquet", "panel.npz", "features.npy"]))
@example(harm=("panel.csv", "cell", 0.5, "0"))
def test_whatever_the_files_a_fit_ends_in_a_message_or_a_sound_result(originals, harm):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in ("mdp.npz", "panel.csv", "panel.parquet", "panel.npz", "features.npy"):
            shutil.copy(originals / name, folder)
        harmed(folder, *harm)
        before = contents(folder)
        panel = harm[0] if harm[0].startswith("panel") else "panel.csv"
        end = irlax(*fit(folder, panel, "--features", folder / "features.npy", "--l2", 0.1))
        sound(end)
        if end.code == 2:
            assert contents(folder) == before and sorted(path.name for path in folder.iterdir()) == sorted(before)
        else:
            result = load_fit(folder / "run")
            assert np.isfinite(flat(result.reward.parameters)).all() and np.isfinite(result.log_likelihood)
            assert {path.name for path in folder.iterdir()} == {*before, "run"}


@settings(PROPERTY, max_examples=80)
@given(harm=harms(["fit.json", "arrays.npz", "mdp.npz", "demos.npz"]), report=st.integers(0, 19))
def test_whatever_the_folder_a_fit_is_shown_or_refused(originals, harm, report):
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        shutil.copytree(originals / "run", folder)
        harmed(folder, *harm)
        before = contents(folder)
        # Now and then, since drawing takes its time; not at 0, which is tried more often than others.
        end = irlax("report", folder) if report == 7 else irlax("show", folder)
        sound(end)
        if end.code == 2 or report != 7:
            assert contents(folder) == before
