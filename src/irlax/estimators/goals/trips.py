r"""Demonstrations with goals, as the numbers that objectives are made of.

All three objectives of `MCEIRL` are of one form: minus $\sum_j n_j r_j + \sum_g \sum_s c_g(s) V_g(s)$, per episode,
with n the uses of options (a state with an action) and c sparse. For the likelihoods each choice j in s adds its weight
to $n_j$ and to $c(s') \mathrel{+}= \gamma P(s'|j)$, $c(s) \mathrel{-}= 1$; for feature matching only starts add to c.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from irlax.demos import Demonstrations
from irlax.mdp import MDP
from irlax.planning.goals import GoalPlanner, Needed
from irlax.planning.goals.options import Sparse
from irlax.typing import Float, Int


class Trips(NamedTuple):
    """Observed choices on the way to goals."""

    #: The distinct goals, and the index among them of the goal of each row.
    goals: Int[np.ndarray, " G"]
    goal: Int[np.ndarray, " n"]
    #: The state and the option of each row, and its weight.
    state: Int[np.ndarray, " n"]
    option: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    time: Int[np.ndarray, " n"]
    #: The first state, the index of the goal and the weight of each episode.
    start: Int[np.ndarray, " N"]
    start_goal: Int[np.ndarray, " N"]
    start_weight: Float[np.ndarray, " N"]

    @classmethod
    def of(cls, planner: GoalPlanner, mdp: MDP, demos: Demonstrations) -> "Trips":
        """Demonstrations that were checked, in an MDP."""
        assert demos.goals is not None
        goals, index = np.unique(demos.goals, return_inverse=True)
        option = planner.options.of_cells(mdp, demos.tabular_states, np.asarray(demos.actions))
        if (option < 0).any():
            row = int(np.argmax(option < 0))
            raise ValueError(
                f"In the demonstrations row {row} ({demos.where(row)}) is a choice in state "
                f"{demos.tabular_states[row]}, which no action leaves: the goal could not be reached any more."
            )
        return cls(
            goals,
            np.repeat(index, demos.lengths),
            demos.tabular_states,
            option,
            demos.choice_weights,
            demos.times,
            demos.start_states,
            index,
            demos.weights,
        )

    def distinct(self) -> tuple["Trips", Int[np.ndarray, " n"]]:
        """Each choice towards each goal once, with the weight of all its rows, and the index of the one of each row."""
        pairs, cell = np.unique(self.option * len(self.goals) + self.goal, return_inverse=True)
        option, goal = np.divmod(pairs, len(self.goals))
        first = np.empty(len(pairs), int)
        first[cell.ravel()] = np.arange(len(cell))
        weight = np.bincount(cell.ravel(), weights=self.weight, minlength=len(pairs))
        once = self._replace(
            goal=goal, state=self.state[first], option=option, weight=weight, time=np.zeros(len(pairs), int)
        )
        return once, cell.ravel()

    @property
    def total(self) -> float:
        """The number of episodes, by weight."""
        return float(self.start_weight.sum())

    def needed(self, transitions: Sparse) -> Needed:
        """The states whose values objectives and scores use: those of choices, and the next ones."""
        return needed_states(transitions, self.state, self.option, self.goal)

    def likelihood(self, transitions: Sparse, discount: float, *, discounted: bool) -> "Sums":
        """The sums of a likelihood: every choice counts once, or by γᵗ."""
        weight = self.weight * (discount**self.time if discounted else 1.0)
        uses = np.bincount(self.option, weights=weight, minlength=transitions.shape[0])
        shape = (transitions.shape[1], len(self.goals))
        leaving = sp.coo_array((-weight, (self.state, self.goal)), shape)
        ahead = transitions[self.option].tocoo()
        arriving = sp.coo_array((discount * weight[ahead.row] * ahead.data, (ahead.col, self.goal[ahead.row])), shape)
        return Sums(uses, _without_zeros(sp.csc_array(leaving) + sp.csc_array(arriving)), self.total)

    def matching(self, transitions: Sparse, discount: float) -> "Sums":
        """The sums of feature matching: discounted uses, and the starts of the model."""
        uses = np.bincount(self.option, weights=self.weight * discount**self.time, minlength=transitions.shape[0])
        shape = (transitions.shape[1], len(self.goals))
        starts = sp.csc_array(sp.coo_array((-self.start_weight, (self.start, self.start_goal)), shape))
        return Sums(uses, starts, self.total)


class Sums(NamedTuple):
    """The objective: minus (uses·r + Σ coefficients·V) / total."""

    uses: Float[np.ndarray, " J"]
    #: [S, G], sparse.
    coefficients: Sparse
    total: float


def needed_states(
    transitions: Sparse, state: Int[np.ndarray, " n"], option: Int[np.ndarray, " n"], goal: Int[np.ndarray, " n"]
) -> Needed:
    """Each state of a choice and each state that may follow, once for each goal."""
    ahead = transitions[option].tocoo()
    num_goals = int(goal.max()) + 1
    pairs = np.unique(np.concatenate([state * num_goals + goal, ahead.col * num_goals + goal[ahead.row]]))
    return Needed(pairs // num_goals, pairs % num_goals)


def _without_zeros(matrix: Sparse) -> Sparse:
    """Along a whole trip all terms but those of its start and its end cancel, up to rounding errors of weights."""
    largest = np.abs(matrix.data).max(initial=0.0)
    matrix.data[np.abs(matrix.data) < 1e-12 * largest] = 0.0
    matrix.eliminate_zeros()
    return matrix
