"""The quantities of a demonstrator that is given by statistics instead of demonstrations.

The objectives depend on sums over choices and episodes only, so a fit to `DemoStatistics` is the fit to the
demonstrations that were counted. Methods that need single episodes (clustered standard errors, the bootstrap,
cross-validation, types) are refused.
"""

from typing import Any

import numpy as np

from irlax.demos import DemoStatistics
from irlax.mdp import MDP
from irlax.typing import Float, Int


def refuse_statistics(statistics: DemoStatistics | None, what: str) -> None:
    """Raise a ValueError if the demonstrator is given by statistics; `what` names the method that needs episodes."""
    if statistics is not None:
        raise ValueError(
            f"{what} needs the episodes themselves, but statistics hold only sums over them. Fit to Demonstrations, "
            f"for instance to those of a part of the panel."
        )


def observed_choices(
    mdp: MDP, statistics: DemoStatistics, *, discounted: bool
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"], Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Time, state, action and weight (Σγᵗ, or the number of times it was chosen) of each distinct choice.

    On an infinite horizon the policy is the same at all times, so all choices have time 0.
    """
    if mdp.horizon is None:
        table = _discounted_visits(mdp, statistics) if discounted else statistics.choices
        states, actions = np.nonzero(table)
        return np.zeros(len(states), int), states, actions, table[states, actions]
    if statistics.by_time is None:
        raise ValueError(
            f"The likelihood objectives need the choices at each time, because the MDP has the horizon {mdp.horizon}. "
            f"Compute the statistics with `horizon={mdp.horizon}`."
        )
    rows = statistics.distinct_choices(by_time=True)
    weight = rows.weights * float(mdp.discount) ** rows.times if discounted else rows.weights
    return rows.times, rows.tabular_states, rows.actions, weight


def visits_of_episodes(mdp: MDP, statistics: DemoStatistics) -> Float[np.ndarray, "A R"]:
    """Σ w γᵗ over the observed choices, and over the absorbing states that follow terminated episodes."""
    table = _discounted_visits(mdp, statistics)
    states, actions = np.nonzero(table)
    rows, columns = mdp.rows.cells(states, actions)
    visits = np.zeros(mdp.table_shape[::-1])
    np.add.at(visits, (columns, rows), table[states, actions])
    ended = statistics.endings.terminated
    lengths, weights = statistics.endings.length[ended], statistics.endings.weight[ended]
    return visits + visits_after_the_end(mdp, final_states(mdp, statistics), lengths, weights)


def visits_after_the_end(
    mdp: MDP, final: Int[np.ndarray, " m"], lengths: Int[np.ndarray, " m"], weights: Float[np.ndarray, " m"]
) -> Float[np.ndarray, "A R"]:
    """Discounted visits to the absorbing states that follow terminated episodes for ever.

    The choice between several actions there is not observed. It is taken as uniform, which changes nothing if all of
    them have the same reward; `Expert.choices_after_the_end` says where they have not.
    """
    visits = np.zeros(mdp.table_shape[::-1])
    if mdp.terminal is not None or not len(final):
        return visits
    discount, steps = float(mdp.discount), lengths.astype(float)
    if mdp.horizon is None:
        remaining = discount**steps / (1 - discount)
    elif discount == 1:
        remaining = mdp.horizon - steps
    else:
        remaining = (discount**steps - discount**mdp.horizon) / (1 - discount)
    mass = np.bincount(final, weights=remaining * weights, minlength=mdp.num_states)
    share = (mass / mdp.num_available)[mdp.state_of_row]
    return (share[:, None] * np.asarray(mdp.available)).T


def final_states(mdp: MDP, statistics: DemoStatistics) -> Int[np.ndarray, " m"]:
    """The absorbing state in which each kind of terminated episode ends; see `whole_episodes.final_states`."""
    endings, absorbing = statistics.endings, mdp.absorbing
    final = endings.final_state[endings.terminated]
    unknown = final < 0
    if unknown.any():
        if absorbing.sum() != 1 and (mdp.terminal is None or not absorbing.any()):
            raise ValueError(
                f"Terminated episodes are followed by an absorbing state for ever, but the MDP has {absorbing.sum()} "
                f"of them and the statistics do not say which: compute them with `next_state=`."
            )
        final = np.where(unknown, np.argmax(absorbing), final)
    wrong = ~absorbing[final]
    if wrong.any():
        raise ValueError(
            f"{endings.count[endings.terminated][wrong].sum()} episodes are marked terminated, but do not lead into a "
            f"state that is absorbing in the MDP (the first ends in state {final[wrong][0]}). If they were cut short, "
            f"they are truncated."
        )
    return final


def why_not_whole(mdp: MDP, statistics: DemoStatistics) -> str | None:
    """Why the episodes are not whole, as the end of a sentence; None if they are."""
    endings = statistics.endings

    def episodes(which: Any) -> int:
        return int(endings.count[which].sum())

    late, gaps = episodes(~endings.starts_at_zero), episodes(~endings.contiguous)
    if statistics.discount != float(mdp.discount) and statistics.by_time is None:
        return _other_discount(mdp, statistics)
    if late:
        return f"{late} do not start at t = 0"
    if gaps:
        return f"{gaps} have gaps in time"
    if mdp.horizon is not None:
        short = episodes(~endings.terminated & (endings.length < mdp.horizon))
        expected = f"have {mdp.horizon} steps, though they are not terminated"
    elif mdp.terminal is not None:
        short, expected = episodes(~endings.terminated), "reach an absorbing state"
    else:
        return None
    return f"{short} of {statistics.num_episodes} do not {expected}" if short else None


def _discounted_visits(mdp: MDP, statistics: DemoStatistics) -> Float[np.ndarray, "S A"]:
    """Σ w γᵗ over observed choices, with the discount of the MDP."""
    if statistics.discount == float(mdp.discount):
        return statistics.visits
    if statistics.by_time is None:
        raise ValueError(
            f"In the statistics {_other_discount(mdp, statistics)}. Compute them with the discount of the MDP, or use "
            f"objective='likelihood', which does not discount choices."
        )
    counted, shape = statistics.by_time.tocoo(), statistics.choices.shape
    discounted = counted.data * float(mdp.discount) ** counted.row
    return np.bincount(counted.col, discounted, minlength=statistics.choices.size).reshape(shape)


def _other_discount(mdp: MDP, statistics: DemoStatistics) -> str:
    return f"visits were summed with discount {statistics.discount:g}, but the MDP has {mdp.discount:g}"
