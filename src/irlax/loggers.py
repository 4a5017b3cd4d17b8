"""Where the numbers of fits, learners and sweeps go, besides the lines of JSON that every run folder has."""

import abc
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import numpy as np

#: Writes the numbers of one step, as they stand in a line of the log.
Write = Callable[[dict[str, Any]], None]


class AbstractLogger(eqx.Module):
    """Sends the lines of a run's log somewhere else, too."""

    @abc.abstractmethod
    def opened(self, folder: Path) -> contextlib.AbstractContextManager[Write]:
        """A context for the time of the run, with a function that takes each line: its `step`, and numbers by name."""


class TensorBoard(AbstractLogger):
    """Event files in the run folder; needs `pip install 'irlax[tracking]'`."""

    @contextlib.contextmanager
    def opened(self, folder: Path) -> Iterator[Write]:
        try:
            from tensorboard.compat.proto.event_pb2 import Event  # type: ignore
            from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore
            from tensorboard.summary.writer.event_file_writer import (  # pyright: ignore[reportMissingImports]
                EventFileWriter,
            )
        except ImportError as error:
            raise ImportError("TensorBoard is not installed: pip install 'irlax[tracking]'.") from error
        writer = EventFileWriter(str(folder))

        def write(line: dict[str, Any]) -> None:
            values = [Summary.Value(tag=name, simple_value=number) for name, number in scalars(line).items()]
            writer.add_event(Event(wall_time=time.time(), step=line["step"], summary=Summary(value=values)))

        try:
            yield write
        finally:
            writer.close()


class WeightsAndBiases(AbstractLogger):
    """A run of Weights & Biases; needs `pip install 'irlax[wandb]'`.

    With `mode` "offline" nothing is sent: the run is written to the run folder, from where `wandb sync` sends it later.
    """

    project: str = "irlax"
    name: str | None = None
    mode: Literal["online", "offline"] = "online"

    @contextlib.contextmanager
    def opened(self, folder: Path) -> Iterator[Write]:
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ImportError("Weights & Biases is not installed: pip install 'irlax[wandb]'.") from error
        named: dict[str, Any] = {"project": self.project, "name": self.name or folder.name, "mode": self.mode}
        run = wandb.init(**named, dir=os.fspath(folder), reinit="create_new")
        try:
            yield lambda line: run.log(scalars(line), step=line["step"])
        finally:
            run.finish()


class MLflow(AbstractLogger):
    """A run of MLflow; needs `pip install 'irlax[mlflow]'`.

    `tracking` is where it is kept: the address of a server, or of a database, such as "sqlite:///runs.db"; by default,
    what the environment says (MLFLOW_TRACKING_URI), or else a database in the run folder.
    """

    experiment: str = "irlax"
    name: str | None = None
    tracking: str | None = None

    @contextlib.contextmanager
    def opened(self, folder: Path) -> Iterator[Write]:
        try:
            from mlflow import MlflowClient  # pyright: ignore[reportMissingImports]
            from mlflow.entities import Metric  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ImportError("MLflow is not installed: pip install 'irlax[mlflow]'.") from error
        own = f"sqlite:///{(folder / 'mlflow.db').resolve()}"
        client = MlflowClient(self.tracking or os.environ.get("MLFLOW_TRACKING_URI") or own)
        found = client.get_experiment_by_name(self.experiment)
        experiment = client.create_experiment(self.experiment) if found is None else found.experiment_id
        run = client.create_run(experiment, run_name=self.name or folder.name).info.run_id

        def write(line: dict[str, Any]) -> None:
            now = int(1000 * time.time())
            metrics = [Metric(name, number, now, line["step"]) for name, number in scalars(line).items()]
            client.log_batch(run, metrics=metrics)

        try:
            yield write
        except BaseException:
            client.set_terminated(run, "FAILED")
            raise
        client.set_terminated(run)


@contextlib.contextmanager
def all_opened(loggers: Sequence[AbstractLogger], folder: Path) -> Iterator[Write]:
    """One function that hands a line to all of these loggers."""
    with contextlib.ExitStack() as stack:
        writers = [stack.enter_context(logger.opened(folder)) for logger in loggers]

        def write(line: dict[str, Any]) -> None:
            for writer in writers:
                writer(line)

        yield write


def scalars(line: dict[str, Any]) -> dict[str, float]:
    """The finite numbers of a line: `return`, or `return/0`, `return/1`, … where there are several seeds."""
    return {
        name if np.ndim(numbers) == 0 else f"{name}/{seed}": float(number)
        for name, numbers in line.items()
        if name != "step"
        for seed, number in enumerate(np.atleast_1d(numbers))
        if np.isfinite(number)
    }
