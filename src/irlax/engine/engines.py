"""Where the tasks of a sweep are computed: in this process, in others on this machine, or by a job array."""

import abc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import equinox as eqx

from irlax import checks
from irlax.engine.folder import SweepFolder
from irlax.engine.task import Task
from irlax.engine.work import work
from irlax.user_warnings import warn_user

#: One thread for each worker: several would wait for each other.
ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
_WORKER = "import json, sys; from irlax.engine.work import work_in_process as w; w(**json.loads(sys.argv[1]))"
#: Seconds between two looks at the workers.
PAUSE = 0.5


class AbstractEngine(eqx.Module):
    """Computes the tasks of a sweep; all that workers share is the sweep's folder."""

    def own(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks that this engine computes: all of them, unless others compute the rest."""
        return list(tasks)

    @abc.abstractmethod
    def run(self, folder: SweepFolder, tasks: Sequence[Task], retries: int, report: Callable[[], object]) -> None:
        """Return when these tasks are over; `report` is called now and then, to show how far they are."""


class Here(AbstractEngine):
    """One task after the other, in this process."""

    def run(self, folder: SweepFolder, tasks: Sequence[Task], retries: int, report: Callable[[], object]) -> None:
        work(folder, tasks, retries=retries, after_each=report)


class Shard(AbstractEngine):
    """Every `of`-th task, from `part` on (0 ≤ part < of), in this process: one job of a job array.

    The jobs need a shared folder and nothing else. The last one to end writes the table.
    """

    part: int
    of: int

    def __check_init__(self) -> None:
        checks.count("of", self.of)
        if not 0 <= self.part < self.of:
            raise ValueError(f"`part` must lie between 0 and {self.of - 1}, but is {self.part}.")

    def own(self, tasks: Sequence[Task]) -> list[Task]:
        return list(tasks[self.part :: self.of])

    def run(self, folder: SweepFolder, tasks: Sequence[Task], retries: int, report: Callable[[], object]) -> None:
        work(folder, tasks, retries=retries, after_each=report)


class Processes(AbstractEngine):
    """Worker processes on this machine, by default one for each core that this process may use.

    A worker that dies is replaced, and its task is done by another one. Each has one thread, unless `threads` is None:
    then threads are left as the environment says.
    """

    num: int | None = None
    threads: int | None = 1

    def __check_init__(self) -> None:
        if self.num is not None:
            checks.count("num", self.num)
        if self.threads not in (None, 1):
            raise ValueError(f"`threads` must be 1 or None, but is {self.threads}.")

    def run(self, folder: SweepFolder, tasks: Sequence[Task], retries: int, report: Callable[[], object]) -> None:
        num = min(self.num or num_cores(), len(tasks))
        # A worker cannot die more often than its tasks may be tried.
        spare = num + len(tasks) * (1 + retries)
        workers = {part: self._start(folder, part, num, retries) for part in range(num)}
        try:
            while workers:
                time.sleep(PAUSE)
                report()
                for part, worker in list(workers.items()):
                    if worker.poll() is None:
                        continue
                    del workers[part]
                    if worker.returncode == 0:
                        continue
                    if spare <= 0:
                        warn_user("Workers die more often than tasks may be tried: no more are started.")
                        continue
                    spare -= 1
                    workers[part] = self._start(folder, part, num, retries)
        finally:
            for worker in workers.values():
                worker.kill()
                worker.wait()

    def _start(self, folder: SweepFolder, part: int, parts: int, retries: int) -> subprocess.Popen:
        given = {"path": str(folder.path), "part": part, "parts": parts, "retries": retries, "parent": os.getpid()}
        command = [sys.executable, "-c", _WORKER, json.dumps(given)]
        return subprocess.Popen(command, env=worker_environment(self.threads))


def worker_environment(threads: int | None) -> dict[str, str]:
    """The environment of a worker: what this process can import it can import, too."""
    environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    if threads is None:
        return environment
    flags = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD['XLA_FLAGS']}".strip()
    return environment | ONE_THREAD | {"XLA_FLAGS": flags}


def num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
