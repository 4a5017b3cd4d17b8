"""Ctrl-C during a fit: it ends at its next step, and what there is so far is kept."""

import os
import signal
import threading
from typing import Any


class Interrupt:
    """Notes that Ctrl-C was pressed, for a fit to look at after each step.

    Pressed again, or while `kept` is still False because there is nothing to lose yet, it interrupts at once. (An
    interrupt raised anywhere, as Python does it, may leave JAX in disorder, or be swallowed by a finaliser.)
    """

    def __init__(self) -> None:
        self.asked = False
        self.kept = False
        self._before: Any = None

    def __enter__(self) -> "Interrupt":
        # Where interrupts are ignored, as under nohup, or handled by a host, they stay so.
        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._stop)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _stop(self, *_: Any) -> None:
        again, self.asked = self.asked, True
        if again or not self.kept:
            raise KeyboardInterrupt
        # Not `print`: this may happen in the middle of another one.
        os.write(2, b"irlax: stopping after this step; Ctrl-C again stops at once.\n")
