"""Copies of a Gymnasium environment in worker processes, which share memory with this one."""

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from irlax.envs import stepping
from irlax.envs.stepping import Fields, Layout, Task

#: How long a worker may take to end by itself.
_PATIENCE = 2.0
#: A worker is one of as many as there are cores: its libraries of linear algebra need no threads of their own.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class WorkerTraceback(Exception):  # noqa: N818 (it is a cause, shown above the error, not an error)
    """Where in a worker the error came from."""

    def __str__(self) -> str:
        return f"in a worker process:\n\n{self.args[0]}"


class Workers:
    """Processes that each step a part of the copies, one after the other.

    They end when this object is deleted, when the interpreter exits, and when this process is killed. After an error or
    an interrupt they are ended at once, and the next `reset` starts new ones.
    """

    def __init__(self, task: Task, layout: Layout, num: int) -> None:
        self._task, self._layout, self._num = _pickled(task), layout, num
        self._name = task.name
        self._processes: list[subprocess.Popen[bytes]] = []
        self._finalize: Any = None
        self.fields: Fields

    def reset(self, seed: int | None) -> None:
        """Start an episode in every copy; copy i is seeded with seed + i."""
        if not self._processes:
            self._start()
        self.send("reset", seed)
        self.receive()

    def send(self, name: str, *arguments: Any) -> None:
        """Have all workers call a method of their copies. They work on after this returns."""
        if not self._processes:
            raise RuntimeError(f"The workers of {self._name} have ended, by an error or an interrupt. Call `reset`.")
        with self._ended_on_error():
            for worker in self._processes:
                self._tell(worker, (name, *arguments))

    def receive(self) -> None:
        """Wait until all have done it. An error of one of them is raised here, with the traceback of the worker."""
        with self._ended_on_error():
            replies = [self._heard(worker) for worker in self._processes]
            for error, text in filter(None, replies):
                raise error from WorkerTraceback(text)

    def close(self) -> None:
        """End the workers."""
        if self._finalize is not None:
            self._finalize()
        self._processes = []

    def _start(self) -> None:
        with tempfile.NamedTemporaryFile(prefix="irlax-", dir=_memory_folder(), delete=False) as file:
            file.truncate(Fields.size(self._layout))
        try:
            self.fields = Fields.over(np.memmap(file.name, np.uint8, "r+"), self._layout)
            self._processes = [_worker() for _ in range(self._num)]
            self._finalize = weakref.finalize(self, _end, list(self._processes))
            with self._ended_on_error():
                cuts = np.linspace(0, self._layout.num, self._num + 1).astype(int).tolist()
                for worker, first, last in zip(self._processes, cuts[:-1], cuts[1:], strict=True):
                    part = file.name, first, last - first
                    self._tell(worker, ("made", sys.path, self._task, tuple(self._layout), part))
            self.receive()
        finally:
            # All have mapped it; where an open file cannot be deleted, the system's own cleaning does it.
            with contextlib.suppress(OSError):
                Path(file.name).unlink()

    @contextlib.contextmanager
    def _ended_on_error(self) -> Iterator[None]:
        """End the workers at an error or an interrupt: what would be read next are replies to an earlier command."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _tell(self, worker: subprocess.Popen[bytes], message: Any) -> None:
        assert worker.stdin is not None
        try:
            worker.stdin.write(pickle.dumps(message))
            worker.stdin.flush()
        except OSError:
            raise self._death(worker) from None

    def _heard(self, worker: subprocess.Popen[bytes]) -> Any:
        assert worker.stdout is not None
        try:
            return pickle.load(worker.stdout)
        except EOFError:
            raise self._death(worker) from None

    def _death(self, worker: subprocess.Popen[bytes]) -> RuntimeError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(_PATIENCE)
        return RuntimeError(
            f"A worker process of {self._name} has ended by itself, with exit code {worker.returncode} (negative: the "
            f"signal that ended it; −9 is often a lack of memory). What it said stands above. Without `workers` the "
            f"environment runs in this process, where a debugger sees it."
        )


def _worker() -> subprocess.Popen[bytes]:
    # Safe path: its own folder has modules that are named after the libraries that they adapt.
    command = [sys.executable, "-P", stepping.__file__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_ONE_THREAD | os.environ)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """A worker ends with its input; one that is in the middle of something is given a moment."""
    for worker in processes:
        for stream in (worker.stdin, worker.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
    for worker in processes:
        try:
            worker.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _memory_folder() -> str | None:
    """Where files are memory, if the system has such a folder."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _pickled(task: Task) -> bytes:
    try:
        # By value where it must be, so that a function of a script or a notebook can be sent.
        return cloudpickle.dumps(tuple(task))
    except Exception as error:
        raise TypeError(
            f"What makes {task.name} cannot be sent to a worker process ({error}). Pass a function that opens its "
            f"files and devices itself, when it is called, or leave out `workers`."
        ) from None
