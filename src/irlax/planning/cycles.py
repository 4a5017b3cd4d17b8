"""Cycles in an undiscounted problem without a horizon: those of zero reward, and those that do not lose.

A set of states is an end component (de Alfaro 1997) if some of its actions never leave it and lead from each of its
states to every other. In one whose rewards are all zero an agent can stay for ever at no cost, and go from each of its
states to any other at no cost: all of them have the same value, which is at least 0. So it is merged into one state,
with all actions that leave it and one more that ends. In what is left each cycle must lose, or there is no best policy.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from irlax import checks
from irlax.mdp import MDP
from irlax.planning.backup import TIE_ROUNDING, HardBackup
from irlax.planning.chain import DENSE_LIMIT
from irlax.planning.fixed_point import fixed_point
from irlax.planning.improper import is_zero
from irlax.typing import Bool, Float, Int

#: In an MDP with this discount, cycles that do not lose at γ = 1 are optimal, or nearly.
NEARLY_ONE = 1 - 1e-6


class Actions(NamedTuple):
    """All actions outside of terminal states, listed."""

    states: Int[np.ndarray, " n"]
    rewards: Float[np.ndarray, " n"]
    #: P(s' | s, a), one row for each.
    leads: sp.csr_array
    num_states: int

    @classmethod
    def of(cls, backup: HardBackup) -> "Actions":
        """The actions that exist, by column and row of a table."""
        mdp, owner = backup.mdp, backup.mdp.state_of_row
        exists = np.asarray(mdp.available).T & ~np.asarray(mdp.terminal, bool)[owner]
        leads = sp.csr_array(sp.vstack(mdp.dynamics.to_scipy(), format="csr"))[exists.ravel()]
        leads.eliminate_zeros()
        return cls(
            np.broadcast_to(owner, exists.shape)[exists], np.asarray(backup.reward)[exists], leads, mdp.num_states
        )

    def end_components(self, allowed: Bool[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " S"], Bool[np.ndarray, " n"]]:
        """A number for each state, the same in one maximal end component, and the actions inside of one."""
        from scipy.sparse.csgraph import connected_components  # takes long to import

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


def merge_free_cycles(backup: HardBackup) -> tuple[HardBackup, Int[np.ndarray, " S"]]:
    """The same problem with each end component of zero reward as one state, which may end; and the new state of each.

    If there is none, the backup itself.
    """
    actions = Actions.of(backup)
    new_state, inside = actions.end_components(is_zero(actions.rewards))
    if not inside.any():
        return backup, np.arange(backup.mdp.num_states)
    return _merged(backup.mdp, actions, new_state, inside), new_state


def _merged(mdp: MDP, actions: Actions, new_state: Int[np.ndarray, " S"], inside: Bool[np.ndarray, " n"]) -> HardBackup:
    ends = new_state[np.asarray(mdp.terminal)]
    free = np.unique(new_state[actions.states[inside]])
    leads, states = actions.leads[~inside], new_state[actions.states[~inside]]
    width = max(int(np.diff(leads.indptr).max(initial=1)), 1)
    successors, probs = np.zeros((2, len(states), width))
    row = np.repeat(np.arange(len(states)), np.diff(leads.indptr))
    column = np.arange(leads.nnz) - leads.indptr[row]
    successors[row, column], probs[row, column] = new_state[leads.indices], leads.data
    # Terminal states stay where they are; a merged state may go to the first of them.
    for_certain = np.concatenate([ends, np.full(len(free), ends[0])])
    more = np.zeros((2, len(for_certain), width))
    more[0, :, 0], more[1, :, 0] = for_certain, 1
    states = np.concatenate([states, ends, free])
    rewards = np.pad(actions.rewards[~inside], (0, len(for_certain)))
    smaller = MDP.from_actions(
        states,
        np.concatenate([successors, more[0]]).astype(int),
        np.bincount(new_state, weights=np.asarray(mdp.initial)),
        discount=1,
        probs=np.concatenate([probs, more[1]]),
    )
    table = np.zeros(smaller.table_shape, rewards.dtype)
    table[smaller.cells(states)] = rewards
    narrow = np.asarray(mdp.initial).dtype == np.float32
    return HardBackup(smaller.single_precision() if narrow else smaller, table.T)


def refuse_cycles(backup: HardBackup, new_state: Int[np.ndarray, " S"], value: Float[np.ndarray, " C"]) -> None:
    """A ValueError if some cycle does not lose, given `value`, which solves the problem."""
    found = _tied(Actions.of(backup), value, 0.0)
    if found.any():
        raise ValueError(_no_best_policy(found[new_state]))


def unbounded_message(backup: HardBackup, new_state: Int[np.ndarray, " S"]) -> str:
    """The error message of a problem without a solution."""
    return _no_best_policy(_in_cycles_that_do_not_lose(backup, Actions.of(backup))[new_state])


def _no_best_policy(states: Bool[np.ndarray, " S"]) -> str:
    where = f" through states {checks.places(states)}" if states.any() else ""
    return (
        f"There is no best policy: at discount = 1 with no horizon, a cycle{where} earns what it costs, or more, so "
        f"that the total reward has no limit or grows without bound. Lower the rewards, give a horizon, or discount."
    )


def _tied(actions: Actions, value: Float[np.ndarray, " C"], slack: float, discount: float = 1.0) -> np.ndarray:
    """The states of end components in which every action is among the best."""
    q = actions.rewards + discount * (actions.leads @ value)
    rounding = TIE_ROUNDING * np.finfo(value.dtype).eps * np.abs(value).max()
    _, inside = actions.end_components(q >= value[actions.states] - rounding - slack)
    return np.isin(np.arange(len(value)), actions.states[inside])


def _in_cycles_that_do_not_lose(backup: HardBackup, actions: Actions) -> np.ndarray:
    """The states of cycles that do not lose, found in the same problem with a discount near 1; none if it is large."""
    if backup.mdp.num_states > DENSE_LIMIT:
        return np.zeros(backup.mdp.num_states, bool)
    near = HardBackup(backup.mdp.replace(discount=NEARLY_ONE), backup.reward)
    value = np.asarray(fixed_point(near, 1e-4, "newton").value)
    found = _tied(actions, value, 0.0, NEARLY_ONE)
    # With a discount a cycle that earns what it costs loses a little, unless what it earns comes first.
    return found if found.any() else _tied(actions, value, 10 * (1 - NEARLY_ONE) * np.abs(value).max(), NEARLY_ONE)
