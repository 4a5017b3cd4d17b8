"""Threads that answer messages: of each kind only the newest is worth computing."""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

Answer = Callable[[dict[str, Any]], None]


class Job(NamedTuple):
    """A message to be answered."""

    number: int
    kind: str
    #: stop ↦ the answer.
    compute: Callable[[Callable[[], bool]], dict[str, Any]]
    answer: Answer


class Worker:
    """One thread, which answers the waiting messages in order; a newer one of a kind takes the place of an older.

    A job that is being computed is told to stop once a newer one of its kind is waiting. `ready` is awaited first.
    """

    def __init__(self, name: str, ready: threading.Event) -> None:
        self._waiting: dict[str, Job] = {}
        self._change = threading.Condition()
        self._closed = False
        self._ready = ready
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Add a job."""
        with self._change:
            older = self._waiting.pop(job.kind, None)
            self._waiting[job.kind] = job
            self._change.notify()
        if older is not None:
            older.answer({"id": older.number, "kind": "stale"})

    def close(self) -> None:
        """End the thread after its present job, which is told to stop."""
        with self._change:
            self._closed = True
            self._change.notify()

    def _run(self) -> None:
        self._ready.wait()
        while True:
            with self._change:
                self._change.wait_for(lambda: self._closed or bool(self._waiting))
                if self._closed:
                    return
                # A fit is what all else depends on.
                kind = "fit" if "fit" in self._waiting else next(iter(self._waiting))
                job = self._waiting.pop(kind)
            job.answer(job.compute(lambda kind=kind: self._closed or kind in self._waiting))
