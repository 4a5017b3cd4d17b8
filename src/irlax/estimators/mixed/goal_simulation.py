"""Episodes of motives that switch on the way to goals, by simulation."""

from collections.abc import Sequence
from typing import Any

import jax.random as jr
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.demos.demonstrations import from_rows
from irlax.planning.goals import GoalPlan
from irlax.planning.goals.options import Options
from irlax.planning.goals.plan import MAX_LENGTH, next_states
from irlax.typing import Float, Int, PRNGKeyArray


def simulate_motives_to_goals(
    plans: Sequence[GoalPlan],
    initial: Float[np.ndarray, " K"],
    switching: Float[np.ndarray, "*S K K"],
    starts: Int[np.ndarray, " N"],
    goals: Int[np.ndarray, " N"],
    *,
    key: PRNGKeyArray,
) -> tuple[Demonstrations, Int[np.ndarray, " n"]]:
    """One episode for each pair of a start and a goal, under the plans of motives that switch; the motive at each row.

    `initial` [K] are the probabilities of the first motive, and `switching` [K, K] or [S, K, K] those of the next one,
    given the present motive (and the state in which it is present).
    """
    here = starts == goals
    if here.any():
        raise ValueError(f"Episode {int(np.argmax(here))} starts at its goal, so that it has no step.")
    mdp, rng = plans[0].mdp, np.random.default_rng(np.asarray(jr.key_data(key)))
    options = Options.of(mdp)
    table = np.broadcast_to(switching, (mdp.num_states, *switching.shape[-2:]))
    chosen = _Policies.of(plans, options, starts, goals)
    state, motive = starts.copy(), _drawn(np.broadcast_to(initial, (len(starts), len(initial))), rng)
    episode, parts = np.arange(len(starts)), []
    for _ in range(MAX_LENGTH):
        option = chosen.drawn(motive[episode], state[episode], episode, rng)
        after = next_states(options.transitions, option, rng)
        _, action = mdp.rows.states_and_actions(options.row[option], options.column[option])
        parts.append(np.stack([episode, state[episode], np.asarray(action), after, motive[episode]], axis=1))
        motive[episode] = _drawn(table[state[episode], motive[episode]], rng)
        state[episode] = after
        episode = episode[after != goals[episode]]
        if not len(episode):
            break
    else:
        raise ValueError(f"An episode did not reach its goal within {MAX_LENGTH} steps.")
    rows = np.concatenate(parts)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    lengths = np.bincount(rows[:, 0], minlength=len(starts))
    demos = from_rows(rows[:, 1], rows[:, 2], lengths, next_states=rows[:, 3], terminated=True, goals=goals)
    return demos, rows[:, 4]


def pairs_of(
    demos: Demonstrations, num: int | None, starts: Any, goals: Any, *, key: PRNGKeyArray
) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """Starts and goals of episodes: those given, or `num` pairs of the demonstrations, drawn by weight."""
    if (starts is None) != (goals is None) or (num is None) == (starts is None):
        raise ValueError("Pass `starts` and `goals`, a pair for each episode, or `num`, how many pairs to draw.")
    if num is None:
        starts, goals = (np.atleast_1d(checks.as_integers(n, v)) for n, v in (("starts", starts), ("goals", goals)))
        starts, goals = np.broadcast_arrays(starts, goals)
        return starts.astype(np.int64), goals.astype(np.int64)
    assert demos.goals is not None
    rng = np.random.default_rng(np.asarray(jr.key_data(key)))
    drawn = rng.choice(demos.num_episodes, checks.count("num", num), p=demos.weights / demos.weights.sum())
    return demos.start_states[drawn], demos.goals[drawn]


class _Policies:
    """Cumulated policies of motives on the way to each goal."""

    def __init__(self, options: Options, index: Int[np.ndarray, " N"], sums: Float[np.ndarray, "K G bounds"]) -> None:
        self._options, self._index, self._sums, self._first = options, index, sums, options.first

    @classmethod
    def of(
        cls, plans: Sequence[GoalPlan], options: Options, starts: Int[np.ndarray, " N"], goals: Int[np.ndarray, " N"]
    ) -> "_Policies":
        distinct, index = np.unique(goals, return_inverse=True)
        sums = np.zeros((len(plans), len(distinct), len(options.state) + 1))
        for k, plan in enumerate(plans):
            for g, goal in enumerate(distinct.tolist()):
                lost = ~np.isfinite(plan.value[plan.index_of(goal)][starts[goals == goal]])
                if lost.any():
                    states = np.unique(starts[goals == goal][lost]).tolist()
                    raise ValueError(f"Goal {goal} cannot be reached from states {checks.some(states)}.")
                sums[k, g, 1:] = np.cumsum(np.nan_to_num(np.exp(plan.log_chances(options, goal))))
        return cls(options, index, sums)

    def drawn(
        self,
        motive: Int[np.ndarray, " n"],
        state: Int[np.ndarray, " n"],
        episode: Int[np.ndarray, " n"],
        rng: np.random.Generator,
    ) -> Int[np.ndarray, " n"]:
        """An option of each episode's state, at random by the policy of its motive towards its goal."""
        chances, result = rng.random(len(state)), np.empty(len(state), int)
        group = motive * self._sums.shape[1] + self._index[episode]
        for each in np.unique(group):
            (rows,) = np.nonzero(group == each)
            sums = self._sums[divmod(int(each), self._sums.shape[1])]
            low, high = self._first[state[rows]], self._first[state[rows] + 1]
            wanted = sums[low] + chances[rows] * (sums[high] - sums[low])
            result[rows] = np.clip(np.searchsorted(sums[1:], wanted, side="right"), low, high - 1)
        return result


def _drawn(chances: Float[np.ndarray, "n K"], rng: np.random.Generator) -> Int[np.ndarray, " n"]:
    """A column of each row, at random by its probabilities."""
    above = np.cumsum(chances, axis=1) < rng.random((len(chances), 1))
    return np.minimum(above.sum(axis=1), chances.shape[1] - 1)
