"""Gymnasium wrappers: learned rewards for other learners, and episodes that continue after their end.

Apart from the rest, since their base class makes them import Gymnasium.
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


class ContinueAfterEnd(gym.Wrapper):
    """`FixedHorizon`, or `Absorbing` if there is an indicator, for one Gymnasium environment."""

    def __init__(self, env: gym.Env, horizon: int, *, indicator: bool):
        super().__init__(env)
        self._horizon, self._indicator = horizon, indicator
        self._ended, self._time, self._last = False, 0, np.zeros(0)
        if indicator:
            space = env.observation_space
            assert isinstance(space, gym.spaces.Box)
            low, high = (np.append(np.minimum(space.low, 0), 0), np.append(np.maximum(space.high, 0), 1))
            self.observation_space = gym.spaces.Box(low.astype(np.float32), high.astype(np.float32))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._last, info = self.env.reset(seed=seed, options=options)
        self._ended, self._time = False, 0
        return self._observe(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._time += 1
        reward, truncated, info = 0.0, False, {}
        if not self._ended:
            self._last, reward, self._ended, truncated, info = self.env.step(action)
        truncated = self._time >= self._horizon or (truncated and not self._ended)
        return self._observe(), float(reward), False, truncated, info

    def _observe(self) -> np.ndarray:
        if not self._indicator:
            return self._last
        kept = np.zeros_like(self._last) if self._ended else self._last
        return np.append(kept, float(self._ended)).astype(np.float32)
