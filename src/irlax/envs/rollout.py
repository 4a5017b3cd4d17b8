"""Episodes of a policy in an environment: to demonstrate, and to evaluate.

A policy is anything that can be called as `policy(observation, key=key)` and gives an action, for one observation
at a time: an integer, or a vector of floats. As an `eqx.Module` it can change its parameters without being compiled
anew; a plain function works too, but every new one is compiled.
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
from irlax.envs.environment import AbstractEnvironment, Discrete
from irlax.envs.gymnasium import GymnasiumEnvironment
from irlax.typing import Array, Bool, Float, PRNGKeyArray, Shaped

Environment = AbstractEnvironment | GymnasiumEnvironment
Policy = Callable[..., Any]


def collect(env: Environment, policy: Policy, num: int, key: PRNGKeyArray) -> Demonstrations:
    """`num` episodes, with observations, actions and true rewards, each up to its end.

    In our own environments all of them run inside one `jit`, side by side.
    """
    episodes = _checked_episodes(env, policy, num, key)
    seen = episodes.seen
    ended = episodes.terminated & seen
    return from_rows(
        None,
        np.asarray(episodes.action[seen]),
        np.asarray(seen.sum(axis=1)),
        terminated=ended.any(axis=1),
        observations=episodes.observation[seen],
        next_observations=episodes.next_observation[seen],
        rewards=episodes.reward[seen],
    )


def evaluate(env: Environment, policy: Policy, num: int = 100, *, key: PRNGKeyArray) -> Float[np.ndarray, " num"]:
    """True, undiscounted returns of `num` episodes of the policy as it is, stochastic if it draws its actions."""
    episodes = _checked_episodes(env, policy, num, key)
    return np.where(episodes.seen, episodes.reward, 0).sum(axis=1, dtype=np.float64)


class Episodes(NamedTuple):
    """Episodes side by side, all as long as the horizon; what comes after an end has `seen` false."""

    observation: Float[Array, "num T obs"]
    action: Shaped[Array, "num T ..."]
    next_observation: Float[Array, "num T obs"]
    reward: Float[Array, "num T"]
    terminated: Bool[Array, "num T"]
    seen: Bool[Array, "num T"]


def _checked_episodes(env: Environment, policy: Policy, num: int, key: PRNGKeyArray) -> Episodes:
    if not isinstance(env, Environment):
        raise TypeError(
            f"`env` must be an environment, but is a {type(env).__name__}. Make one with `envs.make(name)`, or of an "
            f"MDP with `envs.Tabular(mdp, reward, horizon=...)`."
        )
    checks.count("num", num)
    _check_policy(env, policy)
    if isinstance(env, GymnasiumEnvironment):
        episodes = _on_host(env, policy, num, key)
    else:
        episodes = jax.tree.map(np.asarray, _in_jax(env, policy, num, key))
    for name in ("observation", "next_observation", "reward"):
        wrong = ~np.isfinite(getattr(episodes, name)).reshape(num, env.horizon, -1).all(axis=-1) & episodes.seen
        if wrong.any():
            raise ValueError(
                f"The environment gave a {name} with NaN or infinite entries in episodes and steps "
                f"{checks.places(wrong)}. Check its dynamics, and that the policy's actions are finite."
            )
    return episodes


@eqx.filter_jit
def _in_jax(env: AbstractEnvironment, policy: Policy, num: int, key: PRNGKeyArray) -> Episodes:
    return jax.vmap(lambda key: one_episode(env, policy, key))(jr.split(key, num))


def one_episode(env: AbstractEnvironment, policy: Policy, key: PRNGKeyArray) -> Episodes:
    """One episode as arrays [T, ...]; to be called inside `jit`."""
    start_key, steps_key = jr.split(key)
    state, observation = env.reset(start_key)

    def step(carry, key):
        state, observation, seen = carry
        action_key, move_key = jr.split(key)
        action = policy(observation, key=action_key)
        after = env.step(move_key, state, action)
        row = Episodes(observation, action, after.observation, after.reward, after.terminated, seen)
        return (after.state, after.observation, seen & ~(after.terminated | after.truncated)), row

    carry = (state, observation, jnp.ones((), bool))
    return jax.lax.scan(step, carry, jr.split(steps_key, env.horizon))[1]


@eqx.filter_jit
def _act(policy: Policy, observations: Float[Array, "num obs"], keys: Any) -> Shaped[Array, "num ..."]:
    return jax.vmap(lambda observation, key: policy(observation, key=key))(observations, keys)


def _on_host(env: GymnasiumEnvironment, policy: Policy, num: int, key: PRNGKeyArray) -> Episodes:
    """Episodes one behind the other in each of the environment's copies, cut apart at the ends."""
    seed_key, action_key = jr.split(key)
    observation = env.reset(seed=int(jr.randint(seed_key, (), 0, 2**31 - 1)))
    running: list[list[Any]] = [[] for _ in range(env.num_envs)]
    finished: list[list[Any]] = []
    # Each copy has its quota, so that short episodes are not preferred.
    quota = [num // env.num_envs + (i < num % env.num_envs) for i in range(env.num_envs)]
    while any(quota):
        action_key, now = jr.split(action_key)
        action = np.asarray(_act(policy, observation, jr.split(now, env.num_envs)))
        after = env.step(action)
        ended = after.terminated | after.truncated
        for i in range(env.num_envs):
            row = (observation[i], action[i], after.final_observation[i], after.reward[i], after.terminated[i])
            running[i].append(row)
            if ended[i]:
                if quota[i]:
                    finished.append(running[i])
                    quota[i] -= 1
                running[i] = []
        observation = after.observation
    return _side_by_side(finished, env.horizon)


def _side_by_side(finished: list[list[Any]], horizon: int) -> Episodes:
    columns: list[Any] = []
    for column in zip(*(zip(*episode, strict=True) for episode in finished), strict=True):
        rows = [np.stack(part) for part in column]
        padded = np.zeros((len(rows), horizon, *rows[0].shape[1:]), rows[0].dtype)
        for k, part in enumerate(rows):
            padded[k, : len(part)] = part
        columns.append(padded)
    lengths = np.array([len(episode) for episode in finished])
    columns.append(np.arange(horizon) < lengths[:, None])
    return Episodes(*columns)


def _check_signature(policy: Policy) -> None:
    try:
        taken = inspect.signature(policy)
    # Of what is not written in Python, arguments are not known.
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
    """The policy gives what the environment takes; traced, not run."""
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
