"""Markov decision processes and their dynamics."""

from irlax.mdp.dense import Dense
from irlax.mdp.dynamics import AbstractDynamics, Transitions
from irlax.mdp.history import HistoryStates, with_history
from irlax.mdp.labels import Labels
from irlax.mdp.links import Links
from irlax.mdp.mdp import MDP
from irlax.mdp.memory import Memory
from irlax.mdp.moves import Moves
from irlax.mdp.nature import Nature
from irlax.mdp.rows import OneRow, SeveralRows
from irlax.mdp.shards import gathered, save_part
from irlax.mdp.sparse import Deterministic, Successors

__all__ = [
    "MDP",
    "AbstractDynamics",
    "Dense",
    "Deterministic",
    "HistoryStates",
    "Labels",
    "Links",
    "Memory",
    "Moves",
    "Nature",
    "OneRow",
    "SeveralRows",
    "Successors",
    "Transitions",
    "gathered",
    "save_part",
    "with_history",
]
