"""Dynamics that are the same everywhere but for where a move leads."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from irlax.mdp.dynamics import AbstractDynamics
from irlax.mdp.links import Links
from irlax.mdp.rows import looked_up, sum_rows, written_out
from irlax.mdp.sparse import Successors
from irlax.typing import Array, Float, Int, Shaped


class Moves(AbstractDynamics):
    """A few moves, each with one next state everywhere, and an action's chances of making each of them.

    The chances are the same in all states, as in a grid with slips, so nothing is stored for a state but where its
    moves lead. Two moves may lead to the same state, as where a wall blocks both. `favoured` follows from the chances,
    so these are not to be replaced or differentiated: list the probabilities instead (`Successors`).
    """

    links: Links
    chances: Float[Array, "M A"]
    #: For each action, the moves that it makes more likely than some other action does: few, where all slip alike.
    favoured: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @classmethod
    def of(cls, moves: Int[np.ndarray, "M S"], chances: Float[np.ndarray, "M A"]) -> "Moves":
        """From where each move leads, and the chances of it."""
        more = chances > chances.min(axis=1, keepdims=True)
        favoured = tuple(tuple(int(m) for m in np.flatnonzero(column)) for column in more.T)
        return cls(Links.of(moves[:, None], np.ones(moves[:, None].shape, bool)), jnp.asarray(chances), favoured)

    @property
    def num_states(self) -> int:
        return self.links.successors.shape[-1]

    @property
    def num_actions(self) -> int:
        return self.chances.shape[-1]

    @property
    def listed(self) -> Successors:
        """The same with a probability for each state, action and move; next states may be listed twice."""
        shape = (*self.chances.shape, self.num_states)
        return Successors(self.links, jnp.broadcast_to(self.chances[..., None], shape))

    def backward(self, value: Float[Array, " S"]) -> Float[Array, "A S"]:
        ahead = self.links.ahead(value)[:, 0]
        if not written_out(ahead):
            return self.chances.T @ ahead
        anyway, more = self._split_chances()
        common = sum_rows(jnp.multiply, ahead, anyway)
        return jnp.stack([sum((more[m, a] * ahead[m] for m in moves), common) for a, moves in enumerate(self.favoured)])

    def forward(self, mass: Float[Array, "A S"]) -> Float[Array, " S"]:
        if not written_out(mass):
            return self.links.collect((self.chances @ mass)[:, None])
        anyway, more = self._split_chances()
        present = sum_rows(lambda row: row, mass)
        flow = [
            sum((more[m, a] * mass[a] for a, moves in enumerate(self.favoured) if m in moves), anyway[m] * present)
            for m in range(len(anyway))
        ]
        return self.links.collect(looked_up(flow)[:, None])

    def _split_chances(self) -> tuple[Float[Array, " M"], Float[Array, "M A"]]:
        """The chance of each move whatever one does, and how much larger an action makes it."""
        anyway = self.chances.min(axis=1)
        return anyway, self.chances - anyway[:, None]

    def matrix(self, policy: Float[Array, "A S"]) -> Float[Array, "S S"]:
        return self.listed.matrix(policy)

    def under(self, policy: Float[Array, "A S"]) -> Successors:
        return self.listed.under(policy)

    def align(self, table: Shaped[Array, "S A S"]) -> Shaped[Array, "M A S"]:
        return self.listed.align(table)

    def ahead(self, value: Float[Array, " S"]) -> Float[Array, "..."]:
        return self.links.ahead(value)

    def over_next(self, table: Float[Array, "A S"]) -> Float[Array, "..."]:
        return table[None]

    def aligned_probs(self) -> Float[Array, "..."]:
        return self.listed.probs

    def mean(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        return (self.chances[..., None] * aligned).sum(axis=0)

    def log_mean_exp(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        return self.listed.log_mean_exp(aligned)

    def tilt(self, log_weight: Float[Array, "..."]) -> Successors:
        return self.listed.tilt(log_weight)

    def entropy(self) -> Float[Array, "A S"]:
        # What moves to the same state have in common is one outcome.
        same = self.links.successors[:, None, 0] == self.links.successors[None, :, 0]
        together = jnp.einsum("ma,lms->las", self.chances, same.astype(self.chances.dtype))
        surprise = jnp.where(together > 0, -jnp.log(jnp.where(together > 0, together, 1)), 0)
        return (self.chances[..., None] * surprise).sum(axis=0)

    def sample(
        self, state: Int[Array, " N"], action: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        cumulative = jnp.cumsum(self.chances[:, action], axis=0)
        move = jnp.argmax(cumulative > uniform * cumulative[-1], axis=0)
        return self.links.successors[move, 0, state]

    def probability(
        self, state: Int[Array, " n"], action: Int[Array, " n"], next_state: Int[Array, " n"]
    ) -> Float[Array, " n"]:
        hit = self.links.successors[:, 0, state] == next_state
        return jnp.where(hit, self.chances[:, action], 0).sum(axis=0)

    def to_scipy(self) -> list[sp.csr_array]:
        return self.listed.to_scipy()
