"""Ctrl-C or SIGTERM during a fit: the fit stops after the current step and returns its best iterate."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

#: The signals that end a process: Python's default handler of each, and its name in messages.
_SIGNALS = {
    signal.SIGINT: (signal.default_int_handler, "Ctrl-C"),
    signal.SIGTERM: (signal.SIG_DFL, "SIGTERM"),
}


class Interrupt:
    """Records that Ctrl-C was pressed, or SIGTERM sent; a fit reads `received` after each step.

    A second signal, or one that comes while `has_result` is still False, raises KeyboardInterrupt at once. (Python by
    itself raises it at any line, where it may leave JAX in an inconsistent state, or be swallowed by a finaliser.)
    """

    def __init__(self, *signals: signal.Signals) -> None:
        #: The last signal that came; None if none did.
        self.received: signal.Signals | None = None
        #: Whether the fit has an iterate that it could return.
        self.has_result = False
        self._signals = signals
        self._previous_handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                # Signals that are ignored, as under nohup, or handled by the host program, are left as they are.
                if signal.getsignal(number) is _SIGNALS[number][0]:
                    self._previous_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """128 plus the number of the signal, the convention of shells: 130 or 143."""
        return 128 + (self.received or signal.SIGINT)

    def _handle(self, number: int, _: Any) -> None:
        again, self.received = self.received is not None, signal.Signals(number)
        if again or not self.has_result:
            raise KeyboardInterrupt
        # Not `print`, which is not reentrant: the signal may come in the middle of another `print`.
        os.write(2, f"irlax: stopping after this step; {_SIGNALS[self.received][1]} again stops at once.\n".encode())


#: The interrupt that is in force, if any: nested fits share that of the outermost one.
_ACTIVE: list[Interrupt] = []


@contextlib.contextmanager
def interruptible(*signals: signal.Signals) -> Iterator[Interrupt]:
    """The interrupt that is in force, or a new one for these signals, by default Ctrl-C.

    Only the command line, which exits after the fit, handles SIGTERM: a script would otherwise continue after it.
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
