"""Rewards in random tabular MDPs: state-only rewards are recovered and transfer, others need not be."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from irlax.analysis import identify, is_decomposable
from irlax.envs import RandomMDP, TwoStateCycle
from irlax.estimators.tabular import MCEIRL
from irlax.mdp import MDP
from irlax.planning import expected_return, hard_plan, soft_plan
from irlax.reproduce.result import Line, Result
from irlax.rewards import AbstractReward, ShapedReward, TabularReward

STATES, ACTIONS, DISCOUNT = 16, 4, 0.9
#: The reward of the paper is 1 for any action in state 0; episodes start in state 1.
TRUTH = np.eye(STATES)[0]
WORLDS = 5


def world(seed: int, branching: int | None) -> MDP:
    """A random MDP as the paper draws them; `branching` 1 makes it deterministic, None dense."""
    mdp = RandomMDP(STATES, ACTIONS, branching=branching, discount=DISCOUNT, seed=seed).mdp
    return mdp.replace(initial=np.eye(STATES)[1])


def worlds(branching: int | None) -> list[MDP]:
    """The first few random MDPs that are decomposable and in which every state can be reached."""
    found, seed = [], 0
    while len(found) < WORLDS:
        mdp, seed = world(seed, branching), seed + 1
        reached = np.linalg.matrix_power(np.eye(STATES) + mdp.dynamics.to_dense().sum(axis=1), STATES)[1] > 0
        if is_decomposable(mdp) and reached.all():
            found.append(mdp)
    return found


def learned(mdp: MDP, reward: AbstractReward) -> AbstractReward:
    """The reward that MCE IRL learns from the soft-optimal policy of the truth: no sampling error is left."""
    return MCEIRL(tol=1e-10, progress=False).fit(mdp, reward, soft_plan(mdp, TRUTH)).reward


def off_by(reward: Any) -> float:
    """The largest difference from the true reward, up to a constant."""
    return float(np.ptp(np.asarray(reward) - TRUTH)) / 2


def share_earned(mdp: MDP, reward: np.ndarray) -> float:
    """The true return of the optimal policy of a reward, scaled to 1 for the best return and 0 for random actions."""
    policies = (np.full((STATES, ACTIONS), 1 / ACTIONS), hard_plan(mdp, reward), hard_plan(mdp, TRUTH))
    low, earned, high = (float(expected_return(mdp, policy, TRUTH)) for policy in policies)
    return (earned - low) / (high - low)


def _lines(_: Path | None) -> Iterator[Line]:
    mdps, others = worlds(1), worlds(None)
    found = [np.asarray(learned(mdp, TabularReward("s")).table(mdp)[:, 0]) for mdp in mdps]
    recovered = "recovered up to a constant"
    yield Line.below("r(s), deterministic worlds: off by", recovered, max(map(off_by, found)), 1e-6)
    elsewhere = [learned(mdp, TabularReward("s")).table(mdp)[:, 0] for mdp in others]
    yield Line.below("r(s), stochastic worlds: off by", recovered, max(map(off_by, elsewhere)), 1e-6)
    shaped = [learned(mdp, ShapedReward(TabularReward("s"), np.zeros(STATES), DISCOUNT)) for mdp in mdps]
    bases = [reward.parameters[0] for reward in shaped]
    yield Line.below("g(s) in g(s) + γh(s') − h(s): off by", recovered, max(map(off_by, bases)), 1e-6)
    yield from _identified(mdps)
    # One solution for an unrestricted reward over (s, a) is the soft advantage.
    advantages = [np.array(soft_plan(mdp, TRUTH).log_policy) for mdp in mdps]
    difference = max(
        float(np.abs(soft_plan(mdp, advantage).policy - np.exp(advantage)).max())
        for mdp, advantage in zip(mdps, advantages, strict=True)
    )
    yield Line.below("advantage as r(s, a): policy off by", "explains the expert too", difference, 1e-8)
    least = min(share_earned(mdp, reward) for mdp, reward in zip(others, found, strict=True))
    holds = least >= 1 - 1e-6
    yield Line("r(s) in a new world: least share of the best return", "all", f"{least:.6f}", "≥ 0.999999", holds)
    mean = float(np.mean([share_earned(mdp, reward) for mdp, reward in zip(others, advantages, strict=True)]))
    yield Line.below("advantage in a new world: mean share", "little", mean, 0.5)


def _identified(mdps: list[MDP]) -> Iterator[Line]:
    kinds = {identify(mdp, TabularReward("s"), soft_plan(mdp, TRUTH)).kinds for mdp in mdps}
    hidden = "; ".join(sorted(", ".join(kind) for kind in kinds))
    yield Line("decomposable: hidden from any observer", "constant", hidden, "exact", kinds == {("constant",)})
    cycle = TwoStateCycle(discount=DISCOUNT).mdp
    null_dim = identify(cycle, TabularReward("s"), soft_plan(cycle, np.zeros(2))).null_dim
    holds = null_dim > 1 and not is_decomposable(cycle)
    yield Line("a cycle, not decomposable: hidden dimensions", "more than 1", str(null_dim), "> 1", holds)


RESULT = Result(
    name="fu-2018",
    title="State-only rewards are recovered in random tabular MDPs, and transfer",
    source="J. Fu, K. Luo and S. Levine (2018), Learning Robust Rewards with Adversarial Inverse Reinforcement "
    "Learning, ICLR, the tabular experiment; the theorems as in the Primer, section 4.4.",
    takes="30 s",
    lines=_lines,
    notes=(
        "16 states, 4 actions, random transitions, reward 1 in state 0, start in state 1. The paper shows curves and "
        "no numbers, from samples; here the estimator is exact, so that recovery can be to rounding.",
        "A share is (return − random walk's) / (best − random walk's); new worlds have other random transitions.",
    ),
)
