r"""The most probable routes.

A route has probability $\prod \pi_g(j)$, so its cost $-\sum\log\pi_g(j)$ adds up along arcs, none of which costs less
than 0. The cheapest ways are found by best-first search (Hart, Nilsson and Raphael 1968) over beginnings of ways, with
the exact remaining cost, of one Dijkstra search backwards from the goal: the k-th way found is the k-th most probable
one. States may be passed several times, as in the model.
"""

import heapq
from typing import Any

import equinox as eqx
import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from irlax import checks
from irlax.estimators.goals.by_option import state_labels
from irlax.estimators.goals.demand import Demand
from irlax.estimators.goals.fitted_model import FittedModel
from irlax.planning.goals.options import Options
from irlax.tables import AbstractTabulated, Table
from irlax.typing import Float, Int

#: SciPy takes an edge of cost 0 for none, and a choice without alternatives costs 0.
LEAST_COST = 1e-300


class Routes(AbstractTabulated):
    """Routes from a start to a goal, most probable first."""

    #: The states of each route, goal included, and their names.
    states: tuple[Int[np.ndarray, "_"], ...]
    labels: tuple[tuple[str, ...], ...] = eqx.field(static=True)
    #: The action in each state but the goal.
    actions: tuple[Int[np.ndarray, "_"], ...]
    probability: Float[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.states)

    def table(self) -> Table:
        """A row for each route."""
        rows = [
            (" ".join(names), float(chance), float(total))
            for names, chance, total in zip(self.labels, self.probability, np.cumsum(self.probability), strict=True)
        ]
        return Table(("route", "probability", "cumulative"), rows, title="Most probable routes")

    def _shown(self) -> Table:
        return self.table()


def most_probable_routes(model: FittedModel, start: Any, goal: Any, num: int) -> Routes:
    """See `AbstractGoalFit.routes`."""
    checks.count("num", num)
    demand = Demand.of(model.mdp, start, goal)
    checks.has_shape("start", demand.starts, (1,), "one state")
    head = certain_moves(model.options)
    if demand.starts[0] == demand.goals[0]:
        raise ValueError(f"The start is the goal, {demand.goals[0]}: there is nothing to choose.")
    (solved,) = demand.solutions(model.at_estimates())
    cost = option_costs(solved.block.policy()[:, int(solved.columns[0])])
    found = _search(model.options, head, cost, (int(demand.starts[0]), int(demand.goals[0])), num)
    names, states = state_labels(model.mdp), []
    actions = []
    for _, taken in found:
        states.append(np.append(model.options.state[taken], demand.goals[0]))
        _, action = model.mdp.rows.states_and_actions(model.options.row[taken], model.options.column[taken])
        actions.append(np.asarray(action))
    labels = tuple(tuple(names[state] for state in route) for route in states)
    return Routes(tuple(states), labels, tuple(actions), np.exp(-np.array([total for total, _ in found])))


def certain_moves(options: Options) -> Int[np.ndarray, " J"]:
    """The next state of each option; a ValueError where moves are random."""
    if options.head is None:
        raise ValueError("Routes are ways that can be chosen, but in this MDP moves are random.")
    return options.head


def option_costs(policy: Float[np.ndarray, " J"]) -> Float[np.ndarray, " J"]:
    """−log π of each option, ∞ for those that are never taken."""
    with np.errstate(divide="ignore"):
        return np.maximum(-np.log(policy), 0.0)


def cheapest(
    options: Options, head: Int[np.ndarray, " J"], cost: Float[np.ndarray, " J"], goal: int
) -> tuple[Float[np.ndarray, " S"], Int[np.ndarray, " S"]]:
    """The least cost from each state to the goal, and the first option; −1 at the goal and where there is no way."""
    usable = np.flatnonzero(np.isfinite(cost) & (options.state != goal))
    # Of parallel options the cheapest: sorted by tail, head and cost, it is the first of its pair.
    order = usable[np.lexsort((cost[usable], head[usable], options.state[usable]))]
    pair = options.state[order] * options.num_states + head[order]
    first = order[np.concatenate([[True], pair[1:] != pair[:-1]])] if len(order) else order
    shape = (options.num_states, options.num_states)
    backwards = sp.csr_array((np.maximum(cost[first], LEAST_COST), (head[first], options.state[first])), shape)
    distance, before = dijkstra(backwards, indices=goal, return_predecessors=True)
    following = np.full(options.num_states, -1)
    known = np.flatnonzero(before >= 0)
    keys = options.state[first] * options.num_states + head[first]
    following[known] = first[np.searchsorted(keys, known * options.num_states + before[known])]
    return distance, following


def _search(
    options: Options, head: Int[np.ndarray, " J"], cost: Float[np.ndarray, " J"], pair: tuple[int, int], num: int
) -> list[tuple[float, Int[np.ndarray, "_"]]]:
    """The cheapest ways, as their costs and the options that they take."""
    start, goal = pair
    remaining, _ = cheapest(options, head, cost, goal)
    begin, found = options.first, []
    # Beginnings of ways, as their last option and the number of the one before; in the queue by cost with what remains.
    taken: list[tuple[int, int]] = [(-1, -1)]
    queue: list[tuple[float, int, float, int]] = [(float(remaining[start]), 0, 0.0, start)]
    while queue and len(found) < num:
        _, number, so_far, state = heapq.heappop(queue)
        if state == goal:
            found.append((so_far, _unwound(taken, number)))
            continue
        for option in range(begin[state], begin[state + 1]):
            total = so_far + float(cost[option])
            bound = total + float(remaining[head[option]])
            if np.isfinite(bound):
                taken.append((option, number))
                heapq.heappush(queue, (bound, len(taken) - 1, total, int(head[option])))
    return found


def _unwound(taken: list[tuple[int, int]], number: int) -> Int[np.ndarray, " m"]:
    options = []
    while number > 0:
        option, number = taken[number]
        options.append(option)
    return np.array(options[::-1], int)
