"""The two-state cycle: the Primer's smallest MDP that is not decomposable."""

import functools

import equinox as eqx
import numpy as np

from irlax.mdp import MDP
from irlax.typing import Float


class TwoStateCycle(eqx.Module):
    """From A one can only go to B, and from B only to A; with `self_loops` one can also stay.

    Without them no state can be followed by both, so A and B are not linked, and a state-only reward is not
    identified up to a constant. Primer, 4.4.5.
    """

    discount: float = 0.9
    horizon: int | None = None
    self_loops: bool = False

    @functools.cached_property
    def mdp(self) -> MDP:
        """The MDP, without its reward."""
        move = np.array([1, 0])
        successors = np.stack([move, np.array([0, 1])] if self.self_loops else [move, move], axis=1)
        mdp = MDP.from_successors(
            successors[..., None],
            np.ones((2, 2, 1)),
            np.array([0.5, 0.5]),
            discount=self.discount,
            horizon=self.horizon,
        )
        return mdp.labelled(states=("A", "B"))

    @property
    def reward(self) -> Float[np.ndarray, " S"]:
        """One for being in A."""
        return np.array([1.0, 0.0])
