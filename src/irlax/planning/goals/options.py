"""The actions of an MDP as a list: the form in which planning towards goals works with them."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from irlax.mdp import MDP
from irlax.mdp.build import leading_to
from irlax.typing import Bool, Float, Int

#: A matrix in SciPy's compressed rows. SciPy's own annotations know too few of its operations.
Sparse = Any


class Options(NamedTuple):
    """J options: an action in a state in which it is available. Absorbing states have none."""

    num_states: int
    state: Int[np.ndarray, " J"]
    #: Row and column of each option in tables over states and actions.
    row: Int[np.ndarray, " J"]
    column: Int[np.ndarray, " J"]
    #: P(s' | option), [J, S].
    transitions: Sparse
    #: The next state, where every option has only one; else None.
    head: Int[np.ndarray, " J"] | None
    discount: float
    #: The scale μ(s) of the choice in each state: V = μ log Σ exp(Q/μ), π = exp((Q − V)/μ).
    scale: Float[np.ndarray, " S"]

    @classmethod
    def of(cls, mdp: MDP, scale: Float[np.ndarray, " S"] | None = None) -> "Options":
        """The options of an MDP, state by state."""
        rows, columns = np.nonzero(np.asarray(mdp.available))
        state = mdp.state_of_row[rows]
        # In the order of states, so that sums over the options of a state are sums over neighbours.
        order = np.argsort(state, kind="stable")
        order = order[~mdp.absorbing[state[order]]]
        rows, columns, state = rows[order], columns[order], state[order]
        num_rows = mdp.table_shape[0]
        stacked = sp.csr_array(sp.vstack(mdp.dynamics.to_scipy(), format="csr"))
        transitions = sp.csr_array(stacked[columns * num_rows + rows])
        transitions.eliminate_zeros()
        certain = bool((np.diff(transitions.indptr) == 1).all())
        return cls(
            mdp.num_states,
            state,
            rows,
            columns,
            transitions,
            transitions.indices.astype(np.int64) if certain else None,
            float(mdp.discount),
            np.ones(mdp.num_states) if scale is None else scale,
        )

    @property
    def shares_factors(self) -> bool:
        """Whether exp V solves one linear system for all goals: certain moves, no discount, one scale."""
        return self.head is not None and self.discount == 1 and bool((self.scale == self.scale[0]).all())

    @property
    def graph(self) -> Sparse:
        """An (S, S) matrix that is positive where an option leads from s to s'."""
        return sp.csr_array(self.by_state @ self.transitions)

    @property
    def by_state(self) -> Sparse:
        """[S, J]: 1 where an option is of a state."""
        size = len(self.state)
        return sp.csr_array((np.ones(size), (self.state, np.arange(size))), (self.num_states, size))

    @property
    def first(self) -> Int[np.ndarray, " bounds"]:
        """Where the options of each state begin in the list."""
        return np.searchsorted(self.state, np.arange(self.num_states + 1))

    def log_sum_exp(self, logits: Float[np.ndarray, "J *G"]) -> Float[np.ndarray, "S *G"]:
        """log Σ exp over the options of each state; −∞ where there are none."""
        result = np.full((self.num_states, *logits.shape[1:]), -np.inf)
        first = self.first
        some = np.flatnonzero(np.diff(first))
        if not len(some):
            return result
        largest = np.maximum.reduceat(logits, first[some], axis=0)
        base = np.where(np.isfinite(largest), largest, 0.0)
        sums = np.add.reduceat(np.exp(logits - np.repeat(base, np.diff(first)[some], axis=0)), first[some], axis=0)
        with np.errstate(divide="ignore"):
            result[some] = base + np.log(sums)
        return result

    def reaching(self, goal: int, edges: Sparse | None = None) -> Bool[np.ndarray, " S"]:
        """The states from which a goal can be reached; itself too."""
        target = np.zeros(self.num_states, bool)
        target[goal] = True
        return leading_to(self.graph if edges is None else edges, target)

    def of_cells(
        self, mdp: MDP, states: Int[np.ndarray, " n"], actions: Int[np.ndarray, " n"]
    ) -> Int[np.ndarray, " n"]:
        """The option of each state and action; −1 in absorbing states."""
        width = mdp.table_shape[1]
        place = np.full(mdp.table_shape[0] * width, -1)
        place[self.row * width + self.column] = np.arange(len(self.state))
        rows, columns = mdp.rows.cells(states, actions)
        return place[np.asarray(rows) * width + np.asarray(columns)]

    def table(self, mdp: MDP, values: Float[np.ndarray, " J"], fill: float) -> Float[np.ndarray, "R A"]:
        """A number for each option as a table over states and actions, `fill` elsewhere."""
        full = np.full(mdp.table_shape, fill)
        full[self.row, self.column] = values
        return full
