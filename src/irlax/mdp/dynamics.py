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


def tilted(probs: Float[Array, "*shape"], log_weight: Float[Array, "..."]) -> Float[Array, "*shape"]:
    """Probabilities times exp(log_weight)."""
    # Where the probability is 0 the weight may overflow; 0 · inf must stay 0.
    return jnp.where(probs > 0, probs * jnp.exp(jnp.where(probs > 0, log_weight, 0)), 0)


def absorbing_states(dynamics: AbstractDynamics, available: Bool[np.ndarray, "R A"]) -> Bool[np.ndarray, " S"]:
    """States that no available action leaves."""
    ways_out = (available & (dynamics.staying() < 1 - 1e-12)).sum(axis=-1)
    return np.asarray(dynamics.added(ways_out)) == 0
