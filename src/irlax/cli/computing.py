"""What happens between the parsing of a command and its work: JAX is imported, and what it compiles is kept."""

import functools
import os
from collections.abc import Callable
from typing import Any


def computing(command: Callable[..., Any], *, one_thread: bool = False) -> Callable[..., Any]:
    """A command that computes. Help, versions, completion and mistakes in arguments never get this far.

    With `one_thread` NumPy's linear algebra has one thread. Of small matrices, several threads mostly wait for each
    other and for those of JAX: a fit to a 10×10 grid takes .5 s instead of .15 s.
    """

    @functools.wraps(command)
    def prepared(*args: Any, **kwargs: Any) -> Any:
        if one_thread:
            # Read when NumPy is imported, which it is not yet.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from irlax import startup
        from irlax.compilation import use_compilation_cache

        use_compilation_cache()
        startup.finished()
        return command(*args, **kwargs)

    return prepared
