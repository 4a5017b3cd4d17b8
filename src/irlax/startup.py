"""Ctrl-C while the `irlax` program is imported, which takes seconds: one line, not a traceback.

This is the first thing that the package imports, because by the time that `irlax.cli` is reached most of the waiting
is over. In any other program it does nothing.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any


def _leave(*_: Any) -> None:
    # Not an exception: the initialisation of a compiled module may turn it into another, or swallow it.
    os.write(2, b"irlax: interrupted.\n")
    os._exit(130)


def expect_interrupts() -> None:
    """Until `finished`, let Ctrl-C end the process, if this is the `irlax` program."""
    is_ours = Path((getattr(sys, "argv", None) or [""])[0]).stem == "irlax"
    # Where interrupts are ignored, as under nohup, or handled by a host, they stay so.
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours and heeded and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _leave)


def finished() -> None:
    """All is imported: from here on Ctrl-C is an exception again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


expect_interrupts()
