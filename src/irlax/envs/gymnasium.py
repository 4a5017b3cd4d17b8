"""Gymnasium's environments for our learners. Gymnasium itself is imported when one is made."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from irlax import checks
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
        **options: Any,
    ):
        checks.count("num_envs", num_envs)
        checks.one_of("after_end", after_end, ("reset", "fixed-horizon", "absorbing"))
        if isinstance(env, str) and checks.horizon(horizon) is not None:
            options["max_episode_steps"] = horizon
        first = _made(env, options)
        limit = checks.horizon(horizon) or _time_limit(first)
        self.name = env if isinstance(env, str) else type(first.unwrapped).__name__
        self.num_envs, self.horizon = num_envs, limit
        self.actions, self._first_action = _action_space(first)
        _check_observation_space(first)
        self._envs = [first] + [_made(env, options) for _ in range(num_envs - 1)]
        if after_end != "reset":
            from irlax.envs.wrappers import ContinueAfterEnd

            self._envs = [ContinueAfterEnd(copy, limit, indicator=after_end == "absorbing") for copy in self._envs]
        known = self.name.split("/")[-1].rsplit("-", 1)[0] in _ENDLESS
        self.fixed_horizon = after_end != "reset" or (known if fixed_horizon is None else fixed_horizon)
        self._times = np.zeros(num_envs, int)

    @property
    def observation_size(self) -> int:
        """Length of an observation vector."""
        space = self._envs[0].observation_space
        assert space.shape is not None
        return space.shape[0]

    def reset(self, seed: int | None = None) -> Float[np.ndarray, "num obs"]:
        """Start a new episode in every copy; copy i is seeded with seed + i."""
        seeds = [None if seed is None else seed + i for i in range(self.num_envs)]
        self._times[:] = 0
        return np.stack([self._first(i, seed) for i, seed in enumerate(seeds)])

    def step(self, actions: Shaped[np.ndarray, "num ..."]) -> HostStep:
        """Act in every copy."""
        rows = [self._step(i, action) for i, action in enumerate(self._checked(actions))]
        return HostStep(*map(np.stack, zip(*rows, strict=True)))

    def close(self) -> None:
        """Close the simulators."""
        for env in self._envs:
            env.close()

    def _step(self, i: int, action: Any) -> tuple[Any, ...]:
        final, reward, terminated, truncated, _ = self._envs[i].step(action)
        self._times[i] += 1
        final = self._finite(final, "step")
        terminated = bool(terminated)
        truncated = not terminated and bool(truncated or self._times[i] >= self.horizon)
        observation = self._first(i, None) if terminated or truncated else final
        return observation, final, np.float64(reward), np.bool_(terminated), np.bool_(truncated)

    def _first(self, i: int, seed: int | None) -> Float[np.ndarray, " obs"]:
        self._times[i] = 0
        return self._finite(self._envs[i].reset(seed=seed)[0], "reset")

    def _finite(self, observation: Any, source: str) -> Float[np.ndarray, " obs"]:
        observation = np.asarray(observation, np.float32)
        if not np.isfinite(observation).all():
            raise ValueError(
                f"{self.name} gave an observation with NaN or infinite entries at "
                f"{checks.places(~np.isfinite(observation))} from its {source}(). Its simulation has probably "
                f"diverged: bound the actions, or check the environment with `gymnasium.utils.env_checker.check_env`."
            )
        return observation

    def _checked(self, actions: Any) -> list[Any]:
        actions = np.asarray(actions)
        if isinstance(self.actions, Discrete):
            checks.has_shape("actions", actions, (self.num_envs,), "(num_envs,)")
            actions = checks.as_integers("actions", actions)
            checks.in_range("actions", actions, self.actions.num, "actions")
            return [self._first_action + int(action) for action in actions]
        low, high = np.asarray(self.actions.low), np.asarray(self.actions.high)
        checks.has_shape("actions", actions, (self.num_envs, len(low)), "(num_envs, coordinates)")
        checks.finite("actions", actions)
        return list(np.clip(actions, low, high).astype(self._envs[0].action_space.dtype))


def _made(env: str | Callable[[], Any], options: dict[str, Any]) -> Any:
    if not isinstance(env, str):
        if not callable(env) or options:
            raise TypeError("`env` must be a Gymnasium id with options, or a function that makes one and takes none.")
        return env()
    import gymnasium as gym

    with _gymnasium_errors(env):
        return gym.make(env, **options)


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


def _check_observation_space(env: Any) -> None:
    from gymnasium import spaces

    space = env.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1 or space.dtype.kind != "f":
        raise ValueError(
            f"Observations must be a flat Box of floats, but the space is {space}. Make the environment by a function "
            f"that wraps it in `gymnasium.wrappers.FlattenObservation` (and, for integers, `DtypeObservation`)."
        )


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
