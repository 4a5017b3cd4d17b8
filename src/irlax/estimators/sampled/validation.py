"""Whether the arguments of a dynamics-free fit go together, and what they come to."""

import dataclasses
from typing import Any

import jax

from irlax import checks
from irlax.envs.absorbing import refuse_variable_length
from irlax.envs.checking import check_demos
from irlax.envs.environment import AbstractEnvironment
from irlax.envs.gymnasium import GymnasiumEnvironment
from irlax.estimators.sampled.estimator import AbstractSampledIRL
from irlax.estimators.sampled.settings import refuse_other_discount
from irlax.estimators.sampled.steps import Steps, length_of_end, steps_of_demos, with_ends
from irlax.rewards import AbstractObservedReward


def check_environment(env: Any) -> None:
    """Raise a TypeError for what estimators cannot act in."""
    if not isinstance(env, (AbstractEnvironment, GymnasiumEnvironment)):
        raise TypeError(
            f"`env` must be an environment, but is a {type(env).__name__}. Make one with `envs.make(name)`, or of an "
            f"MDP with `envs.Tabular(mdp, reward, horizon=...)`."
        )


def validate(
    estimator: AbstractSampledIRL, env: Any, demos: Any, init_reward: Any, num: int | None
) -> tuple[AbstractSampledIRL, Steps]:
    """Raise for arguments that do not fit; then the estimator with its learner for whole episodes, and the steps."""
    check_demos(env, demos)
    if estimator.rounds.steps is None:
        refuse_variable_length(env, demos)
    elif not env.fixed_horizon and getattr(estimator, "potential", None) is not None:
        raise ValueError(
            "A potential needs episodes of a fixed horizon, but these may end early. Leave `potential` out, or make "
            "the environment with `after_end='absorbing'`."
        )
    if demos.next_observations is None:
        raise ValueError("These demonstrations lack `next_observations`, which rewards of steps are learned from.")
    if estimator.whole_episodes and (demos.lengths != env.horizon).any():
        raise ValueError(
            f"{type(estimator).__name__} compares whole episodes, of {env.horizon} steps in this environment, but "
            f"episodes {checks.places(demos.lengths != env.horizon)} are shorter. AIRL takes any steps."
        )
    _check_reward(init_reward, estimator.discount)
    if not demos.has_actions:
        _check_without_actions(estimator, init_reward)
    copies, length = _copies_and_length(estimator, env, num)
    with jax.enable_x64(False):
        expert = steps_of_demos(demos, env.actions, estimator.discount)
        if not env.fixed_horizon:
            expert = with_ends(expert, demos, length_of_end(estimator.discount))
        if estimator.whole_episodes:
            shape = (demos.num_episodes, env.horizon)
            expert = jax.tree.map(lambda array: array.reshape(*shape, *array.shape[1:]), expert)
    learner = estimator.learner.for_episodes(copies, length)
    return dataclasses.replace(estimator, learner=learner), expert


def _check_reward(init_reward: Any, discount: float) -> None:
    if init_reward is not None and not isinstance(init_reward, AbstractObservedReward):
        raise TypeError(
            f"`init_reward` must be a reward of observations, such as the `learned` of an earlier fit, but is a "
            f"{type(init_reward).__name__}. A class of your own is one if it derives from "
            f"`irlax.rewards.AbstractObservedReward`."
        )
    refuse_other_discount(init_reward, discount)


def _check_without_actions(estimator: AbstractSampledIRL, init_reward: Any) -> None:
    name = type(estimator).__name__
    if estimator.needs_actions:
        raise ValueError(
            f"These demonstrations have no actions, but {name} compares their probabilities under the policy. "
            f"SampledMCEIRL and GAIL learn from states alone, with reward=RewardNet(over='s') or over='ss'."
        )
    over = estimator.reward.over if init_reward is None else init_reward.over
    if "a" in over:
        raise ValueError(
            f"These demonstrations have no actions, but the reward depends on them: it has over={over!r}. Say "
            f"`{name}(reward=RewardNet(over='s'))`, or over='ss' for a reward of the state and the next."
        )


def _copies_and_length(estimator: AbstractSampledIRL, env: Any, num: int | None) -> tuple[int, int]:
    """How many environments act side by side in a round, and for how many steps."""
    if num is not None:
        checks.count("num", num)
    rounds, host = estimator.rounds, not isinstance(env, AbstractEnvironment)
    if num is not None and host:
        raise ValueError("Fits side by side need an environment in JAX, which this is not. Fit one by one.")
    if rounds.steps is None:
        episodes = rounds.episodes_for(env.horizon)
        if host and env.num_envs != episodes:
            raise ValueError(
                f"A round takes {episodes} whole episodes, but the environment steps {env.num_envs} copies at a time. "
                f"Say `rounds=Rounds(episodes={env.num_envs})`, or `make(..., num_envs={episodes})`."
            )
        return episodes, env.horizon
    copies = env.num_envs if host else estimator.learner.num_envs
    if rounds.steps % copies:
        raise ValueError(f"`rounds.steps` must be a multiple of the {copies} copies that step, but is {rounds.steps}.")
    return copies, rounds.steps // copies
