"""What states remember: the last visited ones, and a summary of the history that the user defines, as one number."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from irlax import checks
from irlax.typing import Bool, Int

#: Codes of extended states are below this, so that sums of two of them do not overflow.
MOST_CODES = 2**62


@dataclasses.dataclass(frozen=True)
class Memory:
    """A summary of the history, a whole number m ≥ 0, that each transition updates.

    $$m_0 = \\text{start}(s_0), \\qquad m_{t+1} = \\text{update}(m_t, s_t, a_t, s_{t+1})$$

    Both are functions of integer arrays [n], called for many transitions at once; `start` may also be one number.
    `name`, a function of one m, says what reports show of it. The number of values that can occur must be finite: cap
    what is counted.

        Memory(start=0, update=lambda m, s, a, after: np.minimum(m + (a == 1), 3), name=lambda m: f"{m} repairs")
    """

    start: int | Callable[[Any], Any]
    update: Callable[[Any, Any, Any, Any], Any]
    name: Callable[[int], str] = str

    @classmethod
    def visited(cls, places: Any) -> "Memory":
        """Which of these states (at most 40) were visited already, the present one included: bit k is `places[k]`."""
        places = checks.as_integers("places", np.atleast_1d(places))
        if not 1 <= len(places) <= 40 or len(np.unique(places)) < len(places):
            raise ValueError(f"`places` must hold 1 to 40 different states, but holds {len(places)}.")
        bits = 1 << np.arange(len(places))

        def seen(states: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
            return (states[:, None] == places) @ bits

        def name(m: int) -> str:
            listed = [str(place) for k, place in enumerate(places) if m >> k & 1]
            return f"visited {', '.join(listed)}" if listed else "none visited"

        return cls(seen, lambda m, state, action, after: m | seen(after), name)

    @classmethod
    def since(cls, place: int, most: int) -> "Memory":
        """Steps since the last visit to a state: 0 in it; `most` if that long ago or more, or never visited."""
        place, most = checks.count("place", place, 0), checks.count("most", most)
        return cls(
            lambda states: np.where(states == place, 0, most),
            lambda m, state, action, after: np.where(after == place, 0, np.minimum(m + 1, most)),
            lambda m: f"{m} since {place}" if m < most else f"{most} or more since {place}",
        )

    def initial(self, states: Int[np.ndarray, " n"], below: int) -> Int[np.ndarray, " n"]:
        """m₀ of episodes that start in these states."""
        found = self.start(states) if callable(self.start) else np.full(len(states), self.start)
        return _checked("start", found, len(states), below)

    def after(
        self, m: Int[np.ndarray, " n"], states: Any, actions: Any, next_states: Any, below: int
    ) -> Int[np.ndarray, " n"]:
        """m of the next states of these transitions."""
        return _checked("update", self.update(m, states, actions, next_states), len(m), below)


#: Nothing is remembered besides the last states.
NO_MEMORY = Memory(0, lambda m, state, action, after: m, lambda m: "")


def _checked(name: str, found: Any, length: int, below: int) -> Int[np.ndarray, " n"]:
    array = checks.as_integers(f"memory.{name}", found)
    checks.has_shape(f"memory.{name}(...)", array, (length,), "a whole number for each of the given states")
    bad = (array < 0) | (array >= below)
    if bad.any():
        raise ValueError(
            f"`memory.{name}` must give whole numbers from 0 to {below - 1}, but gave {checks.some(array[bad])}. "
            f"Number what is remembered from 0 on, or remember fewer last states."
        )
    return array.astype(np.int64)


class Codes(NamedTuple):
    """Extended states (present state, m, last states) as one integer each, ordered by the present state first.

    A last state that is missing, because the episode had not begun, is stored as S.
    """

    num_states: int
    last: int
    memory: Memory
    #: Absorbing states have one extended state each, as if nothing else had ever been visited: they end episodes.
    absorbing: Bool[np.ndarray, " S"]
    #: Whether an episode starts as if its first state had been visited before, instead of nothing.
    as_if_stayed: bool

    @property
    def windows(self) -> int:
        """How many sequences of last states there are, possible or not."""
        return (self.num_states + 1) ** self.last

    @property
    def most_memory(self) -> int:
        """m must lie below this."""
        return MOST_CODES // (self.num_states * self.windows)

    def start(self, states: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """The codes in which episodes start."""
        filled = self.absorbing[states] | self.as_if_stayed
        digit = np.where(filled, states, self.num_states)
        window = digit * sum((self.num_states + 1) ** k for k in range(self.last))
        return self._join(states, self.memory.initial(states, self.most_memory), window)

    def after(
        self, codes: Int[np.ndarray, " n"], actions: Int[np.ndarray, " n"], next_states: Int[np.ndarray, " n"]
    ) -> Int[np.ndarray, " n"]:
        """The codes that follow when these actions lead to these states."""
        states, m, window = self.split(codes)
        m = self.memory.after(m, states, actions, next_states, self.most_memory)
        if self.last:
            # The most recent state is the lowest digit; the oldest one is forgotten.
            window = window % (self.windows // (self.num_states + 1)) * (self.num_states + 1) + states
        found = self._join(next_states, m, window)
        ends = self.absorbing[next_states]
        if ends.any():
            found[ends] = self.start(next_states[ends])
        return found

    def split(self, codes: Int[np.ndarray, " n"]) -> tuple[Any, Any, Any]:
        """The present state, m, and the last states as one number."""
        rest, window = np.divmod(codes, self.windows)
        states, m = np.divmod(rest, self.most_memory)
        return states, m, window

    def last_states(self, codes: Int[np.ndarray, " n"]) -> Int[np.ndarray, "n last"]:
        """The last states, the most recent first; −1 for none."""
        window = self.split(codes)[2]
        digits = window[:, None] // (self.num_states + 1) ** np.arange(self.last) % (self.num_states + 1)
        return np.where(digits == self.num_states, -1, digits)

    def _join(self, states: Any, m: Any, window: Any) -> Int[np.ndarray, " n"]:
        return (states * self.most_memory + m) * self.windows + window
