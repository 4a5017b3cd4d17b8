"""`map_fits`: many fits by one call, on an engine of choice, as one table."""

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from irlax import checks, storage
from irlax.engine.engines import AbstractEngine, Here
from irlax.engine.folder import LOG, TABLE, SweepFolder
from irlax.engine.task import Task, tasks_of
from irlax.engine.work import write_sweep
from irlax.loggers import AbstractLogger, Write, all_opened
from irlax.progress import progress_bar
from irlax.user_warnings import warn_user

if TYPE_CHECKING:
    import pandas as pd


class Sweep(NamedTuple):
    """The result of a sweep."""

    #: A row for each case that is finished, in the order of the cases: its arguments, and what the function returned.
    table: "pd.DataFrame"
    #: The arguments of each task that failed, its error and its traceback.
    errors: list[dict[str, Any]]
    #: How many cases are neither finished nor failed: those of other jobs of a job array.
    missing: int


def map_fits(
    function: Callable[..., Any] | str,
    cases: Sequence[Mapping[str, Any]],
    *,
    engine: AbstractEngine | None = None,
    out: str | os.PathLike[str] | None = None,
    together: int = 1,
    files: Sequence[str] = (),
    retries: int = 5,
    progress: bool | None = None,
    loggers: Sequence[AbstractLogger] = (),
) -> Sweep:
    """Call a function for each case, on an engine, and return one table.

    A case is a dict of the function's arguments: numbers, text, lists. The function builds the problem from them, fits,
    and returns a dict of plain values, a row of the table; randomness comes from an argument such as `seed`, so that
    every engine gives the same table, bit for bit. It must be importable: defined in a module, or given as
    "module:name". If it has an argument `folder`, it receives the task's run folder, to save a fit in. If it has an
    argument `cases`, it receives `together` cases at once, and returns a row for each, for example by `fit_many`.

    `engine` is `Here()`, `Processes(...)`, `OnRay(...)` or `Shard(part, of)` of `irlax.engine`. `out` is the folder of
    the sweep. Each task is kept there under a hash of what it does: the same call goes on after it was killed, and with
    other cases only those are computed that are new. `files` names arguments that are paths of files, which count by
    what is in them. A task whose worker dies is done by others, which may die `retries` times, too; one that raises an
    error does not stop the rest, and is tried again by the next call. `loggers` (of `irlax.loggers`) receive how many
    tasks are over, as the folder's log.jsonl does.
    """
    checks.count("retries", retries, 0)
    if not cases:
        raise ValueError("`cases` must hold at least one case, but is empty.")
    if out is None:
        with tempfile.TemporaryDirectory(prefix="irlax-sweep-") as folder:
            return map_fits(
                function, cases, engine=engine, out=folder, together=together, files=files, retries=retries,
                progress=progress, loggers=loggers,
            )  # fmt: skip
    folder, tasks = SweepFolder(out), tasks_of(function, cases, together=together, files=files)
    write_sweep(folder, tasks, files, together)
    engine = Here() if engine is None else engine
    own = engine.own(tasks)
    for task in own:
        folder.forget_error(task)
    with progress_bar("sweep", len(own), shown=progress) as bar, all_opened(loggers, folder.path) as send:
        counter = _Counter(folder, own, bar.update, send)
        engine.run(folder, own, retries, counter.report)
        counter.report(last=True)
    found = collected(folder, tasks)
    if found.errors:
        warn_user(
            f"{len(found.errors)} of {len(tasks)} tasks failed, the first with {found.errors[0]['error']!r:.200}. "
            f"`.errors` has all of them; the same call tries them again."
        )
    return found


def collected(folder: SweepFolder, tasks: Sequence[Task]) -> Sweep:
    """The table of what is finished; it is also written, if nothing is missing."""
    import pandas as pd

    rows, errors, missing = [], [], 0
    for task in tasks:
        if folder.is_finished(task):
            found = folder.rows(task)
            rows += [{**case, **row} for case, row in zip(task.cases, found, strict=True)]
        elif (error := folder.error(task)) is not None:
            errors.append({"task": task.name, **error})
        else:
            missing += len(task.cases)
    table = pd.DataFrame(rows)
    if not missing and len(table):
        with storage.replacing(folder.path / TABLE) as file:
            table.to_parquet(file, index=False)
    return Sweep(table, errors, missing)


class _Counter:
    """Says how many tasks are over, on the bar and in the sweep's log, when that has changed."""

    def __init__(
        self, folder: SweepFolder, tasks: Sequence[Task], show: Callable[[int, str], object], send: Write
    ) -> None:
        self._folder, self._show, self._send = folder, show, send
        self._left, self._done, self._failed = list(tasks), 0, 0
        self._started, self._said = time.time(), -1

    def report(self, *, last: bool = False) -> None:
        over = [task for task in self._left if self._folder.is_over(task)]
        self._failed += sum(not self._folder.is_finished(task) for task in over)
        self._done += len(over)
        gone = {task.name for task in over}
        self._left = [task for task in self._left if task.name not in gone]
        self._show(self._done, f"{self._failed} failed" if self._failed else "")
        if self._done != self._said or last:
            self._said = self._done
            line = {"step": self._done, "failed": self._failed, "seconds": round(time.time() - self._started, 3)}
            with (self._folder.path / LOG).open("a", encoding="ascii") as file:
                file.write(json.dumps(line) + "\n")
            self._send(line)
