"""Random MDPs of any size and sparsity, for tests and benchmarks."""

import functools

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.typing import Float


class RandomMDP(eqx.Module):
    """Transitions to `branching` random states with Dirichlet(1) probabilities; a standard normal reward.

    `branching` None means that any state can follow; 1 makes the dynamics deterministic. With
    `unavailable` > 0, that share of actions does not exist (each state keeps at least one).
    """

    num_states: int = 10
    num_actions: int = 3
    branching: int | None = None
    unavailable: float = 0.0
    discount: float = 0.9
    horizon: int | None = None
    seed: int = 0

    def __check_init__(self) -> None:
        checks.count("num_states", self.num_states)
        checks.count("num_actions", self.num_actions)
        if self.branching is not None:
            checks.count("branching", self.branching)
            if self.branching > self.num_states:
                raise ValueError(f"`branching` must be at most {self.num_states} states, but is {self.branching}.")
        if not 0 <= self.unavailable < 1:
            raise ValueError(f"`unavailable` must lie in [0, 1), but is {self.unavailable}.")

    @functools.cached_property
    def mdp(self) -> MDP:
        """The MDP, without its reward."""
        rng = np.random.default_rng(self.seed)
        num_states, num_actions, width = self.num_states, self.num_actions, self.branching
        initial = rng.dirichlet(np.ones(num_states))
        available = None
        if self.unavailable:
            available = rng.random((num_states, num_actions)) >= self.unavailable
            available[np.arange(num_states), rng.integers(num_actions, size=num_states)] = True
        options = {"discount": self.discount, "horizon": self.horizon, "available": available}
        if width is None:
            probs = rng.dirichlet(np.ones(num_states), size=(num_states, num_actions))
            return MDP.from_dense(probs, initial, **options)
        shape = (num_states, num_actions, width)
        if num_states <= 1000:
            order = rng.random((num_states, num_actions, num_states)).argpartition(width - 1, axis=-1)
            successors = order[..., :width]
        else:
            # Repeats are rare at this size, and add up.
            successors = rng.integers(num_states, size=shape)
        return MDP.from_successors(successors, rng.dirichlet(np.ones(width), size=shape[:2]), initial, **options)

    @functools.cached_property
    def reward(self) -> Float[np.ndarray, "S A"]:
        """Standard normal, over states and actions."""
        return np.random.default_rng((self.seed, 1)).normal(size=(self.num_states, self.num_actions))
