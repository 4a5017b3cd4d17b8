"""Compiled programs that are kept on disk, so that the next process need not compile them again."""

import contextlib
import hashlib
import os
import platform
import sys
from pathlib import Path
from typing import Any

import jax
import jaxlib.version

#: A folder for compiled programs, instead of the system's place for caches; "off" keeps none.
VARIABLE = "IRLAX_COMPILATION_CACHE"
#: JAX's own variables, which come first.
_JAX_VARIABLE = "JAX_COMPILATION_CACHE_DIR"
_JAX_THRESHOLD = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
#: To read a program takes some milliseconds, too: what compiles faster (in seconds) is not kept.
MIN_SECONDS = 0.02
#: Above so many bytes the programs that have not been used for longest are deleted, down to half of it.
MAX_BYTES = 2**29


def use_compilation_cache(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Keep compiled programs in a folder, from which later processes read them; returns it, or None if none is used.

    The command line does this by itself. In Python call it once, at the start of a program: a second run of the same
    fit then takes a fraction of the time. Without `folder` it is the one that the variable `JAX_COMPILATION_CACHE_DIR`
    or `IRLAX_COMPILATION_CACHE` names ("off" keeps nothing), or else `irlax/compiled` in the system's place for caches
    (on Linux `$XDG_CACHE_HOME` or `~/.cache`). Processes may share it, and it may be deleted at any time. Where it
    cannot be written to, nothing is kept; that is never an error.
    """
    try:
        chosen = _chosen(folder)
    except RuntimeError:  # of `Path.home`, for a user who has none
        return None
    if chosen is None or not _is_writable(chosen):
        return None
    from jax.experimental.compilation_cache import compilation_cache

    settings = {"jax_compilation_cache_dir": str(chosen), "jax_persistent_cache_min_entry_size_bytes": -1}
    if _JAX_THRESHOLD not in os.environ:
        settings["jax_persistent_cache_min_compile_time_secs"] = MIN_SECONDS
    changed = {name: value for name, value in settings.items() if _setting(name) != value}
    for name, value in changed.items():
        jax.config.update(name, value)
    if changed:
        # JAX decides at its first program whether there is a cache, and where.
        compilation_cache.reset_cache()
    if _JAX_VARIABLE not in os.environ and folder is None:
        _delete_oldest(chosen)
    return chosen


def _chosen(folder: str | os.PathLike[str] | None) -> Path | None:
    if folder is not None:
        return Path(folder)
    set_before = _setting("jax_compilation_cache_dir")
    if set_before:
        return Path(set_before)
    own = os.environ.get(VARIABLE, "")
    if own.lower() in ("off", "0", "false", "no"):
        return None
    return (Path(own) if own else _user_cache() / "irlax" / "compiled") / _machine()


def _setting(name: str) -> Any:
    """A setting of JAX, whose type stubs list them only in part."""
    return getattr(jax.config, name)


def _user_cache() -> Path:
    """The system's place for what may be deleted."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    variable, default = ("LOCALAPPDATA", "AppData/Local") if os.name == "nt" else ("XDG_CACHE_HOME", ".cache")
    given = Path(os.environ.get(variable, ""))
    # As the XDG specification says, a relative path is ignored.
    return given if given.is_absolute() else Path.home() / default


def _machine() -> str:
    """A name for what programs are compiled for: JAX's version, and what the processor can do.

    Home folders are shared by machines of several kinds, and a program for one may crash on another.
    """
    features = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = next((line for line in lines if line.startswith(("flags", "Features"))), features)
    mark = hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:8]
    return f"jaxlib-{jaxlib.version.__version__}-{platform.machine()}-{mark}"


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def _delete_oldest(folder: Path) -> None:
    """Keep the folder below `MAX_BYTES`. Other processes may delete at the same time, or still use what is deleted."""
    with contextlib.suppress(OSError):
        files = [(entry.stat(), entry.path) for entry in os.scandir(folder) if entry.is_file()]
        total = sum(state.st_size for state, _ in files)
        if total <= MAX_BYTES:
            return
        for state, path in sorted(files, key=lambda file: max(file[0].st_atime, file[0].st_mtime)):
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= state.st_size
            if total <= MAX_BYTES / 2:
                return
