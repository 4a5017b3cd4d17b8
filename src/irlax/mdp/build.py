"""Host-side preparation of transition data, in NumPy and SciPy, before it becomes an MDP."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from irlax import checks
from irlax.mdp.dynamics import AbstractDynamics
from irlax.mdp.rows import AbstractRows
from irlax.mdp.unrolled import LONG
from irlax.typing import Bool, Float, Int


def fill_unavailable(
    transitions: Float[np.ndarray, "S A S"], available: Bool[np.ndarray, "S A"] | None
) -> Float[np.ndarray, "S A S"]:
    """Rows of actions that do not exist become self-loops: they are never used, but NaN would spread."""
    if available is None:
        return transitions
    stay = np.eye(len(transitions))[:, None, :]
    return np.where(available[..., None], transitions, stay)


class ListedActions(NamedTuple):
    """A list of actions: the state of each, its number among those of the state, and its next states."""

    states: Int[np.ndarray, " N"]
    numbers: Int[np.ndarray, " N"]
    successors: Int[np.ndarray, "N B"]
    probs: Float[np.ndarray, "N B"]

    def tables(
        self, shape: tuple[int, int], cells: tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]
    ) -> tuple[Int[np.ndarray, "R W B"], Float[np.ndarray, "R W B"], Bool[np.ndarray, "R W"]]:
        """Successors, their probabilities and which cells are filled, in tables of this shape."""
        width = self.probs.shape[-1]
        successors, probs, available = np.zeros((*shape, width), int), np.zeros((*shape, width)), np.zeros(shape, bool)
        successors[cells], probs[cells], available[cells] = self.successors, self.probs, True
        return successors, probs, available


def checked_actions(states: Any, successors: Any, probs: Any, num_states: int) -> ListedActions:
    """A list of actions, each of one state, with every state having at least one."""
    states, successors = checks.as_integers("states", states), checks.as_integers("successors", successors)
    if states.ndim != 1 or not len(states):
        raise ValueError(f"`states` must have shape (N,), with one entry for each action, but has {states.shape}.")
    if probs is None:
        checks.has_shape("successors", successors, states.shape, "(N,), as `states`, where no `probs` are given")
        successors, probs = successors[:, None], np.ones((len(states), 1))
    else:
        probs = checks.as_floats("probs", probs)
        checks.has_shape("successors", successors, (len(states), None), "(N, B)")
        checks.has_shape("probs", probs, successors.shape, "(N, B), as `successors`")
        probs = checks.probabilities("probs", probs)
    checks.in_range("states", states, num_states, "states")
    checks.in_range("successors", successors, num_states, "states")
    counts = np.bincount(states, minlength=num_states)
    if (counts == 0).any():
        raise ValueError(
            f"`states` lists no action of states {checks.places(counts == 0)}. Give each state at least one; "
            f"an end is a state with one action that leads back to itself."
        )
    return ListedActions(states, numbered(states), successors, probs)


def numbered(states: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """How often each state was listed before: the number of its action."""
    counts = np.bincount(states)
    numbers = np.empty(len(states), int)
    numbers[np.argsort(states, kind="stable")] = np.arange(len(states)) - np.repeat(np.cumsum(counts) - counts, counts)
    return numbers


def merge_repeated(
    successors: Int[np.ndarray, "S A B"],
    probs: Float[np.ndarray, "S A B"],
    available: Bool[np.ndarray, "S A"] | None,
) -> tuple[Int[np.ndarray, "S A b"], Float[np.ndarray, "S A b"]]:
    """Add up repeated successors, drop impossible ones, and pad with the state itself at probability 0."""
    num_states, num_actions, width = probs.shape
    here = np.arange(num_states)[:, None]
    if available is not None:
        successors = np.where(available[..., None], successors, here[..., None])
        probs = np.where(available[..., None], probs, np.eye(width)[0])
    rows = np.repeat(np.arange(num_states * num_actions), width)
    flat = sp.coo_array(
        (probs.ravel(), (rows, successors.ravel())), shape=(num_states * num_actions, num_states)
    ).tocsr()
    flat.eliminate_zeros()
    return _padded(flat, num_states, num_actions)


def as_moves(
    successors: Int[np.ndarray, "S A B"], probs: Float[np.ndarray, "S A B"]
) -> tuple[Int[np.ndarray, "M S"], Float[np.ndarray, "M A"]] | None:
    """Where each move leads, and the chances of it, if they are the same in all states; else None.

    A move is a column of successors that actions may share. None too if there are so many moves that lists for each
    action would be shorter, or so few states that nothing would be saved.
    """
    num_states, num_actions, width = probs.shape
    if num_states < LONG or width < 2:
        return None
    first = probs[0]
    for some in (slice(0, 1000), slice(1000, None)):
        if not (probs[some] == first).all() or (successors[some] < 0).any() or (successors[some] >= num_states).any():
            return None
    places: dict[bytes, int] = {}
    moves, chances = [], np.zeros((2 * width, num_actions))
    for a, b in np.argwhere(first > 0):
        column = np.ascontiguousarray(successors[:, a, b], np.int32)
        place = places.setdefault(column.tobytes(), len(places))
        if place == len(chances):
            return None
        if place == len(moves):
            moves.append(column)
        chances[place, a] += first[a, b]
    return np.stack(moves), chances[: len(moves)]


def shared_successors(
    successors: Int[np.ndarray, "S A B"],
    probs: Float[np.ndarray, "S A B"],
    available: Bool[np.ndarray, "S A"] | None,
) -> tuple[Int[np.ndarray, "S 1 C"], Float[np.ndarray, "S A C"]] | None:
    """The same dynamics with one list of next states for all actions of a state, or None if that takes more room."""
    num_states, num_actions, width = probs.shape
    exists = np.ones((num_states, num_actions), bool) if available is None else available
    listed = ((probs > 0) & exists[..., None]).reshape(num_states, -1)
    first = np.argmax(listed, axis=1)[:, None]
    flat = successors.reshape(num_states, -1)
    flat = np.where(listed, flat, np.take_along_axis(flat, first, axis=1))
    order = np.argsort(flat, axis=1, kind="stable")
    in_order = np.take_along_axis(flat, order, axis=1)
    ranks = np.zeros(flat.shape, np.int64)
    np.cumsum(np.diff(in_order, axis=1) > 0, axis=1, out=ranks[:, 1:])
    shared_width = int(ranks.max()) + 1
    # Bytes that a backup and a push move for each state: probabilities, indices, and what is looked up.
    if shared_width * (8 * num_actions + 20) > width * num_actions * 24:
        return None
    together = np.repeat(np.arange(num_states)[:, None], shared_width, axis=1)
    np.put_along_axis(together, ranks, in_order, axis=1)
    rank = np.empty_like(ranks)
    np.put_along_axis(rank, order, ranks, axis=1)
    weight = np.where(listed, probs.reshape(num_states, -1), 0)
    spread = np.zeros((num_states, num_actions, shared_width))
    each_state, each_action = np.ogrid[:num_states, :num_actions]
    for b in range(width):
        # Successors of one state and action differ, so no cell is met twice.
        place = rank.reshape(probs.shape)[..., b]
        spread[each_state, each_action, place] += weight.reshape(probs.shape)[..., b]
    # An action that does not exist needs probabilities that sum to 1 all the same; they are never used.
    spread[~exists] = np.eye(shared_width)[0]
    return together[:, None], spread


def successors_from_scipy(
    matrices: list[sp.csr_array],
) -> tuple[Int[np.ndarray, "S A B"], Float[np.ndarray, "S A B"]]:
    """Successor lists from one matrix per action."""
    num_actions, num_states = len(matrices), len(matrices[0].indptr) - 1
    stacked = sp.csr_array(sp.vstack(matrices, format="csr"))
    by_state = np.arange(num_states * num_actions).reshape(num_actions, num_states).T.ravel()
    return _padded(sp.csr_array(stacked[by_state]), num_states, num_actions)


def _padded(rows: sp.csr_array, num_states: int, num_actions: int) -> tuple[np.ndarray, np.ndarray]:
    """A CSR matrix whose row s·A + a holds P(· | s, a), as arrays of equal width."""
    degree = np.diff(rows.indptr)
    width = max(int(degree.max(initial=0)), 1)
    column = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], degree)
    row = np.repeat(np.arange(num_states * num_actions), degree)
    successors = np.repeat(np.arange(num_states), num_actions * width).reshape(-1, width)
    probs = np.zeros(successors.shape)
    successors[row, column] = rows.indices
    probs[row, column] = rows.data
    shape = (num_states, num_actions, width)
    return successors.reshape(shape), probs.reshape(shape)


def counts_to_probs(counts: Any, available: Any, unseen: str) -> tuple[Any, np.ndarray | None]:
    """Relative frequencies, and what exists, given how to treat state–actions that were never observed.

    `counts` is [S, A, S'] or a list of scipy matrices; the result has the same form.
    """
    sparse = isinstance(counts, list)
    entries = np.concatenate([matrix.data for matrix in counts]) if sparse else counts
    if not np.all(np.isfinite(entries)) or np.any(entries < 0):
        raise ValueError("`counts` must be finite and not negative.")
    total = (
        np.stack([np.asarray(matrix.sum(axis=1)).ravel() for matrix in counts], axis=1) if sparse else counts.sum(-1)
    )
    exists = np.ones(total.shape, bool) if available is None else np.asarray(available, bool)
    never = exists & (total == 0)
    if never.any() and unseen == "error":
        raise ValueError(
            f"`counts` has no observation of {never.sum()} of {exists.sum()} state–actions: "
            f"{checks.places(never)}. Nothing is known of where they lead. Say `smoothing=` for a prior, or "
            f"`unseen='unavailable'`, 'stay' or 'uniform'."
        )
    if unseen == "unavailable":
        exists = exists & ~never
        lost = ~exists.any(axis=1)
        if lost.any():
            raise ValueError(
                f"`counts` has no observation of any action in states {checks.places(lost)}, so with "
                f"`unseen='unavailable'` nothing could be done there. Use 'stay', or remove these states."
            )
    scale = 1 / np.where(total > 0, total, 1)
    if sparse:
        stay = [sp.diags_array(never[:, a].astype(float)) for a in range(len(counts))]
        return [sp.csr_array(sp.diags_array(scale[:, a]) @ matrix + stay[a]) for a, matrix in enumerate(counts)], exists
    filler = np.eye(len(counts))[:, None, :] if unseen == "stay" else np.full(counts.shape, 1 / len(counts))
    return np.where(never[..., None], filler, counts * scale[..., None]), exists


def absorbing_states(
    dynamics: AbstractDynamics, rows: AbstractRows, available: Bool[np.ndarray, "R A"]
) -> Bool[np.ndarray, " S"]:
    """States that no available action leaves."""
    state_of_row = np.asarray(rows.repeat(np.arange(dynamics.num_states)))
    staying = np.zeros(available.shape)
    for a, matrix in enumerate(dynamics.to_scipy()):
        entries = matrix.tocoo()
        back = entries.col == state_of_row[entries.row]
        staying[:, a] = np.bincount(entries.row[back], entries.data[back], minlength=len(state_of_row))
    ways_out = (available & (staying < 1 - 1e-12)).sum(axis=-1)
    return np.asarray(rows.sum(ways_out)) == 0


def successor_graph(dynamics: AbstractDynamics, rows: AbstractRows, chosen: Bool[np.ndarray, "R A"]) -> sp.csr_array:
    """An (S, S) matrix that is positive where a chosen action can lead from one state to the other."""
    state_of_row = np.asarray(rows.repeat(np.arange(dynamics.num_states)))
    of_state = sp.csr_array((np.ones(len(state_of_row)), (state_of_row, np.arange(len(state_of_row)))))
    matrices = enumerate(dynamics.to_scipy())
    return sp.csr_array(of_state @ sum(sp.diags_array(chosen[:, a].astype(float)) @ matrix for a, matrix in matrices))


def undiscounted_end(
    dynamics: AbstractDynamics, rows: AbstractRows, available: Bool[np.ndarray, "R A"]
) -> Bool[np.ndarray, " S"]:
    """The absorbing states of a proper MDP, or an error that says why γ = 1 has no meaning without a horizon."""
    advice = "Give a horizon, or a discount below 1."
    terminal = absorbing_states(dynamics, rows, available)
    if not terminal.any():
        raise ValueError(
            f"discount = 1 with no horizon needs absorbing states in which the problem ends, but no state is "
            f"absorbing. {advice}"
        )
    several = terminal & (np.asarray(rows.sum(available.sum(axis=1))) > 1)
    if several.any():
        raise ValueError(
            f"discount = 1 with no horizon: absorbing states {checks.places(several)} have more than one "
            f"available action, so choosing there would earn entropy for ever (log 2 a step with two). "
            f"Pass `available=` with one action in each absorbing state. {advice}"
        )
    lost = ~leading_to(successor_graph(dynamics, rows, available), terminal)
    if lost.any():
        raise ValueError(
            f"discount = 1 with no horizon: no absorbing state can be reached from states "
            f"{checks.places(lost)}, so their values would be infinite. {advice}"
        )
    return terminal


def leading_to(edges: Any, targets: Bool[np.ndarray, " S"]) -> Bool[np.ndarray, " S"]:
    """The states from which some target can be reached along edges (s, s') of a sparse matrix; targets too."""
    # One extra node with an edge to every target: one search backwards from it finds what leads to any of them.
    source = sp.csr_array(targets.astype(float)[None, :])
    backwards = sp.block_array([[edges.T, None], [source, sp.csr_array((1, 1))]], format="csr")
    reached = np.zeros(len(targets) + 1, bool)
    from scipy.sparse.csgraph import breadth_first_order  # takes long to import

    reached[breadth_first_order(backwards, len(targets), return_predecessors=False)] = True
    return reached[:-1]
