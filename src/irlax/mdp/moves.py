"""Dynamics that are the same everywhere but for where a move leads."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from irlax.mdp.dynamics import AbstractDynamics, Transitions
from irlax.mdp.links import Links
from irlax.mdp.unrolled import is_unrolled, stored_for_lookup, unrolled_sum
from irlax.precision import to_device
from irlax.typing import Array, Float, Int


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
        return cls(Links.of(moves[:, None], np.ones(moves[:, None].shape, bool)), to_device(chances), favoured)

    @property
    def num_states(self) -> int:
        return self.links.num_states

    @property
    def num_actions(self) -> int:
        return self.chances.shape[-1]

    def backward(self, value: Float[Array, " S"]) -> Float[Array, "A S"]:
        after = self.links.next_values(value)[:, 0]
        if not is_unrolled(after):
            return self.chances.T @ after
        least, more = self._split_chances()
        common = unrolled_sum(jnp.multiply, after, least)
        return jnp.stack([sum((more[m, a] * after[m] for m in moves), common) for a, moves in enumerate(self.favoured)])

    def forward(self, mass: Float[Array, "A S"]) -> Float[Array, " S"]:
        if not is_unrolled(mass):
            return self.links.collect((self.chances @ mass)[:, None])
        least, more = self._split_chances()
        present = unrolled_sum(lambda of_action: of_action, mass)
        flow = [
            sum((more[m, a] * mass[a] for a, moves in enumerate(self.favoured) if m in moves), least[m] * present)
            for m in range(len(least))
        ]
        return self.links.collect(stored_for_lookup(flow)[:, None])

    def transitions(self) -> Transitions:
        return Transitions(self.links, self.chances[..., None])

    def _split_chances(self) -> tuple[Float[Array, " M"], Float[Array, "M A"]]:
        """The least chance of each move over actions, and how much larger each action makes it."""
        least = self.chances.min(axis=1)
        return least, self.chances - least[:, None]
