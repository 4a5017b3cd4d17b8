"""Ctrl-C while the `irlax` program is imported, which takes seconds, prints one line, not a traceback.

The package imports this module first: when `irlax.cli` is reached, most of the import is over. In any other program
the module does nothing.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any


def _exit(*_: Any) -> None:
    # Not an exception: the initialisation of a compiled module may turn it into another, or swallow it.
    os.write(2, b"irlax: interrupted.\n")
    os._exit(130)


def exit_on_interrupt() -> None:
    """Let Ctrl-C end the process until `finished` is called, if this is the `irlax` program."""
    is_irlax = Path((getattr(sys, "argv", None) or [""])[0]).stem == "irlax"
    # Signals that are ignored, as under nohup, or handled by the host program, are left as they are.
    by_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_irlax and by_default and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _exit)


def finished() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, when everything is imported."""
    if signal.getsignal(signal.SIGINT) is _exit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


exit_on_interrupt()
