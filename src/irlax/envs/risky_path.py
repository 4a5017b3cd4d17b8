"""RiskyPath: where the Maximum Entropy model takes a chance that the causal one does not."""

import functools
from typing import ClassVar

import equinox as eqx
import numpy as np

from irlax.mdp import MDP
from irlax.typing import Float


class RiskyPath(eqx.Module):
    """A long but sure way to the goal, s0 → s1 → s2, or a gamble on s2 at even odds with the hazard s3.

    Reward 1 in the goal s2 and −100 in the hazard s3, both absorbing. A choice exists in s0 only; everywhere
    else there is one action. Primer, Figure 1; after Ziebart (2010), Figure 6.4.
    """

    discount: float = 0.9
    horizon: int | None = None

    SAFE: ClassVar[int] = 0
    RISKY: ClassVar[int] = 1
    state_names: ClassVar[tuple[str, ...]] = ("start s0", "detour s1", "goal s2", "hazard s3")
    action_names: ClassVar[tuple[str, ...]] = ("safe", "risky")

    @functools.cached_property
    def mdp(self) -> MDP:
        """The MDP, without its reward."""
        transitions = np.zeros((4, 2, 4))
        transitions[0, self.SAFE, 1] = 1
        transitions[0, self.RISKY, [2, 3]] = 0.5
        transitions[1, 0, 2] = transitions[2, 0, 2] = transitions[3, 0, 3] = 1
        available = np.array([[True, True], [True, False], [True, False], [True, False]])
        mdp = MDP.from_dense(
            transitions, np.eye(4)[0], discount=self.discount, horizon=self.horizon, available=available
        )
        return mdp.labelled(states=self.state_names, actions=self.action_names)

    @property
    def reward(self) -> Float[np.ndarray, " S"]:
        """The true reward, over states."""
        return np.array([0.0, 0.0, 1.0, -100.0])
