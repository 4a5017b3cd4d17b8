"""Demonstrations by simulation of a policy in an MDP."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.demos.demonstrations import Demonstrations, from_rows
from irlax.mdp import MDP
from irlax.mdp.sampling import inverse_cdf
from irlax.planning.occupancy import checked_policy, refuse_other_problem
from irlax.planning.plan import Plan
from irlax.precision import scope
from irlax.typing import Array, Float, Int, PRNGKeyArray


def rollout(mdp: MDP, policy: Any, *, num: int, key: PRNGKeyArray, length: int | None = None) -> Demonstrations:
    """Sample `num` episodes of a policy π[T,S,A] or π[S,A], or of a plan.

    With a finite horizon an episode has T steps. With none it has `length` of them and is truncated there,
    except in an undiscounted problem, where it ends, terminated, on reaching an absorbing state.
    """
    checks.count("num", num)
    if mdp.horizon is None:
        if length is None:
            raise ValueError("With an infinite horizon, say how many steps to sample: `length=`.")
        checks.count("length", length)
    elif length is not None and length != mdp.horizon:
        raise ValueError(f"`length` is for infinite horizons; this MDP has a horizon of {mdp.horizon} steps.")
    steps = length if mdp.horizon is None else mdp.horizon
    with scope():
        if isinstance(policy, Plan):
            refuse_other_problem(mdp, policy)
            policy = policy.policy
        policy = checked_policy(mdp, policy)
        states, actions, after = map(np.asarray, _sample(mdp, jnp.asarray(policy), num, steps, key))
    if mdp.terminal is None:
        return Demonstrations.from_arrays(states.T, actions.T, next_states=after.T)
    return _until_the_end(states.T, actions.T, after.T, np.asarray(mdp.terminal))


def _until_the_end(states: np.ndarray, actions: np.ndarray, after: np.ndarray, terminal: np.ndarray) -> Demonstrations:
    ended = terminal[after]
    lengths = np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, states.shape[1])
    if terminal[states[:, 0]].any():
        raise ValueError("`initial` starts some episodes in an absorbing state, where nothing can be demonstrated.")
    kept = np.arange(states.shape[1]) < lengths[:, None]
    return from_rows(states[kept], actions[kept], lengths, next_states=after[kept], terminated=ended.any(axis=1))


@functools.partial(jax.jit, static_argnums=(2, 3))
def _sample(
    mdp: MDP, policy: Float[Array, "*T R A"], num: int, steps: int, key: PRNGKeyArray
) -> tuple[Int[Array, "L N"], Int[Array, "L N"], Int[Array, "L N"]]:
    start_key, action_key, transition_key = jr.split(key, 3)
    cumulative = jnp.cumsum(jnp.asarray(mdp.initial))[None]
    start = inverse_cdf(cumulative, (jnp.zeros(num, jnp.int32),), jr.uniform(start_key, (num,)))

    def step(state, keys_and_policy):
        (action_key, transition_key), now = keys_and_policy
        action = mdp.rows.sample_actions(policy if now is None else now, state, jr.uniform(action_key, (num,)))
        after = mdp.dynamics.sample(*mdp.rows.cells(state, action), jr.uniform(transition_key, (num,)))
        return after, (state, action, after)

    keys = (jr.split(action_key, steps), jr.split(transition_key, steps))
    return jax.lax.scan(step, start, (keys, policy if policy.ndim == 3 else None))[1]
