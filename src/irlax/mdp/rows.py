"""Which rows of tables over states and actions belong to which state.

A table over states and actions, [R, A], has one row for each state. Where a few states have very many actions, room for
the most actions in every state would be wasteful; such states take several rows instead (`SeveralRows`). An MDP owns
one of the classes below, and everything that sums over the actions of a state goes through it. Dynamics, rewards and
policies are tables over rows, and do not know which states these belong to.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.mdp.links import row_width
from irlax.mdp.sampling import inverse_cdf
from irlax.precision import StaysOnDevice, is_traced
from irlax.typing import Array, Float, Int, Shaped


class AbstractRows(StaysOnDevice):
    """The rows of each state, and sums over them."""

    @property
    @abc.abstractmethod
    def one_per_state(self) -> bool:
        """Whether every state has one row: then row s is state s."""

    @abc.abstractmethod
    def num_rows(self, num_states: int) -> int:
        """R, for so many states."""

    @abc.abstractmethod
    def num_actions(self, num_columns: int) -> int:
        """The most actions that a state has, in tables of so many columns."""

    @abc.abstractmethod
    def repeat(self, values: Shaped[Array, "S *rest"]) -> Shaped[Array, "R *rest"]:
        """The value of each state, in each of its rows."""

    @abc.abstractmethod
    def sum(self, rows: Shaped[Array, "R *rest"]) -> Shaped[Array, "S *rest"]:
        """The sum over the rows of each state; the adjoint of `repeat`."""

    @abc.abstractmethod
    def max(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        """The largest over the rows of each state."""

    @abc.abstractmethod
    def log_sum_exp(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        """log Σ exp(row) over the rows of each state."""

    @abc.abstractmethod
    def cells(self, states: Int[Array, "*n"], actions: Int[Array, "*n"]) -> tuple[Any, Any]:
        """Row and column of each state and action."""

    @abc.abstractmethod
    def states_and_actions(
        self, rows: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """The state and the action in each cell; the inverse of `cells`."""

    @abc.abstractmethod
    def sample_actions(
        self, policy: Float[Array, "R A"], state: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        """Actions by inversion of a policy's distribution function at `uniform` in [0, 1)."""


