"""The folder of a training run: a log, checkpoints to resume from, and the policy at the end."""

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.random as jr
import numpy as np

from irlax import storage
from irlax.records import field
from irlax.rl.learner import AbstractLearner, State
from irlax.rl.policy_file import POLICY_FILE, read_header, read_leaves, save_policy, write_leaves
from irlax.typing import PRNGKeyArray

CHECKPOINT_FORMAT = "irlax-training-1"
CHECKPOINT, LOG = "checkpoint.eqx", "log.jsonl"


@dataclasses.dataclass
class RunFolder:
    """A folder that a run writes to, and is resumed from."""

    path: Path
    #: What must be the same for a run to be resumed.
    header: dict[str, Any]
    #: The lines of the log so far.
    lines: list[dict[str, Any]]
    #: When the last checkpoint was written, on the monotonic clock.
    saved: float

    @classmethod
    def open(
        cls,
        path: Path,
        learner: AbstractLearner,
        env: Any,
        *,
        seeds: int | None,
        rounds: int,
        resume: bool,
        key: PRNGKeyArray,
    ) -> "RunFolder":
        """The folder, made if need be; with another run in it only if that is to be resumed."""
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(f"{path} is a file. Name a folder to write to.")
        if not resume and (path / CHECKPOINT).exists():
            raise FileExistsError(
                f"{path} holds a training run already. Continue it with `resume=True`, or name another folder."
            )
        path.mkdir(parents=True, exist_ok=True)
        header = {
            "format": CHECKPOINT_FORMAT,
            "learner": type(learner).__name__,
            "settings": {item.name: getattr(learner, item.name) for item in dataclasses.fields(learner)},
            "environment": type(env).__name__,
            "key": np.asarray(jr.key_data(key)).tolist(),
            "seeds": seeds,
            "rounds": rounds,
        }
        return cls(path, header, [], time.monotonic())

    def restore(self, init: Callable[[], State]) -> tuple[State, int]:
        """The state of the checkpoint and the number of rounds before it, or a new one if there is none."""
        path = self.path / CHECKPOINT
        if not path.exists():
            (self.path / LOG).write_bytes(b"")
            return init(), 0
        kind = "a checkpoint"
        with path.open("rb") as file:
            found = read_header(file, path, kind)
            done = field(found, "done", int)
            self._refuse_other_run(found)
            with storage.unreadable(path, kind):
                state = read_leaves(file, eqx.filter_eval_shape(init))
        self._cut_log(done)
        return state, done

    def log(self, line: dict[str, Any]) -> None:
        """Append a line to the log."""
        self.lines.append(line)
        # NaN is no JSON: a return that is unknown is null.
        plain = {name: _to_json(number) for name, number in line.items()}
        with (self.path / LOG).open("a", encoding="ascii") as file:
            file.write(json.dumps(plain, allow_nan=False) + "\n")

    def checkpoint(self, state: State, done: int, every: float) -> None:
        """Write a checkpoint if the last one is older than so many seconds."""
        if time.monotonic() - self.saved >= every:
            self._write(state, done)

    def finish(self, state: State, rounds: int, policy: Any, final_return: float | None) -> None:
        """Write the last checkpoint, and the policy."""
        self._write(state, rounds)
        about = {name: self.header[name] for name in ("learner", "environment")}
        save_policy(self.path / POLICY_FILE, policy, **about, final_return=final_return)

    def _refuse_other_run(self, found: dict[str, Any]) -> None:
        wanted = json.loads(json.dumps(self.header))
        different = [name for name in wanted if found.get(name) != wanted[name]]
        if different:
            raise ValueError(
                f"{self.path} holds a run with another {' and '.join(different)}: to resume it would mix two "
                f"experiments. Use the same arguments, or another folder."
            )

    def _cut_log(self, done: int) -> None:
        """Remove the lines after the checkpoint: their rounds will be run again."""
        path = self.path / LOG
        with storage.unreadable(path, "a log (.jsonl)"):
            kept = path.read_bytes().splitlines(keepends=True)[:done]
            self.lines = [_from_json(line) for line in kept]
            if len(kept) < done:
                raise ValueError(f"it has {len(kept)} lines, but the checkpoint was written after {done} rounds")
        with storage.replacing(path) as file:
            file.writelines(kept)

    def _write(self, state: State, done: int) -> None:
        write_leaves(self.path / CHECKPOINT, self.header | {"done": done}, state)
        self.saved = time.monotonic()


def _to_json(number: Any) -> Any:
    if isinstance(number, list):
        return [_to_json(item) for item in number]
    return number if np.isfinite(number) else None


def _from_json(line: bytes) -> dict[str, Any]:
    def known(number: Any) -> Any:
        return [known(item) for item in number] if isinstance(number, list) else np.nan if number is None else number

    return {name: known(number) for name, number in json.loads(line).items()}
