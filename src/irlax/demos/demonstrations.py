"""Demonstrations: ragged episodes, stored flat."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.demos.columns import LARGEST
from irlax.mdp import MDP
from irlax.tables import Summary
from irlax.typing import Bool, Float, Int, Shaped

if TYPE_CHECKING:
    import pandas as pd

    from irlax.demos.trajectories import Trajectory


class Demonstrations(eqx.Module):
    """Episodes of states and actions, one after the other in flat arrays.

    Row i of `states`, `actions` and `times` is one observed choice; episode k owns the rows
    ``offsets[k]:offsets[k + 1]``. `times` is the index t of the choice from the start of its episode.

    An episode is `terminated` if its last action led into an absorbing state, which follows for ever, with
    its own reward. Otherwise it is truncated: what follows was not observed.

    Tabular demonstrations have integer `states`; those from continuous environments have `observations`.
    `rewards` are the true ones where they are known; nothing is ever learned from them.

    With `goals` every episode ends at a goal of its own, a state in which nothing more is earned or chosen.

    An episode counts as often as its entry of `weights` says, and each of its rows as often as `row_weights` says, if
    there are any: a row of weight 0 was observed, but its choice is not learned from.
    """

    actions: Shaped[np.ndarray, "n ..."]
    terminated: Bool[np.ndarray, " N"]
    offsets: Int[np.ndarray, " N+1"]
    times: Int[np.ndarray, " n"]
    weights: Float[np.ndarray, " N"]
    states: Int[np.ndarray, " n"] | None = None
    next_states: Int[np.ndarray, " n"] | None = None
    observations: Float[np.ndarray, "n ..."] | None = None
    next_observations: Float[np.ndarray, "n ..."] | None = None
    rewards: Float[np.ndarray, " n"] | None = None
    #: The user's name of each episode or individual, for messages and for clustering.
    labels: Shaped[np.ndarray, " N"] | None = None
    #: The state at which each episode ends, if episodes have goals of their own.
    goals: Int[np.ndarray, " N"] | None = None
    #: How often each row counts within its episode; None if all count once.
    row_weights: Float[np.ndarray, " n"] | None = None

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

        `next_states[k, t]` must be `states[k, t + 1]`, and says where the last action led too. `terminated` is one
        boolean for all episodes or one for each; an episode of weight w counts as w episodes.
        """
        from irlax.demos.arrays import from_arrays

        return from_arrays(
            states, actions, lengths=lengths, next_states=next_states, terminated=terminated, weights=weights
        )

    @classmethod
    def from_episodes(
        cls, episodes: Iterable[tuple[Any, Any]], *, terminated: Any = False, weights: Any = None
    ) -> "Demonstrations":
        """From (states, actions) pairs. An episode may end with one more state than actions."""
        from irlax.demos.arrays import from_episodes

        return from_episodes(episodes, terminated, weights)

    @classmethod
    def from_frame(
        cls,
        df: Any,
        *,
        episode: str,
        time: str,
        state: str,
        action: str,
        next_state: str | None = None,
        terminated: str | None = None,
        weight: str | None = None,
        goal: str | None = None,
        row_weight: str | None = None,
    ) -> "Demonstrations":
        """From a pandas frame with a row for each observed choice, in any order.

        The arguments name its columns. `episode` holds whole numbers or text, kept in `labels`, by which the
        episodes are ordered. `time` is the index t of the step from the start of its episode, from 0 on;
        gaps and late starts are kept. `next_state` is that of the next row wherever that is one step later.
        `terminated` is true on the last row of an episode only, or on all of its rows; without it every episode is
        truncated. `weight` is the same on all rows of an episode, and so is `goal`, the state at which it ends;
        `row_weight` is of each row.

            df = pandas.DataFrame({"id": ["ann", "ann", "bob"], "t": [0, 1, 0], "s": [2, 0, 1], "a": [1, 0, 0]})
            demos = Demonstrations.from_frame(df, episode="id", time="t", state="s", action="a")
        """
        from irlax.demos.frames import from_frame
        from irlax.demos.panel import Columns

        names = Columns(episode, time, state, action, next_state, terminated, weight, goal, row_weight)
        return from_frame(df, names)

    @classmethod
    def from_observations(cls, episodes: Iterable[Any], *, terminated: Any = False) -> "Demonstrations":
        """From states alone: arrays [T + 1, obs] of the observations of each episode, the last one included.

        Which actions were taken is not known: `actions` has no columns, and `has_actions` is False. Rewards over the
        state, or over the state and the next, are learned from them (see `RewardNet.over`).
        """
        from irlax.demos.arrays import from_observations

        return from_observations(episodes, terminated)

    @classmethod
    def from_trajectories(cls, trajectories: Iterable[Any]) -> "Demonstrations":
        """From objects shaped like imitation's `Trajectory`: `obs`, one longer than `acts`, and `terminal`.

        Integer `obs` are the states of a tabular MDP, floats are observations. `rews` are kept if all have them.
        """
        from irlax.demos.trajectories import from_trajectories

        return from_trajectories(trajectories)

    def to_frame(self) -> "pd.DataFrame":
        """As a frame: episode, t, state, action; next_state, terminated, weight, goal, row_weight, reward if any."""
        from irlax.demos.frames import to_frame

        return to_frame(self)

    def to_trajectories(self) -> "list[Trajectory]":
        """One object with the attributes of imitation's `Trajectory` for each episode."""
        from irlax.demos.trajectories import to_trajectories

        return to_trajectories(self)

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
    def choice_weights(self) -> Float[np.ndarray, " n"]:
        """How often each row counts: the weight of its episode times its own."""
        weights = np.repeat(self.weights, self.lengths)
        return weights if self.row_weights is None else weights * self.row_weights

    @property
    def has_actions(self) -> bool:
        """Whether actions were observed, and not the states alone."""
        return self.actions.shape[1:] != (0,)

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
    def first_times(self) -> Int[np.ndarray, " N"]:
        """The time of the first observed choice of each episode."""
        return self.times[self.offsets[:-1]]

    @property
    def tabular_states(self) -> Int[np.ndarray, " n"]:
        """`states`, or an error for demonstrations that have none."""
        if self.states is None:
            raise TypeError("These demonstrations have observations, not the integer states of a tabular MDP.")
        return self.states

    def select(self, episodes: Sequence[int] | np.ndarray) -> "Demonstrations":
        """The given episodes, in the given order; one that is given twice appears twice."""
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
            goals=pick(self.goals, episodes),
            row_weights=pick(self.row_weights, rows),
        )

    def with_row_weights(self, row_weights: Any) -> "Demonstrations":
        """The same demonstrations, in which each row counts as often as its weight says."""
        weights = checks.as_floats("row_weights", row_weights)
        return dataclasses.replace(self, row_weights=_checked_row_weights(weights, self.num_steps))

    def summary(self) -> Summary:
        """Episodes, choices, lengths, ends and weights, as a table."""
        from irlax.demos.overview import summary

        return summary(self)

    def plot(
        self, mdp: MDP | None = None, *, by: Literal["visits", "paths"] = "visits", title: str = "", ax: Any = None
    ) -> Any:
        """Where the choices were observed, as a matplotlib figure: on the grid or the map of `mdp`, else as bars.

        "visits" counts the observed choices in each state, by weight; "paths" draws the first 100 episodes as lines,
        each moved a little aside so that they do not cover each other, from a dot on. With `ax` it is drawn on these
        axes, which are returned.
        """
        from irlax.demos.drawing import demos_picture

        return demos_picture(self, mdp, by=by, title=title, ax=ax)

    def __repr__(self) -> str:
        from irlax.demos.overview import text

        return text(self)

    def _repr_html_(self) -> str:
        from irlax.demos.overview import as_html

        return as_html(self)

    def check(self, mdp: MDP) -> None:
        """Raise a ValueError unless every row is possible in `mdp`."""
        from irlax.demos.possible import check

        check(self, mdp)

    def moves(self) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
        """The rows whose next state is known, and that state: given, or the next row's if it is one step later."""
        states = self.tabular_states
        if self.next_states is not None:
            return np.arange(self.num_steps), self.next_states
        rows = self.followed
        return rows, states[rows + 1]

    @property
    def followed(self) -> Int[np.ndarray, " m"]:
        """The rows whose next row is of the same episode, and one step of time later."""
        return np.flatnonzero((np.diff(self.episode) == 0) & (np.diff(self.times) == 1))

    def where(self, row: int) -> str:
        """How to name a row in a message."""
        k = int(np.searchsorted(self.offsets, row, side="right")) - 1
        name = k if self.labels is None else self.labels[k]
        return f"episode {name}, t = {self.times[row]}"


