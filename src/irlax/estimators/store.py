"""Fits on disk: a folder of JSON and arrays, from which nothing is ever run.

==============  ==========================================================================================
``fit.json``    the format, the versions of the packages that wrote it, and the record of the fit
``arrays.npz``  the arrays that the record names
``mdp.npz``     an MDP with the start distribution that was used (a second one: ``mdp1.npz``, and so on)
``demos.npz``   demonstrations, likewise
``report.html`` the report, if it was written
==============  ==========================================================================================

What is in the record is said by the fit's own class (see `irlax.registry`).
"""

import contextlib
import importlib
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import scipy

from irlax import checks, records, registry, storage
from irlax.demos import Demonstrations, DemoStatistics
from irlax.demos.read_write import read_demos, write_demos
from irlax.estimators.fit import Fit
from irlax.mdp import MDP
from irlax.mdp.npz import load_mdp, save_mdp
from irlax.registry import FileFormat
from irlax.run_folder import CHECKPOINT, LOG
from irlax.status import Status
from irlax.version import __version__

#: Raised when a folder's layout changes; what a class keeps in its record may grow without that.
FORMAT = "irlax-run-1"
FIT, PROBLEM, ARRAYS, REPORT = "fit.json", "problem.json", "arrays.npz", "report.html"
#: Whatever else lies in a folder is not irlax's to remove.
_OURS = re.compile(
    r"fit\.json|arrays\.npz|(mdp|demos|statistics)\d*\.npz|report\.html|checkpoint\.npz|log\.jsonl|events\..*"
)
#: The packages, below `irlax.estimators`, whose classes a fit may hold.
_ROOMS = ("tabular", "mixed", "goals", "sampled")
_INSIDE = re.compile(r"[a-z]+\d*\.npz")

registry.stored_in_file("mdp", MDP, save_mdp, load_mdp)
registry.stored_in_file("demos", Demonstrations, write_demos, read_demos)
registry.stored_in_file("statistics", DemoStatistics, lambda path, thing: thing.save(path), DemoStatistics.load)


def save(fit: Fit, path: str | os.PathLike[str]) -> Path:
    """Write a fit as the folder `path`, whole or not at all; an older fit there is replaced, nothing else is."""
    target = check_target(path)
    parts = registry.to_parts(fit)
    with replacing_folder(target) as folder:
        _write(folder, FIT, parts)
        # The log of a run belongs to its fit; its checkpoint is of use as long as the fit is unfinished.
        kept = [LOG, "events.*", *([CHECKPOINT] if fit.status is Status.INTERRUPTED else [])]
        for old in (path for pattern in kept for path in target.glob(pattern)):
            shutil.copy2(old, folder)
    return Path(path)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fit that `save` wrote. Nothing in the folder is ever run; a damaged one is a ValueError."""
    folder = _existing(path)
    try:
        fit = _read(folder, FIT)
        if not isinstance(fit, Fit):
            raise TypeError(f"It holds a {type(fit).__name__}, not a fit.")
        return fit
    except (TypeError, ValueError) as error:
        raise ValueError(str(storage.in_file(folder, error))) from None
    # A planner or a parser that fails in a way of its own (RecursionError, MemoryError, XlaRuntimeError, OSError).
    except Exception as error:
        raise ValueError(f"{folder} cannot be read as a fit: {error or type(error).__name__}.") from None


def save_problem(problem: tuple[Any, ...], path: str | os.PathLike[str]) -> Path:
    """Write what a fit is made from (estimators, rewards, MDPs, demonstrations), for other processes to read."""
    parts = registry.to_parts(problem)
    with replacing_folder(Path(path).resolve()) as folder:
        _write(folder, PROBLEM, parts)
    return Path(path)


def load_problem(path: str | os.PathLike[str]) -> Any:
    """Read what `save_problem` wrote."""
    return _read(_existing(path), PROBLEM)


def versions_of(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The packages that wrote a fit, with their versions."""
    record = records.read_json(_present(_existing(path), FIT))
    return [(str(name), str(version)) for name, version in records.field(record, "versions", dict).items()]


