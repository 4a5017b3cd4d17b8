"""The one loop around everything that iterates: solvers, expectation and maximisation, sampling, training.

What iterates says how to begin, how to take one step and whether it has ended; `Session.run` owns the rest: the
history, limits, the progress bar, callbacks, interruption and checkpoints.
"""

import abc
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.interrupts import Interrupt, interruptible
from irlax.progress import PATIENCE, Bar, progress_bar
from irlax.registry import stored
from irlax.run_folder import Recorder, RunFolder
from irlax.status import Status
from irlax.typing import Float

State = TypeVar("State")
#: The numbers that a progress bar shows, if there are any.
NOTED = ("loss", "gradient", "return", "gap", "effective_share")
#: As the step of an iterate: one more than the last in the history.
NEXT = -1


class Iterate(NamedTuple):
    """One iterate, as callbacks receive it."""

    step: int
    #: What is worth watching, by name: "loss" and "gradient" of a solver; "return", "gap" and losses of training.
    numbers: dict[str, Any]
    #: θ, of estimators whose parameters are one vector.
    parameters: Float[np.ndarray, " K"] | None = None

    @property
    def loss(self) -> float:
        """What is minimised."""
        return self.numbers["loss"]

    @property
    def gradient(self) -> float:
        """The largest entry of its gradient."""
        return self.numbers["gradient"]


#: Receives every iterate. If it returns True, the fit stops there, `Status.INTERRUPTED`; other values mean nothing.
Callback = Callable[[Iterate], Any]


@stored("history")
class History(eqx.Module):
    """The numbers of all iterates, a column for each name: `history["loss"]`, or `history.loss`."""

    columns: dict[str, Float[np.ndarray, "steps ..."]]

    @classmethod
    def of(cls, iterates: Sequence[Iterate]) -> "History":
        """The history of some iterates, which all have the same numbers."""
        names = iterates[0].numbers if iterates else ("loss", "gradient")
        return cls({name: np.array([each.numbers[name] for each in iterates], np.float64) for name in names})

    def __getitem__(self, name: str) -> Float[np.ndarray, "steps ..."]:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def loss(self) -> Float[np.ndarray, " steps"]:
        """What was minimised, at each iterate."""
        return self["loss"]

    @property
    def gradient(self) -> Float[np.ndarray, " steps"]:
        """The size of its gradient, at each iterate."""
        return self["gradient"]


class AbstractIteration(eqx.Module, Generic[State]):
    """Something that goes from state to state until it has ended."""

    @abc.abstractmethod
    def init(self) -> State:
        """The first state."""

    @abc.abstractmethod
    def step(self, state: State) -> State:
        """The next state."""

    @abc.abstractmethod
    def status(self, state: State) -> Status | None:
        """How it ended; None if it has not."""

    @abc.abstractmethod
    def iterates(self, state: State) -> Sequence[Iterate]:
        """What the step to this state passed through, the last one where it is now."""


class AbstractResumable(AbstractIteration[State]):
    """An iteration whose state can be written to a checkpoint, and read from it."""

    @abc.abstractmethod
    def identity(self) -> dict[str, Any]:
        """What it is an iteration of, as plain values: a run goes on only from one of the same."""

    @abc.abstractmethod
    def snapshot(self, state: State) -> list[np.ndarray]:
        """The state as arrays."""

    @abc.abstractmethod
    def restore(self, arrays: list[np.ndarray]) -> State:
        """The state that a snapshot was made of."""


class Watch(NamedTuple):
    """How an iteration is watched; none of it changes what is learned."""

    #: None shows a bar on terminals only.
    progress: bool | None = None
    callback: Callback | None = None
    #: Where it is recorded, and goes on from.
    run: RunFolder | None = None


