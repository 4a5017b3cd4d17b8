"""Compiled programs are kept on disk, where the user or the system says, and never an error."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from irlax import compilation

FIT = """
import sys, jax, numpy as np, irlax as ix
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
np.asarray(jax.numpy.zeros(3) + 1)  # JAX has looked for a cache before it is asked to use one
folder = ix.use_compilation_cache()
mdp = ix.MDP.from_dense(np.full((2, 2, 2), 0.5), [1.0, 0.0], discount=0.9, horizon=3)
ix.hard_plan(mdp, np.array([0.0, 1.0]))  # soft plans of small problems compile nothing
print(folder, hits.count("/jax/compilation_cache/cache_hits"))
"""


def in_a_new_process(script, **variables):
    """What a script prints in a process where nothing says where programs are kept, but these variables."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "IRLAX_", "XDG_"))}
    own |= {"JAX_PLATFORMS": "cpu", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=own | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


def test_the_second_process_finds_what_the_first_compiled(tmp_path):
    folder, first = in_a_new_process(FIT, XDG_CACHE_HOME=str(tmp_path))
    assert Path(folder).parent == tmp_path / "irlax" / "compiled" and first == "0"
    again, second = in_a_new_process(FIT, XDG_CACHE_HOME=str(tmp_path))
    assert again == folder and int(second) >= 1


@pytest.fixture
def no_settings(monkeypatch, tmp_path):
    """As in a process where nothing says where programs are kept; what JAX is told is collected."""
    told = {}
    for name in (compilation.VARIABLE, "JAX_COMPILATION_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(compilation, "_setting", told.get)
    monkeypatch.setattr(jax.config, "update", told.__setitem__)
    monkeypatch.setattr(sys, "platform", "linux")
    return told


def test_the_variables_say_where(no_settings, monkeypatch, tmp_path):
    assert compilation.use_compilation_cache().is_relative_to(tmp_path / "cache")
    no_settings.clear()
    monkeypatch.setenv(compilation.VARIABLE, str(tmp_path / "own"))
    assert compilation.use_compilation_cache().parent == tmp_path / "own"
    assert compilation.use_compilation_cache(tmp_path / "given") == tmp_path / "given"
    # JAX's own setting comes before ours, and is left as it is.
    assert no_settings["jax_compilation_cache_dir"] == str(tmp_path / "given")
    assert compilation.use_compilation_cache() == tmp_path / "given"


def test_no_cache_is_no_error(no_settings, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    assert compilation.use_compilation_cache(tmp_path / "file" / "inside") is None
    monkeypatch.setenv(compilation.VARIABLE, "off")
    assert compilation.use_compilation_cache() is None
    assert not no_settings


def test_the_folder_does_not_grow_for_ever(no_settings, monkeypatch):
    folder = compilation.use_compilation_cache()
    for age in range(10):
        (folder / str(age)).write_bytes(bytes(100))
        os.utime(folder / str(age), (1e9 - age, 1e9 - age))
    monkeypatch.setattr(compilation, "MAX_BYTES", 800)
    no_settings.clear()
    compilation.use_compilation_cache()
    assert sorted(path.name for path in folder.iterdir()) == ["0", "1", "2", "3"]
