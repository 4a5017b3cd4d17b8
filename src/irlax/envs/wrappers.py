"""A Gymnasium wrapper: learned rewards for other learners.

Apart from the rest, since its base class makes it import Gymnasium.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import gymnasium as gym
import numpy as np

from irlax import checks
from irlax.rewards import AbstractObservedReward
from irlax.rewards.observed import reward_after_end


class RewardWrapper(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """A Gymnasium environment whose reward is a learned one, r(observation, action, next_observation).

    Any reinforcement learning library that trains on Gymnasium can train on it. The environment's own reward is
    kept in `info["true_reward"]`, to be reported, not learned from.

    Libraries count nothing after an end. A reward with an `after_end` of its own, as those of continuous control have,
    is therefore given relative to it, r − `after_end`: the same number less at every step, after the end too, leaves
    all policies in the same order.

    What is given is multiplied by `scale`, which leaves the order of returns as it is, too. Learned rewards are in
    units in which the demonstrator's temperature is 1, so that those of nearly deterministic ones are tens a step;
    learners whose critics have no units of their own do best with a few a step.
    """

    def __init__(self, env: gym.Env, reward: Callable[[Any, Any, Any], Any], *, scale: float = 1.0):
        # So that Gymnasium can make the wrapped environment again from its spec.
        gym.utils.RecordConstructorArgs.__init__(self, _disable_deepcopy=True, reward=reward, scale=scale)
        gym.Wrapper.__init__(self, env)
        if not callable(reward):
            raise TypeError(
                f"`reward` must be callable as reward(observation, action, next_observation), but is a "
                f"{type(reward).__name__}."
            )
        self._scale = checks.positive("scale", scale)
        # A network is compiled; anything else may be a table of numpy, or have no JAX in it at all.
        self._learned = eqx.filter_jit(reward) if isinstance(reward, AbstractObservedReward) else reward
        self._after_end = float(reward_after_end(reward))
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
        given = self._scale * (float(reward) - self._after_end)
        return after, given, terminated, truncated, info | {"true_reward": true_reward}
