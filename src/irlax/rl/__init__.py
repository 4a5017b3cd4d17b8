"""Entropy-regularised reinforcement learning: PPO and SAC whose optimum is that of soft planning."""

from irlax.rl.learner import AbstractLearner, State
from irlax.rl.networks import AbstractPolicy, CategoricalPolicy, SquashedGaussianPolicy
from irlax.rl.ppo import PPO
from irlax.rl.sac import SAC

__all__ = [
    "PPO",
    "SAC",
    "AbstractLearner",
    "AbstractPolicy",
    "CategoricalPolicy",
    "SquashedGaussianPolicy",
    "State",
]
