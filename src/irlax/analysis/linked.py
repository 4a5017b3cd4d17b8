"""Linked states and decomposability: when a policy identifies a state-only reward. Primer, 4.4.5."""

import numpy as np
import scipy.sparse as sp

from irlax import checks
from irlax.mdp import MDP
from irlax.typing import Bool, Int

#: Pairwise answers are kept as an S × S array; above this many states that is refused.
PAIRWISE = 5000


def linked_components(mdp: MDP) -> Int[np.ndarray, " S"]:
    """The component of each state: two states have the same number if and only if they are linked.

    States are 1-step linked if one state can be followed by both (by available actions, with positive
    probability), and linked if a chain of such links joins them. Sparse, so millions of states are fine.
    """
    from scipy.sparse.csgraph import connected_components  # takes long to import

    followed_by = _successors(mdp)
    size = mdp.num_states
    # A hub for each state joins all states that can follow it: for connectivity a star is as good as a clique.
    hubs = sp.block_array([[None, followed_by], [followed_by.T, None]], format="csr")
    _, label = connected_components(hubs, directed=False)
    _, component = np.unique(label[size:], return_inverse=True)
    return component


def is_decomposable(mdp: MDP) -> bool:
    """Whether all pairs of states are linked. Primer, Definition 4.3."""
    return bool(linked_components(mdp).max(initial=0) == 0)


def linked(mdp: MDP, steps: int = 1) -> Bool[np.ndarray, "S S"]:
    """Which pairs of states are n-step linked, for n = `steps`; for small problems.

    A state is linked to itself if anything leads to it.
    """
    from scipy.sparse.csgraph import shortest_path

    checks.count("steps", steps)
    if mdp.num_states > PAIRWISE:
        raise ValueError(f"`linked` returns S × S pairs; with {mdp.num_states} states use `linked_components`.")
    followed_by = _successors(mdp).astype(float)
    one_step = (followed_by.T @ followed_by).toarray() > 0
    distance = shortest_path(sp.csr_array(one_step), unweighted=True, directed=False)
    np.fill_diagonal(distance, np.where(np.diag(one_step), 1, np.inf))
    return distance <= steps


def _successors(mdp: MDP) -> sp.csr_array:
    """[s, u] is nonzero if some available action can lead from s to u."""
    return sp.csr_array(mdp.successor_graph() != 0)
