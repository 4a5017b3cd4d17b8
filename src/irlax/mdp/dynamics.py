"""Transition dynamics as operators.

Planners see dynamics through two adjoint operations, `expect` and `push`, so each way to store them costs
one class and no second planner. Inside, arrays are action-major, ``[A, S]`` with states innermost, because
a backup then runs over contiguous states at memory bandwidth; `expect` and `push` speak the user's
``[S, A]``.

A value for each possible transition is kept in the layout of the class ("aligned"): ``[A, S, S']`` for
`Dense`, ``[B, A, S]`` for `Successors`, ``[M, A, S]`` for `Moves`, ``[1, A, S]`` for `Deterministic`.
"""

import abc
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.scipy.special import entr, logsumexp

from irlax.mdp.links import Links
from irlax.mdp.rows import looked_up, sum_rows, written_out
from irlax.mdp.sampling import inverse_cdf
from irlax.precision import StaysOnDevice, exact
from irlax.typing import Array, Bool, Float, Int, Shaped


class AbstractDynamics(StaysOnDevice):
    """P(s' | s, a), as a pair of adjoint operators and what follows from them."""

    @property
    @abc.abstractmethod
    def num_states(self) -> int:
        """S."""

    @property
    @abc.abstractmethod
    def num_actions(self) -> int:
        """A."""

    @abc.abstractmethod
    def backward(self, value: Float[Array, " S"]) -> Float[Array, "A S"]:
        """E[value(s') | s, a], action-major."""

    @abc.abstractmethod
    def forward(self, mass: Float[Array, "A S"]) -> Float[Array, " S"]:
        """The adjoint of `backward`."""

    @abc.abstractmethod
    def matrix(self, policy: Float[Array, "A S"]) -> Float[Array, "S S"]:
        """P_π(s, s') = Σ_a π(a|s) P(s'|s,a), dense."""

    @abc.abstractmethod
    def under(self, policy: Float[Array, "A S"]) -> "AbstractDynamics":
        """The same transitions with the choice of action left to a policy: dynamics with one action."""

    @abc.abstractmethod
    def align(self, table: Shaped[Array, "S A S"]) -> Shaped[Array, "..."]:
        """A table over (s, a, s') in this class's own layout."""

    @abc.abstractmethod
    def ahead(self, value: Float[Array, " S"]) -> Float[Array, "..."]:
        """value(s') for each possible transition, aligned (or broadcasting to it)."""

    @abc.abstractmethod
    def over_next(self, table: Float[Array, "A S"]) -> Float[Array, "..."]:
        """A table over (s, a), constant in s', broadcasting to the aligned layout."""

    @abc.abstractmethod
    def aligned_probs(self) -> Float[Array, "..."]:
        """P(s' | s, a), aligned."""

    @abc.abstractmethod
    def mean(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        """Expectation over s' of aligned values."""

    @abc.abstractmethod
    def log_mean_exp(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        """log E[exp(aligned)] over s'."""

    @abc.abstractmethod
    def tilt(self, log_weight: Float[Array, "..."]) -> "AbstractDynamics":
        """Dynamics with each probability multiplied by exp(log_weight)."""

    @abc.abstractmethod
    def entropy(self) -> Float[Array, "A S"]:
        """H(S' | s, a)."""

    @abc.abstractmethod
    def sample(
        self, state: Int[Array, " N"], action: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        """Next states by inversion of the distribution function at `uniform` in [0, 1)."""

    @abc.abstractmethod
    def probability(
        self, state: Int[Array, " n"], action: Int[Array, " n"], next_state: Int[Array, " n"]
    ) -> Float[Array, " n"]:
        """P(s' | s, a) of each listed transition."""

    @abc.abstractmethod
    def to_scipy(self) -> list[sp.csr_array]:
        """One (S, S) matrix per action."""

    @property
    def num_rows(self) -> int:
        """The length of tables over states and actions: S, unless some states take several rows (`Ragged`)."""
        return self.num_states

    @property
    def width(self) -> int:
        """Their width: A, unless some states take several rows."""
        return self.num_actions

    def spread(self, values: Shaped[Array, "S *rest"]) -> Shaped[Array, "R *rest"]:
        """What holds for a state, for each of its rows."""
        return values

    def added(self, rows: Shaped[Array, "R *rest"]) -> Shaped[Array, "S *rest"]:
        """The sum over the rows of each state; the adjoint of `spread`."""
        return rows

    def largest(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        """The largest over the rows of each state."""
        return rows

    def log_added_exp(self, rows: Float[Array, " R"]) -> Float[Array, " S"]:
        """log Σ exp(row) over the rows of each state."""
        return rows

    def cells(self, states: Int[Array, "*n"], actions: Int[Array, "*n"]) -> tuple[Any, Any]:
        """Row and column of each state and action in tables over them."""
        return states, actions

    def choose(
        self, policy: Float[Array, "R A"], state: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        """Actions by inversion of a policy's distribution function at `uniform` in [0, 1)."""
        return inverse_cdf(jnp.cumsum(policy, axis=-1), (state,), uniform)

    def staying(self) -> Float[np.ndarray, "R A"]:
        """P(s | s, a)."""
        return np.stack([matrix.diagonal() for matrix in self.to_scipy()], axis=-1)

    def followers(self, available: Bool[np.ndarray, "R A"]) -> sp.csr_array:
        """An (S, S) matrix that is positive where an available action can lead from one state to the other."""
        matrices = enumerate(self.to_scipy())
        return sp.csr_array(sum(sp.diags_array(available[:, a].astype(float)) @ matrix for a, matrix in matrices))

    @exact
    def expect(self, value: Float[Array, " S"]) -> Float[Array, "R A"]:
        """Backward: E[value(s') | s, a]."""
        return self.backward(jnp.asarray(value)).T

    @exact
    def push(self, mass: Float[Array, "R A"]) -> Float[Array, " S"]:
        """Forward: where mass on (s, a) lands one step later; the adjoint of `expect`."""
        return self.forward(jnp.asarray(mass).T)

    def to_dense(self) -> Float[np.ndarray, "S A S"]:
        """P(s' | s, a) as one array, for small problems."""
        return np.stack([matrix.toarray() for matrix in self.to_scipy()], axis=1)


class Dense(AbstractDynamics):
    """Every probability stored: for small problems and for those in which anything can follow anything."""

    probs: Float[Array, "A S S"]

    @property
    def num_states(self) -> int:
        return self.probs.shape[-1]

    @property
    def num_actions(self) -> int:
        return self.probs.shape[-3]

    def backward(self, value: Float[Array, " S"]) -> Float[Array, "A S"]:
        return self.probs @ value

    def forward(self, mass: Float[Array, "A S"]) -> Float[Array, " S"]:
        return jnp.einsum("as,ast->t", mass, self.probs)

    def matrix(self, policy: Float[Array, "A S"]) -> Float[Array, "S S"]:
        return jnp.einsum("as,ast->st", policy, self.probs)

    def under(self, policy: Float[Array, "A S"]) -> "Dense":
        return Dense(self.matrix(policy)[None])

    def align(self, table: Shaped[Array, "S A S"]) -> Shaped[Array, "A S S"]:
        return jnp.swapaxes(jnp.asarray(table), 0, 1)

    def ahead(self, value: Float[Array, " S"]) -> Float[Array, "..."]:
        return value[None, None, :]

    def over_next(self, table: Float[Array, "A S"]) -> Float[Array, "..."]:
        return table[..., None]

    def aligned_probs(self) -> Float[Array, "..."]:
        return self.probs

    def mean(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        return (self.probs * aligned).sum(axis=-1)

    def log_mean_exp(self, aligned: Float[Array, "..."]) -> Float[Array, "A S"]:
        return logsumexp(jnp.broadcast_to(aligned, self.probs.shape), axis=-1, b=self.probs)

    def tilt(self, log_weight: Float[Array, "..."]) -> "Dense":
        return type(self)(_tilted(self.probs, log_weight))

    def entropy(self) -> Float[Array, "A S"]:
        return entr(self.probs).sum(axis=-1)

    def sample(
        self, state: Int[Array, " N"], action: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        return inverse_cdf(jnp.cumsum(self.probs, axis=-1), (action, state), uniform)

    def probability(
        self, state: Int[Array, " n"], action: Int[Array, " n"], next_state: Int[Array, " n"]
    ) -> Float[Array, " n"]:
        return self.probs[action, state, next_state]

    def to_scipy(self) -> list[sp.csr_array]:
        return [sp.csr_array(matrix) for matrix in np.asarray(self.probs)]


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
        return type(self)(self.links, _tilted(self.probs, log_weight))

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


def _tilted(probs: Float[Array, "*shape"], log_weight: Float[Array, "..."]) -> Float[Array, "*shape"]:
    # Where the probability is 0 the weight may overflow; 0 · inf must stay 0.
    return jnp.where(probs > 0, probs * jnp.exp(jnp.where(probs > 0, log_weight, 0)), 0)


def absorbing_states(dynamics: AbstractDynamics, available: Bool[np.ndarray, "R A"]) -> Bool[np.ndarray, " S"]:
    """States that no available action leaves."""
    ways_out = (available & (dynamics.staying() < 1 - 1e-12)).sum(axis=-1)
    return np.asarray(dynamics.added(ways_out)) == 0
