import dataclasses
import io
import pickle
import zipfile

import equinox as eqx
import numpy as np
import pytest

from irlax import storage
from irlax.demos import read_demos, write_demos
from tests.demos.test_files import labelled


def test_npz_keeps_repeated_labels_and_their_order(tmp_path):
    demos = labelled().select([3, 1, 3])
    write_demos(tmp_path / "demos.npz", demos)
    assert eqx.tree_equal(read_demos(tmp_path / "demos.npz"), demos)


def test_objects_cannot_be_written(tmp_path):
    demos = dataclasses.replace(labelled(), labels=np.array([object()] * labelled().num_episodes))
    with pytest.raises(TypeError, match="only as a pickle"):
        write_demos(tmp_path / "demos.npz", demos)
    assert not list(tmp_path.iterdir())


def arrays(**changes):
    """A valid archive, but for the changes; None leaves one out."""
    valid = {
        "actions": np.array([0, 1, 0]),
        "offsets": np.array([0, 2, 3]),
        "terminated": np.array([True, False]),
        "states": np.array([0, 1, 2]),
    }
    return {name: array for name, array in (valid | changes).items() if array is not None}


def test_a_handmade_archive_needs_no_more_than_rows_and_offsets(tmp_path):
    np.savez(tmp_path / "demos.npz", **arrays())
    demos = read_demos(tmp_path / "demos.npz")
    assert demos.times.tolist() == [0, 1, 0] and demos.weights.tolist() == [1, 1]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"states": None}, r"no states \(or observations\); it holds actions, offsets, terminated"),
        ({"offsets": None}, "has no offsets"),
        ({"stats": np.zeros(3)}, "holds 'stats', but may hold only format, actions"),
        ({"format": "irlax-demos-9"}, "must have the format 'irlax-demos-1', but says 'irlax-demos-9'"),
        ({"format": np.array(["a", "b"])}, "must have the format"),
        ({"offsets": np.array([0, 2])}, "rise from 0 to the number of rows, 3"),
        ({"offsets": np.array([1, 2, 3])}, "rise from 0"),
        ({"offsets": np.array([0, 3, 3])}, "rise from 0"),
        ({"offsets": np.array([0, 5, 3])}, "rise from 0"),
        ({"offsets": np.array([0, -(2**63), 3])}, "rise from 0"),
        ({"offsets": np.array([0])}, "at least one episode"),
        ({"offsets": np.array([[0, 3]])}, "`offsets` must have shape"),
        ({"offsets": np.array([0.0, 2.0, 3.0])}, "`offsets` must hold integers"),
        ({"terminated": np.array([1, 0])}, "`terminated` must hold booleans"),
        ({"terminated": np.array([True])}, "`terminated` must have shape"),
        ({"states": np.array([0, 1])}, "`states` must have shape"),
        ({"states": np.array([0.0, 1.0, 2.0])}, "`states` must hold integers"),
        ({"states": np.array([0, -1, 2])}, "`states` must not be negative"),
        ({"states": np.array([0, 2**63, 2], np.uint64)}, "64-bit"),
        ({"actions": np.array([0.0, 1.0, 2.0])}, "`actions` must hold integers"),
        ({"actions": np.zeros((3, 1), int)}, "`actions` must have shape"),
        ({"actions": np.array(0)}, "single value"),
        ({"times": np.array([0, 0, 0])}, "`times` must increase"),
        ({"times": np.array([0, -1, 0])}, "`times` must not be negative"),
        ({"times": np.array([0, 2**63 - 1, 0])}, "`times` must not exceed"),
        ({"times": np.array([0, 1])}, "`times` must have shape"),
        ({"weights": np.array([1.0, np.nan])}, "`weights` must be finite"),
        ({"weights": np.array([1.0, -1.0])}, "`weights` must not be negative"),
        ({"weights": np.array([1, 1])}, "`weights` must hold floats"),
        ({"rewards": np.array([1.0, np.inf, 0.0])}, "`rewards` must be finite"),
        ({"labels": np.array([1.0, 2.0])}, "`labels` must hold integers or text"),
        ({"labels": np.array(["a"])}, "`labels` must have shape"),
        ({"labels": np.frombuffer(b"\xff" * 8, "<U1")}, "not valid Unicode"),
        ({"observations": np.zeros((2, 4))}, "`observations` must have shape"),
        ({"observations": np.full((3, 4), np.nan)}, "`observations` must be finite"),
        ({"observations": np.zeros((3, 4)), "next_observations": np.zeros((3, 5))}, "`next_observations`"),
        ({"observations": np.zeros((3, 4), complex)}, "`observations` must hold floats"),
        ({"states": None, "observations": np.zeros(3), "actions": np.array(list("abc"))}, "integers or floats"),
    ],
)
def test_an_inconsistent_archive_is_refused(tmp_path, changes, message):
    path = tmp_path / "demos.npz"
    np.savez(path, **arrays(**changes))
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        read_demos(path)
    assert str(path) in str(caught.value)


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


def test_pickles_are_never_loaded(tmp_path):
    marker, path = tmp_path / "marker", tmp_path / "demos.npz"
    for name in ("states", "labels", "format"):
        np.savez(path, **arrays(**{name: np.array([Trap(marker)] * 3, object)}))
        with pytest.raises(ValueError, match=f"{name}.npy holds Python objects, which are never loaded"):
            read_demos(path)
    path.write_bytes(pickle.dumps(Trap(marker)))
    with pytest.raises(ValueError, match="cannot be read"):
        read_demos(path)
    assert not marker.exists()


def archive(path, header, payload=b"", **options):
    """An .npz file with one member, whose header says what we like."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, header)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("states.npy", buffer.getvalue() + payload, **options)


def test_an_archive_that_declares_more_than_it_holds_is_refused(tmp_path):
    path = tmp_path / "demos.npz"
    for shape in ((10**12,), (2**62, 2**62), (-1,), (3,)):
        archive(path, {"descr": "<i8", "fortran_order": False, "shape": shape}, bytes(16))
        with pytest.raises(ValueError, match="but has another size"):
            read_demos(path)
    archive(path, {"descr": "<U0", "fortran_order": False, "shape": (10**18,)})
    with pytest.raises(ValueError, match="but has another size"):
        read_demos(path)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "demos.npz"
    archive(path, {"descr": "<i8", "fortran_order": False, "shape": (2**21,)}, bytes(2**24))
    assert path.stat().st_size < 2**15
    monkeypatch.setattr(storage, "MAX_BYTES", 2**23)
    with pytest.raises(ValueError, match="GiB of arrays, more than"):
        read_demos(path)


def test_strange_members_are_refused(tmp_path):
    path = tmp_path / "demos.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("states.npy", b"x")
    with pytest.raises(ValueError, match="another method than deflate"):
        read_demos(path)
    with zipfile.ZipFile(path, "w") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("states.npy", b"x")
        file.writestr("states.npy", b"y")
    with pytest.raises(ValueError, match="'states' more than once"):
        read_demos(path)
