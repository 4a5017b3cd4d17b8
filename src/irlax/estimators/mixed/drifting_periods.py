"""Whose reward is when: the path and the period of each observed choice, and the choices grouped by both."""

import dataclasses
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.mixed.types import individuals_of
from irlax.estimators.tabular.choices import group_choices
from irlax.mdp import MDP
from irlax.precision import StaysOnDevice
from irlax.typing import Array, Float, Int

Over = Literal["steps", "episodes"]


class Clock(StaysOnDevice):
    """What a period is: so many steps of an episode, or so many episodes of an individual."""

    over: Over
    every: int
    shared: bool

    def paths(self, demos: Demonstrations, individual: Any) -> tuple[np.ndarray, Int[np.ndarray, " N"]]:
        """The labels of individuals with a path each, and the path of each episode; one path if it is shared."""
        labels, person = self.individuals(demos, individual)
        return (np.zeros(1, int), np.zeros(demos.num_episodes, int)) if self.shared else (labels, person)

    def individuals(self, demos: Demonstrations, individual: Any) -> tuple[np.ndarray, Int[np.ndarray, " N"]]:
        """Labels of individuals, and the individual of each episode: over episodes, by default all are of one."""
        if individual is None and self.over == "episodes":
            return np.zeros(1, int), np.zeros(demos.num_episodes, int)
        return individuals_of([demos], individual)[:2]

    def periods(self, demos: Demonstrations, person: Int[np.ndarray, " N"]) -> Int[np.ndarray, " n"]:
        """The period of each row; episodes of an individual are in the order in which they are given."""
        if self.over == "steps":
            return demos.times // self.every
        return np.repeat(rank_within(person), demos.lengths) // self.every


def rank_within(person: Int[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
    """How many episodes of the same individual are before each."""
    order = np.argsort(person, kind="stable")
    counts = np.bincount(person)
    rank = np.empty(len(person), int)
    rank[order] = np.arange(len(person)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank


class Periods(StaysOnDevice):
    """Distinct choices by path, period, step within the period and place; padded with weight 0.

    On an infinite horizon the policy of a reward is the same at all times, so that a period has one step.
    """

    states: Int[Array, "U B W M"]
    actions: Int[Array, "U B W M"]
    weights: Float[Array, "U B W M"]
    #: The time of the first step of each period.
    first: Int[Array, " B"]

    @property
    def num_paths(self) -> int:
        """U."""
        return self.states.shape[0]

    @property
    def num_periods(self) -> int:
        """B."""
        return self.states.shape[1]


def group_periods(
    mdp: MDP, demos: Demonstrations, path: Int[np.ndarray, " n"], period: Int[np.ndarray, " n"], clock: Clock
) -> Periods:
    """The choices of demonstrations by the path and the period of each row."""
    num_paths, num_periods = int(path.max()) + 1, int(period.max()) + 1
    by_step = mdp.horizon is not None and clock.over == "steps"
    width = 1 if mdp.horizon is None else clock.every if by_step else mdp.horizon
    first = np.arange(num_periods) * (clock.every if by_step else 0)
    step = 0 if mdp.horizon is None else demos.times - first[period]
    place = (path * num_periods + period) * width + step
    cells = mdp.rows.cells(demos.tabular_states, demos.actions)
    # Grouped as the choices at each time of a long episode are.
    long = dataclasses.replace(mdp, horizon=num_paths * num_periods * width)
    grouped = group_choices(long, place, *cells, demos.choice_weights)
    shape = (num_paths, num_periods, width, -1)
    arrays = {name: jnp.asarray(getattr(grouped, name).reshape(shape)) for name in ("states", "actions", "weights")}
    return Periods(**arrays, first=jnp.asarray(first))


def checked_clock(over: Any, every: Any, shared: bool) -> Clock:
    """The clock, or an error about its settings."""
    return Clock(checks.one_of("over", over, ("steps", "episodes")), checks.count("every", every), shared)
