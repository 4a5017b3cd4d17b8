"""Dynamics as lists of next states."""

import jax.numpy as jnp
import numpy as np

from irlax.mdp.dynamics import AbstractDynamics, Transitions
from irlax.mdp.links import Links
from irlax.mdp.spread_links import AnyLinks
from irlax.mdp.unrolled import is_unrolled, unrolled_sum
from irlax.typing import Array, Float, Int


class Successors(AbstractDynamics):
    """At most B next states for each state and action, and their probabilities. Padding has probability 0.

    Where the actions of a state lead to the same few states with other probabilities, as in a grid with slips, the
    next states are listed once for all actions.
    """

    links: AnyLinks
    probs: Float[Array, "B A R"]

    @property
    def num_states(self) -> int:
        return self.links.num_states

    @property
    def num_actions(self) -> int:
        return self.probs.shape[-2]

    @property
    def successors(self) -> Int[Array, "B A R"]:
        """The next states of each state and action."""
        return jnp.broadcast_to(self.links.successors, self.probs.shape)

    def backward(self, value: Float[Array, " S"]) -> Float[Array, "A R"]:
        after = self.links.next_values(value)
        if not is_unrolled(self.probs[0]):
            return unrolled_sum(jnp.multiply, self.probs, jnp.broadcast_to(after, self.probs.shape))
        shared = self.links.shape[-2] < self.num_actions
        groups = [0 if shared else a for a in range(self.num_actions)]
        return jnp.stack([unrolled_sum(jnp.multiply, self.probs[:, a], after[:, g]) for a, g in enumerate(groups)])

    def forward(self, mass: Float[Array, "A R"]) -> Float[Array, " S"]:
        return self.links.collect(self.flows(mass))

    def transitions(self) -> Transitions:
        return Transitions(self.links, self.probs)


class Deterministic(AbstractDynamics):
    """One next state for each state and action; no probabilities are stored."""

    links: Links

    @property
    def successor(self) -> Int[Array, "A R"]:
        """The next state of each state and action."""
        return self.links.successors[0]

    @property
    def num_states(self) -> int:
        return self.links.num_states

    @property
    def num_actions(self) -> int:
        return self.links.shape[-2]

    def backward(self, value: Float[Array, " S"]) -> Float[Array, "A R"]:
        return self.links.next_values(value)[0]

    def forward(self, mass: Float[Array, "A R"]) -> Float[Array, " S"]:
        return self.links.collect(mass[None])

    def transitions(self) -> Transitions:
        # Exact in float32, so that what it is multiplied with keeps its precision; by JAX that would be four programs.
        return Transitions(self.links, np.ones((1, 1, 1), np.float32))
