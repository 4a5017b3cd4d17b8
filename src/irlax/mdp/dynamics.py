"""Transition dynamics as operators.

Planners see dynamics through two adjoint operators, `expect` and `push`, so each way to store dynamics costs one class
and no second planner. Inside, tables over states and actions are action-major, ``[A, R]`` with states innermost: a
backup then runs over contiguous states at memory bandwidth. `expect` and `push` take and return the user's ``[R, A]``.

R, the number of rows of such a table, is the number of states S, unless the MDP gives some states several rows
(`irlax.mdp.rows`). A class of dynamics need not know: it leads from the rows that it has to S states.

A class defines five members: the two sizes, the two operators, and `transitions`, for whatever asks about single
transitions (path models, rewards over s', sampling, files). All else is derived from these, once, in the base class.

A number for each stored transition is *aligned*: it has the shape `aligned_shape`, ``[B, A, R]`` for B listed next
states and ``[A, S, S']`` where all states are stored as next states, or one that broadcasts to it.
"""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.scipy.special import entr, logsumexp

from irlax.mdp.sampling import inverse_cdf
from irlax.mdp.spread_links import AnyLinks
from irlax.mdp.unrolled import is_unrolled, stored_for_lookup, unrolled_sum
from irlax.precision import StaysOnDevice, exact, is_placed, is_traced, to_device
from irlax.typing import Array, Float, Int, Shaped


class Transitions(NamedTuple):
    """The transitions that dynamics store; those that cannot happen have probability 0."""

    #: The next states; None if every state is one, in order.
    links: AnyLinks | None
    #: P(s' | s, a), aligned.
    probs: Float[Array, "..."]


