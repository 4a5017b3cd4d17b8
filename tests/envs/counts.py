"""An environment that shows the time. Apart from the tests, so that a worker process which makes it starts quickly."""

import gymnasium as gym
import numpy as np


class Counts(gym.Env):
    """Shows the time; ends after 3 steps, or never. A space of each kind can be asked for."""

    def __init__(self, observation_space=None, action_space=None, ends=True, shows=None):
        self.observation_space = observation_space or gym.spaces.Box(-100, 100, (1,), np.float32)
        self.action_space = action_space or gym.spaces.Discrete(2, start=5)
        self.ends, self.shows, self.time, self.resets, self.seen = ends, shows, 0, 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.resets = 0, self.resets + 1
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        self.seen.append(action)
        shown = np.array([self.time if self.shows is None else self.shows], np.float32)
        return shown, float(self.time), self.ends and self.time == 3, False, {}
