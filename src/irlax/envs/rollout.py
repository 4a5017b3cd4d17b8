"""Whole episodes of a policy in an environment: to demonstrate, and to evaluate.

A policy is anything that can be called as `policy(observation, key=key)` and returns an action, for one observation
at a time: an integer, or a vector of floats. The parameters of an `eqx.Module` can change without being compiled anew;
a plain function works too, but every new one is compiled.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.demos.demonstrations import from_rows
from irlax.envs.environment import AbstractEnvironment
from irlax.envs.experience import SamplingPolicy, Transition, collect_episodes
from irlax.envs.gymnasium import GymnasiumEnvironment
from irlax.envs.host import HostRunner
from irlax.spaces import Discrete
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray

Environment = AbstractEnvironment | GymnasiumEnvironment
Policy = Callable[..., Any]


def collect(env: Environment, policy: Policy, num: int, *, key: PRNGKeyArray) -> Demonstrations:
    """`num` episodes, with observations, actions and true rewards, each up to its end.

    In environments in JAX all of them run inside one `jit`, side by side.
    """
    episodes = _checked_episodes(env, policy, num, key=key)
    rows = episodes.rows
    return from_rows(
        None,
        rows.action,
        episodes.lengths,
        terminated=episodes.terminated,
        observations=rows.observation,
        next_observations=rows.next_observation,
        rewards=rows.reward,
    )


def evaluate(env: Environment, policy: Policy, num: int = 100, *, key: PRNGKeyArray) -> Float[np.ndarray, " num"]:
    """True, undiscounted returns of `num` episodes of the policy as it is, stochastic if it draws its actions."""
    episodes = _checked_episodes(env, policy, num, key=key)
    starts = np.cumsum(episodes.lengths) - episodes.lengths
    return np.add.reduceat(np.asarray(episodes.rows.reward, np.float64), starts)


class Episodes(NamedTuple):
    """Episodes one after the other."""

    #: All their steps, [n].
    rows: Transition
    lengths: Int[np.ndarray, " num"]
    terminated: Bool[np.ndarray, " num"]


class PlainPolicy(eqx.Module):
    """A policy that can only be called; its log probabilities are unknown, NaN."""

    policy: Any

    def sample_and_log_prob(
        self, observation: Float[Array, " obs"], *, key: PRNGKeyArray
    ) -> tuple[Any, Float[Array, ""]]:
        """An action, and NaN."""
        return self.policy(observation, key=key), jnp.full((), jnp.nan)


def _checked_episodes(env: Environment, policy: Policy, num: int, *, key: PRNGKeyArray) -> Episodes:
    if not isinstance(env, Environment):
        raise TypeError(
            f"`env` must be an environment, but is a {type(env).__name__}. Make one with `envs.make(name)`, or of an "
            f"MDP with `envs.Tabular(mdp, reward, horizon=...)`."
        )
    checks.count("num", num)
    _check_policy(env, policy)
    sampling = policy if isinstance(policy, SamplingPolicy) else PlainPolicy(policy)
    if isinstance(env, GymnasiumEnvironment):
        seed_key, action_key = jr.split(key)
        # Each copy has its quota, since the first to end would be mostly short ones.
        quota = num // env.num_envs + (np.arange(env.num_envs) < num % env.num_envs)
        runner = HostRunner(env, seed=int(jr.randint(seed_key, (), 0, 2**31 - 1)))
        episodes = cut(runner.collect_episodes(sampling, quota, key=action_key), quota)
    else:
        batch = jax.tree.map(np.asarray, _collect_episodes(env, sampling, num, key=key))
        episodes = cut(batch, np.ones(num, int))
    _refuse_nonfinite(episodes)
    return episodes


_collect_episodes = eqx.filter_jit(collect_episodes)


def cut(batch: Transition, quota: Int[np.ndarray, " N"]) -> Episodes:
    """The first `quota` episodes of each environment, given steps [T, N] that start and end with an episode."""
    by_env = jax.tree.map(lambda array: np.swapaxes(array, 0, 1), batch)
    ended = by_env.terminated | by_env.truncated
    ended[:, -1] = True
    number = np.cumsum(ended, axis=1) - ended
    kept = number < quota[:, None]
    last = np.flatnonzero(ended[kept])
    rows = jax.tree.map(lambda array: array[kept], by_env)
    return Episodes(rows, np.diff(last, prepend=-1), rows.terminated[last])


def _refuse_nonfinite(episodes: Episodes) -> None:
    starts = np.cumsum(episodes.lengths) - episodes.lengths
    for name in ("observation", "next_observation", "reward"):
        numbers = getattr(episodes.rows, name)
        wrong = np.flatnonzero(~np.isfinite(numbers.reshape(len(numbers), -1)).all(axis=1))
        if len(wrong):
            episode = np.searchsorted(starts, wrong, side="right") - 1
            places = list(zip(episode.tolist(), (wrong - starts[episode]).tolist(), strict=True))
            raise ValueError(
                f"The environment gave a {name} with NaN or infinite entries in episodes and steps "
                f"{checks.some(places)}. Check its dynamics, and that the policy's actions are finite."
            )


def _check_signature(policy: Policy) -> None:
    try:
        taken = inspect.signature(policy)
    # The arguments of what is not written in Python are not known.
    except ValueError:
        return
    try:
        taken.bind(None, key=None)
    except TypeError:
        raise TypeError(
            f"`policy` must be callable as policy(observation, key=key), but takes {taken}. Call its random key `key`, "
            f"and let it take one though it may not use it: `lambda observation, key: ...`."
        ) from None


def _check_policy(env: Environment, policy: Policy) -> None:
    """A TypeError unless the policy returns actions of the environment; it is traced, not run."""
    if not callable(policy):
        raise TypeError(f"`policy` must be callable as policy(observation, key=key), but is a {type(policy).__name__}.")
    _check_signature(policy)
    observation = jax.ShapeDtypeStruct((env.observation_size,), jnp.float32)
    action = eqx.filter_eval_shape(lambda observation: policy(observation, key=jr.key(0)), observation)
    shape, dtype = jnp.shape(action), jnp.result_type(action)
    if isinstance(env.actions, Discrete):
        fits, wanted = shape == () and jnp.issubdtype(dtype, jnp.integer), f"one of {env.actions.num} integers"
    else:
        size = np.shape(env.actions.low)
        fits, wanted = shape == size and jnp.issubdtype(dtype, jnp.floating), f"floats of shape {size}"
    if not fits:
        raise TypeError(f"`policy` must give an action, {wanted}, but gives {dtype} of shape {shape}.")
