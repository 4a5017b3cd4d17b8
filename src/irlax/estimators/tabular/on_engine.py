"""Resamples and folds as the tasks of a sweep, which read the fit or the problem from the sweep's folder."""

import functools
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from irlax.engine import AbstractEngine, map_fits
from irlax.engine.task import Row
from irlax.estimators.store import load_problem, save_problem


def rows_on(
    engine: AbstractEngine | None,
    function: Callable[..., list[Row] | Row],
    cases: Sequence[dict[str, Any]],
    *,
    problem: tuple[Any, ...],
    out: str | os.PathLike[str] | None,
    together: int = 1,
) -> list[Row]:
    """The row of each case, by a function that reads the problem by `problem_of`. `out` is the sweep's folder.

    Each case has, beside its own arguments, the name of the problem as `problem`. An error in a task is raised here. So
    is that tasks are left to other jobs of a job array.
    """
    if out is None:
        with tempfile.TemporaryDirectory(prefix="irlax-sweep-") as temporary:
            return rows_on(engine, function, cases, problem=problem, out=temporary, together=together)
    name = _write_once(problem, Path(out))
    sweep = map_fits(function, [{"problem": name, **case} for case in cases], engine=engine, out=out, together=together)
    if sweep.errors:
        raise RuntimeError(f"{sweep.errors[0]['error']}\n{sweep.errors[0]['traceback']}")
    if sweep.missing:
        raise RuntimeError(
            f"{sweep.missing} of {len(cases)} cases are left to other jobs. When these are over, the same call returns "
            f"the result."
        )
    return sweep.table.to_dict("records")


def problem_of(folder: Path, name: str) -> tuple[Any, ...]:
    """The problem of a case of `rows_on`, from the folder of its task."""
    return _read_once(folder.parents[1] / name)


def _write_once(problem: tuple[Any, ...], folder: Path) -> str:
    """Write the problem under a name that says what is in it: another job may be reading the same one."""
    folder.mkdir(parents=True, exist_ok=True)
    new = save_problem(problem, folder / f".problem.{secrets.token_hex(4)}")
    digest = hashlib.sha256()
    for path in sorted(new.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    name = f"problem-{digest.hexdigest()[:20]}"
    try:
        new.rename(folder / name)
    except OSError:
        shutil.rmtree(new)
        if not (folder / name).is_dir():
            raise
    return name


@functools.lru_cache(maxsize=1)
def _read_once(path: Path) -> tuple[Any, ...]:
    return load_problem(path)
