"""What the settings of dynamics-free estimators must satisfy, each of them and together."""

from typing import Any

from irlax import checks
from irlax.estimators.sampled.rounds import Rounds
from irlax.rewards import RewardNet, ShapedObservedReward
from irlax.rl.learner import AbstractLearner
from irlax.rl.sac import SAC


def check_settings(estimator: Any) -> None:
    """Raise a TypeError or ValueError for settings that are wrong or do not go together."""
    if not isinstance(estimator.learner, AbstractLearner):
        raise TypeError(f"`learner` must be a learner such as rl.PPO(), but is a {type(estimator.learner).__name__}.")
    # The model of the demonstrator has temperature 1; GAIL has no such model. Where a learner finds its temperature,
    # that is the unit of its reward, and the fit returns the reward divided by it.
    if estimator.learns_reward and not (estimator.any_unit and getattr(estimator.learner, "keep_entropy", False)):
        refuse_second_entropy(estimator.learner)
    if not isinstance(estimator.reward, RewardNet):
        raise TypeError(
            f"`reward` must be the settings of a network, RewardNet(...), but is a {type(estimator.reward).__name__}. "
            f"A reward to start from is an argument of `fit`: `fit(..., init_reward=...)`."
        )
    if not isinstance(estimator.rounds, Rounds):
        raise TypeError(
            f"`rounds` must be Rounds(...), but is a {type(estimator.rounds).__name__}. Say `rounds=Rounds(num=...)`."
        )
    checks.count("updates", estimator.updates)
    checks.count("recent", estimator.recent)
    checks.positive("learning_rate", estimator.learning_rate)
    checks.positive("penalty", estimator.penalty, zero=True)
    if estimator.rounds.steps is not None:
        refuse_steps(estimator)
    if estimator.whole_episodes and estimator.rounds.explore:
        raise ValueError(
            f"{type(estimator).__name__} weighs whole paths by their density under the policy, which is unknown where "
            f"actions were random: `explore` must be 0, but is {estimator.rounds.explore}. AIRL and SampledMCEIRL take "
            f"it."
        )


def refuse_second_entropy(learner: Any) -> None:
    """A ValueError unless the learner's temperature is 1: the demonstrator's entropy is part of the model already."""
    temperature = learner.temperature
    if temperature != 1:
        raise ValueError(
            f"The model of the demonstrator is soft-optimal at temperature 1, and the scale of the reward is learned, "
            f"so that the learner must have temperature=1.0, but it has {temperature!r}. Say "
            f"`learner={type(learner).__name__}(temperature=1.0, …)`; another entropy bonus would count entropy twice."
        )


def refuse_steps(estimator: Any) -> None:
    """A ValueError unless an estimator can learn from any steps of episodes, whatever their times."""
    name = type(estimator).__name__
    if estimator.whole_episodes:
        raise ValueError(f"{name} compares whole episodes: leave out `steps` of its rounds, and say `episodes`.")
    if not isinstance(estimator.learner, SAC):
        raise ValueError(
            f"With `Rounds(steps=...)` a learner goes on in the middle of episodes and learns from a replay of them: "
            f"`learner` must be SAC(...), but is {type(estimator.learner).__name__}."
        )
    if getattr(estimator, "discounted", True):
        raise ValueError(
            f"With `Rounds(steps=...)` all steps have the same weight, whatever their time: say "
            f"{name}(discounted=False)."
        )
    if estimator.discount == 1:
        raise ValueError("With `Rounds(steps=...)` the learner's discount must be below 1.")


def refuse_other_discount(reward: Any, discount: float) -> None:
    """A ValueError unless a potential has the γ of the learner: with another, shaping changes the optimal policy."""
    if isinstance(reward, ShapedObservedReward) and reward.discount != discount:
        raise ValueError(
            f"The potential of `init_reward` is discounted by {reward.discount}, but the learner by {discount}. With "
            f"two discounts shaping changes the optimal policy: use the learner's for both."
        )
