"""Environments of the host in a run that can be resumed: their state is a seed and the actions since.

A simulator's state cannot be read in general. It follows from the seed of its last reset and from the actions since
then, if its randomness is all seeded, as Gymnasium asks for. So all copies are started again every few rounds, with a
seed that the number of the round gives, and a checkpoint holds the actions since. Restoring takes them once more.
"""

import math
from typing import Any

import jax
import jax.random as jr
import numpy as np

from irlax.envs.experience import Transition
from irlax.envs.host import HostEnvironment, HostRunner
from irlax.typing import Array, PRNGKeyArray

#: Copies are started again after about so many horizons. What they were in the middle of is truncated there.
HORIZONS = 10


class ReplayedRunner:
    """Host environments in the middle of their episodes, as `HostRunner`, whose state can be saved and restored."""

    def __init__(self, env: HostEnvironment, length: int, *, key: PRNGKeyArray) -> None:
        """`length` is that of a round; `key` gives the seeds."""
        self._env, self._key = env, key
        #: Rounds from one start of all copies to the next.
        self._every = max(1, math.ceil(HORIZONS * env.horizon / length))
        if length % env.horizon == 0:
            # Rounds of whole episodes: nothing is cut off.
            self._every = 1
        self._runner: HostRunner | None = None
        self._actions: list[np.ndarray] = []

    def collect(
        self, policy: Any, length: int, explore: float, *, number: int, key: PRNGKeyArray
    ) -> tuple[Transition, list[float]]:
        """The steps [length, N] of round `number`, and the returns of the episodes that ended in it."""
        if self._runner is None or number % self._every == 0:
            self._start(number)
        assert self._runner is not None
        batch, returns = self._runner.collect_steps(policy, length, explore, key=key)
        self._actions.append(np.asarray(batch.action))
        if (number + 1) % self._every == 0:
            last = np.arange(length)[:, None] == length - 1
            batch = batch._replace(truncated=batch.truncated | (last & ~np.asarray(batch.terminated)))
        return batch, returns

    def snapshot(self) -> list[np.ndarray]:
        """What `restore` needs: the actions since the last start, and the runner's own numbers."""
        assert self._runner is not None
        return [np.concatenate(self._actions), *map(np.asarray, self._runner.numbers)]

    def restore(self, arrays: list[np.ndarray], number: int) -> None:
        """The state after round `number`, by the actions that led to it."""
        self._start(number)
        assert self._runner is not None
        self._actions = [arrays[0]]
        for action in arrays[0]:
            self._env.step(action)
        self._runner.numbers = arrays[1:]

    def _start(self, number: int) -> None:
        block: Array = jr.fold_in(self._key, number // self._every)
        self._runner = HostRunner(self._env, seed=int(jax.random.randint(block, (), 0, 2**31 - 1)))
        self._actions = []
