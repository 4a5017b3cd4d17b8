"""Episodes of any lengths side by side, so that all are filtered in as few steps as the longest has."""

import heapq
from collections.abc import Sequence

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.typing import Bool, Float, Int, Shaped

#: Unobserved steps between the rows of an episode that are filled in, as a multiple of the rows, and at least.
MOST_FILLED, ALWAYS_FILLED = 20, 100_000


class Lanes(eqx.Module):
    """Steps of episodes in B lanes of L steps; an episode that ends early is followed by another in its lane.

    Time goes on in gaps: a step that was not observed is there without a choice, in the last state that was observed.
    """

    #: The row of the demonstrations, over all MDPs; −1 for steps that were not observed, and after the end of a lane.
    row: Int[np.ndarray, "L B"]
    #: Whether an episode starts with this step.
    starts: Bool[np.ndarray, "L B"]
    #: The episode of a step; −1 after the end of a lane.
    episode: Int[np.ndarray, "L B"]
    #: The row with the last observed state before the step; −1 where an episode starts.
    before: Int[np.ndarray, "L B"]

    @classmethod
    def of(cls, demos: Sequence[Demonstrations]) -> "Lanes":
        """The steps of all demonstrations, one after the other."""
        rows = np.arange(sum(each.num_steps for each in demos))
        times = np.concatenate([each.times for each in demos])
        lengths = np.concatenate([each.lengths for each in demos])
        first = np.zeros(len(rows), bool)
        first[np.cumsum(lengths) - lengths] = True
        elapsed = np.where(first, 1, np.diff(times, prepend=0))
        filled = int((elapsed - 1).sum())
        if filled > max(MOST_FILLED * len(rows), ALWAYS_FILLED):
            raise ValueError(
                f"Between their rows episodes have {filled} steps that were not observed, in which motives may switch. "
                f"Number `times` more coarsely, or split episodes at long gaps."
            )
        # Each row is preceded by the unobserved steps since the last.
        ends = np.cumsum(elapsed) - 1
        row, starts = np.full(ends[-1] + 1, -1), np.zeros(ends[-1] + 1, bool)
        row[ends], starts[ends] = rows, first
        seen = np.maximum.accumulate(row)
        before = np.where(starts, -1, np.concatenate([[-1], seen[:-1]]))
        episode = np.cumsum(starts) - 1
        return cls._packed(row, starts, episode, before)

    @classmethod
    def _packed(
        cls,
        row: Int[np.ndarray, " m"],
        starts: Bool[np.ndarray, " m"],
        episode: Int[np.ndarray, " m"],
        before: Int[np.ndarray, " m"],
    ) -> "Lanes":
        steps = np.bincount(episode)
        lane, offset, num_lanes = _places(steps)
        within = np.arange(len(row)) - np.repeat(np.cumsum(steps) - steps, steps)
        places = (offset[episode] + within, lane[episode])
        shape = (int(steps.max()), num_lanes)

        def placed(values: np.ndarray, empty: int | bool) -> np.ndarray:
            grid = np.full(shape, empty, values.dtype)
            grid[places] = values
            return grid

        return cls(placed(row, -1), placed(starts, False), placed(episode, -1), placed(before, -1))

    def of_rows(self, values: Shaped[np.ndarray, "L B *rest"]) -> Shaped[np.ndarray, "n *rest"]:
        """Values of steps as values of the rows of the demonstrations."""
        observed = self.row >= 0
        result = np.empty((int(observed.sum()), *values.shape[2:]), values.dtype)
        result[self.row[observed]] = values[observed]
        return result


def _places(steps: Int[np.ndarray, " N"]) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"], int]:
    """The lane of each episode, its first step there, and the number of lanes: longest first, where there is room."""
    longest = int(steps.max())
    lane, offset = np.zeros(len(steps), int), np.zeros(len(steps), int)
    used: list[tuple[int, int]] = []
    for episode in np.argsort(-steps, kind="stable"):
        length = int(steps[episode])
        if used and used[0][0] + length <= longest:
            taken, index = heapq.heappop(used)
        else:
            taken, index = 0, len(used)
        lane[episode], offset[episode] = index, taken
        heapq.heappush(used, (taken + length, index))
    return lane, offset, len(used)


def checked_features(features: object, num_states: int) -> Float[np.ndarray, "S F"]:
    """What switching depends on: a row of numbers for each state."""
    table = checks.as_floats("switching_features", features)
    table = table[:, None] if table.ndim == 1 else table
    checks.has_shape("switching_features", table, (num_states, None), "(S,) or (S, F), a row for each state")
    checks.finite("switching_features", table)
    return table
