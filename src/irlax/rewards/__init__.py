"""Reward functions with parameters to learn."""

from irlax.rewards.linear import LinearReward
from irlax.rewards.neural import NeuralReward
from irlax.rewards.observed import (
    AbstractObservedReward,
    ObservedReward,
    RewardNet,
    ScaledObservedReward,
    ShapedObservedReward,
)
from irlax.rewards.reward import AbstractReward
from irlax.rewards.shaped import ShapedReward
from irlax.rewards.tabular import TabularReward

__all__ = [
    "AbstractObservedReward",
    "AbstractReward",
    "LinearReward",
    "NeuralReward",
    "ObservedReward",
    "RewardNet",
    "ScaledObservedReward",
    "ShapedObservedReward",
    "ShapedReward",
    "TabularReward",
]
