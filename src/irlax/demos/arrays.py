"""Demonstrations from arrays: one padded array, or a pair for each episode."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from irlax import checks
from irlax.demos.demonstrations import Demonstrations, from_rows


def from_arrays(
    states: Any, actions: Any, *, lengths: Any, next_states: Any, terminated: Any, weights: Any
) -> Demonstrations:
    """From arrays [N, L], of which row k is an episode, as long as `lengths[k]` says."""
    states, actions = checks.as_integers("states", states), checks.as_integers("actions", actions)
    if states.ndim != 2:
        raise ValueError(f"`states` must have shape (N, L), an episode a row, but has {states.shape}.")
    checks.has_shape("actions", actions, states.shape, "(N, L), as `states`")
    num, longest = states.shape
    lengths = np.full(num, longest) if lengths is None else checks.as_integers("lengths", lengths)
    checks.has_shape("lengths", lengths, (num,), "(N,)")
    checks.in_range("lengths", lengths, longest + 1, "steps")
    kept = np.arange(longest) < lengths[:, None]
    if next_states is not None:
        next_states = checks.as_integers("next_states", next_states)
        checks.has_shape("next_states", next_states, states.shape, "(N, L), as `states`")
        next_states = next_states[kept]
    return from_rows(
        states[kept], actions[kept], lengths, next_states=next_states, terminated=terminated, weights=weights
    )


def from_episodes(episodes: Iterable[tuple[Any, Any]], terminated: Any, weights: Any) -> Demonstrations:
    """From (states, actions) pairs. An episode may end with one more state than actions."""
    all_states, all_actions, all_next = [], [], []
    for k, pair in enumerate(episodes):
        states = checks.as_integers(f"states of episode {k}", pair[0])
        actions = checks.as_integers(f"actions of episode {k}", pair[1])
        extra = len(states) - len(actions)
        if states.ndim != 1 or actions.ndim != 1 or extra not in (0, 1):
            raise ValueError(
                f"Episode {k} must have as many states as actions, or one more, but has "
                f"{states.shape} states and {actions.shape} actions."
            )
        all_states.append(states[: len(actions)])
        all_actions.append(actions)
        all_next.append(states[1:] if extra else None)
    if not all_states:
        raise ValueError("There are no episodes.")
    known = all(after is not None for after in all_next)
    return from_rows(
        np.concatenate(all_states),
        np.concatenate(all_actions),
        np.array([len(actions) for actions in all_actions]),
        next_states=np.concatenate(all_next) if known else None,
        terminated=terminated,
        weights=weights,
    )


def from_observations(episodes: Iterable[Any], terminated: Any) -> Demonstrations:
    """From arrays [T + 1, obs] of observations, whose actions are not known."""
    arrays = [checks.as_floats(f"observations of episode {k}", episode) for k, episode in enumerate(episodes)]
    for k, array in enumerate(arrays):
        if array.ndim != 2 or len(array) < 2 or array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"Episode {k} must be an array [T + 1, obs] of at least two observations, all of one size, but has "
                f"shape {array.shape}."
            )
    if not arrays:
        raise ValueError("There are no episodes.")
    lengths = np.array([len(array) - 1 for array in arrays])
    return from_rows(
        None,
        np.zeros((lengths.sum(), 0)),
        lengths,
        terminated=terminated,
        observations=np.concatenate([array[:-1] for array in arrays]),
        next_observations=np.concatenate([array[1:] for array in arrays]),
    )
