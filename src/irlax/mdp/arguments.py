"""Arguments of the constructors of `MDP`: checked, and made into dynamics."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from irlax import checks
from irlax.mdp.build import shared_successors
from irlax.mdp.dense import Dense
from irlax.mdp.links import Links
from irlax.mdp.sparse import Deterministic, Successors
from irlax.precision import is_traced, to_device
from irlax.typing import Float, Int


@runtime_checkable
class CountedMoves(Protocol):
    """Sums over demonstrations: what `MDP.from_statistics` needs of `irlax.DemoStatistics`."""

    @property
    def discount(self) -> float:
        """γ."""
        ...

    @property
    def starts(self) -> Float[np.ndarray, " S"]:
        """How often episodes started in each state."""
        ...

    @property
    def transitions(self) -> Sequence[Any]:
        """How often s' followed s, a scipy.sparse (S, S) matrix for each action."""
        ...


def dense_dynamics(transitions: Any) -> Dense:
    """Dynamics of P[s, a, s']."""
    if isinstance(transitions, np.ndarray):
        # By JAX a program would be compiled for every shape.
        return Dense(to_device(np.swapaxes(transitions, 0, 1)))
    return Dense(jnp.swapaxes(jnp.asarray(transitions), 0, 1))


def sparse_dynamics(
    successors: Any, probs: Any, available: Any, state_of_row: Int[np.ndarray, " R"] | None = None
) -> Successors | Deterministic:
    """Dynamics of listed next states; without probabilities where each action has one."""
    if is_traced(successors, probs, available):
        return Successors(Links(jnp.asarray(successors, jnp.int32).T), jnp.asarray(probs).T)
    state_of_row = np.arange(len(successors)) if state_of_row is None else state_of_row
    num_states = int(state_of_row.max()) + 1
    if probs.shape[-1] == 1:
        # What does not exist leads back to its row, which may not be the first of its state.
        return Deterministic(Links.of(state_of_row[successors].T, np.ones(successors.T.shape, bool), num_states))
    successors, probs = shared_successors(successors, probs, available) or (successors, probs)
    shared = successors.shape[1] < probs.shape[1]
    present = (probs > 0).any(axis=1, keepdims=True) if shared else probs > 0
    return Successors(Links.of(state_of_row[successors].T, present.T, num_states), to_device(probs.T))


def checked_available(available: Any, shape: tuple[int, int]) -> Any:
    """`available` as booleans, or None if every action exists everywhere."""
    if available is None or is_traced(available):
        return available
    available = np.asarray(available)
    if available.dtype != bool:
        raise TypeError(f"`available` must be an array of booleans, but has dtype {available.dtype}.")
    checks.has_shape("available", available, shape, "(S, A)")
    stuck = ~available.any(axis=1)
    if stuck.any():
        raise ValueError(
            f"`available` leaves no action in states {checks.places(stuck)}. Give each state at least one; "
            f"an end is a state with one action that leads back to itself."
        )
    return None if available.all() else available


def checked_matrices(transitions: Any) -> list[sp.csr_array]:
    """One sparse (S, S) matrix for each action."""
    if sp.issparse(transitions) or not isinstance(transitions, (list, tuple)) or not transitions:
        raise TypeError("`transitions` must be a list with one scipy.sparse (S, S) matrix per action.")
    size = transitions[0].shape[0]
    for a, matrix in enumerate(transitions):
        if not sp.issparse(matrix):
            raise TypeError(f"`transitions[{a}]` must be a scipy.sparse matrix, but is a {type(matrix).__name__}.")
        checks.has_shape(f"transitions[{a}]", matrix, (size, size), "(S, S), the same for every action")
    return [sp.csr_array(matrix) for matrix in transitions]


def checked_smoothing(smoothing: Any, shape: tuple[int, ...]) -> np.ndarray:
    """What is added to counts before they are normalised."""
    added = checks.as_floats("smoothing", smoothing)
    if added.ndim:
        checks.has_shape("smoothing", added, shape, "(S, A, S'), or one number")
    checks.finite("smoothing", added)
    if (added < 0).any():
        raise ValueError(f"`smoothing` must not be negative, but is as low as {added.min():.3g}.")
    return added


def normalised(initial: Any) -> np.ndarray:
    """Counts or probabilities of first states, divided by their sum."""
    initial = checks.as_floats("initial", initial)
    if initial.ndim != 1 or not np.all(np.isfinite(initial)) or np.any(initial < 0) or initial.sum() <= 0:
        raise ValueError("`initial` must hold non-negative counts or probabilities, (S,), not all of them zero.")
    return initial / initial.sum()
