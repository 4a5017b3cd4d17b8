"""Gymnasium's environments for our learners. Gymnasium itself is imported when one is made."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from irlax import checks
from irlax.envs.stepping import Copies, Fields, Layout, Task
from irlax.envs.workers import Workers
from irlax.spaces import Box, Discrete
from irlax.typing import Bool, Float, Shaped

#: Environments of Gymnasium that never end before their time limit.
_ENDLESS = ("Pendulum", "HalfCheetah", "Swimmer", "Reacher", "Pusher", "HumanoidStandup")


class HostStep(NamedTuple):
    """The result of the actions in all copies. A copy whose episode ended is reset at once.

    `final_observation` is what the action led to, `observation` what to act on next: the same, but for copies that
    ended, where it is the first of a new episode. A value after the step belongs to `final_observation`.
    """

    observation: Float[np.ndarray, "num obs"]
    final_observation: Float[np.ndarray, "num obs"]
    reward: Float[np.ndarray, " num"]
    terminated: Bool[np.ndarray, " num"]
    truncated: Bool[np.ndarray, " num"]


class GymnasiumEnvironment:
    """Any Gymnasium environment with flat observations, `num_envs` copies side by side, on the host.

    `env` is an id, such as "HalfCheetah-v5", or a function that makes an environment; `options` go to
    `gymnasium.make`. The horizon is the id's own time limit, unless it is given. `after_end` says what follows a
    termination: a new episode ("reset"), or, up to the horizon, what the wrappers of the same names observe:
    "fixed-horizon" or "absorbing". Whether the horizon is fixed is known for the ids of Gymnasium that never
    end; for others of that kind say `fixed_horizon=True`.

    With `workers` the copies are stepped by so many processes, each a part of them; "auto" takes as many as there are
    cores, or copies. Every copy has its own random numbers, seeded by its place among the copies, so that episodes do
    not depend on the number of workers. `start_step` and `finish_step` are `step` in two parts, between which this
    process can do something else; `HostRunner.start_collecting` does the same for many steps of a policy. An error in a
    worker is raised here with its traceback. Workers end with this object or with the interpreter, at an error and at
    an interrupt; `reset` starts them again.

    Actions outside their box are clipped to it.
    """

    def __init__(
        self,
        env: str | Callable[[], Any],
        num_envs: int = 1,
        *,
        horizon: int | None = None,
        after_end: Literal["reset", "fixed-horizon", "absorbing"] = "reset",
        fixed_horizon: bool | None = None,
        workers: int | Literal["auto"] | None = None,
        **options: Any,
    ):
        checks.count("num_envs", num_envs)
        checks.one_of("after_end", after_end, ("reset", "fixed-horizon", "absorbing"))
        if isinstance(env, str) and checks.horizon(horizon) is not None:
            options["max_episode_steps"] = horizon
        example = _made(env, options)
        self.horizon = checks.horizon(horizon) or _time_limit(example)
        self.name = env if isinstance(env, str) else type(example.unwrapped).__name__
        self.num_envs = num_envs
        self.actions, self._first_action = _action_space(example)
        self.observation_size = _observation_size(example) + (after_end == "absorbing")
        known = self.name.split("/")[-1].rsplit("-", 1)[0] in _ENDLESS
        self.fixed_horizon = after_end != "reset" or (known if fixed_horizon is None else fixed_horizon)
        space = example.action_space
        # The registered entry, not its name: ids that are registered by a script are not known to a worker.
        factory = functools.partial(_gymnasium().make, example.spec) if isinstance(env, str) else env
        task = Task(factory, self.name, self.horizon, after_end)
        layout = Layout(num_envs, self.observation_size, space.shape, space.dtype.str)
        example.close()
        num_workers = _number(workers, num_envs)
        self._copies = Workers(task, layout, num_workers) if num_workers else InProcess(task, layout)

    def reset(self, seed: int | None = None) -> Float[np.ndarray, "num obs"]:
        """Start a new episode in every copy; copy i is seeded with seed + i."""
        self._copies.reset(seed)
        return self._copies.fields.observation.copy()

    def step(self, actions: Shaped[np.ndarray, "num ..."]) -> HostStep:
        """Act in every copy."""
        self.start_step(actions)
        return self.finish_step()

    def start_step(self, actions: Shaped[np.ndarray, "num ..."]) -> None:
        """Act in every copy, and return at once if there are workers; `finish_step` must follow."""
        self._copies.fields.action[:] = self._checked(actions)
        self._copies.send("step")

    def finish_step(self) -> HostStep:
        """The result of the actions that `start_step` took."""
        self._copies.receive()
        return HostStep(*(field.copy() for field in self._copies.fields[1:]))

    def close(self) -> None:
        """Close the simulators."""
        self._copies.close()

    def _checked(self, actions: Any) -> np.ndarray:
        actions = np.asarray(actions)
        if isinstance(self.actions, Discrete):
            checks.has_shape("actions", actions, (self.num_envs,), "(num_envs,)")
            actions = checks.as_integers("actions", actions)
            checks.in_range("actions", actions, self.actions.num, "actions")
            return self._first_action + actions
        low, high = np.asarray(self.actions.low), np.asarray(self.actions.high)
        checks.has_shape("actions", actions, (self.num_envs, len(low)), "(num_envs, coordinates)")
        checks.finite("actions", actions)
        return np.clip(actions, low, high)


class InProcess:
    """All copies in this process, with the methods of `Workers`."""

    def __init__(self, task: Task, layout: Layout) -> None:
        self.fields = Fields.over(np.zeros(Fields.size(layout), np.uint8), layout)
        self._copies = Copies(task, self.fields, 0, layout.num)

    def reset(self, seed: int | None) -> None:
        """Start an episode in every copy."""
        self._copies.reset(seed)

    def send(self, name: str) -> None:
        """Call a method of the copies, now."""
        getattr(self._copies, name)()

    def receive(self) -> None:
        """Nothing: it is done."""

    def close(self) -> None:
        """Close the simulators."""
        self._copies.close()


def _number(workers: Any, num_envs: int) -> int:
    """How many processes; 0: none but this one."""
    if workers is None:
        return 0
    if workers == "auto":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(cores, num_envs)
    return min(checks.count("workers", workers), num_envs)


def _made(env: str | Callable[[], Any], options: dict[str, Any]) -> Any:
    if not isinstance(env, str):
        if not callable(env) or options:
            raise TypeError("`env` must be a Gymnasium id with options, or a function that makes one and takes none.")
        return env()
    with _gymnasium_errors(env):
        return _gymnasium().make(env, **options)


def _gymnasium() -> Any:
    import gymnasium

    return gymnasium


@contextlib.contextmanager
def _gymnasium_errors(name: str) -> Iterator[None]:
    """Gymnasium's errors as ours, which say what to do."""
    from gymnasium import error as errors

    try:
        yield
    except errors.DependencyNotInstalled as error:
        raise ImportError(f"{name} needs more than Gymnasium itself: {error} (or `pip install irlax[envs]`)") from None
    except (errors.UnregisteredEnv, errors.DeprecatedEnv) as error:
        raise ValueError(
            f"There is no Gymnasium environment {name!r}: {error} Known ids: `gymnasium.pprint_registry()`."
        ) from None


