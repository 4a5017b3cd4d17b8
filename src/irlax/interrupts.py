"""Ctrl-C or SIGTERM during a fit: it ends at its next step, and what there is so far is kept."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

#: Each signal that asks a process to end, what Python does about it by itself, and how a message calls it.
_SIGNALS = {
    signal.SIGINT: (signal.default_int_handler, "Ctrl-C"),
    signal.SIGTERM: (signal.SIG_DFL, "SIGTERM"),
}


class Interrupt:
    """Notes that Ctrl-C was pressed, or SIGTERM sent, for a fit to look at after each step.

    A second time, or while `kept` is still False because there is nothing to lose yet, it interrupts at once. (An
    interrupt raised anywhere, as Python does it, may leave JAX in disorder, or be swallowed by a finaliser.)
    """

    def __init__(self, *signals: signal.Signals) -> None:
        #: The signal that came, if one did.
        self.asked: signal.Signals | None = None
        self.kept = False
        self._heeded = signals
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            for number in self._heeded:
                # Where interrupts are ignored, as under nohup, or handled by a host, they stay so.
                if signal.getsignal(number) is _SIGNALS[number][0]:
                    self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """128 and the signal's number, as shells have it: 130 or 143."""
        return 128 + (self.asked or signal.SIGINT)

    def _stop(self, number: int, _: Any) -> None:
        again, self.asked = self.asked is not None, signal.Signals(number)
        if again or not self.kept:
            raise KeyboardInterrupt
        # Not `print`: this may happen in the middle of another one.
        os.write(2, f"irlax: stopping after this step; {_SIGNALS[self.asked][1]} again stops at once.\n".encode())


#: The interrupt that is in force, outermost first; at most one is.
_ACTIVE: list[Interrupt] = []


@contextlib.contextmanager
def interruptible(*signals: signal.Signals) -> Iterator[Interrupt]:
    """The interrupt that is in force, or a new one for these signals, by default Ctrl-C.

    A fit in Python leaves SIGTERM alone, after which a script must not go on; the command line ends with the fit.
    """
    if _ACTIVE:
        yield _ACTIVE[0]
        return
    with Interrupt(*(signals or (signal.SIGINT,))) as interrupt:
        _ACTIVE.append(interrupt)
        try:
            yield interrupt
        finally:
            _ACTIVE.pop()
