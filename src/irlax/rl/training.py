"""The loop that trains: watched, logged, and able to go on where it was killed."""

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks, storage
from irlax.envs.environment import AbstractEnvironment
from irlax.progress import progress
from irlax.records import field
from irlax.rl.host import HostEnvironment, HostRunner
from irlax.rl.learner import AbstractLearner, Metrics, State, rounds_for
from irlax.rl.policy_file import POLICY_FILE, read_header, read_leaves, save_policy, write_leaves
from irlax.typing import Float, Int, PRNGKeyArray

CHECKPOINT_FORMAT = "irlax-training-1"
CHECKPOINT, LOG = "checkpoint.eqx", "log.jsonl"


class Options(NamedTuple):
    """The arguments of `train` that do not change what is learned."""

    steps: int | None
    seeds: int | None
    out: str | os.PathLike[str] | None
    resume: bool
    checkpoint_every: float
    tensorboard: bool
    callback: Callable[[dict[str, Any]], Any] | None
    progress: bool | None


class Training(eqx.Module):
    """What training gave. With `seeds`, policies and values have a leading axis, and curves a second one."""

    state: State
    #: Environment steps of each agent after each round.
    steps: Int[np.ndarray, " rounds"]
    #: The mean return of the episodes that ended in each round, NaN where none did.
    returns: Float[np.ndarray, "rounds *seeds"]
    losses: Float[np.ndarray, "rounds *seeds"]

    @property
    def policy(self) -> Any:
        """The policy at the end: `policy(observation, key=key)`."""
        return self.state.policy

    @property
    def value(self) -> Any:
        """Its soft value: `value(observation)`."""
        return self.state.agent.value

    @property
    def final_return(self) -> Float[np.ndarray, "*seeds"]:
        """The mean return over the last tenth of training."""
        return _mean_of_known(self.returns[-max(1, len(self.returns) // 10) :])

    @property
    def best_policy(self) -> Any:
        """The policy, or that of the seed with the highest final return."""
        if self.returns.ndim == 1:
            return self.policy
        best = int(np.argmax(np.nan_to_num(self.final_return, nan=-np.inf)))
        return jax.tree.map(lambda leaf: leaf[best], self.policy)


def train(
    learner: AbstractLearner,
    env: Any,
    reward: Callable[..., Any] | None,
    options: Options,
    *,
    key: PRNGKeyArray,
) -> Training:
    """See `AbstractLearner.train`."""
    rounds = rounds_for(learner, _checked_steps(learner, env, options))
    # Networks are trained in single precision, whatever the user's flag says.
    with jax.enable_x64(False):
        init, advance = _functions(learner, env, reward, options.seeds, key)
        folder = _Folder.open(options, learner, env, key, rounds)
        state, begin = (init(), 0) if folder is None else folder.restore(init)
        lines = [] if folder is None else folder.lines
        with (
            progress("Training", rounds * learner.steps_a_round, shown=options.progress) as bar,
            _writer(options) as tell,
        ):
            began = time.monotonic()
            for number in range(begin, rounds):
                rate = 1 - number / rounds if learner.anneal else 1.0
                state, metrics = advance(state, jnp.asarray(rate, jnp.float32))
                line = _line(state, metrics)
                _refuse_nonfinite(line)
                line["steps_per_second"] = _speed(learner, options.seeds, number - begin + 1, began)
                lines.append(line)
                if folder is not None:
                    folder.log(line)
                    folder.checkpoint(state, number + 1, options.checkpoint_every)
                tell(line)
                bar.update((number + 1) * learner.steps_a_round, _note(line))
        result = _result(state, lines, options.seeds)
        if folder is not None:
            folder.finish(result, rounds)
    return result


def _checked_steps(learner: AbstractLearner, env: Any, options: Options) -> int:
    steps = learner.steps if options.steps is None else checks.count("steps", options.steps)
    if options.seeds is not None:
        checks.count("seeds", options.seeds)
    checks.positive("checkpoint_every", options.checkpoint_every, zero=True)
    if options.resume and options.out is None:
        raise ValueError("`resume` needs the folder to go on from: `out=`.")
    if options.tensorboard and options.out is None:
        raise ValueError("`tensorboard` needs a folder to write to: `out=`.")
    if isinstance(env, AbstractEnvironment):
        return steps
    if not isinstance(env, HostEnvironment):
        raise TypeError(
            f"`env` must be an environment of irlax or of the host (irlax.rl.host.HostEnvironment), but is a "
            f"{type(env).__name__}. Make one with irlax.envs.make."
        )
    if options.seeds is not None:
        raise ValueError("`seeds` trains side by side inside JAX, which this environment cannot do. Train one by one.")
    return steps


def _functions(
    learner: AbstractLearner, env: Any, reward: Any, seeds: int | None, key: PRNGKeyArray
) -> tuple[Callable[[], State], Callable[[State, Any], tuple[State, Metrics]]]:
    """How to begin, and how to advance a state, which is used up."""
    if not isinstance(env, AbstractEnvironment):
        init_key, seed_key = jr.split(key)
        runner = HostRunner(learner, env, seed=int(jr.randint(seed_key, (), 0, 2**31 - 1)))
        return lambda: runner.init(init_key), lambda state, rate: runner.step(state, reward, rate)
    keys = key if seeds is None else jr.split(key, seeds)
    return lambda: _init(learner, env, keys), lambda state, rate: _advance((learner, env, reward, rate), state)


@eqx.filter_jit
def _init(learner: AbstractLearner, env: AbstractEnvironment, keys: Any) -> State:
    if keys.ndim == 0:
        return learner.init(env, keys)
    return jax.vmap(lambda key: learner.init(env, key))(keys)


# The state is given up to the result: a memory of experience is not copied at every step.
@eqx.filter_jit(donate="all-except-first")
def _advance(fixed: tuple[AbstractLearner, AbstractEnvironment, Any, Any], state: State) -> tuple[State, Metrics]:
    learner, env, reward, rate = fixed

    def step(state: State) -> tuple[State, Metrics]:
        state, metrics = learner.step(env, state, reward, rate=rate)
        assert state.runners is not None
        metrics["finite"] = jnp.isfinite(state.runners.observation).all()
        return state, metrics

    return step(state) if state.key.ndim == 0 else jax.vmap(step)(state)


def _line(state: State, metrics: Metrics) -> dict[str, Any]:
    """One line of the log: plain numbers, or lists of them with seeds."""
    numbers = jax.device_get(metrics)
    return {"steps": int(np.max(state.steps))} | {name: np.asarray(number).tolist() for name, number in numbers.items()}


def _refuse_nonfinite(line: dict[str, Any]) -> None:
    finite = line.pop("finite", True)
    if not np.all(finite) or not np.isfinite(line["loss"]).all():
        what = "The loss" if np.all(finite) else "An observation of the environment"
        raise FloatingPointError(
            f"{what} is NaN or infinite after {line['steps']} steps. Nothing more is learned; the last checkpoint "
            f"stands. Look at the environment's rewards and observations, or lower the learning rate."
        )


def _speed(learner: AbstractLearner, seeds: int | None, rounds: int, began: float) -> float:
    return round(rounds * learner.steps_a_round * (seeds or 1) / max(time.monotonic() - began, 1e-9))


def _note(line: dict[str, Any]) -> str:
    returned, loss = (float(_mean_of_known(np.atleast_1d(line[name]))) for name in ("return", "loss"))
    return f"{line['steps_per_second']:,.0f} steps/s, return {returned:.1f}, loss {loss:.3g}"


def _mean_of_known(numbers: np.ndarray) -> np.ndarray:
    """The mean along the first axis of what is not NaN."""
    known = ~np.isnan(numbers)
    total, count = np.where(known, numbers, 0.0).sum(axis=0), known.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _result(state: State, lines: list[dict[str, Any]], seeds: int | None) -> Training:
    steps = np.array([line["steps"] for line in lines], np.int64)
    shape = (len(lines),) if seeds is None else (len(lines), seeds)
    returns, losses = (
        np.array([line[name] for line in lines], np.float64).reshape(shape) for name in ("return", "loss")
    )
    return Training(state, steps, returns, losses)


@dataclasses.dataclass
class _Folder:
    """A folder that a run writes to, and goes on from."""

    path: Path
    header: dict[str, Any]
    lines: list[dict[str, Any]]
    saved: float

    @classmethod
    def open(
        cls, options: Options, learner: AbstractLearner, env: Any, key: PRNGKeyArray, rounds: int
    ) -> "_Folder | None":
        if options.out is None:
            return None
        path = Path(options.out)
        if path.exists() and not path.is_dir():
            raise NotADirectoryError(f"{path} is a file. Name a folder to write to.")
        if not options.resume and (path / CHECKPOINT).exists():
            raise FileExistsError(
                f"{path} holds a training run already. Go on with it by `resume=True`, or name another folder."
            )
        path.mkdir(parents=True, exist_ok=True)
        settings = {item.name: getattr(learner, item.name) for item in dataclasses.fields(learner)}
        header = {
            "format": CHECKPOINT_FORMAT,
            "learner": type(learner).__name__,
            "settings": settings,
            "environment": type(env).__name__,
            "key": np.asarray(jr.key_data(key)).tolist(),
            "seeds": options.seeds,
            "rounds": rounds,
        }
        return cls(path, header, [], time.monotonic())

    def restore(self, init: Callable[[], State]) -> tuple[State, int]:
        """The state of the checkpoint and the rounds behind it, or a new one where there is none."""
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

    def _refuse_other_run(self, found: dict[str, Any]) -> None:
        wanted = json.loads(json.dumps(self.header))
        different = [name for name in wanted if found.get(name) != wanted[name]]
        if different:
            raise ValueError(
                f"{self.path} holds a run with another {' and '.join(different)}: to go on would be a different "
                f"experiment. Use the same arguments, or another folder."
            )

    def _cut_log(self, done: int) -> None:
        """Lines after the checkpoint are of rounds that will be run again."""
        path = self.path / LOG
        with storage.unreadable(path, "a log (.jsonl)"):
            kept = path.read_bytes().splitlines(keepends=True)[:done]
            self.lines = [_parsed(line) for line in kept]
            if len(kept) < done:
                raise ValueError(f"it has {len(kept)} lines, but the checkpoint was written after {done} rounds")
        with storage.replacing(path) as file:
            file.writelines(kept)

    def log(self, line: dict[str, Any]) -> None:
        # NaN is no JSON: a return that is unknown is null.
        plain = {name: _nulled(number) for name, number in line.items()}
        with (self.path / LOG).open("a", encoding="ascii") as file:
            file.write(json.dumps(plain, allow_nan=False) + "\n")

    def checkpoint(self, state: State, done: int, every: float) -> None:
        if time.monotonic() - self.saved >= every:
            self._write(state, done)

    def finish(self, result: Training, rounds: int) -> None:
        self._write(result.state, rounds)
        about = {name: self.header[name] for name in ("learner", "environment")}
        best = float(np.nanmax(result.final_return)) if np.isfinite(result.final_return).any() else None
        save_policy(self.path / POLICY_FILE, result.best_policy, **about, final_return=best)

    def _write(self, state: State, done: int) -> None:
        write_leaves(self.path / CHECKPOINT, self.header | {"done": done}, state)
        self.saved = time.monotonic()


def _nulled(number: Any) -> Any:
    if isinstance(number, list):
        return [_nulled(item) for item in number]
    return number if np.isfinite(number) else None


def _parsed(line: bytes) -> dict[str, Any]:
    def known(number: Any) -> Any:
        return [known(item) for item in number] if isinstance(number, list) else np.nan if number is None else number

    return {name: known(number) for name, number in json.loads(line).items()}


@contextlib.contextmanager
def _writer(options: Options) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Who else hears of each line: the user's callback, and TensorBoard if it is asked for."""
    with contextlib.ExitStack() as stack:
        listeners = [] if options.callback is None else [options.callback]
        if options.tensorboard:
            from irlax.rl.tensorboard import events

            assert options.out is not None
            listeners.append(stack.enter_context(events(Path(options.out))))

        def tell(line: dict[str, Any]) -> None:
            for listener in listeners:
                listener(dict(line))

        yield tell
