"""Counting over the rows of a sorted table that may come in pieces."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from irlax.demos.panel import Steps
from irlax.typing import Bool, Float, Int

#: Episodes of which the endings are kept apart before those that are alike are added up.
_PENDING = 2**20
_KEYS = ("length", "final_state", "terminated", "starts_at_zero", "contiguous")


class Tally:
    """Running sums. It is filled in place, because a table has many pieces and [S, A] may be large.

    A piece may start in the middle of an episode. Its first rows are then the last ones of the piece before it,
    repeated so that neighbours can be compared; they are not counted again.
    """

    def __init__(self, num_states: int, num_actions: int, discount: float, horizon: int | None = None) -> None:
        self.num_states, self.num_actions, self.discount = num_states, num_actions, discount
        self.horizon = horizon
        self.num_steps = 0
        self.max_time = 0
        self.starts = np.zeros(num_states)
        self.visits = np.zeros(num_states * num_actions)
        self.choices = np.zeros(num_states * num_actions)
        self.moves = sp.csr_array((num_states * num_actions, num_states))
        #: Choices at each time, [T, S·A]; only with a horizon, since endless episodes have endlessly many times.
        self.by_time = None if horizon is None else sp.csr_array((horizon, num_states * num_actions))
        self._finished: list[tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]] = []
        # Of the episode that the last piece left unfinished:
        self._open_since = 0
        self._open_has_gap = False

    def add(self, steps: Steps, *, repeated: int = 0, ended: bool = False) -> None:
        """Count all but the first `repeated` steps; `ended` says that no more will come."""
        self._check_range(steps)
        # Weights whose sum is infinite are refused at the end, without a warning on the way.
        with np.errstate(over="ignore"):
            self._count_choices(steps, repeated)
            self._count_moves(steps, repeated)
            self._count_episodes(steps, repeated, ended)

    def endings(self) -> tuple[dict[str, np.ndarray], Int[np.ndarray, " M"], Float[np.ndarray, " M"]]:
        """How finished episodes ended: the distinct endings, how many episodes have each, and their weight."""
        if len(self._finished) != 1:
            nothing = dict.fromkeys(_KEYS, np.zeros(0, np.int64)), np.zeros(0, np.int64), np.zeros(0)
            parts = [nothing, *self._finished]
            keys = {name: np.concatenate([part[0][name] for part in parts]) for name in _KEYS}
            count, weight = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
            self._finished = [_grouped(keys, count, weight)]
        return self._finished[0]

    def _check_range(self, steps: Steps) -> None:
        sizes = (("state", self.num_states), ("action", self.num_actions), ("next_state", self.num_states))
        for name, size in sizes:
            values = getattr(steps, name)
            if values is not None and (values >= size).any():
                i = int(np.argmax(values >= size))
                raise ValueError(
                    f"Each {name.replace('_', ' ')} must lie in 0..{size - 1}, but {steps.where(i)} has {values[i]}."
                )
        if self.horizon is not None and (steps.time >= self.horizon).any():
            late = steps.where(int(np.argmax(steps.time >= self.horizon)))
            raise ValueError(f"Each time must lie below the horizon {self.horizon}, but {late} does not.")

    def _count_choices(self, steps: Steps, repeated: int) -> None:
        weight, time = _weight(steps)[repeated:], steps.time[repeated:]
        cell = (steps.state * self.num_actions + steps.action)[repeated:]
        discounted = weight * self.discount ** time.astype(float)
        self.visits += np.bincount(cell, discounted, minlength=len(self.visits))
        self.choices += np.bincount(cell, weight, minlength=len(self.choices))
        if self.by_time is not None:
            self.by_time = self.by_time + _entries(weight, time, cell, self.by_time.shape)
        first = np.flatnonzero(~steps.follows[repeated:]) + repeated
        self.starts += np.bincount(steps.state[first], _weight(steps)[first], minlength=self.num_states)
        self.num_steps += len(time)
        self.max_time = int(time.max(initial=self.max_time))

    def _count_moves(self, steps: Steps, repeated: int) -> None:
        if steps.next_state is not None:
            rows = np.arange(repeated, len(steps.time))
            after = steps.next_state[rows]
        else:
            known = steps.follows[1:] & (np.diff(steps.time) == 1)
            # The move from the last repeated step to the first new one has not been counted.
            known[: max(repeated - 1, 0)] = False
            rows = np.flatnonzero(known)
            after = steps.state[rows + 1]
        cell = steps.state[rows] * self.num_actions + steps.action[rows]
        self.moves = self.moves + _entries(_weight(steps)[rows], cell, after, self.moves.shape)

    def _count_episodes(self, steps: Steps, repeated: int, ended: bool) -> None:
        if not len(steps.time):
            return
        run = np.cumsum(~steps.follows) - 1
        first = np.flatnonzero(~steps.follows)
        since = steps.time[first]
        gap = np.bincount(run[1:], steps.follows[1:] & (np.diff(steps.time) != 1), minlength=len(first)) > 0
        if repeated:
            since[0], gap[0] = self._open_since, gap[0] | self._open_has_gap
        last = np.append(first[1:], len(steps.time)) - 1
        # A piece does not show whether its last episode goes on in the next one.
        done = len(last) if ended else len(last) - 1
        self._open_since, self._open_has_gap = int(since[-1]), bool(gap[-1])
        self._finish(steps, last[:done], since[:done] == 0, ~gap[:done])

    def _finish(
        self,
        steps: Steps,
        last: Int[np.ndarray, " m"],
        starts_at_zero: Bool[np.ndarray, " m"],
        contiguous: Bool[np.ndarray, " m"],
    ) -> None:
        terminated = np.zeros(len(last), bool) if steps.terminated is None else steps.terminated[last]
        known = -1 if steps.next_state is None else steps.next_state[last]
        keys = {
            "length": steps.time[last] + 1,
            "final_state": np.where(terminated, known, -1),
            "terminated": terminated,
            "starts_at_zero": starts_at_zero,
            "contiguous": contiguous,
        }
        self._finished.append(_grouped(keys, np.ones(len(last), np.int64), _weight(steps)[last]))
        new = sum(len(part[1]) for part in self._finished[1:])
        # Added up when there are as many new ones as old ones: the cost stays linear in their number.
        if new > max(_PENDING, len(self._finished[0][1])):
            self.endings()


def _entries(weight: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: Any) -> sp.csr_array:
    """Weights added up at their places in a sparse matrix."""
    # SciPy keeps the integers that it is given; the short ones where they suffice save a third of the memory.
    index = np.int32 if max(shape) < 2**31 else np.int64
    return sp.coo_array((weight, (rows.astype(index), columns.astype(index))), shape=shape).tocsr()


def _weight(steps: Steps) -> Float[np.ndarray, " n"]:
    return np.ones(len(steps.time)) if steps.weight is None else steps.weight


def _grouped(
    keys: dict[str, np.ndarray], count: Int[np.ndarray, " m"], weight: Float[np.ndarray, " m"]
) -> tuple[dict[str, np.ndarray], Int[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    """Add up what has equal keys."""
    order = np.lexsort([keys[name] for name in reversed(_KEYS)])
    ordered = {name: keys[name][order].astype(np.int64) for name in _KEYS}
    differs = np.ones(len(order), bool)
    differs[1:] = np.any([ordered[name][1:] != ordered[name][:-1] for name in _KEYS], axis=0)
    group = np.cumsum(differs) - 1
    size = int(differs.sum())
    total = np.bincount(group, count[order], minlength=size).astype(np.int64)
    # Of nothing, `bincount` makes integers.
    weights = np.bincount(group, weight[order], minlength=size).astype(float)
    return {name: ordered[name][differs] for name in _KEYS}, total, weights
