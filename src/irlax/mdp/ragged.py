"""States with very different numbers of actions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from irlax.mdp.dynamics import AbstractDynamics
from irlax.mdp.elementary import exp, log
from irlax.mdp.links import row_width
from irlax.mdp.sampling import inverse_cdf
from irlax.precision import StaysOnDevice
from irlax.typing import Array, Bool, Float, Int, Shaped


class Layout(StaysOnDevice):
    """Where the actions of each state stand in a table: W of them to a row, and row s belongs to state s.

    A state with more actions than W owns further rows, so that one of them does not widen the table for all.
    """

    #: How many actions each state has, and the first of its further rows.
    counts: Int[Array, " S"]
    further: Int[Array, " S"]
    #: The states that have further rows, and for each of those rows, whose it is: a position in that list.
    wide: Int[Array, " U"]
    owners: Int[Array, " extra"]
    width: int = eqx.field(static=True)
    #: The largest number of actions, and of rows, that a state has.
    num_actions: int = eqx.field(static=True)
    most_rows: int = eqx.field(static=True)

    @classmethod
    def of(cls, counts: Int[np.ndarray, " S"]) -> "Layout":
        """The layout that takes least room."""
        width = row_width(counts)
        extra = -(-counts // width) - 1
        wide = np.flatnonzero(extra)
        index = jnp.int32
        return cls(
            jnp.asarray(counts, index),
            jnp.asarray(len(counts) + np.cumsum(extra) - extra, index),
            jnp.asarray(wide, index),
            jnp.asarray(np.repeat(np.arange(len(wide)), extra[wide]), index),
            width,
            int(counts.max()),
            int(extra.max()) + 1,
        )

    @property
    def num_rows(self) -> int:
        """R."""
        return len(self.counts) + len(self.owners)

    def cells(self, states: Int[Array, "*n"], actions: Int[Array, "*n"]) -> tuple[Any, Any]:
        """Row and column of each state and action."""
        module = np if isinstance(states, np.ndarray) and isinstance(actions, np.ndarray) else jnp
        block = actions // self.width
        further = module.asarray(self.further)[states] + block - 1
        return module.where(block == 0, states, further), actions % self.width

    def spread(self, values: Shaped[Array, "S *rest"]) -> Shaped[Array, "R *rest"]:
        """What holds for a state, for each of its rows."""
        return jnp.concatenate([values, values[self.wide][self.owners]])

    def added(self, rows: Shaped[Array, "R *rest"]) -> Shaped[Array, "S *rest"]:
        """The sum over the rows of each state."""
        heads, tails = self._parted(rows)
        return jnp.asarray(heads).at[self.wide].add(self._sums(tails))

    def largest(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        """The largest over the rows of each state."""
        heads, tails = self._parted(rows)
        return jnp.asarray(heads).at[self.wide].max(jax.ops.segment_max(tails, self.owners, len(self.wide), True))

    def log_added_exp(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        """log Σ exp(row) over the rows of each state."""
        heads, tails = self._parted(rows)
        first = heads[self.wide]
        most = jnp.maximum(first, jax.ops.segment_max(tails, self.owners, len(self.wide), True))
        most = jax.lax.stop_gradient(jnp.where(jnp.isfinite(most), most, 0))
        together = exp(first - most) + self._sums(exp(tails - most[self.owners]))
        return jnp.asarray(heads).at[self.wide].set(most + log(together))

    def _parted(self, rows: Shaped[Array, "R *rest"]) -> tuple[Shaped[Array, "S *rest"], Shaped[Array, "extra *rest"]]:
        return rows[: len(self.counts)], rows[len(self.counts) :]

    def _sums(self, tails: Shaped[Array, "extra *rest"]) -> Shaped[Array, "U *rest"]:
        return jax.ops.segment_sum(tails, self.owners, len(self.wide), True)


class Ragged(AbstractDynamics):
    """Dynamics of states with very different numbers of actions, in tables of R ≥ S rows."""

    #: The same with a state for each row. Nothing leads to those after the S-th.
    rows: AbstractDynamics
    layout: Layout

    @property
    def num_states(self) -> int:
        return len(self.layout.counts)

    @property
    def num_actions(self) -> int:
        return self.layout.num_actions

    @property
    def num_rows(self) -> int:
        return self.rows.num_states

    @property
    def width(self) -> int:
        return self.rows.num_actions

    def spread(self, values: Shaped[Array, "S *rest"]) -> Shaped[Array, "R *rest"]:
        return self.layout.spread(jnp.asarray(values))

    def added(self, rows: Shaped[Array, "R *rest"]) -> Shaped[Array, "S *rest"]:
        return self.layout.added(rows)

    def largest(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        return self.layout.largest(rows)

    def log_added_exp(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        return self.layout.log_added_exp(rows)

    def cells(self, states: Int[Array, "*n"], actions: Int[Array, "*n"]) -> tuple[Any, Any]:
        return self.layout.cells(states, actions)

    def listed(
        self, rows: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """The state and the number of the action in each cell; the inverse of `cells`."""
        states = np.asarray(self.spread(np.arange(self.num_states)))[rows]
        block = np.where(rows < self.num_states, 0, rows - np.asarray(self.layout.further)[states] + 1)
        return states, block * self.layout.width + columns

    def backward(self, value: Float[Array, " S"]) -> Float[Array, "A R"]:
        return self.rows.backward(self._padded(value))

    def forward(self, mass: Float[Array, "A R"]) -> Float[Array, " S"]:
        return self.rows.forward(mass)[: self.num_states]

    def matrix(self, policy: Float[Array, "A R"]) -> Float[Array, "S S"]:
        return self.layout.added(self.rows.matrix(policy)[:, : self.num_states])

    def under(self, policy: Float[Array, "A R"]) -> "Ragged":
        return Ragged(self.rows.under(policy), self.layout)

    def align(self, table: Shaped[Array, "S A S"]) -> Shaped[Array, "..."]:
        raise ValueError(
            "This MDP was built from a list of actions for each state, and a table over (s, a, s') would have room for "
            f"{self.num_actions} actions in every state. Use rewards or features over s or (s, a)."
        )

    def ahead(self, value: Float[Array, " S"]) -> Float[Array, "..."]:
        return self.rows.ahead(self._padded(value))

    def over_next(self, table: Float[Array, "A R"]) -> Float[Array, "..."]:
        return self.rows.over_next(table)

    def aligned_probs(self) -> Float[Array, "..."]:
        return self.rows.aligned_probs()

    def mean(self, aligned: Float[Array, "..."]) -> Float[Array, "A R"]:
        return self.rows.mean(aligned)

    def log_mean_exp(self, aligned: Float[Array, "..."]) -> Float[Array, "A R"]:
        return self.rows.log_mean_exp(aligned)

    def tilt(self, log_weight: Float[Array, "..."]) -> "Ragged":
        return Ragged(self.rows.tilt(log_weight), self.layout)

    def entropy(self) -> Float[Array, "A R"]:
        return self.rows.entropy()

    def sample(
        self, state: Int[Array, " N"], action: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        return self.rows.sample(*self.layout.cells(state, action), uniform)

    def probability(
        self, state: Int[Array, " n"], action: Int[Array, " n"], next_state: Int[Array, " n"]
    ) -> Float[Array, " n"]:
        return self.rows.probability(*self.layout.cells(state, action), next_state)

    def choose(
        self, policy: Float[Array, "R A"], state: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        cumulative = jnp.cumsum(policy, axis=-1)
        by_row, layout = cumulative[:, -1], self.layout
        left = uniform * self.added(by_row)[state]

        def go_on(block, found):
            """Past the rows that end before the wanted share, to the one in which it lies; the last one at most."""
            row, number, left = found
            further = layout.further[state] + block
            beyond = (number == block) & (left >= by_row[row]) & ((block + 1) * layout.width < layout.counts[state])
            moved = (further, number + 1, left - by_row[row])
            return jax.tree.map(lambda new, old: jnp.where(beyond, new, old), moved, found)

        row, number, left = jax.lax.fori_loop(
            0, layout.most_rows - 1, go_on, (state, jnp.zeros_like(state), left.astype(policy.dtype))
        )
        share = jnp.clip(left / jnp.where(by_row[row] > 0, by_row[row], 1), 0, 1 - jnp.finfo(policy.dtype).eps)
        return number * layout.width + inverse_cdf(cumulative, (row,), share)

    def staying(self) -> Float[np.ndarray, "R A"]:
        here = (np.arange(self.num_rows), np.asarray(self.spread(np.arange(self.num_states))))
        return np.stack([np.asarray(matrix[here]).ravel() for matrix in self.rows.to_scipy()], axis=-1)

    def followers(self, available: Bool[np.ndarray, "R A"]) -> sp.csr_array:
        owner = np.asarray(self.spread(np.arange(self.num_states)))
        of_state = sp.csr_array((np.ones(self.num_rows), (owner, np.arange(self.num_rows))))
        return sp.csr_array(of_state @ self.rows.followers(available)[:, : self.num_states])

    def to_scipy(self) -> list[sp.csr_array]:
        """One (S, S) matrix per action; empty rows where a state has fewer."""
        by_column = self.rows.to_scipy()
        counts, states = np.asarray(self.layout.counts), np.arange(self.num_states)
        matrices = []
        for action in range(self.num_actions):
            having = states[counts > action]
            rows, _ = self.layout.cells(having, np.full(len(having), action))
            found = by_column[action % self.width][rows, : self.num_states].tocoo()
            entries = (found.data, (having[found.row], found.col))
            matrices.append(sp.csr_array(entries, shape=(self.num_states, self.num_states)))
        return matrices

    def _padded(self, value: Float[Array, " S"]) -> Float[Array, " R"]:
        return jnp.pad(value, (0, self.num_rows - self.num_states))
