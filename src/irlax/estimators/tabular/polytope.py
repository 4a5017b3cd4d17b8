r"""The visits that policies can have, as linear constraints: discounted visits that follow the dynamics.

$$\textstyle\sum_a \mu_t(s,a) = [t = 0]\,p_0(s) + \gamma \sum_{s',a'} P(s|s',a')\,\mu_{t-1}(s',a'), \quad \mu \ge 0$$

Their features Φᵀμ fill a polytope. Feature matching has a finite optimum if and only if the demonstrator's features lie
in its relative interior, because the soft policy of every reward gives each action a positive probability, and the
values of the gradient of the convex E V₀(θ) are exactly the relative interior (Rockafellar 1970, theorems 23.5 and
26.3). Under the path model the demonstrator chooses next states as well as actions. For likelihoods there is no such
theorem; they have no maximum along a direction under which all observed choices are optimal and others are not, unless
they first decrease along it.
"""

import math
from typing import NamedTuple

import jax
import numpy as np

from irlax.estimators.tabular.sparse import Sparse, linprog, sp, spsolve
from irlax.mdp import MDP
from irlax.typing import Bool, Float, Int

#: The tolerance to which HiGHS satisfies constraints.
TOLERANCE = 1e-10
HIGHS_OPTIONS = {"primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE}
#: A share of the uniformly random policy below this is a rounding error.
MIN_SHARE = 1e-8


class Options(NamedTuple):
    """All options of all states: an action, or under the path model an action with its next state."""

    state: Int[np.ndarray, " J"]
    #: Its index in tables over states and actions, counted row by row.
    cell: Int[np.ndarray, " J"]
    #: The next state, under the path model.
    next_state: Int[np.ndarray, " J"] | None
    #: The probabilities of next states, [J, S].
    transitions: Sparse
    #: The probability of each option in its state, if actions are chosen uniformly at random.
    uniform: Float[np.ndarray, " J"]

    @classmethod
    def of(cls, mdp: MDP, *, path: bool) -> "Options":
        """The options of an MDP; terminal states of an undiscounted problem have none."""
        with jax.ensure_compile_time_eval():
            owner, per_state = mdp.state_of_row, mdp.num_available
        rows, columns = np.nonzero(np.asarray(mdp.available))
        active = np.ones(len(rows), bool) if mdp.terminal is None else ~np.asarray(mdp.terminal)[owner[rows]]
        rows, columns = rows[active], columns[active]
        state, cell = owner[rows], rows * mdp.table_shape[1] + columns
        transitions = sp.csr_array(_transition_matrix(mdp)[cell])
        uniform = 1 / per_state[state]
        if not path:
            return cls(state, cell, None, transitions, uniform)
        moves = transitions.tocoo()
        certain = sp.csr_array((np.ones(moves.nnz), (np.arange(moves.nnz), moves.col)), (moves.nnz, mdp.num_states))
        return cls(state[moves.row], cell[moves.row], moves.col, certain, uniform[moves.row] * moves.data)


def _transition_matrix(mdp: MDP) -> Sparse:
    """P(s'|s,a) with a row for each cell of a table over states and actions."""
    num_rows, width = mdp.table_shape
    by_column = sp.csr_array(sp.vstack(mdp.dynamics.to_scipy(), format="csr"))
    order = np.arange(num_rows * width).reshape(width, num_rows).T.ravel()
    matrix = sp.csr_array(by_column[order])
    matrix.eliminate_zeros()
    return matrix


class Flows(NamedTuple):
    """Visits μ ≥ 0 of one MDP satisfy `balance` @ μ = `source`; a cell is an option that can be reached, at a time."""

    balance: Sparse
    source: Float[np.ndarray, " nodes"]
    option: Int[np.ndarray, " cells"]
    time: Int[np.ndarray, " cells"]
    #: The visits of the uniformly random policy: positive in every cell.
    uniform: Float[np.ndarray, " cells"]


def flows(mdp: MDP, options: Options, starts: Float[np.ndarray, "T S"]) -> Flows:
    """The constraints on visits that start with the mass `starts` (one row on an infinite horizon)."""
    return _infinite_horizon(mdp, options, starts[0]) if mdp.horizon is None else _finite_horizon(mdp, options, starts)


def num_cells(mdp: MDP, *, path: bool) -> int:
    """An upper bound on the number of cells of `flows`."""
    per_option = 1
    if path:
        stored = math.prod(mdp.dynamics.aligned_shape)
        per_option = max(1, stored // math.prod(mdp.table_shape))
    return int(np.asarray(mdp.available).sum()) * per_option * (mdp.horizon or 1)


def _finite_horizon(mdp: MDP, options: Options, starts: Float[np.ndarray, "T S"]) -> Flows:
    size, discount = mdp.num_states, float(mdp.discount)
    mass = np.zeros(size)
    rows, columns, entries, reached, uniform, counts = [], [], [], [], [], []
    offset = 0
    for t, added in enumerate(starts):
        mass = mass + added
        here = np.flatnonzero(mass[options.state] > 0)
        visits = (mass[options.state] * options.uniform)[here]
        cell = offset + np.arange(len(here))
        rows.append(t * size + options.state[here])
        columns.append(cell)
        entries.append(np.ones(len(here)))
        moves = sp.csr_array(options.transitions[here])
        if t + 1 < len(starts):
            arrivals = moves.tocoo()
            rows.append((t + 1) * size + arrivals.col)
            columns.append(cell[arrivals.row])
            entries.append(-discount * arrivals.data)
        # Reachability must not be lost to underflow. At γ = 0 only the first decision counts.
        mass = np.maximum(moves.T @ visits, 1e-200 * (moves.T @ np.ones(len(here)) > 0)) * (discount > 0)
        reached.append(here)
        uniform.append(discount**t * visits)
        counts.append(len(here))
        offset += len(here)
    shape = (len(starts) * size, offset)
    entries_at = (np.concatenate(rows), np.concatenate(columns))
    balance = sp.csr_array((np.concatenate(entries), entries_at), shape)
    time = np.repeat(np.arange(len(starts)), counts)
    uniform = np.concatenate(uniform)
    return _without_empty_rows(balance, balance @ uniform, np.concatenate(reached), time, uniform)


def _infinite_horizon(mdp: MDP, options: Options, starts: Float[np.ndarray, " S"]) -> Flows:
    size = mdp.num_states
    to_state = sp.csr_array(
        (options.uniform, (options.state, np.arange(len(options.state)))), (size, len(options.state))
    )
    step = sp.csr_array(to_state @ options.transitions)
    reached = starts > 0
    while float(mdp.discount) > 0:
        wider = reached | (step.T @ reached > 0)
        if (wider == reached).all():
            break
        reached = wider
    mass = np.atleast_1d(spsolve(sp.csc_array(sp.eye_array(size) - float(mdp.discount) * step.T), starts))
    here = np.flatnonzero(reached[options.state])
    moves = sp.csr_array(options.transitions[here]).tocoo()
    departures = sp.csr_array((np.ones(len(here)), (options.state[here], np.arange(len(here)))), (size, len(here)))
    arrivals = sp.csr_array((float(mdp.discount) * moves.data, (moves.col, moves.row)), (size, len(here)))
    balance = sp.csr_array(departures - arrivals)
    if mdp.terminal is not None:
        # Mass that arrives in a terminal state does not leave it.
        balance = sp.csr_array(sp.diags_array((~np.asarray(mdp.terminal)).astype(float)) @ balance)
    uniform = mass[options.state[here]] * options.uniform[here]
    return _without_empty_rows(balance, balance @ uniform, here, np.zeros(len(here), int), uniform)


def _without_empty_rows(balance: Sparse, source: np.ndarray, *rest: np.ndarray) -> Flows:
    balance.eliminate_zeros()
    used = np.diff(balance.indptr) > 0
    return Flows(sp.csr_array(balance[used]), source[used], *rest)


def uniform_share(parts: list[tuple[Flows, Sparse, float]], features: Float[np.ndarray, " K"]) -> float | None:
    """The largest weight ε of the uniformly random policy in visits μ whose features are the demonstrator's.

    `parts` holds, for each MDP, its flows, the features of its cells and its share. With ν = μ − ε·uniform ≥ 0 this is
    a linear programme. ε is positive if and only if the features lie in the relative interior; None if no visits have
    these features.
    """
    balance = sp.block_diag([flows.balance for flows, _, _ in parts], format="csr")
    by_cell = sp.vstack([share * cells for _, cells, share in parts], format="csr")
    uniform = np.concatenate([flows.uniform for flows, _, _ in parts])
    target = np.concatenate([*(flows.source for flows, _, _ in parts), features])
    constraints = sp.vstack([balance, by_cell.T], format="csr")
    # In units of the random policy's visits, so that cells with few visits are not below the tolerances.
    units = sp.diags_array(np.maximum(uniform, 1e-12 * uniform.max()))
    matrix = sp.hstack([constraints @ units, sp.csr_array((constraints @ uniform)[:, None])], format="csr")
    size = np.maximum(abs(matrix).max(axis=1).toarray().ravel(), TOLERANCE * max(np.abs(target).max(), 1e-300))
    cost = np.zeros(matrix.shape[1])
    cost[-1] = -1.0
    found = linprog(
        cost,
        A_eq=sp.diags_array(1 / size) @ matrix,
        b_eq=target / size,
        bounds=[(0, None)] * (matrix.shape[1] - 1) + [(0, 1)],
        options=HIGHS_OPTIONS,
    )
    return float(found.x[-1]) if found.status == 0 else None


def optimal_direction(
    parts: list[tuple[Flows, Sparse, Bool[np.ndarray, " _"]]], scale: Float[np.ndarray, " K"]
) -> Float[np.ndarray, " K"] | None:
    """Parameters under which all observed choices are optimal, and some choice that can be reached is not.

    `parts` holds, for each MDP, its flows, the features of its cells and which of them were observed. The gaps
    V(s) − Q(s,a) ≥ 0 are zero where a choice was observed; the sum of the others is maximised. None if no gap can be
    positive.
    """
    balance = sp.block_diag([flows.balance for flows, _, _ in parts], format="csr").T
    by_cell = sp.vstack([cells for _, cells, _ in parts], format="csr") @ sp.diags_array(1 / scale)
    observed = np.concatenate([cells for _, _, cells in parts])
    num, nodes = by_cell.shape[1], balance.shape[1]
    # V(s) − γE[V(S')] − φ·d − gap ≥ 0, and = 0 without a gap where a choice was observed.
    gaps = sp.csr_array(sp.eye_array(len(observed), format="csr")[:, np.flatnonzero(~observed)])
    matrix = sp.hstack([balance, -by_cell, -gaps], format="csr")
    cost = np.concatenate([np.zeros(nodes + num), -np.ones(gaps.shape[1])])
    bounds = [(None, None)] * nodes + [(-1, 1)] * num + [(0, 1e-2)] * gaps.shape[1]
    equal, above = sp.csr_array(matrix[observed]), sp.csr_array(-matrix[~observed])
    found = linprog(
        cost,
        A_ub=above,
        b_ub=np.zeros(above.shape[0]),
        A_eq=equal,
        b_eq=np.zeros(equal.shape[0]),
        bounds=bounds,
        options=HIGHS_OPTIONS,
    )
    # Values are free variables, so gaps as small as the tolerances are possible without any reward.
    if found.status != 0 or found.x[nodes + num :].max(initial=0.0) < 1e-4:
        return None
    direction = found.x[nodes : nodes + num]
    return direction if np.abs(direction).max() > 1e-6 else None
