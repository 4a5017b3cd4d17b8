"""One soft backup, one push and one gradient on a large slippery grid, and the bytes that they cannot do without.

Shared by `scale` (this machine) and `device` (one with a card). A = B = 5 throughout.
"""

import statistics
from typing import Any

import numpy as np
from benchmarks.speed import bandwidth, problems, timing

#: States that a timed call sweeps over in all, at least ten times: a small problem must not be charged for fetching its
#: arrays back into a cache that something else has used in between.
STATES_SWEPT = 10_000_000
FORMULAE = {
    "backup": "successors (int32) + probabilities (moves: none) + A·S rewards + S values read + S values written",
    "push": "predecessors (int32) + probabilities (moves: none) + A·S policies read + S masses read + S masses written",
}


def bytes_moved(dynamics: Any, itemsize: int) -> dict[str, int]:
    """What `FORMULAE` say, of the lists as they are stored: five actions that share their next states list them once.

    Each value is counted once, though B·A states look at it: caches can see to that.
    """
    links, probs = dynamics.links, getattr(dynamics, "probs", np.empty(0)).size * itemsize
    num_actions, num_states = dynamics.num_actions, dynamics.num_states
    return {
        "backup": 4 * links.successors.size + probs + (num_actions + 2) * num_states * itemsize,
        "push": 4 * links.predecessors.entries.size + probs + (num_actions + 2) * num_states * itemsize,
    }


def grid(side: int, horizon: int, *, uneven: bool = True) -> Any:
    """The MDP, from the constructor that users call; on uneven ground, unless it is to be stored as five moves."""
    import irlax as ix

    lists = problems.slippery_grid(side, uneven=uneven)
    return ix.MDP.from_successors(*lists, problems.uniform(side**2), discount=1.0, horizon=horizon)


def at_precision(mdp: Any, dtype: str) -> Any:
    """The same MDP with arrays of another precision, as a user's own `jit` would see it."""
    import jax
    import jax.numpy as jnp

    def rounded(leaf: Any) -> Any:
        floats = hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, dtype) if floats else leaf

    return jax.tree.map(rounded, mdp)


def sweeps(mdp: Any, dtype: str, *, triad: Any = None, **options: Any) -> dict[str, Any]:
    """Seconds of a backup and of a push, and bytes a second by `FORMULAE`; also as a share of a `triad` in turns."""
    import jax
    import jax.numpy as jnp

    from irlax.planning.backup import SoftBackup

    with jax.enable_x64(dtype == "float64"):
        mdp = at_precision(mdp, dtype)
        # On the device: a host would take longer for them than for all that is measured.
        reward_key, value_key = jax.random.split(jax.random.key(0))
        reward = jax.random.normal(reward_key, (mdp.num_actions, mdp.num_states), dtype)
        value = jax.random.normal(value_key, (mdp.num_states,), dtype)
        policy = jnp.full(reward.shape, 1 / mdp.num_actions, dtype)
        backups, pushes = (jax.jit(function, static_argnums=0) for function in (_again, _pushed_again))
        asked, times = SoftBackup(mdp, reward), max(10, STATES_SWEPT // mdp.num_states)
        calls = {
            "backup": lambda: backups(times, asked, value),
            "push": lambda: pushes(times, mdp.dynamics, policy, value),
        }
        done = timing.in_turns(calls if triad is None else calls | {"triad": triad}, **options)
    needed, itemsize = bytes_moved(mdp.dynamics, value.dtype.itemsize), value.dtype.itemsize
    result = {}
    for name in calls:
        result[name] = {
            "seconds": statistics.median(done[name]) / times,
            "best": min(done[name]) / times,
            "bytes_a_second": times * needed[name] / min(done[name]),
        }
        if triad is not None:
            shares = [
                (times * needed[name] / mine) / (3 * bandwidth.ENTRIES * itemsize / theirs)
                for mine, theirs in zip(done[name], done["triad"], strict=True)
            ]
            result[name]["fraction_of_triad"] = statistics.median(shares)
    return result


def _again(times: int, sweep: Any, start: Any) -> Any:
    """Sweep upon sweep in one loop, as planners run them: a call of its own would be charged for fresh memory too."""
    import jax

    return jax.lax.fori_loop(0, times, lambda _, state: sweep(state), start)


def _pushed_again(times: int, dynamics: Any, policy: Any, mass: Any) -> Any:
    from irlax.mdp.unrolled import unrolled_map

    return _again(times, lambda mass: dynamics.forward(unrolled_map(lambda shares: shares * mass, policy)), mass)


def gradient(mdp: Any, dtype: str, *, low_memory: bool = False) -> dict[str, float]:
    """Seconds of E V₀ and its gradient in a reward for each state and action: a backward and a forward pass."""
    import jax
    import jax.numpy as jnp

    from irlax.estimators.tabular.objectives import start_value

    with jax.enable_x64(dtype == "float64"):
        mdp = at_precision(mdp, dtype)
        reward = jnp.zeros((mdp.num_actions, mdp.num_states), dtype)
        asked = jax.jit(
            jax.value_and_grad(lambda mdp, reward: start_value(low_memory, mdp, reward, None)[0], argnums=1)
        )
        taken = timing.compiled(lambda: asked(mdp, reward), least=2)
        # Where nothing is earned the value is the entropy of T choices, and visits sum to T.
        value, visits = asked(mdp, reward)
        entropy = mdp.horizon * np.log(mdp.num_actions)
        errors = [abs(float(value) / entropy - 1), abs(float(visits.sum()) / mdp.horizon - 1)]
    return {"seconds": taken["seconds"], "first": taken["first"], "largest_relative_error": max(errors)}
