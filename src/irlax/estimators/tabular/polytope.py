r"""What policies can do, as linear constraints: discounted visits that flow as the dynamics say.

$$\textstyle\sum_a \mu_t(s,a) = [t = 0]\,p_0(s) + \gamma \sum_{s',a'} P(s|s',a')\,\mu_{t-1}(s',a'), \quad \mu \ge 0$$

Their features Φᵀμ fill a polytope. Feature matching has a finite optimum if and only if the demonstrator's features lie
in its relative interior, because every reward has a policy that does everything with some probability, and the
gradient of the convex E V₀(θ) takes just the values of the relative interior (Rockafellar 1970, theorems 23.5 and
26.3). Under the path model the demonstrator chooses next states as well as actions. For likelihoods there is no such
theorem; they have no maximum along a direction under which all observed choices are optimal and others are not, unless
they fall along it first.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse.linalg
from scipy.optimize import linprog

from irlax.estimators.tabular.objectives import FeatureMatching, Likelihood, PathMatching
from irlax.estimators.tabular.problem import Flattening
from irlax.mdp import MDP
from irlax.rewards.linear import FoldedLinear, PlainUnfolded
from irlax.rewards.reward import AbstractUnfolded
from irlax.rewards.tabular import FoldedTable
from irlax.typing import Array, Bool, Float, Int

#: What the type checker is told of scipy.sparse is too little to use it.
Sparse = Any
sp: Any = scipy.sparse
#: Objectives whose reward is planned with.
Planned = FeatureMatching | PathMatching | Likelihood
#: HiGHS satisfies constraints to this.
TIGHT = 1e-10
PRECISELY = {"primal_feasibility_tolerance": TIGHT, "dual_feasibility_tolerance": TIGHT}
#: A share of the uniformly random policy below this is none, but for rounding.
SMALLEST_SHARE = 1e-8
#: Unit vectors of the parameters that are folded into rewards at once.
AT_ONCE = 256


class Options(NamedTuple):
    """Everything that can be chosen in some state: an action, or under the path model an action and what follows it."""

    state: Int[np.ndarray, " J"]
    #: Where it stands in tables over states and actions, counted row by row.
    cell: Int[np.ndarray, " J"]
    #: The next state, where it is chosen as well.
    after: Int[np.ndarray, " J"] | None
    #: Chances of next states.
    leads: Sparse
    #: The probability of each option in its state, for one who chooses actions uniformly at random.
    uniform: Float[np.ndarray, " J"]

    @classmethod
    def of(cls, mdp: MDP, *, path: bool) -> "Options":
        """The options of an MDP: none where an undiscounted problem has ended."""
        with jax.ensure_compile_time_eval():
            owner, per_state = mdp.state_of_row, mdp.num_available
        rows, columns = np.nonzero(np.asarray(mdp.available))
        goes_on = np.ones(len(rows), bool) if mdp.terminal is None else ~np.asarray(mdp.terminal)[owner[rows]]
        rows, columns = rows[goes_on], columns[goes_on]
        state, cell = owner[rows], rows * mdp.table_shape[1] + columns
        leads = sp.csr_array(_moves(mdp)[cell])
        uniform = 1 / per_state[state]
        if not path:
            return cls(state, cell, None, leads, uniform)
        moves = leads.tocoo()
        certain = sp.csr_array((np.ones(moves.nnz), (np.arange(moves.nnz), moves.col)), (moves.nnz, mdp.num_states))
        return cls(state[moves.row], cell[moves.row], moves.col, certain, uniform[moves.row] * moves.data)


def _moves(mdp: MDP) -> Sparse:
    """P(s'|s,a) with a row for each cell of a table over states and actions."""
    num_rows, width = mdp.table_shape
    by_column = sp.csr_array(sp.vstack(mdp.dynamics.to_scipy(), format="csr"))
    order = np.arange(num_rows * width).reshape(width, num_rows).T.ravel()
    moves = sp.csr_array(by_column[order])
    moves.eliminate_zeros()
    return moves


class Flows(NamedTuple):
    """Visits μ ≥ 0 of one MDP with `balance` @ μ = `source`: a column for each option that can be met, at each time."""

    balance: Sparse
    source: Float[np.ndarray, " nodes"]
    option: Int[np.ndarray, " cells"]
    time: Int[np.ndarray, " cells"]
    #: The visits of one who chooses uniformly at random: positive in every cell.
    uniform: Float[np.ndarray, " cells"]


def flows(mdp: MDP, options: Options, starts: Float[np.ndarray, "T S"]) -> Flows:
    """All visits that start with the mass `starts` (one row for an endless problem) and follow the dynamics."""
    return _endless(mdp, options, starts[0]) if mdp.horizon is None else _by_time(mdp, options, starts)


def num_cells(mdp: MDP, *, path: bool) -> int:
    """How many cells `flows` can have at most."""
    per_option = 1
    if path:
        stored = math.prod(mdp.dynamics.aligned_shape)
        per_option = max(1, stored // math.prod(mdp.table_shape))
    return int(np.asarray(mdp.available).sum()) * per_option * (mdp.horizon or 1)


def _by_time(mdp: MDP, options: Options, starts: Float[np.ndarray, "T S"]) -> Flows:
    size, discount = mdp.num_states, float(mdp.discount)
    mass = np.zeros(size)
    rows, columns, entries, met, uniform, counts = [], [], [], [], [], []
    offset = 0
    for t, added in enumerate(starts):
        mass = mass + added
        open_ = np.flatnonzero(mass[options.state] > 0)
        taken = (mass[options.state] * options.uniform)[open_]
        place = offset + np.arange(len(open_))
        rows.append(t * size + options.state[open_])
        columns.append(place)
        entries.append(np.ones(len(open_)))
        moves = sp.csr_array(options.leads[open_])
        if t + 1 < len(starts):
            ahead = moves.tocoo()
            rows.append((t + 1) * size + ahead.col)
            columns.append(place[ahead.row])
            entries.append(-discount * ahead.data)
        # Reachability must not be lost to underflow. To one who does not look ahead nothing is reachable.
        mass = np.maximum(moves.T @ taken, 1e-200 * (moves.T @ np.ones(len(open_)) > 0)) * (discount > 0)
        met.append(open_)
        uniform.append(discount**t * taken)
        counts.append(len(open_))
        offset += len(open_)
    shape = (len(starts) * size, offset)
    entries_at = (np.concatenate(rows), np.concatenate(columns))
    balance = sp.csr_array((np.concatenate(entries), entries_at), shape)
    time = np.repeat(np.arange(len(starts)), counts)
    uniform = np.concatenate(uniform)
    return _without_empty_rows(balance, balance @ uniform, np.concatenate(met), time, uniform)


def _endless(mdp: MDP, options: Options, starts: Float[np.ndarray, " S"]) -> Flows:
    size = mdp.num_states
    to_state = sp.csr_array(
        (options.uniform, (options.state, np.arange(len(options.state)))), (size, len(options.state))
    )
    step = sp.csr_array(to_state @ options.leads)
    reached = starts > 0
    while float(mdp.discount) > 0:
        wider = reached | (step.T @ reached > 0)
        if (wider == reached).all():
            break
        reached = wider
    mass = np.atleast_1d(sp.linalg.spsolve(sp.csc_array(sp.eye_array(size) - float(mdp.discount) * step.T), starts))
    met = np.flatnonzero(reached[options.state])
    moves = sp.csr_array(options.leads[met]).tocoo()
    leaves = sp.csr_array((np.ones(len(met)), (options.state[met], np.arange(len(met)))), (size, len(met)))
    arrives = sp.csr_array((float(mdp.discount) * moves.data, (moves.col, moves.row)), (size, len(met)))
    balance = sp.csr_array(leaves - arrives)
    if mdp.terminal is not None:
        # What has ended need not go on.
        balance = sp.csr_array(sp.diags_array((~np.asarray(mdp.terminal)).astype(float)) @ balance)
    uniform = mass[options.state[met]] * options.uniform[met]
    return _without_empty_rows(balance, balance @ uniform, met, np.zeros(len(met), int), uniform)


def _without_empty_rows(balance: Sparse, source: np.ndarray, *rest: np.ndarray) -> Flows:
    balance.eliminate_zeros()
    used = np.diff(balance.indptr) > 0
    return Flows(sp.csr_array(balance[used]), source[used], *rest)


def share_of_chance(parts: list[tuple[Flows, Sparse, float]], features: Float[np.ndarray, " K"]) -> float | None:
    """The largest weight ε of the uniformly random policy in visits μ whose features are the demonstrator's.

    Of each MDP: its flows, the features of its cells and its share. With ν = μ − ε·uniform ≥ 0 it is a linear
    programme. Positive if and only if the features lie in the relative interior; None if no visits have them.
    """
    balance = sp.block_diag([flows.balance for flows, _, _ in parts], format="csr")
    by_cell = sp.vstack([share * cells for _, cells, share in parts], format="csr")
    chance = np.concatenate([flows.uniform for flows, _, _ in parts])
    goal = np.concatenate([*(flows.source for flows, _, _ in parts), features])
    constraints = sp.vstack([balance, by_cell.T], format="csr")
    # In units of what the random policy does, so that rare cells are not lost in tolerances.
    units = sp.diags_array(np.maximum(chance, 1e-12 * chance.max()))
    matrix = sp.hstack([constraints @ units, sp.csr_array((constraints @ chance)[:, None])], format="csr")
    size = np.maximum(abs(matrix).max(axis=1).toarray().ravel(), TIGHT * max(np.abs(goal).max(), 1e-300))
    cost = np.zeros(matrix.shape[1])
    cost[-1] = -1.0
    found = linprog(
        cost,
        A_eq=sp.diags_array(1 / size) @ matrix,
        b_eq=goal / size,
        bounds=[(0, None)] * (matrix.shape[1] - 1) + [(0, 1)],
        options=PRECISELY,
    )
    return float(found.x[-1]) if found.status == 0 else None


def separating_direction(
    parts: list[tuple[Flows, Sparse, Bool[np.ndarray, " cells"]]], scale: Float[np.ndarray, " K"]
) -> Float[np.ndarray, " K"] | None:
    """Parameters under which all observed choices are optimal, and some choice that can be met is not.

    Of each MDP: its flows, the features of its cells and which of them were observed. The gaps V(s) − Q(s,a) ≥ 0 are
    zero where a choice was observed; as many others as possible are made positive. None if none can be.
    """
    balance = sp.block_diag([flows.balance for flows, _, _ in parts], format="csr").T
    by_cell = sp.vstack([cells for _, cells, _ in parts], format="csr") @ sp.diags_array(1 / scale)
    seen = np.concatenate([observed for _, _, observed in parts])
    num, nodes = by_cell.shape[1], balance.shape[1]
    # V(s) − γE[V(S')] − φ·d − gap ≥ 0, and = 0 without a gap where a choice was observed.
    gaps = sp.csr_array(sp.eye_array(len(seen), format="csr")[:, np.flatnonzero(~seen)])
    matrix = sp.hstack([balance, -by_cell, -gaps], format="csr")
    cost = np.concatenate([np.zeros(nodes + num), -np.ones(gaps.shape[1])])
    bounds = [(None, None)] * nodes + [(-1, 1)] * num + [(0, 1e-2)] * gaps.shape[1]
    equal, above = sp.csr_array(matrix[seen]), sp.csr_array(-matrix[~seen])
    found = linprog(
        cost,
        A_ub=above,
        b_ub=np.zeros(above.shape[0]),
        A_eq=equal,
        b_eq=np.zeros(equal.shape[0]),
        bounds=bounds,
        options=PRECISELY,
    )
    # Values are free, so that gaps as small as the tolerances need no reward at all.
    if found.status != 0 or found.x[nodes + num :].max(initial=0.0) < 1e-4:
        return None
    direction = found.x[nodes : nodes + num]
    return direction if np.abs(direction).max() > 1e-6 else None


class Features(NamedTuple):
    """∂r/∂θ of a linear reward in one MDP: of the cells of a table, and of transitions, as they are aligned."""

    plain: Sparse
    ahead: Sparse | None

    @classmethod
    def of(cls, objective: Planned, flattening: Flattening, num: int) -> "Features":
        """The features behind an objective."""
        if not isinstance(objective, PathMatching):
            return cls(jacobian(objective.folded, flattening, num), None)
        unfolded = objective.unfolded
        if isinstance(unfolded, PlainUnfolded):
            return cls(jacobian(unfolded.folded, flattening, num), None)
        shape = objective.mdp.dynamics.aligned_shape
        return cls(jacobian(Part(unfolded, None), flattening, num), jacobian(Part(unfolded, shape), flattening, num))

    def of_options(self, mdp: MDP, options: Options) -> Sparse:
        """The features of each option."""
        plain = sp.csr_array(self.plain[options.cell])
        if self.ahead is None:
            return plain
        # The table of all (s, a, s'), aligned, holds the place of each.
        num = mdp.num_states
        places = np.arange(1.0, num**2 * mdp.num_actions + 1).reshape(num, mdp.num_actions, num)
        aligned = np.asarray(mdp.align(jnp.asarray(places))).ravel()
        order = np.argsort(aligned, kind="stable")
        at = order[np.searchsorted(aligned[order], options.cell * num + np.asarray(options.after) + 1.0)]
        return sp.csr_array(plain + self.ahead[at])


class Part(eqx.Module):
    """The part of a reward that does not depend on s', or, with the shape that it is aligned to, the other."""

    unfolded: AbstractUnfolded
    shape: tuple[int, ...] | None = eqx.field(static=True)

    def __call__(self, parameters: Any) -> Any:
        plain, ahead = self.unfolded(parameters)
        if self.shape is None:
            return plain
        return (
            jnp.zeros((math.prod(self.shape), 1))
            if ahead is None
            else jnp.broadcast_to(ahead, self.shape).reshape(-1, 1)
        )


def jacobian(paid: Any, flattening: Flattening, num: int) -> Sparse:
    """∂r/∂θ of a reward [A, R] that is linear in its parameters, with a row for each cell of a table [R, A]."""
    if type(paid) is FoldedLinear:
        columns = np.asarray(paid.columns)
        shape = (num, paid.width, columns.shape[-1])
        return sp.csr_array(np.broadcast_to(columns, shape).transpose(2, 1, 0).reshape(-1, num))
    if type(paid) is FoldedTable and paid.over == "sa":
        return sp.csr_array(sp.eye_array(num))
    blocks = [np.asarray(_several(paid, flattening, np.eye(num)[k : k + AT_ONCE])) for k in range(0, num, AT_ONCE)]
    return sp.csr_array(sp.vstack([sp.csr_array(block) for block in blocks], format="csr").T)


@eqx.filter_jit
def _several(
    paid: Callable[[Any], Any], flattening: Flattening, vectors: Float[Array, "n K"]
) -> Float[Array, "n cells"]:
    def one(vector):
        return jnp.ravel(jnp.asarray(paid(flattening.unflatten(vector))).T)

    nothing = one(jnp.zeros_like(vectors[0]))
    return jax.vmap(lambda vector: one(vector) - nothing)(vectors)
