"""Going round in circles in an undiscounted problem without a horizon: where it costs nothing, and where it pays.

A set of states that some of its actions keep to, and lead all around in, is an end component (de Alfaro 1997). In one
whose rewards are all zero one can stay for ever for nothing, and go from each of its states to any other for nothing:
all of them are worth the same, and not less than 0. So it is made one state, with all actions that leave it and one
more that ends. In what is left circles must lose, or there is no best policy.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from irlax import checks
from irlax.mdp import MDP
from irlax.planning.backup import TIE_ROUNDING, HardBackup
from irlax.planning.chain import DENSE_LIMIT
from irlax.planning.endless import is_nothing
from irlax.planning.fixed_point import fixed_point
from irlax.typing import Bool, Float, Int

#: In an MDP with this discount circles that do not lose are worth going round in, or nearly.
NEARLY_ONE = 1 - 1e-6


class Actions(NamedTuple):
    """All actions before the end, listed."""

    states: Int[np.ndarray, " n"]
    rewards: Float[np.ndarray, " n"]
    #: P(s' | s, a), one row for each.
    leads: sp.csr_array
    num_states: int

    @classmethod
    def of(cls, backup: HardBackup) -> "Actions":
        """The actions that exist, by column and row of a table."""
        mdp, owner = backup.mdp, backup.mdp.state_of_row
        goes_on = ~np.asarray(mdp.terminal, bool)[owner]
        exists = np.asarray(mdp.available).T & goes_on
        leads = sp.csr_array(sp.vstack(mdp.dynamics.to_scipy(), format="csr"))[exists.ravel()]
        leads.eliminate_zeros()
        return cls(
            np.broadcast_to(owner, exists.shape)[exists], np.asarray(backup.reward)[exists], leads, mdp.num_states
        )

    def end_components(self, allowed: Bool[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " S"], Bool[np.ndarray, " n"]]:
        """A number for each state, the same in one maximal end component, and the actions inside of one."""
        inside = allowed.copy()
        action, after = self.leads.nonzero()
        while True:
            kept = inside[action]
            edges = (np.ones(kept.sum()), (self.states[action[kept]], after[kept]))
            graph = sp.csr_array(sp.coo_array(edges, shape=(self.num_states, self.num_states)))
            component = connected_components(graph, directed=True, connection="strong")[1]
            leaving = kept & (component[self.states[action]] != component[after])
            if not leaving.any():
                return component, inside
            inside[action[leaving]] = False


def without_free_circles(backup: HardBackup) -> tuple[HardBackup, Int[np.ndarray, " S"]]:
    """The same problem with each free circle as one state, which may end; and in which of its states each state is."""
    actions = Actions.of(backup)
    place, inside = actions.end_components(is_nothing(actions.rewards))
    if not inside.any():
        return backup, np.arange(backup.mdp.num_states)
    return _collapsed(backup.mdp, actions, place, inside), place


def _collapsed(mdp: MDP, actions: Actions, place: Int[np.ndarray, " S"], inside: Bool[np.ndarray, " n"]) -> HardBackup:
    ends = place[np.asarray(mdp.terminal)]
    free = np.unique(place[actions.states[inside]])
    leads, states = actions.leads[~inside], place[actions.states[~inside]]
    width = max(int(np.diff(leads.indptr).max(initial=1)), 1)
    successors, probs = np.zeros((2, len(states), width))
    row = np.repeat(np.arange(len(states)), np.diff(leads.indptr))
    column = np.arange(leads.nnz) - leads.indptr[row]
    successors[row, column], probs[row, column] = place[leads.indices], leads.data
    # The ends, and the end that follows on a free circle.
    for_certain = np.concatenate([ends, np.full(len(free), ends[0])])
    more = np.zeros((2, len(for_certain), width))
    more[0, :, 0], more[1, :, 0] = for_certain, 1
    states = np.concatenate([states, ends, free])
    rewards = np.pad(actions.rewards[~inside], (0, len(for_certain)))
    smaller = MDP.from_actions(
        states,
        np.concatenate([successors, more[0]]).astype(int),
        np.bincount(place, weights=np.asarray(mdp.initial)),
        discount=1,
        probs=np.concatenate([probs, more[1]]),
    )
    table = np.zeros(smaller.table_shape, rewards.dtype)
    table[smaller.cells(states)] = rewards
    narrow = np.asarray(mdp.initial).dtype == np.float32
    return HardBackup(smaller.single_precision() if narrow else smaller, table.T)


def refuse_circles(backup: HardBackup, place: Int[np.ndarray, " S"], value: Float[np.ndarray, " C"]) -> None:
    """A ValueError if `value`, which solves the problem, does not lose by going round in some circle."""
    found = _tied(Actions.of(backup), value, 0.0)
    if found.any():
        raise ValueError(_no_best_policy(found[place]))


def why_unbounded(backup: HardBackup, place: Int[np.ndarray, " S"]) -> str:
    """The error message of a problem without a solution."""
    return _no_best_policy(_worthwhile(backup, Actions.of(backup))[place])


def _no_best_policy(states: Bool[np.ndarray, " S"]) -> str:
    where = f" through states {checks.places(states)}" if states.any() else ""
    return (
        f"There is no best policy: at discount = 1 with no horizon, going round in circles{where} earns what it costs, "
        f"or more, so that the total reward has no limit or grows without bound. Lower the rewards, give a horizon, or "
        f"discount."
    )


def _tied(actions: Actions, value: Float[np.ndarray, " C"], slack: float, discount: float = 1.0) -> np.ndarray:
    """The states of end components in which every action is among the best."""
    q = actions.rewards + discount * (actions.leads @ value)
    rounding = TIE_ROUNDING * np.finfo(value.dtype).eps * np.abs(value).max()
    _, inside = actions.end_components(q >= value[actions.states] - rounding - slack)
    return np.isin(np.arange(len(value)), actions.states[inside])


def _worthwhile(backup: HardBackup, actions: Actions) -> np.ndarray:
    """The states of circles that do not lose, by a look at the same problem with a discount near 1."""
    if backup.mdp.num_states > DENSE_LIMIT:
        return np.zeros(backup.mdp.num_states, bool)
    near = HardBackup(backup.mdp.replace(discount=NEARLY_ONE), backup.reward)
    value = np.asarray(fixed_point(near, 1e-4, "newton").value)
    paying = _tied(actions, value, 0.0, NEARLY_ONE)
    # With a discount a circle that earns what it costs loses a little, unless what it earns comes first.
    return paying if paying.any() else _tied(actions, value, 10 * (1 - NEARLY_ONE) * np.abs(value).max(), NEARLY_ONE)
