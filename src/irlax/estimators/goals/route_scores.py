"""Scores of predicted routes: how well the most probable way of each trip agrees with the observed one."""

from typing import Any

import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.goals.choice_model import Solved
from irlax.estimators.goals.demand import Demand
from irlax.estimators.goals.fitted_model import FittedModel
from irlax.estimators.goals.predicted_routes import certain_moves, cheapest, option_costs
from irlax.planning.goals import Needed
from irlax.planning.goals.options import Options
from irlax.tables import AbstractTabulated, Table
from irlax.typing import Float, Int

#: Trips whose edit distances are computed at once.
BATCH = 256


class RouteScores(AbstractTabulated):
    """Scores of each trip, and their means."""

    #: log of the probability of the observed way.
    log_probability: Float[np.ndarray, " N"]
    #: The share of observed arcs that are on the most probable way.
    overlap: Float[np.ndarray, " N"]
    #: The same with arcs weighed by an attribute, if one was given; NaN where the whole trip has the weight 0.
    weighted_overlap: Float[np.ndarray, " N"] | None
    #: Insertions, deletions and replacements of arcs that make one way into the other, divided by the longer length.
    edit_distance: Float[np.ndarray, " N"]
    #: Whether both ways are the same.
    same: Float[np.ndarray, " N"]
    weights: Float[np.ndarray, " N"]

    def means(self) -> dict[str, tuple[float, float]]:
        """The mean over trips by weight, and its standard error, of each score."""
        scores = {
            "log probability": self.log_probability,
            "share of arcs predicted": self.overlap,
            "share predicted, weighted": self.weighted_overlap,
            "edit distance": self.edit_distance,
            "same route": self.same,
        }
        return {name: _mean(score, self.weights) for name, score in scores.items() if score is not None}

    def table(self) -> Table:
        """Means with standard errors."""
        rows = [(name, *both) for name, both in self.means().items()]
        return Table(("", "mean", "s.e."), rows, title=f"Most probable and observed routes of {len(self.same):,} trips")

    def _shown(self) -> Table:
        return self.table()


def route_scores(model: FittedModel, demos: Demonstrations, lengths: Any) -> RouteScores:
    """See `AbstractGoalFit.route_scores`."""
    demand = Demand.of_demos(model.mdp, demos)
    if not demos.terminated.all():
        raise ValueError(
            f"Whole trips are compared, but trip {int(np.argmin(demos.terminated))} does not reach its goal "
            f"(`terminated` is false). Leave such trips out."
        )
    options = model.options
    head = certain_moves(options)
    sizes = _sizes(model, lengths)
    observed = options.of_cells(model.mdp, demos.tabular_states, np.asarray(demos.actions))
    log_probability, predicted = _solved_trips(model, demand, demos, observed, head)
    routes = np.split(observed, demos.offsets[1:-1])
    shares = np.array([_overlap(seen, way, None) for seen, way in zip(routes, predicted, strict=True)])
    weighted = None
    if sizes is not None:
        weighted = np.array([_overlap(seen, way, sizes) for seen, way in zip(routes, predicted, strict=True)])
    longest = np.array([max(len(seen), len(way)) for seen, way in zip(routes, predicted, strict=True)])
    edits = edit_distances(routes, predicted)
    return RouteScores(
        log_probability, shares, weighted, edits / longest, (edits == 0).astype(float), np.array(demos.weights)
    )


def _solved_trips(
    model: FittedModel, demand: Demand, demos: Demonstrations, observed: Any, head: Int[np.ndarray, " J"]
) -> tuple[Float[np.ndarray, " N"], list[Int[np.ndarray, "_"]]]:
    """The log probability of each trip, and the options of its most probable way."""
    choices = model.at_estimates()
    states, trip = demos.tabular_states, demos.episode
    needed = Needed(np.concatenate([states, head[observed]]), np.concatenate([trip, trip]))
    logs = np.empty(demos.num_episodes)
    ways: list[Any] = [None] * demos.num_episodes
    for solved in choices.solutions(demand.starts, demand.goals, needed):
        logs[solved.rows] = _log_probabilities(solved, choices.options, demos, observed)
        policy = solved.block.policy()
        for column in np.unique(solved.columns):
            goal = int(solved.block.goals[column])
            _, following = cheapest(choices.options, head, option_costs(policy[:, column]), goal)
            known: dict[int, np.ndarray] = {}
            for row in solved.rows[solved.columns == column]:
                start = int(demand.starts[row])
                if start not in known:
                    known[start] = _followed(following, head, start, goal)
                ways[row] = known[start]
    return logs, ways


