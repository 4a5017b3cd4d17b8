"""Whole episodes: whether demonstrations observe them from start to end, and the states in which they end.

`aggregated` answers the same for statistics of demonstrations.
"""

import jax.numpy as jnp
import numpy as np

from irlax.demos import Demonstrations
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.typing import Int


def why_not_whole(mdp: MDP, demos: Demonstrations) -> str | None:
    """Why the episodes are not whole, as the end of a sentence; None if they are."""
    if demos.row_weights is not None and (demos.row_weights != 1).any():
        return "their rows have weights of their own"
    late = demos.times[demos.offsets[:-1]] != 0
    # Without a horizon the problem is the same at all times, so an episode may start at any: time counts from there.
    if late.any() and mdp.horizon is not None:
        first = demos.where(int(demos.offsets[np.argmax(late)]))
        return f"{late.sum()} do not start at t = 0 (the first is {first})"
    gaps = (np.diff(demos.episode) == 0) & (np.diff(demos.times) != 1)
    if gaps.any():
        return f"there are gaps in time, the first after {demos.where(int(np.argmax(gaps)))}"
    if mdp.horizon is not None:
        short = ~demos.terminated & (demos.lengths < mdp.horizon)
        expected = f"have {mdp.horizon} steps, though they are not terminated"
    elif mdp.terminal is not None:
        short, expected = ~demos.terminated, "reach an absorbing state"
    else:
        return None
    if short.any():
        last = demos.where(int(demos.offsets[np.argmax(short) + 1]) - 1)
        return f"{short.sum()} of {demos.num_episodes} do not {expected} (the first ends at {last})"
    return None


def final_states(mdp: MDP, demos: Demonstrations) -> Int[np.ndarray, " m"]:
    """The absorbing state in which each terminated episode ends.

    At γ = 1 without a horizon all absorbing states have reward 0, so that any of them serves if the state is not
    recorded. A ValueError if an episode that is marked terminated does not lead into an absorbing state.
    """
    ended = np.flatnonzero(demos.terminated)
    if not len(ended):
        return ended
    absorbing, last = mdp.absorbing, demos.offsets[ended + 1] - 1
    if demos.next_states is not None:
        final = demos.next_states[last]
        wrong = ~absorbing[final]
    elif absorbing.sum() == 1 or (mdp.terminal is not None and absorbing.any()):
        final = np.full(len(ended), np.argmax(absorbing))
        with scope():
            probability = np.asarray(mdp.dynamics.backward(jnp.asarray(absorbing, float)))
        wrong = probability.T[mdp.rows.cells(demos.tabular_states[last], demos.actions[last])] <= 0
    else:
        raise ValueError(
            f"Terminated episodes are followed by an absorbing state for ever, but the MDP has {absorbing.sum()} "
            f"of them and the demonstrations do not say which: give `next_states`."
        )
    if wrong.any():
        first = int(last[np.argmax(wrong)])
        where = "" if demos.next_states is None else f", in state {demos.next_states[first]}"
        raise ValueError(
            f"{wrong.sum()} episodes are marked terminated, but do not lead into a state that is absorbing in the "
            f"MDP (the first ends at {demos.where(first)}{where}). If they were cut short, they are truncated."
        )
    return final
