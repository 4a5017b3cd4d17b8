"""Episodes of motives that switch, by simulation."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.demos.rollout import until_the_end
from irlax.mdp import MDP
from irlax.mdp.sampling import inverse_cdf
from irlax.precision import scope
from irlax.typing import Array, Int, PRNGKeyArray


def simulate_motives(
    mdp: MDP,
    policies: Any,
    initial: Any,
    switching: Any,
    *,
    num: int,
    key: PRNGKeyArray,
    length: int | None = None,
) -> tuple[Demonstrations, Int[np.ndarray, " n"]]:
    """Episodes in which motives with policies [K, S, A] or [K, T, S, A] switch, and the motive at each row.

    `initial` [K] are the probabilities of the first motive, and `switching` [K, K] or [S, K, K] those of the next one,
    given the present motive (and the state in which it is present). Episodes have `length` steps, or the MDP's horizon.
    """
    checks.count("num", num)
    steps = mdp.horizon if length is None else checks.count("length", length)
    if steps is None:
        raise ValueError("With an infinite horizon, say how many steps to simulate: `length=`.")
    if mdp.horizon is not None and steps != mdp.horizon:
        raise ValueError(f"`length` is for infinite horizons; this MDP has a horizon of {mdp.horizon} steps.")
    policies, initial, switching = (np.asarray(array, float) for array in (policies, initial, switching))
    for name, probabilities in (("policies", policies), ("initial", initial), ("switching", switching)):
        checks.finite(name, probabilities)
        if (probabilities < 0).any() or np.abs(probabilities.sum(axis=-1) - 1).max() > 1e-6:
            raise ValueError(f"`{name}` must hold probabilities that sum to 1 along the last axis.")
    with scope():
        table = np.broadcast_to(switching, (mdp.num_states, *switching.shape[-2:]))
        motives = (jnp.asarray(policies), jnp.asarray(initial), jnp.asarray(table))
        sampled = _sample(mdp, motives, (num, steps), key)
        states, actions, after, motives = (np.asarray(part).T for part in sampled)
    if mdp.terminal is None:
        return Demonstrations.from_arrays(states, actions, next_states=after), motives.ravel()
    demos = until_the_end(states, actions, after, np.asarray(mdp.terminal))
    return demos, np.concatenate([row[:kept] for row, kept in zip(motives, demos.lengths, strict=True)])


@functools.partial(jax.jit, static_argnums=2)
def _sample(
    mdp: MDP, model: tuple[Any, Any, Any], size: tuple[int, int], key: PRNGKeyArray
) -> tuple[Int[Array, "L N"], ...]:
    (policies, initial, switching), (num, steps) = model, size
    start_key, motive_key, *keys = jr.split(key, 5)
    nowhere = (jnp.zeros(num, jnp.int32),)
    start = inverse_cdf(jnp.cumsum(jnp.asarray(mdp.initial))[None], nowhere, jr.uniform(start_key, (num,)))
    first = inverse_cdf(jnp.cumsum(initial)[None], nowhere, jr.uniform(motive_key, (num,)))
    cumulative = jnp.cumsum(switching, axis=-1)
    by_time = policies.ndim == 4

    def step(now: Any, at: Any) -> Any:
        (state, motive), (time, uniforms) = now, at
        policy = policies[:, time] if by_time else policies
        # Each motive's action by the same random number; the present one's is taken.
        drawn = jax.vmap(lambda policy: mdp.rows.sample_actions(policy, state, uniforms[0]))(policy)
        action = jnp.take_along_axis(drawn, motive[None], axis=0)[0]
        after = mdp.dynamics.sample(*mdp.rows.cells(state, action), uniforms[1])
        following = inverse_cdf(cumulative, (state, motive), uniforms[2])
        return (after, following), (state, action, after, motive)

    uniforms = jnp.stack([jr.uniform(each, (steps, num)) for each in keys], axis=1)
    return jax.lax.scan(step, (start, first), (jnp.arange(steps), uniforms))[1]
