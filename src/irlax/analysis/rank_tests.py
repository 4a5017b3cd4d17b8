"""Published rank conditions for identifiability, each as it stands in its paper."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
import scipy.sparse as sp

from irlax import checks
from irlax.mdp import MDP


class RankTest(eqx.Module):
    """A condition on the rank of a matrix, and whether it holds."""

    name: str = eqx.field(static=True)
    rank: int
    needed: int

    @property
    def passes(self) -> bool:
        """Whether the reward is identified up to what the paper says."""
        return self.rank >= self.needed

    def __bool__(self) -> bool:
        return self.passes


def cao_state_only(mdp: MDP) -> RankTest:
    """Cao, Cohen and Szpruch (2021): a state-only reward is identified up to a constant if the stacked
    T_a − T_a₀, over all actions a, have a null space of one dimension (the constants).
    """
    transitions = _transitions(mdp)
    differences = np.concatenate(
        [matrix - transitions[0] for matrix in transitions[1:]] or [np.zeros_like(transitions[0])]
    )
    return RankTest("Cao et al. 2021, state-only", int(np.linalg.matrix_rank(differences)), mdp.num_states - 1)


def cao_two_environments(first: MDP, second: MDP) -> RankTest:
    """Cao, Cohen and Szpruch (2021): r(s,a) is identified up to a constant from the policies in two environments
    (other transitions, or another γ) if rank [A₁ | −A₂] = 2|S| − 1, A_i stacking I − γ_i T_aⁱ over actions.
    """
    if (first.num_states, first.num_actions) != (second.num_states, second.num_actions):
        raise ValueError("The two environments must have the same states and actions.")
    blocks = []
    for mdp in (first, second):
        if not float(mdp.discount) < 1:
            raise ValueError("The rank condition for two environments needs discounts below 1.")
        eye = np.eye(mdp.num_states)
        blocks.append(np.concatenate([eye - float(mdp.discount) * matrix for matrix in _transitions(mdp)]))
    matrix = np.concatenate([blocks[0], -blocks[1]], axis=1)
    return RankTest("Cao et al. 2021, two environments", int(np.linalg.matrix_rank(matrix)), 2 * first.num_states - 1)


def rolland_experts(mdps: Sequence[MDP], features: Any = None) -> RankTest:
    """Rolland et al. (2022): a reward over (s,a), or one linear in features [S,A,K], from several experts who
    differ in dynamics or discount, is identified up to a constant if the joint system of their shaping
    equations, r = f_i(s) − γ_i E_i[f_i(S')] for all i, has only the constants as solutions.
    """
    if not mdps:
        raise ValueError("There are no experts.")
    num_states, num_actions = mdps[0].num_states, mdps[0].num_actions
    rows = num_states * num_actions
    eye = np.eye(num_states)
    shaping = [np.concatenate([eye - float(mdp.discount) * matrix for matrix in _transitions(mdp)]) for mdp in mdps]
    if features is None:
        columns = np.eye(rows)
    else:
        table = checks.as_floats("features", features)
        checks.has_shape("features", table, (num_states, num_actions, None), "(S, A, K)")
        columns = np.swapaxes(table, 0, 1).reshape(rows, -1)
    # Unknowns: the reward's parameters, then a potential for each expert; equations: one block for each expert.
    blocks = [
        [columns if j == 0 else (-shaping[i] if j == i + 1 else None) for j in range(len(mdps) + 1)]
        for i in range(len(mdps))
    ]
    system = sp.block_array([[None if b is None else sp.csr_array(b) for b in row] for row in blocks]).toarray()
    unknowns = system.shape[1]
    constant = np.linalg.lstsq(columns, np.ones(rows), rcond=None)[0]
    has_constant = np.abs(columns @ constant - 1).max() < 1e-9
    return RankTest("Rolland et al. 2022", int(np.linalg.matrix_rank(system)), unknowns - int(has_constant))


def kim_aperiodic(mdp: MDP) -> RankTest:
    """Kim et al. (2021): aperiodic, deterministic, strongly connected problems reveal a state-only reward.

    The time-dependent policies of a finite horizon that is long enough then do so up to a constant, and if the
    graph has a period they do not. One stationary policy reveals less: see `is_decomposable`.
    """
    from scipy.sparse.csgraph import connected_components  # takes long to import

    matrices = mdp.dynamics.to_scipy()
    if any(np.any((matrix.data > 0) & (matrix.data < 1 - 1e-12)) for matrix in matrices):
        raise ValueError("The condition of Kim et al. is about deterministic transitions.")
    edges = mdp.successor_graph()
    edges.eliminate_zeros()
    if connected_components(edges, connection="strong", return_labels=False) > 1:
        raise ValueError("The condition of Kim et al. is about strongly connected graphs, which this is not.")
    return RankTest("Kim et al. 2021, long finite horizon", int(_period(edges) == 1), 1)


def _period(edges: sp.csr_array) -> int:
    """The greatest common divisor of all cycle lengths of a strongly connected graph."""
    from scipy.sparse.csgraph import breadth_first_order

    order, before = breadth_first_order(edges, 0)
    level = np.zeros(len(edges.indptr) - 1, int)
    for state in order[1:]:
        level[state] = level[before[state]] + 1
    rows, columns = edges.nonzero()
    return int(np.gcd.reduce(np.abs(level[rows] + 1 - level[columns])))


def _transitions(mdp: MDP) -> list[np.ndarray]:
    if mdp.mask is not None:
        raise ValueError(
            "The published rank conditions assume that every action exists in every state. Use `identify`."
        )
    return [matrix.toarray() for matrix in mdp.dynamics.to_scipy()]
