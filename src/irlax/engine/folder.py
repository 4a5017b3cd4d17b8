"""The folder of a sweep, which is all that its workers share.

================================ =============================================================================
``sweep.json``                   the function, the cases and how many are computed together
``tasks/NAME/``                  the run folder of each task, with whatever its function writes there
``tasks/NAME/rows.json``         its rows, written whole: the task is finished
``tasks/NAME/error.json``        why it failed, if it did
``tasks/NAME/claim.json``        who works on it now; touched every few seconds
``tasks/NAME/events.jsonl``      when it was started, and how it ended, each time
``table.parquet``                the rows of all cases, in their order
``log.jsonl``                    how many tasks were finished when
================================ =============================================================================
"""

import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from irlax import records, storage
from irlax.engine.task import Row, Task

SWEEP, TABLE, LOG = "sweep.json", "table.parquet", "log.jsonl"
ROWS, ERROR, CLAIM, EVENTS = "rows.json", "error.json", "claim.json", "events.jsonl"
#: Seconds after which a claim that was not touched belongs to a worker that died, and between two touches.
STALE, BEAT = 60.0, 5.0


class SweepFolder:
    """The state of the tasks of a sweep, in files; every change of it is atomic."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is a file. Name a folder for the sweep.")

    def of(self, task: Task) -> Path:
        """The run folder of a task."""
        return self.path / "tasks" / task.name

    def is_finished(self, task: Task) -> bool:
        """Whether its rows are there."""
        return (self.of(task) / ROWS).exists()

    def is_over(self, task: Task) -> bool:
        """Whether it is finished or has failed."""
        return self.is_finished(task) or (self.of(task) / ERROR).exists()

    def rows(self, task: Task) -> list[Row]:
        """The rows of a finished task."""
        found = records.read_json(self.of(task) / ROWS)
        return [records.from_plain_map(row) for row in found["rows"]]

    def error(self, task: Task) -> dict[str, Any] | None:
        """Why it failed; None if it did not."""
        path = self.of(task) / ERROR
        return records.read_json(path) if path.exists() else None

    def forget_error(self, task: Task) -> None:
        """Let a task that failed be tried again."""
        if self.error(task) is not None:
            for name in (ERROR, EVENTS):
                (self.of(task) / name).unlink(missing_ok=True)

    def starts(self, task: Task) -> int:
        """How often it was started."""
        path = self.of(task) / EVENTS
        if not path.exists():
            return 0
        return sum('"started"' in line for line in path.read_text().splitlines())

    @contextlib.contextmanager
    def claimed(self, task: Task) -> Iterator[bool]:
        """Whether this worker may do the task now; no other one can until the context is left, or its process dies."""
        folder = self.of(task)
        folder.mkdir(parents=True, exist_ok=True)
        claim, token = folder / CLAIM, secrets.token_hex(8)
        if not _claim(claim, token):
            yield False
            return
        done = threading.Event()
        heart = threading.Thread(target=_touch, args=(claim, done), daemon=True)
        heart.start()
        try:
            # Between the look at the folder and the claim another worker may have finished it.
            yield not self.is_over(task)
        finally:
            done.set()
            heart.join()
            if _holder(claim).get("token") == token:
                claim.unlink(missing_ok=True)

    def finish(self, task: Task, rows: list[Row]) -> None:
        """Write the rows, whole or not at all."""
        write(self.of(task) / ROWS, {"function": task.function, "cases": list(task.cases), "rows": rows})
        self.note(task, "finished")

    def fail(self, task: Task, message: str, trace: str) -> None:
        """Write why the task failed."""
        write(self.of(task) / ERROR, {"cases": list(task.cases), "error": message, "traceback": trace})
        self.note(task, "failed")

    def note(self, task: Task, event: str) -> None:
        """Append a line to the events of a task."""
        line = {"event": event, "time": round(time.time(), 3), "host": socket.gethostname(), "pid": os.getpid()}
        with (self.of(task) / EVENTS).open("a", encoding="ascii") as file:
            file.write(json.dumps(line) + "\n")


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record as JSON, whole or not at all."""
    with storage.replacing(path) as file:
        file.write(records.as_json(record))


def _touch(claim: Path, done: threading.Event) -> None:
    while not done.wait(BEAT):
        with contextlib.suppress(FileNotFoundError):
            os.utime(claim)


def _claim(claim: Path, token: str) -> bool:
    """Create the claim, or take over one whose worker died; False if somebody else has it."""
    own = claim.with_name(f".claim.{token}")
    own.write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "token": token}))
    try:
        while True:
            # A link is made for one worker only, also on file systems of a network.
            if _linked(own, claim):
                return True
            holder = _holder(claim)
            if not holder or not _is_stale(claim, holder, own):
                return False
            # Of those who see that a claim is stale one may remove it: who leaves the mark of its death.
            if not _linked(own, claim.with_name(f".dead.{holder['token']}")):
                return False
            claim.unlink(missing_ok=True)
    finally:
        own.unlink(missing_ok=True)


def _linked(own: Path, name: Path) -> bool:
    try:
        os.link(own, name)
    except FileExistsError:
        return False
    return True


def _holder(claim: Path) -> dict[str, Any]:
    """Who made a claim; empty if there is none any more."""
    try:
        return json.loads(claim.read_text())
    except (FileNotFoundError, ValueError):
        return {}


def _is_stale(claim: Path, holder: dict[str, Any], just_written: Path) -> bool:
    """Whether the worker that made the claim is dead: its process is gone, or it has not touched it for long."""
    if holder["host"] == socket.gethostname() and not _is_alive(int(holder["pid"])):
        return True
    try:
        # By the clock of the file system, not by those of the machines.
        return just_written.stat().st_mtime - claim.stat().st_mtime > STALE
    except FileNotFoundError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # A process that died, but whose parent has not asked for it yet, still has its number.
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True
