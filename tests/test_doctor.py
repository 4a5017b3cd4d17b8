"""`irlax doctor`: what is there, and whether it computes rightly."""

import importlib.metadata
import json

import pytest

from irlax.cli import doctor, selfcheck
from irlax.version import __version__
from tests.command_line import irlax


class Distribution:
    """Metadata of an irlax that needs three packages, and more for its extras."""

    REQUIRES = (
        "numpy>=1",
        "scipy>=999",
        "nowhere-to-be-found",
        'pandas>=1; extra == "good"',
        'gone>=2; extra == "bad"',
    )


@pytest.fixture
def installed(monkeypatch):
    real = importlib.metadata.requires
    metadata = importlib.metadata.metadata("numpy")
    metadata["Provides-Extra"] = "good"
    metadata["Provides-Extra"] = "bad"
    monkeypatch.setattr(importlib.metadata, "metadata", lambda name: metadata)
    monkeypatch.setattr(
        importlib.metadata, "requires", lambda name: Distribution.REQUIRES if name == "irlax" else real(name)
    )


def test_a_sound_installation_is_healthy():
    end = irlax("doctor", "--json")
    record = json.loads(end.out)
    found = {package["name"]: package["found"] for package in record["packages"]}
    assert found["irlax"] == __version__ and "jaxlib" in found
    assert record["devices"][0]["platform"] == "cpu"
    assert [check["passed"] for check in record["checks"]] == [True] * len(selfcheck.CHECKS), record["checks"]
    assert end.code == (0 if record["healthy"] else 1)


def test_what_is_missing_or_old_is_a_fault_and_an_absent_extra_is_not(installed, monkeypatch):
    monkeypatch.setattr(doctor, "run_checks", list)
    end = irlax("doctor", "--json")
    record = json.loads(end.out)
    fits = {package["name"]: package["fits"] for package in record["packages"]}
    assert end.code == 1 and not record["healthy"]
    assert (fits["numpy"], fits["scipy"], fits["nowhere-to-be-found"], fits["pandas"]) == (True, False, False, True)
    assert record["extras"]["good"]["installed"]
    assert record["extras"]["bad"] == {"installed": False, "install": "pip install 'irlax[bad]'"}
    monkeypatch.setattr(Distribution, "REQUIRES", ("numpy>=1", 'gone>=2; extra == "bad"'))
    shown = irlax("doctor")
    assert shown.code == 0 and "pip install 'irlax[bad]'" in shown.out and "No problems found" in shown.out


def test_a_check_that_fails_is_told_not_raised(monkeypatch):
    def broken():
        raise RuntimeError("the sky is down")

    monkeypatch.setattr(selfcheck, "CHECKS", {"sky": broken, "sum": lambda: selfcheck._within("off by", 2.0, 1.0)})
    sky, off = selfcheck.run_checks()
    assert not sky.passed and "the sky is down" in sky.detail
    assert not off.passed and "2" in off.detail
    assert irlax("doctor").code == 1