def from_rows(
    states: Int[np.ndarray, " n"] | None,
    actions: Shaped[np.ndarray, "n ..."],
    lengths: Int[np.ndarray, " N"],
    *,
    times: Int[np.ndarray, " n"] | None = None,
    next_states: Int[np.ndarray, " n"] | None = None,
    terminated: Any = False,
    weights: Any = None,
    labels: np.ndarray | None = None,
    goals: Any = None,
    row_weights: Any = None,
    **more: Any,
) -> Demonstrations:
    """Demonstrations from flat rows, checked for what can be wrong without an MDP.

    `more` are the other fields (observations, next_observations, rewards), taken as they are: next observations are
    not compared with those of the next row, because floats may differ by rounding.
    """
    lengths = np.asarray(lengths, np.int64)
    if not len(lengths):
        raise ValueError("There are no episodes.")
    if (lengths < 1).any():
        raise ValueError(f"Every episode needs at least one step, but episodes {checks.places(lengths < 1)} have none.")
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    clock = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    demos = Demonstrations(
        actions=_from_zero("actions", actions) if actions.dtype.kind in "iu" else actions,
        offsets=offsets,
        terminated=_checked_terminated(terminated, lengths),
        times=clock if times is None else _increasing(_from_zero("times", times), clock),
        weights=np.ones(len(lengths)) if weights is None else _checked_weights(weights, lengths),
        states=None if states is None else _from_zero("states", states),
        next_states=None if next_states is None else _from_zero("next_states", next_states),
        labels=labels,
        goals=None if goals is None else _checked_goals(goals, lengths),
        row_weights=None if row_weights is None else _checked_row_weights(row_weights, len(clock)),
        **more,
    )
    _refuse_contradictions(demos)
    return demos