class OneRow(AbstractRows):
    """One row for each state."""

    @property
    def one_per_state(self) -> bool:
        return True

    def num_rows(self, num_states: int) -> int:
        return num_states

    def num_actions(self, num_columns: int) -> int:
        return num_columns

    def repeat(self, values: Shaped[Array, "S *rest"]) -> Shaped[Array, "R *rest"]:
        return values

    def sum(self, rows: Shaped[Array, "R *rest"]) -> Shaped[Array, "S *rest"]:
        return rows

    def max(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        return rows

    def log_sum_exp(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        return rows

    def cells(self, states: Int[Array, "*n"], actions: Int[Array, "*n"]) -> tuple[Any, Any]:
        return states, actions

    def states_and_actions(
        self, rows: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        return rows, columns

    def sample_actions(
        self, policy: Float[Array, "R A"], state: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        return inverse_cdf(jnp.cumsum(policy, axis=-1), (state,), uniform)


#: What an MDP has unless it is built from a list of actions.
ONE_ROW = OneRow()


class SeveralRows(AbstractRows):
    """W actions to a row: the first S rows are the first of each state, and states with more than W own further rows.

    So one state with many actions does not widen the table for all.
    """

    #: How many actions each state has, and the first of its further rows.
    counts: Int[Array, " S"]
    further: Int[Array, " S"]
    #: The states that have further rows, and the owner of each of those rows, as a position in that list.
    wide: Int[Array, " U"]
    owners: Int[Array, " extra"]
    width: int = eqx.field(static=True)
    #: The largest number of actions, and of rows, that a state has.
    most_actions: int = eqx.field(static=True)
    most_rows: int = eqx.field(static=True)

    @classmethod
    def of(cls, counts: Int[np.ndarray, " S"]) -> "SeveralRows":
        """The rows that take least room, for so many actions of each state."""
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
    def one_per_state(self) -> bool:
        return False

    def num_rows(self, num_states: int) -> int:
        return num_states + len(self.owners)

    def num_actions(self, num_columns: int) -> int:
        return self.most_actions

    def repeat(self, values: Shaped[Array, "S *rest"]) -> Shaped[Array, "R *rest"]:
        module = np if isinstance(values, np.ndarray) and not is_traced(self) else jnp
        values = module.asarray(values)
        owners = module.asarray(self.wide)[module.asarray(self.owners)]
        return module.concatenate([values, values[owners]])

    def sum(self, rows: Shaped[Array, "R *rest"]) -> Shaped[Array, "S *rest"]:
        first, further = self._parts(rows)
        if isinstance(rows, np.ndarray) and not is_traced(self):
            total = np.array(first)
            np.add.at(total, np.asarray(self.wide)[np.asarray(self.owners)], further)
            return total
        return jnp.asarray(first).at[self.wide].add(self._sums(further))

    def max(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        first, further = self._parts(rows)
        return jnp.asarray(first).at[self.wide].max(jax.ops.segment_max(further, self.owners, len(self.wide), True))

    def log_sum_exp(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        first, further = self._parts(rows)
        of_wide = first[self.wide]
        most = jnp.maximum(of_wide, jax.ops.segment_max(further, self.owners, len(self.wide), True))
        most = jax.lax.stop_gradient(jnp.where(jnp.isfinite(most), most, 0))
        total = jnp.exp(of_wide - most) + self._sums(jnp.exp(further - most[self.owners]))
        return jnp.asarray(first).at[self.wide].set(most + jnp.log(total))

    def cells(self, states: Int[Array, "*n"], actions: Int[Array, "*n"]) -> tuple[Any, Any]:
        module = np if isinstance(states, np.ndarray) and isinstance(actions, np.ndarray) else jnp
        block = actions // self.width
        further = module.asarray(self.further)[states] + block - 1
        return module.where(block == 0, states, further), actions % self.width

    def states_and_actions(
        self, rows: Int[np.ndarray, " n"], columns: Int[np.ndarray, " n"]
    ) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        num_states = len(self.counts)
        states = np.asarray(self.repeat(np.arange(num_states)))[rows]
        block = np.where(rows < num_states, 0, rows - np.asarray(self.further)[states] + 1)
        return states, block * self.width + columns

    def sample_actions(
        self, policy: Float[Array, "R A"], state: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        cumulative = jnp.cumsum(policy, axis=-1)
        by_row = cumulative[:, -1]
        left = uniform * self.sum(by_row)[state]

        def next_row(block, found):
            """Past the rows that end before the wanted share, to the one in which it lies; the last one at most."""
            row, number, left = found
            further = self.further[state] + block
            beyond = (number == block) & (left >= by_row[row]) & ((block + 1) * self.width < self.counts[state])
            moved = (further, number + 1, left - by_row[row])
            return jax.tree.map(lambda new, old: jnp.where(beyond, new, old), moved, found)

        row, number, left = jax.lax.fori_loop(
            0, self.most_rows - 1, next_row, (state, jnp.zeros_like(state), left.astype(policy.dtype))
        )
        share = jnp.clip(left / jnp.where(by_row[row] > 0, by_row[row], 1), 0, 1 - jnp.finfo(policy.dtype).eps)
        return number * self.width + inverse_cdf(cumulative, (row,), share)

    def _parts(self, rows: Shaped[Array, "R *rest"]) -> tuple[Shaped[Array, "S *rest"], Shaped[Array, "extra *rest"]]:
        return rows[: len(self.counts)], rows[len(self.counts) :]

    def _sums(self, further: Shaped[Array, "extra *rest"]) -> Shaped[Array, "U *rest"]:
        return jax.ops.segment_sum(further, self.owners, len(self.wide), True)
