"""Copies of a Gymnasium environment that step one after the other: in this process, or in a worker's.

A worker runs this very file as a program. It imports nothing of irlax, since that would take seconds and 200 MiB in
each of them. It reads commands from its standard input and ends with it, however its parent ended; what it prints goes
to the standard error. Actions and results are in a file that all map into memory.
"""

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, NamedTuple

import numpy as np

#: What makes an environment.
Factory = Callable[[], Any]


class Task(NamedTuple):
    """What the copies are: how each is made, the name in messages, when episodes end, and what follows their end."""

    factory: Factory
    name: str
    horizon: int
    after_end: str


class Layout(NamedTuple):
    """The sizes of all copies' actions and observations."""

    num: int
    observation_size: int
    action_shape: tuple[int, ...]
    action_type: str


class Fields(NamedTuple):
    """Actions, and what followed, a row for each copy."""

    action: np.ndarray
    observation: np.ndarray
    final_observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray

    @classmethod
    def over(cls, memory: np.ndarray, layout: Layout) -> "Fields":
        """Arrays one after the other in bytes of memory, each at a multiple of eight."""
        kinds = _kinds(layout)
        ends = np.cumsum([_rounded(kind, layout.num) for kind in kinds])
        starts = [0, *ends[:-1].tolist()]
        return cls(*(_array(memory, start, kind, layout.num) for start, kind in zip(starts, kinds, strict=True)))

    @classmethod
    def size(cls, layout: Layout) -> int:
        """How many bytes they take."""
        return sum(_rounded(kind, layout.num) for kind in _kinds(layout))


class Copy:
    """One environment, started again where an episode ended."""

    def __init__(self, env: Any, task: Task) -> None:
        self.env, self._task = env, task
        self._time, self._ended, self._last = 0, False, np.zeros(0, np.float32)

    def reset(self, seed: int | None) -> np.ndarray:
        """The first observation of an episode."""
        self._time, self._ended = 0, False
        self._last = self._finite(self.env.reset(seed=seed)[0], "reset")
        return self._observation()

    def step(self, action: Any) -> tuple[np.ndarray, np.ndarray, float, bool, bool]:
        """The observation to act on next, the one that the action led to, the reward, and the two kinds of ends."""
        self._time += 1
        reward, cut = 0.0, False
        if not self._ended:
            seen, reward, ended, cut, _ = self.env.step(action)
            self._last, self._ended = self._finite(seen, "step"), bool(ended)
        final = self._observation()
        terminated = self._ended and self._task.after_end == "reset"
        truncated = not terminated and (self._time >= self._task.horizon or (bool(cut) and not self._ended))
        following = self.reset(None) if terminated or truncated else final
        return following, final, float(reward), terminated, truncated

    def _observation(self) -> np.ndarray:
        if self._task.after_end != "absorbing":
            return self._last
        kept = np.zeros_like(self._last) if self._ended else self._last
        return np.append(kept, np.float32(self._ended))

    def _finite(self, observation: Any, source: str) -> np.ndarray:
        observation = np.asarray(observation, np.float32)
        wrong = np.flatnonzero(~np.isfinite(observation))
        if len(wrong):
            raise ValueError(
                f"{self._task.name} gave an observation with NaN or infinite entries at "
                f"{', '.join(map(str, wrong[:5].tolist()))} from its {source}(). Its simulation has probably "
                f"diverged: bound the actions, or check the environment with `gymnasium.utils.env_checker.check_env`."
            )
        return observation


class Copies:
    """Some of all copies, those from `first` on, which read their rows of `action` and write the others."""

    def __init__(self, task: Task, fields: Fields, first: int, num: int) -> None:
        self._fields, self._first = fields, first
        self._copies = [Copy(task.factory(), task) for _ in range(num)]

    def reset(self, seed: int | None) -> None:
        """Start an episode in each; copy i is seeded with seed + i."""
        for row, copy in enumerate(self._copies, self._first):
            self._fields.observation[row] = copy.reset(None if seed is None else seed + row)

    def step(self) -> None:
        """Act in each."""
        for row, copy in enumerate(self._copies, self._first):
            action = self._fields.action[row]
            result = copy.step(int(action) if action.ndim == 0 else action.copy())
            for field, value in zip(self._fields[1:], result, strict=True):
                field[row] = value

    def close(self) -> None:
        """Close the simulators."""
        for copy in self._copies:
            copy.env.close()


def serve(commands: BinaryIO, replies: BinaryIO) -> None:
    """Obey until the commands end: the first says what to make, the others call methods of `Copies` by name."""
    copies = None
    for name, *arguments in _messages(commands):
        try:
            if copies is None:
                copies = _made(*arguments)
            else:
                getattr(copies, name)(*arguments)
            reply = None
        except Exception as error:
            reply = _portable(error), traceback.format_exc()
        replies.write(pickle.dumps(reply))
        replies.flush()
    if copies is not None:
        copies.close()


def _made(path: list[str], task: bytes, layout: tuple[Any, ...], part: tuple[Any, ...]) -> Copies:
    """From plain values: the classes of this file have another name in a worker."""
    sys.path[:] = path
    file, first, num = part
    fields = Fields.over(np.memmap(file, np.uint8, "r+"), Layout(*layout))
    return Copies(Task(*pickle.loads(task)), fields, first, num)


def _messages(stream: BinaryIO) -> Iterable[Any]:
    while True:
        try:
            yield pickle.load(stream)
        except EOFError:
            return


def _portable(error: Exception) -> Exception:
    """The error, or its text where it cannot be sent."""
    try:
        return pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _kinds(layout: Layout) -> list[tuple[Any, tuple[int, ...]]]:
    seen = (np.float32, (layout.observation_size,))
    flag = (np.bool_, ())
    return [(layout.action_type, layout.action_shape), seen, seen, (np.float64, ()), flag, flag]


def _rounded(kind: tuple[Any, tuple[int, ...]], num: int) -> int:
    count = num * int(np.prod(kind[1], dtype=int)) * np.dtype(kind[0]).itemsize
    return -(-count // 8) * 8


def _array(memory: np.ndarray, start: int, kind: tuple[Any, tuple[int, ...]], num: int) -> np.ndarray:
    return np.ndarray((num, *kind[1]), kind[0], memory, start)


def main() -> None:
    """What a worker runs."""
    # Ctrl-C in a terminal is sent to all its processes; the parent decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        serve(sys.stdin.buffer, replies)
    except BrokenPipeError:
        # The parent ended, or ended this, in the middle of a command. At once, since closing the pipe would fail again.
        os._exit(0)


if __name__ == "__main__":
    main()
