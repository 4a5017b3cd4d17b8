"""`irlax doctor`: the installed packages, the devices of JAX, and a self-check of irlax."""

import importlib.metadata
import platform
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from packaging.requirements import Requirement

from irlax.cli.options import AsJson, emit
from irlax.cli.selfcheck import Check, run_checks
from irlax.version import __version__

if TYPE_CHECKING:
    from irlax.tables import Summary

#: Extras for the development of irlax, which users do not need.
_NOT_FOR_USERS = ("dev",)


class Package(NamedTuple):
    """A package that irlax needs, or can use."""

    name: str
    #: The extra that requires it; empty if irlax always does.
    extra: str
    wanted: str
    found: str | None
    #: Whether it is installed, in a version that is wanted, with the extras that are wanted.
    fits: bool

    @property
    def state(self) -> str:
        """The state as text for a table."""
        return "ok" if self.fits else "missing" if self.found is None else "too old or incomplete"


def doctor(*, as_json: AsJson = False) -> None:
    """Print what is installed and which devices there are, and check in some seconds that irlax computes correctly.

    The exit code is 1 if something that irlax needs is missing or too old, or if a check fails. Extras are optional:
    those that are not installed are listed with the command that installs them.
    """
    packages, devices, checks = _packages(), _devices(), run_checks()
    healthy = all(check.passed for check in checks) and all(package.fits for package in packages if not package.extra)
    record = {
        "healthy": healthy,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": [package._asdict() for package in packages],
        "extras": _extras(packages),
        "devices": devices,
        "checks": [check._asdict() for check in checks],
    }
    emit(_report(packages, devices, checks, healthy), record, as_json=as_json)
    raise typer.Exit(0 if healthy else 1)


def _packages() -> list[Package]:
    """irlax, jaxlib, and the packages that the metadata of irlax require; without metadata only the first two."""
    import jaxlib.version

    own = [Package("irlax", "", "", __version__, True), Package("jaxlib", "", "", jaxlib.version.__version__, True)]
    try:
        metadata = importlib.metadata.metadata("irlax")
    except importlib.metadata.PackageNotFoundError:
        return own
    extras = [extra for extra in metadata.get_all("Provides-Extra") or () if extra not in _NOT_FOR_USERS]
    return own + [_package(wanted, extra) for extra in ("", *extras) for wanted in _requirements("irlax", extra)]


def _requirements(name: str, extra: str) -> list[Requirement]:
    """The requirements of an installed package: those without an extra, or those of an extra."""
    wanted = [Requirement(text) for text in importlib.metadata.requires(name) or ()]
    always = [each for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
    if not extra:
        return always
    return [each for each in wanted if each not in always and each.marker and each.marker.evaluate({"extra": extra})]


def _package(wanted: Requirement, extra: str) -> Package:
    name = str(wanted.name) + (f"[{','.join(sorted(wanted.extras))}]" if wanted.extras else "")
    try:
        version = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return Package(name, extra, str(wanted.specifier), None, False)
    inner = [_package(each, extra) for more in wanted.extras for each in _requirements(wanted.name, more)]
    fits = wanted.specifier.contains(version, prereleases=True) and all(package.fits for package in inner)
    return Package(name, extra, str(wanted.specifier), version, fits)


def _extras(packages: list[Package]) -> dict[str, dict[str, Any]]:
    """Whether each extra is completely installed, and the command that installs it."""
    extras = dict.fromkeys(package.extra for package in packages if package.extra)
    return {
        extra: {
            "installed": all(package.fits for package in packages if package.extra == extra),
            "install": f"pip install 'irlax[{extra}]'",
        }
        for extra in extras
    }


def _devices() -> list[dict[str, Any]]:
    import jax

    return [{"id": device.id, "platform": device.platform, "kind": device.device_kind} for device in jax.devices()]


def _report(packages: list[Package], devices: list[dict[str, Any]], checks: list[Check], healthy: bool) -> "Summary":
    from irlax.tables import Summary, Table, pairs

    device_rows = [(f"{device['platform']} {device['id']}", device["kind"]) for device in devices]
    about = [("python", platform.python_version()), ("platform", platform.platform()), *device_rows]
    needed = [(package.name, package.found, package.wanted, package.state) for package in packages if not package.extra]
    extras = [
        (
            extra,
            ", ".join(f"{package.name} {package.state}" for package in packages if package.extra == extra),
            "installed" if state["installed"] else state["install"],
        )
        for extra, state in _extras(packages).items()
    ]
    tried = [
        (check.name, check.detail, "ok" if check.passed else "FAILS", f"{check.seconds:.1f} s") for check in checks
    ]
    verdict = "No problems found." if healthy else "There are problems: look for FAILS, missing and too old."
    return Summary(
        [
            pairs("This machine", about),
            Table(("package", "found", "wanted", "state"), needed, title="What irlax needs"),
            Table(("extra", "packages", "state"), extras, title="What it can use"),
            Table(("check", "found", "verdict", "time"), tried, title="Self-check", notes=(verdict,)),
        ]
    )