class Session:
    """The loop, for one iteration or for several that make up one fit; a context manager."""

    def __init__(self, title: str, *, total: int | None = None, watch: Watch = Watch()) -> None:  # noqa: B008
        self.history: list[Iterate] = []
        #: Whether it was asked to stop: by a callback, or by Ctrl-C.
        self.stopped = False
        self._title = title
        #: Steps that a full progress bar stands for.
        self._total = total
        self._watch = watch
        self._stack = contextlib.ExitStack()
        self._bar: Bar | None = None
        self._interrupt: Interrupt | None = None
        self._recorder: Recorder | None = None

    def __enter__(self) -> "Session":
        self._bar = self._stack.enter_context(progress_bar(self._title, self._total, shown=self._watch.progress))
        self._interrupt = self._stack.enter_context(interruptible())
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def run(self, iteration: AbstractIteration[State], *, limit: int | None = None) -> tuple[State, Status]:
        """Iterate until it has ended, the history has `limit` steps, or it is stopped: the last state, and why."""
        with self._recording(iteration) as recorder:
            state = self._first(iteration, recorder)
            while (status := self._ended(iteration, state, limit)) is None:
                if recorder is not None and recorder.due():
                    recorder.save(_resumable(iteration).snapshot(state), len(self.history))
                with self._waiting():
                    state = iteration.step(state)
                self.record(iteration.iterates(state))
            if recorder is not None:
                recorder.save(_resumable(iteration).snapshot(state), len(self.history))
        return state, status

    def _first(self, iteration: AbstractIteration[State], recorder: Recorder | None) -> State:
        """The state to start from: that of a checkpoint, or a new one."""
        snapshot = None if recorder is None else recorder.restore()
        if snapshot is not None:
            self.history = [Iterate(line.pop("step"), line) for line in snapshot.lines]
            return _resumable(iteration).restore(snapshot.arrays)
        with self._waiting():
            state = iteration.init()
        self.record(iteration.iterates(state))
        return state

    def _ended(self, iteration: AbstractIteration[State], state: State, limit: int | None) -> Status | None:
        status = iteration.status(state)
        if status is None and self.stopped:
            return Status.INTERRUPTED
        if status is None and limit is not None and self.history[-1].step >= limit:
            return Status.MAX_STEPS
        return status

    @contextlib.contextmanager
    def _recording(self, iteration: AbstractIteration[State]) -> Iterator[Recorder | None]:
        """The run folder, open, if there is one."""
        if self._watch.run is None:
            yield None
            return
        with Recorder(self._watch.run, _resumable(iteration).identity()).opened() as recorder:
            self._recorder = recorder
            try:
                yield recorder
            finally:
                self._recorder = None

    def record(self, iterates: Sequence[Iterate]) -> None:
        """Add iterates to the history and report them."""
        for iterate in iterates:
            numbered = iterate._replace(step=len(self.history)) if iterate.step == NEXT else iterate
            self.history.append(numbered)
            if self._recorder is not None:
                self._recorder.log(numbered.step, numbered.numbers)
            if self._bar is not None:
                self._bar.update(numbered.step, note(numbered))
            if self._watch.callback is not None:
                self.stopped |= self._watch.callback(numbered) is True
        if self._interrupt is not None:
            # Before the first iterate there is nothing to keep, and an interrupt ends the fit at once.
            self._interrupt.kept = bool(self.history)
            self.stopped |= self._interrupt.asked is not None

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """A compiled step says nothing until it ends, so a timer opens the bar."""
        if self._bar is None or not self._bar.pending:
            yield
            return
        timer = threading.Timer(PATIENCE, self._bar.update, (len(self.history),))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _resumable(iteration: AbstractIteration[State]) -> AbstractResumable[State]:
    if not isinstance(iteration, AbstractResumable):
        raise ValueError(f"{type(iteration).__name__} keeps no checkpoints, so it takes no run folder.")
    return iteration


def note(iterate: Iterate) -> str:
    """One or two numbers beside the progress bar; with several seeds, their mean."""
    shown = {name: iterate.numbers[name] for name in NOTED if name in iterate.numbers}
    return "  ".join(f"{name.replace('_', ' ')} {np.mean(value):.4g}" for name, value in shown.items())


def to_arrays(state: Any) -> list[np.ndarray]:
    """The leaves of a state in JAX, for a snapshot; random keys as the numbers that they are made of."""
    return [np.asarray(jr.key_data(leaf) if _is_key(leaf) else leaf) for leaf in jax.tree.leaves(state)]


def from_arrays(arrays: Sequence[np.ndarray], like: State) -> State:
    """The state that `to_arrays` took apart; `like` has its structure, shapes and types."""
    leaves, structure = jax.tree.flatten(like)
    if len(arrays) != len(leaves):
        raise ValueError(f"The checkpoint holds {len(arrays)} arrays, but the state has {len(leaves)}.")
    found = []
    for array, leaf in zip(arrays, leaves, strict=True):
        restored = jr.wrap_key_data(jnp.asarray(array)) if _is_key(leaf) else jnp.asarray(array)
        if restored.shape != leaf.shape or restored.dtype != leaf.dtype:
            raise ValueError(f"The checkpoint holds {array.dtype}{array.shape} in place of {leaf.dtype}{leaf.shape}.")
        found.append(restored)
    return jax.tree.unflatten(structure, found)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