def _time_limit(env: Any) -> int:
    limit = None if env.spec is None else env.spec.max_episode_steps
    if limit is None:
        raise ValueError("This environment has no time limit; say after how many steps to truncate: `horizon=`.")
    return limit


def _observation_size(env: Any) -> int:
    from gymnasium import spaces

    space = env.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1 or space.dtype.kind != "f":
        raise ValueError(
            f"Observations must be a flat Box of floats, but the space is {space}. Make the environment by a function "
            f"that wraps it in `gymnasium.wrappers.FlattenObservation` (and, for integers, `DtypeObservation`)."
        )
    return space.shape[0]


def _action_space(env: Any) -> tuple[Discrete | Box, int]:
    """The action space as ours, and the first of its integers."""
    from gymnasium import spaces

    space = env.action_space
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n)), int(space.start)
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and space.dtype.kind == "f":
        if np.isfinite(space.low).all() and np.isfinite(space.high).all():
            return Box(space.low.astype(np.float32), space.high.astype(np.float32)), 0
        raise ValueError(
            f"Actions must be bounded, but the space is {space}. Wrap the environment in "
            f"`gymnasium.wrappers.RescaleAction`, or in one that clips."
        )
    raise ValueError(
        f"Actions must be Discrete or a flat Box of floats, but the space is {space}. Wrap the environment in one that "
        f"translates them, for example `gymnasium.wrappers.TransformAction`."
    )