def _refuse_contradictions(demos: Demonstrations) -> None:
    """A ValueError where the next state of a row is not the state of the row that follows it."""
    if demos.states is None or demos.next_states is None:
        return
    rows = demos.followed
    wrong = demos.next_states[rows] != demos.states[rows + 1]
    if wrong.any():
        row = int(rows[np.argmax(wrong)])
        raise ValueError(
            f"`next_states` must be the state of the next row where that is one step later in the same episode, but "
            f"row {row} ({demos.where(row)}) leads to state {demos.next_states[row]}, and row {row + 1} is in state "
            f"{demos.states[row + 1]}. Correct one of them, or leave `next_states` out."
        )


def _from_zero(name: str, array: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    # After the conversion, in which unsigned integers that are too large turn negative.
    array = array.astype(np.int64)
    if (array < 0).any():
        raise ValueError(f"`{name}` must not be negative, but is at rows {checks.places(array < 0)}.")
    if (array > LARGEST).any():
        raise ValueError(f"`{name}` must not exceed 2⁶², but does at rows {checks.places(array > LARGEST)}.")
    return array


def _increasing(times: Int[np.ndarray, " n"], clock: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    stuck = (np.diff(times) <= 0) & (clock[1:] > 0)
    if stuck.any():
        raise ValueError(
            f"`times` must increase within an episode, but does not from rows {checks.places(stuck)} to the next."
        )
    return times


def _checked_terminated(terminated: Any, lengths: Int[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    terminated = np.asarray(terminated)
    if terminated.dtype != bool:
        raise TypeError(f"`terminated` must be true or false for each episode, but has dtype {terminated.dtype}.")
    if terminated.shape not in ((), lengths.shape):
        raise ValueError(
            f"`terminated` must be one boolean or one per episode, {lengths.shape}, but is {terminated.shape}."
        )
    return np.broadcast_to(terminated, lengths.shape).copy()


def _checked_goals(goals: Any, lengths: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    goals = checks.as_integers("goals", goals).astype(np.int64)
    checks.has_shape("goals", goals, lengths.shape, "(N,), one for each episode")
    if (goals < 0).any():
        raise ValueError(f"`goals` must not be negative, but is in episodes {checks.places(goals < 0)}.")
    return goals


def _checked_weights(weights: Any, lengths: Int[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    weights = checks.as_floats("weights", weights)
    checks.has_shape("weights", weights, lengths.shape, "(N,)")
    checks.finite("weights", weights)
    if (weights < 0).any() or not weights.any():
        raise ValueError("`weights` must not be negative, and not all of them zero.")
    with np.errstate(over="ignore"):
        if not np.isfinite(weights @ lengths):
            raise ValueError(
                f"`weights` must have a finite sum over all steps, but the largest is {weights.max():.3g}."
            )
    return weights


def _checked_row_weights(weights: Any, num_rows: int) -> Float[np.ndarray, " n"]:
    weights = checks.as_floats("row_weights", weights)
    checks.has_shape("row_weights", weights, (num_rows,), "(n,), one for each row")
    checks.finite("row_weights", weights)
    if (weights < 0).any() or not weights.any():
        raise ValueError("`row_weights` must not be negative, and not all of them zero.")
    return weights
