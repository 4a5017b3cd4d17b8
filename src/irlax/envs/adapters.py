"""Environments of other JAX libraries."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.envs.environment import AbstractEnvironment, Step
from irlax.envs.timed import Timed
from irlax.spaces import Box, Discrete
from irlax.typing import Array, Float, PRNGKeyArray


class Gymnax(AbstractEnvironment):
    """An environment of gymnax, by its name: `Gymnax("CartPole-v1")`.

    gymnax counts its time limit among the ends; here the limit is lifted and our own clock truncates.
    """

    inner: Any = eqx.field(static=True)
    params: Any
    horizon: int = eqx.field(static=True)
    fixed_horizon: bool = eqx.field(static=True)

    def __init__(self, name: str, *, horizon: int | None = None, fixed_horizon: bool = False, **options: Any):
        try:
            import gymnax  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise _absent("gymnax", error) from None
        if name not in gymnax.registered_envs:
            raise ValueError(
                f"There is no gymnax environment {name!r}. There are {checks.some(gymnax.registered_envs)}."
            )
        self.inner, params = gymnax.make(name, **options)
        limit = checks.horizon(horizon)
        self.horizon = int(params.max_steps_in_episode) if limit is None else limit
        self.params = params.replace(max_steps_in_episode=2**30)
        self.fixed_horizon = fixed_horizon
        if len(self.inner.observation_space(params).shape) != 1:
            raise ValueError(f"Observations must be vectors, but those of {name} are not.")

    @property
    def observation_size(self) -> int:
        return self.inner.observation_space(self.params).shape[0]

    @property
    def actions(self) -> Discrete | Box:
        space = self.inner.action_space(self.params)
        if hasattr(space, "n"):
            return Discrete(int(space.n))
        bounds = (np.broadcast_to(np.asarray(bound, np.float32), space.shape) for bound in (space.low, space.high))
        return Box(*bounds)

    def reset(self, *, key: PRNGKeyArray) -> tuple[Timed, Float[Array, " obs"]]:
        observation, inner = self.inner.reset_env(key, self.params)
        return Timed(inner, jnp.zeros((), jnp.int32)), jnp.asarray(observation, jnp.float32)

    def step(self, state: Timed, action: Any, *, key: PRNGKeyArray) -> Step:
        observation, inner, reward, ended, _ = self.inner.step_env(key, state.inner, action, self.params)
        time, terminated = state.time + 1, jnp.asarray(ended, bool)
        return Step(
            state=Timed(inner, time),
            observation=jnp.asarray(observation, jnp.float32),
            reward=jnp.asarray(reward, jnp.float32),
            terminated=terminated,
            truncated=(time >= self.horizon) & ~terminated,
        )


class Brax(AbstractEnvironment):
    """An environment of brax, by its name: `Brax("halfcheetah")`. Actions lie in [−1, 1]."""

    inner: Any = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    fixed_horizon: bool = eqx.field(static=True)

    def __init__(self, name: str, *, horizon: int = 1000, fixed_horizon: bool = False, **options: Any):
        try:
            from brax import envs  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise _absent("brax", error) from None
        try:
            self.inner = envs.get_environment(name, **options)
        except KeyError:
            raise ValueError(f"There is no brax environment {name!r}. Names are such as 'ant' or 'hopper'.") from None
        self.horizon, self.fixed_horizon = checks.count("horizon", horizon), fixed_horizon

    @property
    def observation_size(self) -> int:
        return int(self.inner.observation_size)

    @property
    def actions(self) -> Box:
        bound = np.ones(self.inner.action_size, np.float32)
        return Box(-bound, bound)

    def reset(self, *, key: PRNGKeyArray) -> tuple[Timed, Float[Array, " obs"]]:
        inner = self.inner.reset(key)
        return Timed(inner, jnp.zeros((), jnp.int32)), inner.obs

    def step(self, state: Timed, action: Any, *, key: PRNGKeyArray) -> Step:
        inner = self.inner.step(state.inner, jnp.clip(action, -1, 1))
        time, terminated = state.time + 1, inner.done > 0
        return Step(Timed(inner, time), inner.obs, inner.reward, terminated, (time >= self.horizon) & ~terminated)


def _absent(library: str, error: ImportError) -> ImportError:
    return ImportError(f"{library} cannot be imported ({error}). Install it: `pip install irlax[envs]`.")
