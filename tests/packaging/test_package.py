"""What is in the wheel, and what its metadata promise."""

import subprocess
import sys
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = out.glob("irlax-*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_holds_every_module_the_data_and_the_mark_of_types(wheel):
    packed = {name for name in wheel.namelist() if name.startswith("irlax/")}
    source = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "irlax").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {"irlax/py.typed", "irlax/data/experts/README.md", "irlax/reproduce/rust_1987.py"} <= source
    assert packed == source
    others = {name.split("/")[0] for name in wheel.namelist()} - {"irlax"}
    assert all(name.endswith(".dist-info") for name in others), others


def test_the_wheel_brings_the_command_and_the_licence(wheel):
    (entries,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "irlax = irlax.cli:main" in wheel.read(entries).decode()
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())


def test_metadata_say_what_the_project_says(wheel):
    (path,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    metadata = Parser().parsestr(wheel.read(path).decode())
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    needed = {Requirement(text).name for text in metadata.get_all("Requires-Dist") if "extra" not in text}
    assert needed == {Requirement(text).name for text in PROJECT["dependencies"]}


@pytest.mark.parametrize("extra", PROJECT["optional-dependencies"])
def test_an_extra_parses_and_names_extras_that_exist(extra):
    for text in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == "irlax":
            assert requirement.extras <= set(PROJECT["optional-dependencies"])
        assert requirement.name.isascii() and not requirement.url