def _log_probabilities(
    solved: Solved, options: Options, demos: Demonstrations, observed: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " m"]:
    """log of the probability of each trip that was solved for."""
    head = certain_moves(options)
    column = np.full(demos.num_episodes, -1)
    column[solved.rows] = solved.columns
    rows = np.flatnonzero(column[demos.episode] >= 0)
    at, option, state = column[demos.episode[rows]], observed[rows], demos.tabular_states[rows]
    ahead = options.discount * solved.block.value_at(head[option], at)
    chances = (solved.rewards[option] + ahead - solved.block.value_at(state, at)) / options.scale[state]
    return np.bincount(demos.episode[rows], weights=chances, minlength=demos.num_episodes)[solved.rows]


def _followed(following: Any, head: Any, start: int, goal: int) -> Int[np.ndarray, " m"]:
    options, state = [], start
    while state != goal:
        options.append(int(following[state]))
        state = int(head[options[-1]])
    return np.array(options, int)


def _sizes(model: FittedModel, lengths: Any) -> Float[np.ndarray, " J"] | None:
    if lengths is None:
        return None
    table = checks.as_floats("lengths", lengths)
    checks.has_shape("lengths", table, model.mdp.table_shape, "(R, A), a table over states and actions")
    sizes = table[model.options.row, model.options.column]
    if not (sizes >= 0).all():
        raise ValueError("`lengths` must not be negative or NaN, but are.")
    return sizes


def _overlap(seen: Int[np.ndarray, " n"], way: Int[np.ndarray, " m"], sizes: Float[np.ndarray, " J"] | None) -> float:
    shared = np.isin(seen, way)
    weight = np.ones(len(seen)) if sizes is None else sizes[seen]
    return float(weight @ shared / weight.sum()) if weight.sum() > 0 else np.nan


def edit_distances(some: list[Int[np.ndarray, "_"]], others: list[Int[np.ndarray, "_"]]) -> Float[np.ndarray, " N"]:
    """The Levenshtein distance of each pair of sequences of numbers ≥ 0, many pairs at once."""
    result = np.empty(len(some))
    order = np.argsort([max(len(one), len(other)) for one, other in zip(some, others, strict=True)], kind="stable")
    for k in range(0, len(order), BATCH):
        batch = order[k : k + BATCH]
        result[batch] = _edit_batch([some[i] for i in batch], [others[i] for i in batch])
    return result


def _edit_batch(some: list[Int[np.ndarray, "_"]], others: list[Int[np.ndarray, "_"]]) -> Float[np.ndarray, " N"]:
    """By rows of the usual table; within a row, insertions are a running minimum of (entry − column)."""
    first, second = np.array([len(one) for one in some]), np.array([len(other) for other in others])
    left, right = _padded(some, -1), _padded(others, -2)
    columns = np.arange(right.shape[1] + 1)
    row = np.tile(columns, (len(some), 1))
    result = np.where(first == 0, second, 0)
    for i in range(left.shape[1]):
        best = np.minimum(row[:, 1:] + 1, row[:, :-1] + (left[:, i : i + 1] != right))
        best = np.concatenate([np.full((len(some), 1), i + 1), best], axis=1)
        row = np.minimum.accumulate(best - columns, axis=1) + columns
        result = np.where(first == i + 1, np.take_along_axis(row, second[:, None], axis=1)[:, 0], result)
    return result.astype(float)


def _padded(sequences: list[Int[np.ndarray, "_"]], fill: int) -> Int[np.ndarray, "N L"]:
    full = np.full((len(sequences), max(map(len, sequences), default=0)), fill)
    for i, sequence in enumerate(sequences):
        full[i, : len(sequence)] = sequence
    return full


def _mean(score: Float[np.ndarray, " N"], weights: Float[np.ndarray, " N"]) -> tuple[float, float]:
    known = np.isfinite(score)
    weights, score = weights[known], score[known]
    total = weights.sum()
    if total <= 0:
        return np.nan, np.nan
    mean = float(weights @ score / total)
    spread = float(weights @ (score - mean) ** 2)
    return mean, float(np.sqrt(spread / max(total - 1, 1e-300) / total)) if total > 1 else np.nan
