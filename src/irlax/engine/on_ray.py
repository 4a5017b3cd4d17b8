"""A sweep on Ray: a cluster by its address, or one that is started on this machine."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from irlax import checks
from irlax.engine.engines import PAUSE, AbstractEngine, worker_environment
from irlax.engine.folder import SweepFolder
from irlax.engine.task import Task
from irlax.engine.work import work_in_process


class OnRay(AbstractEngine):
    """Workers on a Ray cluster, by default one for each of its processors; needs `pip install 'irlax[ray]'`.

    `address` is that of a cluster ("auto": the one that runs on this machine); without one, Ray is started here for the
    time of the sweep. The nodes share the sweep's folder, as those of a job array do. A worker whose node dies is
    started on another one.
    """

    address: str | None = None
    num: int | None = None

    def __check_init__(self) -> None:
        if self.num is not None:
            checks.count("num", self.num)

    def run(self, folder: SweepFolder, tasks: Sequence[Task], retries: int, report: Callable[[], object]) -> None:
        ray = _imported()
        started_here = not ray.is_initialized()
        if started_here:
            variables = worker_environment(1)
            kept = {name: variables[name] for name in variables if name not in os.environ or name == "PYTHONPATH"}
            kept |= {name: variables[name] for name in ("XLA_FLAGS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
            ray.init(address=self.address, runtime_env={"env_vars": kept}, log_to_driver=False)
        try:
            parts = min(self.num or int(ray.cluster_resources().get("CPU", 1)), len(tasks))
            # A worker that dies is started again as often as its tasks may be tried.
            worker = ray.remote(num_cpus=1, max_retries=len(tasks) * (1 + retries), scheduling_strategy="SPREAD")(
                work_in_process
            )
            path = str(folder.path.resolve())
            left = [worker.remote(path, part, parts, retries) for part in range(parts)]
            while left:
                done, left = ray.wait(left, num_returns=1, timeout=PAUSE)
                report()
                ray.get(done)
                time.sleep(0.0 if done else PAUSE)
        finally:
            if started_here:
                ray.shutdown()


def _imported() -> Any:
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("Ray is not installed: pip install 'irlax[ray]'.") from error
    return ray
