"""Markov decision processes and their dynamics."""

from irlax.mdp.dynamics import AbstractDynamics, Dense, Deterministic, Successors
from irlax.mdp.mdp import MDP
from irlax.mdp.moves import Moves
from irlax.mdp.nature import Nature
from irlax.mdp.ragged import Ragged

__all__ = ["MDP", "AbstractDynamics", "Dense", "Deterministic", "Moves", "Nature", "Ragged", "Successors"]
