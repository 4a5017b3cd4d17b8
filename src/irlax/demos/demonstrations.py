"""Demonstrations: ragged episodes, stored flat."""

from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.typing import Bool, Float, Int, Shaped


class Demonstrations(eqx.Module):
    """Episodes of states and actions, one after the other in flat arrays.

    Row i of `states`, `actions` and `times` is one observed choice; episode k owns the rows
    ``offsets[k]:offsets[k + 1]``. `times` is the index t of the choice from the start of its episode.

    An episode is `terminated` if its last action led into an absorbing state, which follows for ever, with
    its own reward. Otherwise it is truncated: nobody looked further.

    Tabular demonstrations have integer `states`; those from continuous environments have `observations`.
    `rewards` are the true ones where they are known; nothing is ever learned from them.
    """

    actions: Shaped[np.ndarray, "n ..."]
    offsets: Int[np.ndarray, " N+1"]
    terminated: Bool[np.ndarray, " N"]
    times: Int[np.ndarray, " n"]
    weights: Float[np.ndarray, " N"]
    states: Int[np.ndarray, " n"] | None = None
    next_states: Int[np.ndarray, " n"] | None = None
    observations: Float[np.ndarray, "n ..."] | None = None
    next_observations: Float[np.ndarray, "n ..."] | None = None
    rewards: Float[np.ndarray, " n"] | None = None
    #: What the user calls each episode or individual, for messages and for clustering.
    labels: Shaped[np.ndarray, " N"] | None = None

    @classmethod
    def from_arrays(
        cls,
        states: Any,
        actions: Any,
        *,
        lengths: Any = None,
        next_states: Any = None,
        terminated: Any = False,
        weights: Any = None,
    ) -> "Demonstrations":
        """From arrays [N, L], of which row k is an episode, as long as `lengths[k]` says (default: all of L).

        `terminated` is one truth for all episodes or one for each; `weights` counts an episode as often.
        """
        states, actions = checks.as_integers("states", states), checks.as_integers("actions", actions)
        if states.ndim != 2:
            raise ValueError(f"`states` must have shape (N, L), an episode a row, but has {states.shape}.")
        checks.has_shape("actions", actions, states.shape, "(N, L), as `states`")
        num, longest = states.shape
        lengths = np.full(num, longest) if lengths is None else checks.as_integers("lengths", lengths)
        checks.has_shape("lengths", lengths, (num,), "(N,)")
        checks.in_range("lengths", lengths, longest + 1, "steps")
        seen = np.arange(longest) < lengths[:, None]
        if next_states is not None:
            next_states = checks.as_integers("next_states", next_states)
            checks.has_shape("next_states", next_states, states.shape, "(N, L), as `states`")
            next_states = next_states[seen]
        return from_rows(
            states[seen],
            actions[seen],
            lengths,
            times=np.broadcast_to(np.arange(longest), states.shape)[seen],
            next_states=next_states,
            terminated=terminated,
            weights=weights,
        )

    @classmethod
    def from_episodes(
        cls, episodes: Iterable[tuple[Any, Any]], *, terminated: Any = False, weights: Any = None
    ) -> "Demonstrations":
        """From (states, actions) pairs. An episode may end with one more state than actions."""
        all_states, all_actions, all_next = [], [], []
        for k, pair in enumerate(episodes):
            states = checks.as_integers(f"states of episode {k}", pair[0])
            actions = checks.as_integers(f"actions of episode {k}", pair[1])
            extra = len(states) - len(actions)
            if states.ndim != 1 or actions.ndim != 1 or extra not in (0, 1):
                raise ValueError(
                    f"Episode {k} must have as many states as actions, or one more, but has "
                    f"{states.shape} states and {actions.shape} actions."
                )
            all_states.append(states[: len(actions)])
            all_actions.append(actions)
            all_next.append(states[1:] if extra else None)
        if not all_states:
            raise ValueError("There are no episodes.")
        known = all(after is not None for after in all_next)
        return from_rows(
            np.concatenate(all_states),
            np.concatenate(all_actions),
            np.array([len(actions) for actions in all_actions]),
            next_states=np.concatenate(all_next) if known else None,
            terminated=terminated,
            weights=weights,
        )

    @property
    def num_episodes(self) -> int:
        """N."""
        return len(self.offsets) - 1

    @property
    def num_steps(self) -> int:
        """Observed choices of all episodes together."""
        return len(self.actions)

    @property
    def lengths(self) -> Int[np.ndarray, " N"]:
        """Observed choices of each episode."""
        return np.diff(self.offsets)

    @property
    def episode(self) -> Int[np.ndarray, " n"]:
        """The episode of each row."""
        return np.repeat(np.arange(self.num_episodes), self.lengths)

    @property
    def returns(self) -> Float[np.ndarray, " N"]:
        """The undiscounted sum of each episode's true rewards."""
        if self.rewards is None:
            raise ValueError("These demonstrations carry no rewards, so their returns are unknown.")
        return np.bincount(self.episode, weights=self.rewards, minlength=self.num_episodes)

    @property
    def start_states(self) -> Int[np.ndarray, " N"]:
        """The first observed state of each episode."""
        return self.tabular_states[self.offsets[:-1]]

    @property
    def tabular_states(self) -> Int[np.ndarray, " n"]:
        """`states`, or an error for demonstrations that have none."""
        if self.states is None:
            raise TypeError("These demonstrations have observations, not the integer states of a tabular MDP.")
        return self.states

    def select(self, episodes: Sequence[int] | np.ndarray) -> "Demonstrations":
        """The given episodes, in the given order; one named twice is there twice."""
        episodes = np.asarray(episodes)
        if episodes.dtype == bool:
            episodes = np.flatnonzero(episodes)
        checks.in_range("episodes", episodes, self.num_episodes, "episodes")
        lengths = self.lengths[episodes]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[episodes] - offsets[:-1], lengths)

        def pick(array: Any, index: np.ndarray) -> Any:
            return None if array is None else array[index]

        return Demonstrations(
            actions=self.actions[rows],
            offsets=offsets,
            terminated=self.terminated[episodes],
            times=self.times[rows],
            weights=self.weights[episodes],
            states=pick(self.states, rows),
            next_states=pick(self.next_states, rows),
            observations=pick(self.observations, rows),
            next_observations=pick(self.next_observations, rows),
            rewards=pick(self.rewards, rows),
            labels=pick(self.labels, episodes),
        )

    def check(self, mdp: MDP) -> None:
        """Raise a ValueError unless every row is possible in `mdp`."""
        states = self.tabular_states
        self._refuse(states >= mdp.num_states, states, f"state must lie in 0..{mdp.num_states - 1}")
        self._refuse(self.actions >= mdp.num_actions, self.actions, f"action must lie in 0..{mdp.num_actions - 1}")
        if mdp.mask is not None:
            absent = ~np.asarray(mdp.mask)[self.actions, states]
            self._refuse(absent, self.actions, "action must be available in its state")
        if mdp.horizon is not None:
            self._refuse(self.times >= mdp.horizon, self.times, f"time must lie below the horizon {mdp.horizon}")
        if self.next_states is not None:
            outside = self.next_states >= mdp.num_states
            self._refuse(outside, self.next_states, f"next state must lie in 0..{mdp.num_states - 1}")
        self._refuse_impossible_moves(mdp)

    def _refuse(self, bad: np.ndarray, values: np.ndarray, rule: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(
                f"In the demonstrations the {rule}, but row {row} ({self.where(row)}) has {values[row]}"
                + (f", and so have {int(bad.sum()) - 1} more rows." if bad.sum() > 1 else ".")
            )

    def _refuse_impossible_moves(self, mdp: MDP) -> None:
        rows, after = self.moves()
        if not len(rows):
            return
        before = self.tabular_states[rows]
        with scope():
            likely = np.asarray(mdp.dynamics.probability(before, self.actions[rows], after))
        if (likely <= 0).any():
            worst = int(np.argmax(likely <= 0))
            row = int(rows[worst])
            raise ValueError(
                f"In the demonstrations row {row} ({self.where(row)}) moves from state {before[worst]} by action "
                f"{self.actions[row]} to state {after[worst]}, which has probability 0 in the MDP"
                + (f"; {int((likely <= 0).sum()) - 1} more rows do the like." if (likely <= 0).sum() > 1 else ".")
            )

    def moves(self) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
        """The rows whose next state is known, and that state: given, or the next row's if it is one step later."""
        states = self.tabular_states
        if self.next_states is not None:
            return np.arange(self.num_steps), self.next_states
        follows = np.zeros(self.num_steps, bool)
        follows[:-1] = (np.diff(self.episode) == 0) & (np.diff(self.times) == 1)
        rows = np.flatnonzero(follows)
        return rows, states[rows + 1]

    def where(self, row: int) -> str:
        """How to name a row in a message."""
        k = int(np.searchsorted(self.offsets, row, side="right")) - 1
        name = k if self.labels is None else self.labels[k]
        return f"episode {name}, t = {self.times[row]}"


def from_rows(
    states: Int[np.ndarray, " n"],
    actions: Int[np.ndarray, " n"],
    lengths: Int[np.ndarray, " N"],
    *,
    times: Int[np.ndarray, " n"] | None = None,
    next_states: Int[np.ndarray, " n"] | None = None,
    terminated: Any = False,
    weights: Any = None,
    labels: np.ndarray | None = None,
) -> Demonstrations:
    """Tabular demonstrations from flat rows, checked for what can be wrong without an MDP."""
    lengths = np.asarray(lengths, np.int64)
    if not len(lengths):
        raise ValueError("There are no episodes.")
    if (lengths < 1).any():
        raise ValueError(f"Every episode needs at least one step, but episodes {checks.places(lengths < 1)} have none.")
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    clock = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths) if times is None else times
    for name, array in (
        ("states", states),
        ("actions", actions),
        ("times", clock),
        ("next_states", next_states),
    ):
        if array is not None and (array < 0).any():
            raise ValueError(f"`{name}` must not be negative, but is at rows {checks.places(array < 0)}.")
    terminated = np.asarray(terminated)
    if terminated.dtype != bool:
        raise TypeError(f"`terminated` must be true or false for each episode, but has dtype {terminated.dtype}.")
    if terminated.shape not in ((), lengths.shape):
        raise ValueError(
            f"`terminated` must be one truth or one per episode, {lengths.shape}, but is {terminated.shape}."
        )
    if weights is None:
        weights = np.ones(len(lengths))
    weights = checks.as_floats("weights", weights)
    checks.has_shape("weights", weights, lengths.shape, "(N,)")
    checks.finite("weights", weights)
    if (weights < 0).any() or weights.sum() <= 0:
        raise ValueError("`weights` must not be negative, and not all of them zero.")
    return Demonstrations(
        actions=actions.astype(np.int64),
        offsets=offsets,
        terminated=np.broadcast_to(terminated, lengths.shape).copy(),
        times=clock.astype(np.int64),
        weights=weights,
        states=states.astype(np.int64),
        next_states=None if next_states is None else next_states.astype(np.int64),
        labels=labels,
    )
