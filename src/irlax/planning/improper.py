"""Improper policies: those that never reach the end of an undiscounted problem without a horizon."""

from typing import Any

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.mdp.build import leading_to
from irlax.planning.backup import TIE_ROUNDING, HardBackup
from irlax.planning.plan import Plan, action_major_policy
from irlax.precision import is_traced
from irlax.typing import Array, Bool, Float


def improper_as_terminal(mdp: MDP, policy: Any, reward: Float[Array, "A R"] | None = None) -> MDP:
    """The MDP in which states from which a policy never reaches the end are terminal as well.

    Even if never visited, they would make the linear system of visits singular. A visited one is a ValueError, because
    visits are infinite. If `reward` is given, only the expected return is wanted, and a visited one is an error only
    where a reward other than zero is earned for ever.
    """
    chosen = None if is_traced(reward) else _chosen(mdp, policy)
    if chosen is None:
        return mdp
    steps = mdp.successor_graph(chosen)
    steps.eliminate_zeros()
    stuck = ~leading_to(steps, np.asarray(mdp.terminal))
    if not stuck.any():
        return mdp
    visited = stuck & leading_to(steps.T, np.asarray(mdp.initial) > 0)
    if reward is None and visited.any():
        raise ValueError(
            f"At discount = 1 with no horizon a policy must reach the end, but from states {checks.places(visited)} "
            f"it never does, and its visits are infinite. Give a horizon, or discount."
        )
    if reward is not None and _earns(mdp, chosen, visited, reward):
        raise ValueError(
            f"At discount = 1 with no horizon a policy must reach the end, or stay for ever where rewards are zero, "
            f"but from states {checks.places(visited)} it earns rewards for ever. Give a horizon, or discount."
        )
    return eqx.tree_at(lambda mdp: mdp.terminal, mdp, np.asarray(mdp.terminal) | stuck)


def _earns(
    mdp: MDP, chosen: Bool[np.ndarray, "R A"], states: Bool[np.ndarray, " S"], reward: Float[Array, "A R"]
) -> bool:
    """Whether any reward but zero is earned in some states."""
    return bool((chosen & ~is_zero(np.asarray(reward).T) & states[mdp.state_of_row][:, None]).any())


def is_zero(rewards: Float[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
    """Where rewards are zero, but for rounding: an expected reward is a sum."""
    return np.abs(rewards) <= TIE_ROUNDING * np.finfo(rewards.dtype).eps * np.abs(rewards).max(initial=0)


def _chosen(mdp: MDP, policy: Any) -> Bool[np.ndarray, "R A"] | None:
    """The actions that a policy [A, R] or a plan takes; None if it reaches the end for certain, or inside a trace."""
    if mdp.terminal is None or is_traced(mdp, policy):
        return None
    if not isinstance(policy, Plan):
        return np.asarray(policy).T > 0
    made_for = policy.mdp
    same = made_for.dynamics is mdp.dynamics and made_for.mask is mdp.mask
    if same and not isinstance(policy.backup, HardBackup):
        # Every action has positive probability, and the end can be reached from everywhere.
        return None
    return np.asarray(action_major_policy(policy.backup, policy.value)).T > 0
