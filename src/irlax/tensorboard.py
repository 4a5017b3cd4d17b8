"""Event files for TensorBoard."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


@contextlib.contextmanager
def events(folder: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes lines of the log as scalars, one for each seed, to an event file in `folder`."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportMissingImports]
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportMissingImports]
        from tensorboard.summary.writer.event_file_writer import (  # pyright: ignore[reportMissingImports]
            EventFileWriter,
        )
    except ImportError as error:
        raise ImportError("TensorBoard is not installed: pip install 'irlax[tracking]'.") from error

    writer = EventFileWriter(str(folder))

    def write(line: dict[str, Any]) -> None:
        values = [
            Summary.Value(tag=name if np.ndim(numbers) == 0 else f"{name}/{seed}", simple_value=float(number))
            for name, numbers in line.items()
            if name != "step"
            for seed, number in enumerate(np.atleast_1d(numbers))
            if np.isfinite(number)
        ]
        writer.add_event(Event(wall_time=time.time(), step=line["step"], summary=Summary(value=values)))

    try:
        yield write
    finally:
        writer.close()