class AbstractDynamics(StaysOnDevice):
    """P(s' | s, a), as a pair of adjoint operators and a list of the transitions that can happen."""

    @property
    @abc.abstractmethod
    def num_states(self) -> int:
        """S."""

    @property
    @abc.abstractmethod
    def num_actions(self) -> int:
        """A, the number of columns of tables over states and actions."""

    @abc.abstractmethod
    def backward(self, value: Float[Array, " S"]) -> Float[Array, "A R"]:
        """E[value(s') | s, a], action-major."""

    @abc.abstractmethod
    def forward(self, mass: Float[Array, "A R"]) -> Float[Array, " S"]:
        """Σ_{s,a} mass(s, a) P(s' | s, a): the adjoint of `backward`."""

    @abc.abstractmethod
    def transitions(self) -> Transitions:
        """The stored transitions and their probabilities."""

    @exact
    def expect(self, value: Float[Array, " S"]) -> Float[Array, "R A"]:
        """Backward: E[value(s') | s, a]."""
        return self.backward(jnp.asarray(value)).T

    @exact
    def push(self, mass: Float[Array, "R A"]) -> Float[Array, " S"]:
        """Forward: where mass on (s, a) lands one step later; the adjoint of `expect`."""
        return self.forward(jnp.asarray(mass).T)

    @property
    def aligned_shape(self) -> tuple[int, int, int]:
        """The shape of a number for each stored transition."""
        links, _ = self.transitions()
        if links is None:
            return self.num_actions, self.num_states, self.num_states
        num_next, _, num_rows = links.shape[-3:]
        return num_next, self.num_actions, num_rows

    @property
    def next_axis(self) -> int:
        """The axis of aligned arrays that runs over next states."""
        return -1 if self.transitions().links is None else 0

    def align(self, table: Shaped[Array, "S A S"]) -> Shaped[Array, "..."]:
        """A table over (s, a, s'), aligned."""
        links, _ = self.transitions()
        if links is None:
            return jnp.swapaxes(jnp.asarray(table), 0, 1)
        actions, states = np.ogrid[: self.num_actions, : self.num_states]
        if isinstance(table, np.ndarray) and not is_traced(links) and not is_placed(links.successors):
            # By JAX a program would be compiled for every shape.
            return to_device(table[states, actions, np.asarray(links.successors)])
        return jnp.asarray(table)[states, actions, links.successors]

    def next_values(self, value: Float[Array, " S"]) -> Float[Array, "..."]:
        """value(s') of each stored transition, aligned."""
        links, _ = self.transitions()
        return value[None, None, :] if links is None else links.next_values(value)

    def for_all_next(self, table: Float[Array, "A R"]) -> Float[Array, "..."]:
        """A table over (s, a), which does not depend on s', aligned."""
        return jnp.expand_dims(table, self.next_axis)

    def mean(self, aligned: Float[Array, "..."]) -> Float[Array, "A R"]:
        """The expectation over s' of aligned numbers."""
        return (self.transitions().probs * aligned).sum(axis=self.next_axis)

    @eqx.filter_jit
    def log_mean_exp(self, aligned: Float[Array, "..."]) -> Float[Array, "A R"]:
        """log E[exp(aligned)] over s'."""
        axis, probs = self.next_axis, self.transitions().probs
        if self.aligned_shape[axis] == 1:
            return (aligned + jnp.log(probs)).squeeze(axis)
        return logsumexp(jnp.broadcast_to(aligned, self.aligned_shape), axis=axis, b=probs)

    def flows(self, mass: Float[Array, "A R"]) -> Float[Array, "B G R"]:
        """The mass that goes along each link; links that all actions share carry that of all of them."""
        links, probs = self.transitions()
        assert links is not None, "Where every state is a next state there are no links."
        if links.shape[-2] == self.num_actions:
            return probs * mass
        probs = jnp.broadcast_to(probs, self.aligned_shape)
        if not is_unrolled(probs[:, 0]):
            return (probs * mass).sum(axis=1, keepdims=True)
        return stored_for_lookup([unrolled_sum(jnp.multiply, of_link, mass) for of_link in probs])[:, None]

    def matrix(self, policy: Float[Array, "A R"]) -> Float[Array, "R S"]:
        """P_π(s, s') = Σ_a π(a|s) P(s'|s,a), dense."""
        links, probs = self.transitions()
        if links is None:
            return jnp.einsum("as,ast->st", policy, probs)
        flows, num_rows = self.flows(policy), policy.shape[-1]
        empty = jnp.zeros((num_rows, self.num_states), flows.dtype)
        return empty.at[jnp.arange(num_rows), links.successors].add(flows)

    @eqx.filter_jit
    def entropy(self) -> Float[Array, "A R"]:
        """H(S' | s, a)."""
        links, probs = self.transitions()
        if links is None:
            return entr(probs).sum(axis=-1)

        def probability(next_state):
            """Of the next state of one link, which others may lead to as well."""
            return jnp.where(links.successors == next_state, probs, 0).sum(axis=0)

        together = jax.lax.map(probability, links.successors)
        surprise = -jnp.log(jnp.where(together > 0, together, 1))
        return (probs * surprise).sum(axis=0)

    @eqx.filter_jit
    def sample(
        self, state: Int[Array, " N"], action: Int[Array, " N"], uniform: Float[Array, " N"]
    ) -> Int[Array, " N"]:
        """Next states by inversion of the distribution function at `uniform` in [0, 1)."""
        links, probs = self.transitions()
        if links is None:
            return inverse_cdf(jnp.cumsum(probs, axis=-1), (action, state), uniform)
        cumulative = jnp.cumsum(_of_each(probs, action, state), axis=0)
        chosen = jnp.argmax(cumulative > uniform * cumulative[-1], axis=0)
        next_states = _of_each(links.successors, action, state)
        return jnp.take_along_axis(next_states, chosen[None], axis=0)[0].astype(jnp.int32)

    # As one program: it is called with the rows of every new set of demonstrations.
    @eqx.filter_jit
    def probability(
        self, state: Int[Array, " n"], action: Int[Array, " n"], next_state: Int[Array, " n"]
    ) -> Float[Array, " n"]:
        """P(s' | s, a) of each given transition."""
        links, probs = self.transitions()
        if links is None:
            return probs[action, state, next_state]
        hit = _of_each(links.successors, action, state) == next_state
        return jnp.where(hit, _of_each(probs, action, state), 0).sum(axis=0)

    def to_scipy(self) -> list[sp.csr_array]:
        """P(s' | s, a) as one (R, S) matrix for each action."""
        links, probs = self.transitions()
        if links is None:
            return [sp.csr_array(matrix) for matrix in np.asarray(probs)]
        num_rows = self.aligned_shape[-1]
        probs = np.broadcast_to(np.asarray(probs), self.aligned_shape)
        successors = np.broadcast_to(np.asarray(links.successors), self.aligned_shape)
        rows = np.broadcast_to(np.arange(num_rows), probs[:, 0].shape)
        matrices = []
        for a in range(self.num_actions):
            present = probs[:, a] > 0
            entries = (probs[:, a][present], (rows[present], successors[:, a][present]))
            matrices.append(sp.csr_array(sp.coo_array(entries, shape=(num_rows, self.num_states))))
        return matrices

    def to_dense(self) -> Float[np.ndarray, "R A S"]:
        """P(s' | s, a) as one array, for small problems."""
        return np.stack([matrix.toarray() for matrix in self.to_scipy()], axis=1)


def _of_each(table: Shaped[Array, "B G R"], action: Int[Array, " n"], state: Int[Array, " n"]) -> Shaped[Array, "B n"]:
    """The entries of states and actions; an axis of length 1 holds for all of them."""
    outcomes, groups, rows = table.shape
    entries = table[:, action if groups > 1 else 0, state if rows > 1 else 0]
    return jnp.broadcast_to(entries.reshape(outcomes, -1), (outcomes, len(state)))
