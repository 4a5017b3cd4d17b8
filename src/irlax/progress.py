"""A progress bar, shown only if the work takes longer than a second."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

#: Work that ends sooner than this many seconds needs no bar.
PATIENCE = 1.0


class Bar:
    """A line on standard error: a title, how far the work is, and a few numbers."""

    def __init__(self, title: str, total: int | None, *, shown: bool | None = None) -> None:
        self._title = title
        self._total = total
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._started = time.monotonic()
        self._display: Any = None
        self._task: Any = None

    def update(self, done: int, note: str = "") -> None:
        """Report how far the work is."""
        if not self._shown or time.monotonic() - self._started < PATIENCE:
            return
        display = self._display or self._open()
        display.update(self._task, completed=done, note=note)

    @property
    def pending(self) -> bool:
        """Whether the bar is wanted, but not yet open."""
        return self._shown and self._display is None

    def close(self) -> None:
        """End the line."""
        if self._display is not None:
            self._display.stop()

    def _open(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        text = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
        display = Progress(
            text[0], BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), text[1], console=Console(stderr=True)
        )
        display.start()
        self._task = display.add_task(self._title, total=self._total, note="")
        self._display = display
        return display


@contextlib.contextmanager
def progress_bar(title: str, total: int | None = None, *, shown: bool | None = None) -> Iterator[Bar]:
    """A bar that opens after a second; `shown` None opens it on terminals only."""
    bar = Bar(title, total, shown=shown)
    try:
        yield bar
    finally:
        bar.close()
