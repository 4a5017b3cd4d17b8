"""Linear rewards of small MDPs as features on the host, with which nothing is compiled."""

from typing import NamedTuple

import numpy as np

from irlax.mdp import MDP
from irlax.planning.small import SmallMDP
from irlax.rewards.linear import FoldedLinear
from irlax.rewards.reward import AbstractFolded
from irlax.rewards.tabular import FoldedTable
from irlax.typing import Float

#: Features, or their tangents at all times, have at most this many numbers (80 MB).
MAX_TANGENTS = 10_000_000


class SmallFeatures(NamedTuple):
    """A small MDP, and a reward in it that is linear in its parameters."""

    mdp: SmallMDP
    #: ∂r/∂θ.
    features: Float[np.ndarray, "A S K"]
    #: What is known of the reward.
    known: Float[np.ndarray, "A S"]


def small_features(mdp: MDP, folded: AbstractFolded, num: int) -> SmallFeatures | None:
    """The reward with `num` parameters in this form; None if it or the MDP is large, or of another kind."""
    # A class of a user's own may change what it inherits.
    if not isinstance(folded, FoldedLinear | FoldedTable) or type(folded) not in (FoldedLinear, FoldedTable):
        return None
    small = SmallMDP.of(mdp)
    if small is None or num * small.periods * small.transitions.shape[0] * len(small.initial) > MAX_TANGENTS:
        return None
    return SmallFeatures(small, *_features_of(folded, small, num))


def _features_of(
    folded: FoldedLinear | FoldedTable, mdp: SmallMDP, num: int
) -> tuple[Float[np.ndarray, "A S K"], Float[np.ndarray, "A S"]]:
    num_actions, num_states, _ = mdp.transitions.shape
    shape = (num_actions, num_states, num)
    if isinstance(folded, FoldedLinear):
        known = np.zeros(()) if folded.known is None else np.asarray(folded.known)
        columns = np.moveaxis(np.asarray(folded.columns), 0, -1)
        return np.ascontiguousarray(np.broadcast_to(columns, shape)), np.broadcast_to(known, shape[:2])
    features, (action, state) = np.zeros(shape), np.indices(shape[:2])
    if folded.over == "s":
        features[action, state, state] = 1.0
    elif folded.over == "sa":
        features[action, state, state * num_actions + action] = 1.0
    else:
        cells = features.reshape(num_actions, num_states, num_states, num_actions, num_states)
        cells[action, state, state, action] = mdp.transitions
    return features, np.zeros(shape[:2])
