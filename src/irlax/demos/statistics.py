"""What the tabular estimators need to know of demonstrations: sums over rows and episodes."""

import os

import equinox as eqx
import numpy as np
import scipy.sparse as sp

from irlax import checks
from irlax.demos.demonstrations import Demonstrations, from_rows
from irlax.demos.panel import Steps
from irlax.demos.tally import Tally
from irlax.mdp import MDP
from irlax.typing import Bool, Float, Int


class Endings(eqx.Module):
    """How episodes started and ended. Equal ones share a row: `count` of them, with `weight` in sum."""

    terminated: Bool[np.ndarray, " M"]
    #: The absorbing state that follows a terminated episode; −1 if not known, or if it was truncated.
    final_state: Int[np.ndarray, " M"]
    #: Steps up to the last observed one: its time + 1.
    length: Int[np.ndarray, " M"]
    starts_at_zero: Bool[np.ndarray, " M"]
    contiguous: Bool[np.ndarray, " M"]
    count: Int[np.ndarray, " M"]
    weight: Float[np.ndarray, " M"]


class DemoStatistics(eqx.Module):
    r"""Sufficient statistics of tabular demonstrations, in which episode k counts $w_k$ times.

    Computed by `DemoStatistics.from_demos`, or by `statistics_from_parquet` without loading the file.
    """

    discount: float
    #: Observed choices, without weights.
    num_steps: int
    #: The latest observed t.
    max_time: int
    #: Σ w over episodes whose first observed state is s.
    starts: Float[np.ndarray, " S"]
    #: Σ w γᵗ over observed choices.
    visits: Float[np.ndarray, "S A"]
    #: Σ w over observed choices.
    choices: Float[np.ndarray, "S A"]
    #: Σ w over observed moves from s to s', one (S, S) matrix for each action.
    transitions: tuple[sp.csr_array, ...]
    endings: Endings
    #: Σ w over observed choices at each time, [T, S·A]; None if they were counted without a horizon.
    by_time: sp.csr_array | None = None

    @classmethod
    def from_demos(
        cls,
        demos: Demonstrations,
        *,
        num_states: int,
        num_actions: int,
        discount: float,
        horizon: int | None = None,
    ) -> "DemoStatistics":
        """The statistics of demonstrations in memory; with a `horizon`, choices are counted at each time too."""
        if demos.goals is not None:
            raise ValueError("Statistics hold no goals, but these demonstrations have some: fit to them directly.")
        tally = new_tally(num_states, num_actions, discount, horizon)
        tally.add(_steps(demos), ended=True)
        return from_tally(tally)

    def __repr__(self) -> str:
        sizes = f"{self.num_states:,} states, {self.num_actions:,} actions"
        return f"DemoStatistics({self.num_steps:,} choices, {sizes}, discount {self.discount:g})"

    @property
    def num_states(self) -> int:
        """S."""
        return self.visits.shape[0]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.visits.shape[1]

    @property
    def num_episodes(self) -> int:
        """How many episodes there are, whatever their weights."""
        return int(self.endings.count.sum())

    @property
    def total_weight(self) -> float:
        """Σ w: divide by it to get means over episodes."""
        return float(self.endings.weight.sum())

    @property
    def num_terminated(self) -> int:
        """Episodes that an absorbing state follows; the others are truncated."""
        return self._number(self.endings.terminated)

    @property
    def num_from_zero(self) -> int:
        """Episodes whose first observed choice is at t = 0."""
        return self._number(self.endings.starts_at_zero)

    @property
    def num_contiguous(self) -> int:
        """Episodes without gaps in time."""
        return self._number(self.endings.contiguous)

    def num_whole(self, horizon: int | None) -> int:
        """Episodes observed from t = 0 without gaps up to their end: an absorbing state, or the horizon."""
        observed = self.endings.starts_at_zero & self.endings.contiguous
        return self._number(observed & (self.endings.terminated | (self.endings.length == horizon)))

    @property
    def missing_mass(self) -> float:
        r"""On an infinite horizon, the share of discounted time after truncation, mean over episodes.

        $$\frac{1}{\sum_k w_k} \sum_k w_k\,1[k\ \text{truncated}]\,
          \frac{\sum_{t \ge L_k} \gamma^t}{\sum_{t \ge 0} \gamma^t}
          = \frac{\sum_{k\ \text{truncated}} w_k \gamma^{L_k}}{\sum_k w_k}$$
        """
        cut = ~self.endings.terminated
        after = self.discount ** self.endings.length[cut].astype(float)
        return float((self.endings.weight[cut] * after).sum() / self.total_weight)

    def distinct_choices(self, *, by_time: bool) -> Demonstrations:
        """Each distinct choice as an episode of its own, of one step, that counts as often as it was made.

        Sums over choices are then those of the demonstrations themselves; episodes are not. Without `by_time` choices
        at different times are added up: all are made at t = 0.
        """
        if by_time:
            if self.by_time is None:
                raise ValueError("Choices at each time were not counted. Compute the statistics with `horizon=`.")
            counted = self.by_time.tocoo()
            kept = counted.data > 0
            time, weight = counted.row[kept].astype(np.int64), counted.data[kept]
            state, action = np.divmod(counted.col[kept].astype(np.int64), self.num_actions)
        else:
            state, action = np.nonzero(self.choices)
            time, weight = np.zeros(len(state), np.int64), self.choices[state, action]
        return from_rows(state, action, np.ones(len(weight), np.int64), times=time, weights=weight)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to an .npz file, whole or not at all."""
        from irlax.demos.statistics_npz import save_statistics

        save_statistics(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "DemoStatistics":
        """Read statistics that `save` wrote; nothing in them is ever unpickled."""
        from irlax.demos.statistics_npz import load_statistics

        return load_statistics(path)

    def check(self, mdp: MDP) -> None:
        """Raise a ValueError unless everything that was counted is possible in `mdp`."""
        from irlax.demos.possible import check_statistics

        check_statistics(self, mdp)

    def _number(self, which: Bool[np.ndarray, " M"]) -> int:
        return int(self.endings.count[which].sum())


#: Why statistics cannot be made, once it is said where the weights of rows are.
NO_ROW_WEIGHTS = "Statistics count whole rows, without weights of their own, but {}. Fit to the Demonstrations instead."


def new_tally(num_states: int, num_actions: int, discount: float, horizon: int | None) -> Tally:
    """An empty tally for a problem of this size, once the sizes have been checked."""
    sizes = checks.count("num_states", num_states), checks.count("num_actions", num_actions)
    return Tally(*sizes, checks.discount(discount), checks.horizon(horizon))


def from_tally(tally: Tally) -> DemoStatistics:
    """The statistics of everything that was counted."""
    keys, count, weight = tally.endings()
    if not count.sum():
        raise ValueError("The table has no rows. Give it one for each observed choice.")
    if not weight.any():
        raise ValueError("All episodes have weight 0, so nothing is left of them. Give some a positive weight.")
    with np.errstate(over="ignore"):
        if not np.isfinite(tally.choices.sum()):
            raise ValueError("The weights are so large that their sum over all steps is infinite. Scale them down.")
    shape = (tally.num_states, tally.num_actions)
    return DemoStatistics(
        discount=tally.discount,
        num_steps=tally.num_steps,
        max_time=tally.max_time,
        starts=tally.starts,
        visits=tally.visits.reshape(shape),
        choices=tally.choices.reshape(shape),
        transitions=tuple(sp.csr_array(tally.moves[a :: shape[1]]) for a in range(shape[1])),
        endings=Endings(
            terminated=keys["terminated"].astype(bool),
            final_state=keys["final_state"],
            length=keys["length"],
            starts_at_zero=keys["starts_at_zero"].astype(bool),
            contiguous=keys["contiguous"].astype(bool),
            count=count,
            weight=weight,
        ),
        by_time=tally.by_time,
    )


def _steps(demos: Demonstrations) -> Steps:
    """Demonstrations in memory as the rows of a sorted table."""
    if demos.row_weights is not None:
        raise ValueError(NO_ROW_WEIGHTS.format("these demonstrations have them"))
    episode, labels = demos.episode, demos.labels
    follows = np.ones(demos.num_steps, bool)
    follows[demos.offsets[:-1]] = False
    return Steps(
        rows=np.arange(demos.num_steps),
        follows=follows,
        time=demos.times,
        state=demos.tabular_states,
        action=demos.actions,
        next_state=demos.next_states,
        terminated=demos.terminated[episode],
        weight=demos.weights[episode],
        goal=None if demos.goals is None else demos.goals[episode],
        row_weight=None,
        label=lambda i: int(episode[i]) if labels is None else labels[episode[i]].item(),
    )
