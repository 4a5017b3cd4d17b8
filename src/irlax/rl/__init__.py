"""Entropy-regularised reinforcement learning: PPO and SAC whose optimum is that of soft planning."""

from irlax.rl.learner import AbstractLearner, State
from irlax.rl.policies import AbstractPolicy, CategoricalPolicy, SquashedGaussianPolicy
from irlax.rl.policy_file import load_policy, save_policy
from irlax.rl.ppo import PPO
from irlax.rl.sac import SAC
from irlax.rl.training import Training

__all__ = [
    "PPO",
    "SAC",
    "AbstractLearner",
    "AbstractPolicy",
    "CategoricalPolicy",
    "SquashedGaussianPolicy",
    "State",
    "Training",
    "load_policy",
    "save_policy",
]
