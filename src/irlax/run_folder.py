"""Run folders: a fit or a training run writes its log and checkpoints to one, and can be resumed from it.

================== =====================================================================================
``log.jsonl``      a line of JSON for each iterate: its step and its numbers
``checkpoint.npz`` the state after some of them, and the identity of the run, so that no other run resumes it
``events.*``       the same numbers for TensorBoard, with `loggers=[TensorBoard()]`
================== =====================================================================================
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from irlax import checks, records, storage
from irlax.loggers import AbstractLogger, Write, all_opened
from irlax.records import field

FORMAT = "irlax-checkpoint-1"
CHECKPOINT, LOG = "checkpoint.npz", "log.jsonl"


class RunFolder(eqx.Module):
    """Where a run is recorded: every iterate in `path/log.jsonl`, its state in `path/checkpoint.npz`.

    A checkpoint is written every `checkpoint_every` seconds, and at the end. With `resume` a run of the same settings,
    data and key goes on from it. Training and sampled fits then end bit for bit as if they had never been stopped: in
    environments of JAX, and in those of the host whose randomness is seeded by `reset`, as Gymnasium asks for. Tabular
    fits end at the same optimum. A replay buffer is part of the checkpoint. Without `resume`, a folder that holds a
    checkpoint is refused. `loggers` of `irlax.loggers` receive the numbers of each iterate, too.
    """

    path: str = eqx.field(converter=os.fspath)
    resume: bool = False
    checkpoint_every: float = 60.0
    loggers: tuple[AbstractLogger, ...] = eqx.field(converter=tuple, default=())

    def __check_init__(self) -> None:
        checks.positive("checkpoint_every", self.checkpoint_every, zero=True)


#: A run folder, or the path of one to begin in.
RunLike = RunFolder | str | os.PathLike[str] | None


def as_run_folder(run: RunLike) -> RunFolder | None:
    """`run` as a run folder; a path becomes a new one, without `resume`."""
    return run if run is None or isinstance(run, RunFolder) else RunFolder(os.fspath(run))


def fingerprint(tree: Any) -> str:
    """A hash of the arrays of a tree, to compare the data of two runs."""
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
    """Writes to a run folder. `identity` holds the settings and data of the run, as plain values."""

    def __init__(self, folder: RunFolder, identity: Mapping[str, Any]) -> None:
        self._path = Path(folder.path)
        self._folder = folder
        self._header = json.loads(records.as_json({"format": FORMAT, **identity}))
        self._saved = time.monotonic()
        self._send: Write = lambda line: None
        if self._path.exists() and not self._path.is_dir():
            raise NotADirectoryError(f"{self._path} is a file. Name a folder to write to.")
        if not folder.resume and (self._path / CHECKPOINT).exists():
            raise FileExistsError(
                f"{self._path} already holds a run. Continue it with `resume=True`, or name another folder."
            )

    @contextlib.contextmanager
    def opened(self) -> Iterator["Recorder"]:
        """The recorder, with its folder created and its event file open."""
        self._path.mkdir(parents=True, exist_ok=True)
        with all_opened(self._folder.loggers, self._path) as self._send:
            yield self

    def restore(self) -> Snapshot | None:
        """The last checkpoint, or None. Later lines of the log are removed, because their steps are taken again."""
        path = self._path / CHECKPOINT
        if not path.exists():
            (self._path / LOG).write_bytes(b"")
            return None
        arrays = storage.load_arrays(path, None, "a checkpoint (.npz)")
        with storage.unreadable(path, "a checkpoint (.npz)"):
            found = json.loads(str(arrays.pop("header")))
            done = field(found, "lines", int)
        self._refuse_other_run(found)
        return Snapshot([arrays[str(k)] for k in range(len(arrays))], self._truncate_log(done))

    def log(self, step: int, numbers: Mapping[str, Any]) -> None:
        """Append a line to the log."""
        line = {"step": step, **numbers}
        with (self._path / LOG).open("a", encoding="ascii") as file:
            file.write(
                json.dumps({name: _nan_to_null(number) for name, number in line.items()}, allow_nan=False) + "\n"
            )
        self._send(line)

    def is_due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return time.monotonic() - self._saved >= self._folder.checkpoint_every

    def save(self, arrays: Sequence[np.ndarray], lines: int) -> None:
        """Write a checkpoint of the state after `lines` lines of the log."""
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
                f"{self._path} holds a run with another {' and '.join(different)}, which these arguments do not "
                f"continue. Use the same arguments, or another folder."
            )

    def _truncate_log(self, done: int) -> list[dict[str, Any]]:
        """The first `done` lines of the log, which is cut to these."""
        path = self._path / LOG
        with storage.unreadable(path, "a log (.jsonl)"):
            kept = path.read_bytes().splitlines(keepends=True)[:done]
            lines = [_parse_line(line) for line in kept]
            if len(kept) < done:
                raise ValueError(f"it has {len(kept)} lines, but the checkpoint was written after {done}")
        with storage.replacing(path) as file:
            file.writelines(kept)
        return lines


def _nan_to_null(number: Any) -> Any:
    """A number for JSON, which has no NaN and no infinity: None in their place."""
    if isinstance(number, (list, np.ndarray)):
        return [_nan_to_null(item) for item in number]
    return number if np.isfinite(number) else None


def _parse_line(line: bytes) -> dict[str, Any]:
    """The numbers of a line of the log, NaN where it has null."""

    def null_to_nan(number: Any) -> Any:
        if isinstance(number, list):
            return [null_to_nan(item) for item in number]
        return np.nan if number is None else number

    return {name: null_to_nan(number) for name, number in json.loads(line).items()}
