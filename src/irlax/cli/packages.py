"""Which of the packages that irlax needs, or can use, are installed."""

import importlib.metadata
from typing import NamedTuple

from packaging.requirements import Requirement

from irlax.version import __version__

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


def packages() -> list[Package]:
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
