"""Markov decision processes and their dynamics."""

from irlax.mdp.dense import Dense
from irlax.mdp.dynamics import AbstractDynamics, Transitions
from irlax.mdp.labels import Labels
from irlax.mdp.links import Links
from irlax.mdp.mdp import MDP
from irlax.mdp.moves import Moves
from irlax.mdp.nature import Nature
from irlax.mdp.rows import OneRow, SeveralRows
from irlax.mdp.sparse import Deterministic, Successors

__all__ = [
    "MDP",
    "AbstractDynamics",
    "Dense",
    "Deterministic",
    "Labels",
    "Links",
    "Moves",
    "Nature",
    "OneRow",
    "SeveralRows",
    "Successors",
    "Transitions",
]
