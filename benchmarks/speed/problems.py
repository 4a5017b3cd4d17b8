"""The problems, as plain arrays: what both sides of a comparison are given. Imports no irlax and no JAX.

Every grid is square and slippery: five moves (up, right, down, left, stay), and with probability `SLIP` the move is
drawn at random from all five instead. A move off the board stays. A state and action lists five next states. On uneven
ground every state has a probability of its own, about as large, so that transitions must be listed state by state.
"""

from pathlib import Path

import numpy as np

SLIP = 0.2
MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1], [0, 0]])


def slippery_grid(side: int, *, uneven: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Next states and their probabilities, both [S, A, B] with A = B = 5."""
    cells = np.stack(np.divmod(np.arange(side**2, dtype=np.int32), side), axis=-1)
    beyond = np.clip(cells[:, None, :] + MOVES.astype(np.int32), 0, side - 1)
    target = beyond[..., 0] * np.int32(side) + beyond[..., 1]
    slip = np.random.default_rng(3).uniform(0.5 * SLIP, 1.5 * SLIP, (side**2, 1, 1)) if uneven else SLIP
    row = slip / 5 + (1 - slip) * np.eye(5)
    shape = (side**2, 5, 5)
    return np.broadcast_to(target[:, None, :], shape), np.broadcast_to(row, shape)


def dense(successors: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """P[s, a, s'], as the peers store it."""
    num_states, num_actions, width = successors.shape
    table = np.zeros((num_states, num_actions, num_states))
    states, actions = np.ogrid[:num_states, :num_actions]
    for b in range(width):
        # One successor of each state and action at a time, so that a place is never added to twice at once.
        table[states, actions, successors[..., b]] += probs[..., b]
    return table


def true_reward(num_states: int, seed: int) -> np.ndarray:
    """A reward for each state, standard normal."""
    return np.random.default_rng(seed).normal(size=num_states)


def uniform(num_states: int) -> np.ndarray:
    """Every state is as likely a start."""
    return np.full(num_states, 1 / num_states)


def save(path: Path, **arrays: np.ndarray) -> Path:
    """Arrays for another process."""
    np.savez(path, **arrays)
    return path
