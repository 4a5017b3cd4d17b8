"""A Gymnasium wrapper: learned rewards for other learners.

Apart from the rest, since its base class makes it import Gymnasium.
"""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np


class RewardWrapper(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """A Gymnasium environment whose reward is a learned one, r(observation, action, next_observation).

    Any reinforcement learning library that trains on Gymnasium can train on it. The environment's own reward is
    kept in `info["true_reward"]`, to be reported, not learned from.
    """

    def __init__(self, env: gym.Env, reward: Callable[[Any, Any, Any], Any]):
        # So that Gymnasium can make the wrapped environment again from its spec.
        gym.utils.RecordConstructorArgs.__init__(self, _disable_deepcopy=True, reward=reward)
        gym.Wrapper.__init__(self, env)
        if not callable(reward):
            raise TypeError(
                f"`reward` must be callable as reward(observation, action, next_observation), but is a "
                f"{type(reward).__name__}."
            )
        self._learned = reward
        self._last: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        self._last, info = self.env.reset(seed=seed, options=options)
        return self._last, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act; the reward is the learned one."""
        after, true_reward, terminated, truncated, info = self.env.step(action)
        reward = np.asarray(self._learned(self._last, action, after), float)
        if reward.shape != () or not np.isfinite(reward):
            raise ValueError(f"`reward` must give one finite number, but gave {reward!r}.")
        self._last = after
        return after, float(reward), terminated, truncated, info | {"true_reward": true_reward}