def is_run(path: Path) -> bool:
    """Whether a folder calls itself a fit of irlax, of whatever format."""
    try:
        return str(records.read_json(path / FIT).get("format")).startswith("irlax-")
    except (ValueError, OSError, RecursionError, MemoryError):
        return False


def check_target(path: str | os.PathLike[str]) -> Path:
    """Where a fit may be written: nothing is there, an empty folder, or a fit of irlax and nothing else."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"`path` must be the name of a folder, but is a {type(path).__name__}.")
    target = Path(path).resolve()
    above = next((parent for parent in target.parents if parent.exists()), target)
    if not target.name or not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(f"A fit cannot be written at {path}: {above} is not a folder that can be written to.")
    if not target.exists():
        return target
    if not target.is_dir():
        raise ValueError(f"{path} is a file. A fit is a folder; choose a name that is free.")
    names = sorted(entry.name for entry in target.iterdir())
    strange = [name for name in names if not _OURS.fullmatch(name)]
    if names and (strange or not (is_run(target) or {CHECKPOINT, LOG} & set(names))):
        raise ValueError(
            f"{path} is not a fit of irlax that may be replaced: it holds {checks.some(strange or names)}. Choose "
            f"another folder, or move what is there."
        )
    return target


@contextlib.contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `target` at the end, or vanishes if anything goes wrong."""
    target.parent.mkdir(parents=True, exist_ok=True)
    mark = secrets.token_hex(4)
    temporary, old = (target.with_name(f".{target.name}.{mark}.{kind}") for kind in ("tmp", "old"))
    temporary.mkdir()
    try:
        yield temporary
        if target.exists():
            target.rename(old)
        temporary.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def package_versions() -> dict[str, str]:
    """The packages that write a fit now."""
    packages = (jax, np, scipy, eqx)
    own = {"python": platform.python_version(), "irlax": __version__}
    return own | {package.__name__: package.__version__ for package in packages}


def _write(folder: Path, name: str, parts: registry.Parts) -> None:
    record = {"format": FORMAT, "versions": package_versions(), Path(name).stem: parts.record}
    (folder / name).write_bytes(records.as_json(record))
    storage.save_arrays(folder / ARRAYS, parts.arrays)
    for file, thing in parts.files.items():
        registry.file_format(thing).write(folder / file, thing)


def _existing(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"`path` must be the name of a folder, but is a {type(path).__name__}.")
    folder = Path(path)
    if not folder.is_dir():
        what = "is a file, not the folder of a fit" if folder.exists() else "does not exist"
        raise ValueError(f"{folder} {what}. Give the very path that the fit was saved to.")
    return folder


def _read(folder: Path, name: str) -> Any:
    record = records.read_json(_present(folder, name))
    stated = records.field(record, "format", str)
    if stated != FORMAT:
        raise ValueError(
            f"Its format is {stated!r:.60}, but {FORMAT!r} is read here: another version of irlax wrote it."
        )
    inside = records.field(record, Path(name).stem, dict if name == FIT else list)
    _import_kinds(inside)
    arrays = storage.load_arrays(_present(folder, ARRAYS), registry.array_names(inside), "the arrays of a fit (.npz)")
    return registry.from_parts(inside, arrays, lambda file, form: _read_file(folder, file, form))


def _import_kinds(record: Any) -> None:
    """Import the classes that a record names: a program that only reads a fit has not imported its estimator."""
    for room in _ROOMS:
        if not registry.knows_all(record):
            package = importlib.import_module(f"irlax.estimators.{room}")
            for name in package.__all__:
                getattr(package, name)


def _read_file(folder: Path, name: str, form: FileFormat) -> Any:
    if not _INSIDE.fullmatch(name):
        raise ValueError(f"The name of a file is {name!r:.60}, which is not one of ours.")
    path = _present(folder, name)
    found = form.read(path)
    if isinstance(found, MDP):
        # Fits are planned for again when they are read, and the values of all times are kept.
        storage.fits_in_memory(path, 8 * found.num_states * (found.horizon or 1))
    return found


def _present(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        raise ValueError(f"{folder} holds no {name}, so it is not the whole folder of a fit.")
    return folder / name
