"""How many rounds or minutes a dynamics-free fit takes, how many episodes in each round, and when it stops."""

import math

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.registry import stored
from irlax.typing import Bool, Float

#: Environment steps in a round, about, unless `episodes` is given.
STEPS_PER_ROUND = 8000
#: How far the gap of a single round may be from 0 in a fit that has converged, as a multiple of `tol`.
MAX_SWING = 10


@stored("rounds")
class Rounds(eqx.Module):
    """The rounds of a dynamics-free fit; each collects whole episodes and updates reward and policy once."""

    #: Rounds at most.
    num: int = 300
    #: Whole episodes in each round; by default, as many as make about 8,000 steps.
    episodes: int | None = None
    #: Environment steps in each round, in place of whole episodes: for learners with a replay, which go on in the
    #: middle of episodes.
    steps: int | None = None
    #: The share of episodes that start with random actions. They are treated as the policy's, so that the reward falls
    #: where the expert does not go; the policy comes to differ from the expert by about as much.
    explore: float = 0.0
    #: A fit has converged when the mean gap of the last `patience` rounds is below `tol`, and the gap of each of them
    #: below ten times that. The gap is the learned reward of a step, expert − policy, in its standard deviations.
    tol: float = 0.05
    patience: int = 20
    #: Minutes at most, compilation among them. Learning rates fall to zero over these or over `num` rounds, whichever
    #: ends sooner. Where the minutes do, the same key does not give the same fit again.
    minutes: float | None = None

    def __check_init__(self) -> None:
        checks.count("num", self.num)
        checks.count("patience", self.patience)
        if self.minutes is not None:
            checks.positive("minutes", self.minutes)
        if self.episodes is not None:
            checks.count("episodes", self.episodes)
        if self.steps is not None:
            checks.count("steps", self.steps)
            if self.episodes is not None:
                raise ValueError("A round is so many `steps` or so many whole `episodes`, not both: leave one out.")
        checks.positive("tol", self.tol, zero=True)
        if not 0 <= checks.positive("explore", self.explore, zero=True) < 1:
            raise ValueError(
                f"`explore` must lie in [0, 1), but is {self.explore}: some episodes must be the policy's own."
            )

    def episodes_for(self, horizon: int) -> int:
        """Whole episodes in each round, given their length."""
        return 8 * math.ceil(STEPS_PER_ROUND / horizon / 8) if self.episodes is None else self.episodes

    def steps_for(self, horizon: int) -> int:
        """Environment steps in each round, given the length of episodes."""
        return self.episodes_for(horizon) * horizon if self.steps is None else self.steps

    def done(self, num: int, seconds: float) -> float:
        """The share of a fit that is behind it after so many rounds and seconds, at most 1."""
        shares = num / self.num, 0.0 if self.minutes is None else seconds / (60 * self.minutes)
        return min(max(shares), 1.0)

    def closed(self, gaps: Float[np.ndarray, "rounds *fits"]) -> Bool[np.ndarray, "*fits"]:
        """Whether each fit has converged, given the gaps of all rounds so far."""
        last = gaps[-self.patience :]
        # A gap that swings between large positive and large negative values has a mean near 0, too.
        steady = np.abs(last).max(axis=0) < MAX_SWING * self.tol
        return np.asarray((len(last) == self.patience) & steady & (np.abs(last.mean(axis=0)) < self.tol))
