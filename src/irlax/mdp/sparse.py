"""Dynamics as lists of next states."""

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.scipy.special import entr, logsumexp

from irlax.mdp.dynamics import AbstractDynamics, tilted
from irlax.mdp.links import Links
from irlax.mdp.rows import looked_up, sum_rows, written_out
from irlax.typing import Array, Float, Int, Shaped


class Successors(AbstractDynamics):
    """At most B next states for each state and action, and their probabilities. Padding has probability 0.

    Where the actions of a state lead to the same few states with other probabilities, as in a grid with slips, the
    next states are listed once for all actions.
    """

    links: Links
    probs: Float[Array, "B A S"]

    @property
    def num_states(self) -> int:
        return self.probs.shape[-1]

    @property
    def num_actions(self) -> int:
        return self.probs.shape[-2]

    @property
    def successors(self) -> Int[Array, "B A S"]:
        """The next states of each state and action."""
        return jnp.broadcast_to(self.links.successors, self.probs.shape)

    def backward(self, value: Float[Array, " S"]) -> Float[Array, "A S"]:
        ahead = self.links.ahead(value)
        if not written_out(self.probs[0]):
            return sum_rows(jnp.multiply, self.probs, jnp.broadcast_to(ahead, self.probs.shape))
        of_action = list(range(self.num_actions)) if self._apart else [0] * self.num_actions
        return jnp.stack(
            [sum_rows(jnp.multiply, self.probs[:, a], ahead[:, group]) for a, group in enumerate(of_action)]
        )

    def forward(self, mass: Float[Array, "A S"]) -> Float[Array, " S"]:
        return self.links.collect(self._flow(mass))

    def _flow(self, mass: Float[Array, "A S"]) -> Float[Array, "B G S"]:
        """What goes along each link."""
        if self._apart:
            return self.probs * mass
        if not written_out(self.probs[:, 0]):
            return (self.probs * mass).sum(axis=1, keepdims=True)
        return looked_up([sum_rows(jnp.multiply, row, mass) for row in self.probs])[:, None]

    @property
    def _apart(self) -> bool:
        """Whether each action has successors of its own."""
        return self.links.successors.shape[-2] == self.num_actions

    def matrix(self, policy: Float[Array, "A S"]) -> Float[Array, "S S"]:
        states = jnp.arange(self.num_states)
        empty = jnp.zeros((self.num_states, self.num_states), self.probs.dtype)
        return empty.at[states, self.links.successors].add(self._flow(policy))

    def under(self, policy: Float[Array, "A S"]) -> "Successors":
        return Successors(self.links.in_one(), self._flow(policy).reshape(-1, 1, self.num_states))

    def align(self, table: Shaped[Array, "S A S"]) -> Shaped[Array, "B A S"]:
        actions, states = np.ogrid[: self.num_actions, : self.num_states]
        return jnp.asarray(table)[states, actions, self.links.successors]

    def ahead(self, value: Float[Array, " S"]) -> Float[Array, "..."]:
        return self.links.ahead(value)

    def over_next(self, table: Float[Array, "A S"]) -> Float[Array, "..."]:
        return table[None]

    def aligned_probs(self) -> Float[Array, "..."]:
        return self.probs

    def mean(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        return (self.probs * aligned).sum(axis=0)

    def log_mean_exp(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        return logsumexp(jnp.broadcast_to(aligned, self.probs.shape), axis=0, b=self.probs)

    def tilt(self, log_weight: Float[Array, "..."]) -> "Successors":
        return type(self)(self.links, tilted(self.probs, log_weight))

    def entropy(self) -> Float[Array, "A S"]:
        return entr(self.probs).sum(axis=0)

    def sample(
        self, state: Int[Array, " N"], action: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        cumulative = jnp.cumsum(self.probs[:, action, state], axis=0)
        branch = jnp.argmax(cumulative > uniform * cumulative[-1], axis=0)
        return self.links.successors[branch, self._group(action), state]

    def probability(
        self, state: Int[Array, " n"], action: Int[Array, " n"], next_state: Int[Array, " n"]
    ) -> Float[Array, " n"]:
        hit = self.links.successors[:, self._group(action), state] == next_state
        return jnp.where(hit, self.probs[:, action, state], 0).sum(axis=0)

    def _group(self, action: Int[Array, " n"]) -> Int[Array, " n"]:
        return action if self._apart else jnp.zeros_like(action)

    def to_scipy(self) -> list[sp.csr_array]:
        successors, probs = np.asarray(self.successors), np.asarray(self.probs)
        rows = np.broadcast_to(np.arange(self.num_states), probs[:, 0].shape)
        shape = (self.num_states, self.num_states)
        matrices = []
        for a in range(self.num_actions):
            present = probs[:, a] > 0
            entries = (probs[:, a][present], (rows[present], successors[:, a][present]))
            matrices.append(sp.csr_array(sp.coo_array(entries, shape=shape)))
        return matrices


class Deterministic(AbstractDynamics):
    """One next state for each state and action; no probabilities are stored."""

    links: Links

    @property
    def successor(self) -> Int[Array, "A S"]:
        """The next state of each state and action."""
        return self.links.successors[0]

    @property
    def num_states(self) -> int:
        return self.links.successors.shape[-1]

    @property
    def num_actions(self) -> int:
        return self.links.successors.shape[-2]

    def backward(self, value: Float[Array, " S"]) -> Float[Array, "A S"]:
        return self.links.ahead(value)[0]

    def forward(self, mass: Float[Array, "A S"]) -> Float[Array, " S"]:
        return self.links.collect(mass[None])

    def matrix(self, policy: Float[Array, "A S"]) -> Float[Array, "S S"]:
        states = jnp.arange(self.num_states)
        return jnp.zeros((self.num_states, self.num_states), policy.dtype).at[states, self.successor].add(policy)

    def under(self, policy: Float[Array, "A S"]) -> Successors:
        return Successors(self.links.in_one(), policy[:, None])

    def align(self, table: Shaped[Array, "S A S"]) -> Shaped[Array, "1 A S"]:
        actions, states = np.ogrid[: self.num_actions, : self.num_states]
        return jnp.asarray(table)[states, actions, self.successor][None]

    def ahead(self, value: Float[Array, " S"]) -> Float[Array, "1 A S"]:
        return self.links.ahead(value)

    def over_next(self, table: Float[Array, "A S"]) -> Float[Array, "..."]:
        return table[None]

    def aligned_probs(self) -> Float[Array, "..."]:
        return jnp.ones(self.links.successors.shape)

    def mean(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        return aligned[0]

    def log_mean_exp(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        return aligned[0]

    def tilt(self, log_weight: Float[Array, "..."]) -> "Deterministic":
        """Itself: the one successor keeps all the probability, so a normalised weight can only be 1."""
        return self

    def entropy(self) -> Float[Array, "A S"]:
        return jnp.zeros(self.successor.shape)

    def sample(
        self, state: Int[Array, " N"], action: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        return self.successor[action, state]

    def probability(
        self, state: Int[Array, " n"], action: Int[Array, " n"], next_state: Int[Array, " n"]
    ) -> Float[Array, " n"]:
        return (self.successor[action, state] == next_state).astype(float)

    def to_scipy(self) -> list[sp.csr_array]:
        size = self.num_states
        successor = np.asarray(self.successor)
        return [
            sp.csr_array((np.ones(size), successor[a], np.arange(size + 1)), shape=(size, size))
            for a in range(self.num_actions)
        ]
