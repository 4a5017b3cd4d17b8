"""A folder that a fit or a training run writes to as it goes, and goes on from after it was killed.

================== =====================================================================================
``log.jsonl``      a line of JSON for each iterate: its step and its numbers
``checkpoint.npz`` the state after some of them, and what the run was of, so that no other goes on from it
``events.*``       the same numbers for TensorBoard, if they were asked for
================== =====================================================================================
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from irlax import checks, records, storage
from irlax.records import field

FORMAT = "irlax-checkpoint-1"
CHECKPOINT, LOG = "checkpoint.npz", "log.jsonl"


class RunFolder(eqx.Module):
    """Where a run is recorded: every iterate in `path/log.jsonl`, its state in `path/checkpoint.npz`.

    A checkpoint is written every `checkpoint_every` seconds, and at the end. With `resume` a run of the same settings,
    data and key goes on from it: training and sampled fits end bit for bit as if they had never been stopped, other
    fits at the same optimum. Without, a folder that holds a checkpoint is refused. `tensorboard` writes the numbers of
    each iterate as events, too.
    """

    path: str = eqx.field(converter=os.fspath)
    resume: bool = False
    checkpoint_every: float = 60.0
    tensorboard: bool = False

    def __check_init__(self) -> None:
        checks.positive("checkpoint_every", self.checkpoint_every, zero=True)


#: A run folder, or the path of one to begin in.
RunLike = RunFolder | str | os.PathLike[str] | None


def as_run_folder(run: RunLike) -> RunFolder | None:
    """A run folder; a bare path is one to begin in."""
    return run if run is None or isinstance(run, RunFolder) else RunFolder(os.fspath(run))


def fingerprint(tree: Any) -> str:
    """A hash of the arrays of a tree, by which the data of a run are known again."""
    total = hashlib.sha256()
    for leaf in map(np.asarray, jax.tree.leaves(tree)):
        total.update(f"{leaf.dtype}{leaf.shape}".encode())
        total.update(np.ascontiguousarray(leaf).tobytes())
    return total.hexdigest()


def identity_of(thing: Any) -> str | None:
    """A text by which an environment or a reward is known again: its class, its settings and a hash of its arrays."""
    if thing is None:
        return None
    if not isinstance(thing, eqx.Module):
        return type(thing).__name__
    return f"{eqx.tree_pformat(thing, width=10_000)} {fingerprint(eqx.filter(thing, eqx.is_array_like))}"


class Snapshot(NamedTuple):
    """The arrays of a checkpoint, and the lines of the log up to it."""

    arrays: list[np.ndarray]
    lines: list[dict[str, Any]]


class Recorder:
    """An open run folder. `identity` is what the run is of, as plain values."""

    def __init__(self, folder: RunFolder, identity: Mapping[str, Any]) -> None:
        self._path = Path(folder.path)
        self._folder = folder
        self._header = json.loads(records.as_json({"format": FORMAT, **identity}))
        self._saved = time.monotonic()
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        if self._path.exists() and not self._path.is_dir():
            raise NotADirectoryError(f"{self._path} is a file. Name a folder to write to.")
        if not folder.resume and (self._path / CHECKPOINT).exists():
            raise FileExistsError(
                f"{self._path} holds a run already. Go on with it by `resume=True`, or name another folder."
            )

    @contextlib.contextmanager
    def opened(self) -> Iterator["Recorder"]:
        """The folder, made if it is not there, with its event file open."""
        self._path.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            if self._folder.tensorboard:
                from irlax.tensorboard import events

                self._listeners.append(stack.enter_context(events(self._path)))
            yield self

    def restore(self) -> Snapshot | None:
        """The last checkpoint; None if there is none. Later lines of the log are of iterates that will come again."""
        path = self._path / CHECKPOINT
        if not path.exists():
            (self._path / LOG).write_bytes(b"")
            return None
        arrays = storage.load_arrays(path, None, "a checkpoint (.npz)")
        with storage.unreadable(path, "a checkpoint (.npz)"):
            found = json.loads(str(arrays.pop("header")))
            done = field(found, "lines", int)
        self._refuse_other_run(found)
        return Snapshot([arrays[str(k)] for k in range(len(arrays))], self._cut_log(done))

    def log(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Append a line to the log."""
        line = {"step": step, **numbers}
        with (self._path / LOG).open("a", encoding="ascii") as file:
            file.write(json.dumps({name: _nulled(number) for name, number in line.items()}, allow_nan=False) + "\n")
        for listener in self._listeners:
            listener(line)

    def due(self) -> bool:
        """Whether a checkpoint is to be written now."""
        return time.monotonic() - self._saved >= self._folder.checkpoint_every

    def save(self, arrays: Sequence[np.ndarray], lines: int) -> None:
        """Write a checkpoint, of the state after so many lines of the log."""
        header = records.as_json(self._header | {"lines": lines}).decode()
        storage.save_arrays(
            self._path / CHECKPOINT,
            {"header": header, **{str(k): array for k, array in enumerate(arrays)}},
            compressed=False,
        )
        self._saved = time.monotonic()

    def _refuse_other_run(self, found: dict[str, Any]) -> None:
        different = [name for name in self._header if found.get(name) != self._header[name]]
        if different:
            raise ValueError(
                f"{self._path} holds a run with another {' and '.join(different)}: to go on would be a different "
                f"experiment. Use the same arguments, or another folder."
            )

    def _cut_log(self, done: int) -> list[dict[str, Any]]:
        path = self._path / LOG
        with storage.unreadable(path, "a log (.jsonl)"):
            kept = path.read_bytes().splitlines(keepends=True)[:done]
            lines = [_parsed(line) for line in kept]
            if len(kept) < done:
                raise ValueError(f"it has {len(kept)} lines, but the checkpoint was written after {done}")
        with storage.replacing(path) as file:
            file.writelines(kept)
        return lines


def _nulled(number: Any) -> Any:
    """NaN is no JSON: what is not known is null."""
    if isinstance(number, (list, np.ndarray)):
        return [_nulled(item) for item in number]
    return number if np.isfinite(number) else None


def _parsed(line: bytes) -> dict[str, Any]:
    def known(number: Any) -> Any:
        return [known(item) for item in number] if isinstance(number, list) else np.nan if number is None else number

    return {name: known(number) for name, number in json.loads(line).items()}
