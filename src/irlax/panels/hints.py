"""What is worth a second look in a fit to a panel."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from irlax.estimators.tabular.expert import Expert
from irlax.mdp import MDP
from irlax.panels.formula import ALIVE
from irlax.rewards import AbstractReward
from irlax.rewards.linear import FoldedLinear
from irlax.typing import Float

if TYPE_CHECKING:
    from irlax.panels.panel import Panel

#: Two actions lead to the same next states if their probabilities differ by less than this, on average over choices.
ALIKE = 0.02


def hints(panel: "Panel", rewards: Sequence[AbstractReward], experts: Sequence[Expert]) -> list[str]:
    """Sentences for the notes of a table, of the reward of each demonstrator."""
    found = [
        f"Look: `{one}` and `{other}` lead to the same next states and no term tells them apart, so the model gives "
        f"them equal probabilities. Add `{other}` to the formula."
        for one, other in _indistinct_actions(panel, rewards, experts)
    ]
    if panel.has_exit and not any(ALIVE in name for name in rewards[0].parameter_names()):
        found.append(f"Look: lives end, so a constant for being alive has an effect. Add `{ALIVE}` to the formula.")
    return found


def _features(reward: AbstractReward, mdp: MDP) -> Float[np.ndarray, "K A S"]:
    folded = reward.fold(mdp)
    assert isinstance(folded, FoldedLinear)
    return np.broadcast_to(folded.columns, (reward.num_parameters, *mdp.table_shape[::-1]))


def _indistinct_actions(
    panel: "Panel", rewards: Sequence[AbstractReward], experts: Sequence[Expert]
) -> list[tuple[str, str]]:
    """Pairs of actions with equal features and, nearly, equal transitions wherever both exist."""
    folded = [_features(reward, expert.mdp) for reward, expert in zip(rewards, experts, strict=True)]
    visits = np.bincount(panel.demos.tabular_states, minlength=panel.num_states).astype(float)
    matrices = experts[0].mdp.dynamics.to_scipy()
    pairs = []
    for a in range(len(panel.actions)):
        for b in range(a + 1, len(panel.actions)):
            both = panel.available[:, a] & panel.available[:, b] & (visits > 0)
            if not both.any() or any(np.abs(columns[:, a, both] - columns[:, b, both]).max() > 0 for columns in folded):
                continue
            distance = np.asarray(abs(matrices[a] - matrices[b]).sum(axis=1)).ravel() / 2
            if np.average(distance[both], weights=visits[both]) < ALIKE:
                pairs.append((panel.actions[a], panel.actions[b]))
    return pairs
