"""`irlax doctor`: the installed packages, the devices of JAX, and a self-check of irlax."""

import platform
from typing import TYPE_CHECKING, Any

import typer

from irlax.cli.options import AsJson, emit
from irlax.cli.selfcheck import Check, run_checks

if TYPE_CHECKING:
    from irlax.cli.packages import Package
    from irlax.tables import Summary


def doctor(*, as_json: AsJson = False) -> None:
    """Print what is installed and which devices there are, and check in some seconds that irlax computes correctly.

    The exit code is 1 if something that irlax needs is missing or too old, or if a check fails. Extras are optional:
    those that are not installed are listed with the command that installs them.
    """
    # To read the metadata of packages takes a while to import, which every other command would wait for as well.
    from irlax.cli.packages import packages as list_packages

    packages, devices, checks = list_packages(), _devices(), run_checks()
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


def _extras(packages: "list[Package]") -> dict[str, dict[str, Any]]:
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


def _report(packages: "list[Package]", devices: list[dict[str, Any]], checks: list[Check], healthy: bool) -> "Summary":
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
