"""Demonstrations by simulation of a policy in an MDP."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.demos.demonstrations import Demonstrations, from_rows
from irlax.demos.sizes import rounded_up
from irlax.mdp import MDP
from irlax.mdp.sampling import inverse_cdf
from irlax.planning.occupancy import checked_policy, refuse_other_problem
from irlax.planning.plan import Plan
from irlax.planning.small import MAX_TRANSITIONS
from irlax.precision import is_traced, scope, staged, to_device
from irlax.typing import Array, Float, Int, PRNGKeyArray

#: Up to this many steps in all, more are sampled than asked for, and dropped: programs are compiled for round sizes.
_FEW_STEPS = 2**18


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
    assert steps is not None
    with scope():
        if isinstance(policy, Plan):
            refuse_other_problem(mdp, policy)
            policy = policy.policy
        policy = checked_policy(mdp, policy)
        # The i-th of many random numbers does not depend on how many they are, so what is kept is the same.
        size = (rounded_up(num), rounded_up(steps) if mdp.horizon is None else steps)
        size = size if math.prod(size) <= _FEW_STEPS else (num, steps)
        small = mdp.rows.one_per_state and mdp.num_actions * mdp.num_states**2 <= MAX_TRANSITIONS
        if small and not is_traced(mdp, key) and not staged():
            sampled = _sample_on_host(mdp, np.asarray(policy), *(np.asarray(draws) for draws in _uniform(*size, key)))
        else:
            sampled = _sample(mdp, to_device(policy), *size, key)
        states, actions, after = (np.asarray(column)[:steps, :num] for column in sampled)
    if mdp.terminal is None:
        return Demonstrations.from_arrays(states.T, actions.T, next_states=after.T)
    return until_the_end(states.T, actions.T, after.T, np.asarray(mdp.terminal))


def until_the_end(states: np.ndarray, actions: np.ndarray, after: np.ndarray, terminal: np.ndarray) -> Demonstrations:
    """Demonstrations from arrays [N, L] that go on after the end of episodes, in absorbing states."""
    ended = terminal[after]
    lengths = np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, states.shape[1])
    if terminal[states[:, 0]].any():
        raise ValueError("`initial` starts some episodes in an absorbing state, where nothing can be demonstrated.")
    kept = np.arange(states.shape[1]) < lengths[:, None]
    return from_rows(states[kept], actions[kept], lengths, next_states=after[kept], terminated=ended.any(axis=1))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _uniform(
    num: int, steps: int, key: PRNGKeyArray
) -> tuple[Float[Array, " N"], Float[Array, "L N"], Float[Array, "L N"]]:
    """The random numbers of starts, actions and transitions, as `_sample` draws them."""
    start_key, action_key, transition_key = jr.split(key, 3)
    by_step = jax.vmap(lambda key: jr.uniform(key, (num,)))
    return jr.uniform(start_key, (num,)), by_step(jr.split(action_key, steps)), by_step(jr.split(transition_key, steps))


def _sample_on_host(
    mdp: MDP,
    policy: Float[np.ndarray, "*T R A"],
    starts: Float[np.ndarray, " N"],
    choices: Float[np.ndarray, "L N"],
    moves: Float[np.ndarray, "L N"],
) -> tuple[Int[np.ndarray, "L N"], Int[np.ndarray, "L N"], Int[np.ndarray, "L N"]]:
    """As `_sample`, in NumPy: for small MDPs, in which a program would take longer to compile than to run."""
    links, probs = mdp.dynamics.transitions()
    shape = mdp.dynamics.aligned_shape
    # [A, S, next], whichever axis runs over next states.
    probs = np.moveaxis(np.broadcast_to(np.asarray(probs), shape), mdp.dynamics.next_axis, -1)
    after = np.broadcast_to(np.arange(shape[-1]), shape)
    if links is not None:
        after = np.moveaxis(np.broadcast_to(np.asarray(links.successors), shape), 0, -1)
    of_policy, of_moves = np.cumsum(policy, axis=-1), np.cumsum(probs, axis=-1)
    state, rows = _first_above(np.cumsum(mdp.initial)[None], starts), []
    for t in range(len(choices)):
        action = _first_above((of_policy[t] if policy.ndim == 3 else of_policy)[state], choices[t])
        following = after[action, state, _first_above(of_moves[action, state], moves[t])]
        rows.append((state, action, following))
        state = following
    states, actions, following = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    return states, actions, following


def _first_above(cumulative: Float[np.ndarray, "N1 M"], uniform: Float[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """The first index whose cumulative mass exceeds `uniform` of the total."""
    return np.argmax(cumulative > (uniform * cumulative[:, -1])[:, None], axis=-1)


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
