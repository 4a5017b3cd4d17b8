"""A worker: it claims tasks in the folder of a sweep, one after the other, until none is left."""

import os
import time
import traceback
from collections.abc import Callable, Sequence

from irlax import records
from irlax.engine.folder import SWEEP, SweepFolder, write
from irlax.engine.task import Task, rows_of, tasks_of

#: Seconds between two looks at tasks that other workers have claimed.
PAUSE = 0.5


def work(
    folder: SweepFolder,
    tasks: Sequence[Task],
    *,
    retries: int,
    after_each: Callable[[], object] = lambda: None,
    may_go_on: Callable[[], bool] = lambda: True,
) -> None:
    """Do all tasks that nobody else does; wait for those of others, and do them if their workers die."""
    left = [task for task in tasks if not folder.is_over(task)]
    while left and may_go_on():
        waiting = []
        for task in left:
            if not may_go_on():
                return
            if folder.is_over(task):
                continue
            with folder.claimed(task) as mine:
                if mine:
                    attempt(folder, task, retries=retries)
            if folder.is_over(task):
                after_each()
            else:
                waiting.append(task)
        if waiting and len(waiting) == len(left):
            after_each()
            time.sleep(PAUSE)
        left = waiting


def attempt(folder: SweepFolder, task: Task, *, retries: int) -> None:
    """Do a claimed task. An error in it is written down, and so is a task whose workers died too often."""
    before = folder.starts(task)
    if before > retries:
        folder.fail(task, f"{before} workers died while they worked on it.", "")
        return
    folder.note(task, "started")
    try:
        folder.finish(task, rows_of(task, folder.of(task)))
    # Whatever a task raises concerns that task alone.
    except Exception as error:
        folder.fail(task, f"{type(error).__name__}: {error}", traceback.format_exc())


def write_sweep(folder: SweepFolder, tasks: Sequence[Task], files: Sequence[str], together: int) -> None:
    """Write what other processes need in order to work on the sweep."""
    folder.path.mkdir(parents=True, exist_ok=True)
    cases = [case for task in tasks for case in task.cases]
    record = {"function": tasks[0].function, "cases": cases, "files": list(files), "together": together}
    write(folder.path / SWEEP, record)


def read_tasks(folder: SweepFolder) -> list[Task]:
    """The tasks of the sweep in a folder."""
    sweep = records.read_json(folder.path / SWEEP)
    return tasks_of(sweep["function"], sweep["cases"], together=sweep["together"], files=sweep["files"])


def rotated(tasks: Sequence[Task], part: int, parts: int) -> list[Task]:
    """All tasks from a place of one's own on, so that workers seldom want the same one."""
    start = len(tasks) * part // parts
    return [*tasks[start:], *tasks[:start]]


def work_in_process(path: str, part: int, parts: int, retries: int, *, parent: int | None = None) -> None:
    """Work on the sweep in a folder, as one of several processes; end when the process that started this one has."""
    from irlax.compilation import use_compilation_cache

    use_compilation_cache()
    folder = SweepFolder(path)
    alive = (lambda: True) if parent is None else (lambda: os.getppid() == parent)
    work(folder, rotated(read_tasks(folder), part, parts), retries=retries, may_go_on=alive)
