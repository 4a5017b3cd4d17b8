"""The MDPs, rewards and demonstrators that a user gives, paired and validated."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from irlax.estimators.tabular.expert import Expert, Start
from irlax.estimators.tabular.problem import Flattening
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.rewards import AbstractReward, TabularReward
from irlax.rewards.reward import reward_at

Pairs = tuple[tuple[AbstractReward, ...], tuple[Expert, ...]]


def pair_up(
    mdp: MDP | Sequence[MDP],
    reward: AbstractReward | Sequence[AbstractReward],
    demonstrator: Any,
    occupancy: Any,
    start: Start,
    *,
    goals: bool = False,
) -> tuple[tuple[AbstractReward, ...], tuple[Expert, ...]]:
    """One reward and one expert for each MDP, all rewards with the same parameters.

    `goals` says that these are demonstrations that name their goals, and that the caller plans towards them.
    """
    several = not isinstance(mdp, MDP)
    mdps = list(mdp) if isinstance(mdp, Sequence) else [mdp]
    for given in mdps:
        if not isinstance(given, MDP):
            raise TypeError(f"`mdp` must be an MDP or a list of them, but is a {type(given).__name__}.")

    def one_for_each(name: str, things: Any) -> list[Any]:
        if not several or things is None:
            return [things] * len(mdps)
        if not isinstance(things, (list, tuple)) or len(things) != len(mdps):
            raise TypeError(f"`{name}` must be a list of {len(mdps)}, one for each MDP.")
        return list(things)

    rewards = list(reward) if isinstance(reward, Sequence) else [reward] * len(mdps)
    if len(rewards) != len(mdps):
        raise TypeError(
            f"`reward` must be one reward, or a list of {len(mdps)}, one for each MDP, but lists {len(rewards)}."
        )
    for given in rewards:
        if not isinstance(given, AbstractReward):
            raise TypeError(
                f"`reward` must be a reward to learn, such as LinearReward(features), but is a {type(given).__name__}."
            )
    bound = tuple(given.bind(mdp) for given, mdp in zip(rewards, mdps, strict=True))
    if len({given.num_parameters for given in bound}) > 1:
        sizes = ", ".join(str(given.num_parameters) for given in bound)
        raise ValueError(f"The rewards of several MDPs must have the same parameters, but have {sizes} of them.")
    demonstrators = one_for_each("demos", demonstrator)
    if goals:
        return bound, tuple(Expert.with_goals(*parts) for parts in zip(mdps, demonstrators, strict=True))
    for given, problem in zip(bound, mdps, strict=True):
        _refuse_reward_after_the_end(given, problem)
    occupancies = one_for_each("occupancy", occupancy)
    experts = [Expert.of(*parts, start) for parts in zip(mdps, demonstrators, occupancies, strict=True)]
    return bound, tuple(experts)


def pair_up_each(
    mdp: Any, reward: Any, demos: Any, occupancy: Any, start: Start
) -> list[tuple[tuple[AbstractReward, ...], tuple[Expert, ...]]]:
    """As `pair_up`, once for each demonstrator; an MDP or a reward that is not in a list is used for all."""
    given = demos if occupancy is None else occupancy
    if not isinstance(given, (list, tuple)) or not given or (demos is None) == (occupancy is None):
        raise TypeError("Pass a list of demonstrators, or a list as `occupancy=`: exactly one of them.")

    def for_each(name: str, thing: Any) -> list[Any]:
        if not isinstance(thing, (list, tuple)):
            return [thing] * len(given)
        if len(thing) != len(given):
            raise ValueError(f"`{name}` must list {len(given)}, one for each demonstrator, but lists {len(thing)}.")
        return list(thing)

    mdps, rewards = for_each("mdp", mdp), for_each("reward", reward)
    bound: dict[tuple[int, int], Any] = {}
    cases = []
    for one, learned, demonstrator in zip(mdps, rewards, given, strict=True):
        pair = (demonstrator, None) if occupancy is None else (None, demonstrator)
        case = pair_up(one, bound.get((id(one), id(learned)), learned), *pair, start)
        # Bound once for each MDP, so that the problems share its arrays instead of copies.
        bound[id(one), id(learned)] = case[0][0]
        cases.append(case)
    return cases


def _refuse_reward_after_the_end(reward: AbstractReward, mdp: MDP) -> None:
    """Raise a ValueError if an undiscounted problem without a horizon can have a reward in absorbing states."""
    if mdp.terminal is None:
        return
    with scope():
        probe = np.random.default_rng(0).normal(size=reward.num_parameters)
        tree = Flattening.of(reward.parameters).unflatten(probe)
        rewards = np.asarray(reward_at(reward.fold(mdp), tree)).T * np.asarray(mdp.available)
    if np.abs(rewards[np.asarray(mdp.terminal)]).max() == 0 or _is_free_table(reward):
        return
    if not reward.is_linear:
        raise ValueError(
            f"discount = 1 with no horizon: a reward must be 0 in absorbing states, where it would be earned for ever, "
            f"and a {type(reward).__name__} is not. Give a horizon, or discount."
        )
    raise ValueError(
        "discount = 1 with no horizon: features must be 0 in absorbing states, where a reward would be earned for "
        "ever. Set those rows to 0, give a horizon, or discount."
    )


def _is_free_table(reward: AbstractReward) -> bool:
    """Whether this is a tabular reward, whose entries in absorbing states have no effect and stay at 0."""
    return isinstance(reward, TabularReward)
