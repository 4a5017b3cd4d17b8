"""Trips from known weights, and trips as tables."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from irlax import checks
from irlax.demos import Demonstrations
from irlax.demos.demonstrations import from_rows
from irlax.planning.goals import GoalPlan, goal_plan
from irlax.planning.goals import simulate as simulate_plan
from irlax.routes.network import Network
from irlax.typing import Float, Int, PRNGKeyArray

if TYPE_CHECKING:
    import pandas as pd


def simulate(
    net: Network, weights: Mapping[str, float], origins: Any, destinations: Any, *, key: PRNGKeyArray
) -> Demonstrations:
    """Trips under a linear reward; `Network.simulate` says what the arguments are."""
    import jax.random as jr

    if not isinstance(weights, Mapping) or not weights:
        raise TypeError(f"`weights` must be a dict from attributes to numbers, but is {weights!r:.60}.")
    values = checks.as_floats("weights", list(weights.values()))
    checks.finite("weights", values)
    where = net if net.base is None else net.base
    starts = _states(where, "origins", origins, last=False)
    goals = _states(net, "destinations", destinations, last=True)
    if len(starts) != len(goals):
        raise ValueError(
            f"There must be as many origins as destinations, but there are {len(starts)} and {len(goals)}."
        )
    reward = net.linear(list(weights), values)
    plan = goal_plan(net.mdp, reward, np.unique(goals))
    start_key, trip_key = jr.split(key)
    if net.base is not None:
        known = dict(zip(weights, values.tolist(), strict=True))
        starts = _first_links(net, plan, weights=known, nodes=starts, goals=goals, key=start_key)
    here = np.flatnonzero(starts == goals)
    if len(here):
        raise ValueError(f"Trip {here[0]} starts at its destination {net.state_labels[goals[here[0]]]!r}.")
    _require_reachable(net, plan, starts, goals)
    states, actions, after, lengths = simulate_plan(plan, starts, goals, trip_key)
    return from_rows(states, actions, lengths, next_states=after, terminated=True, goals=goals)


def _states(net: Network, name: str, labels: Any, *, last: bool) -> Int[np.ndarray, " n"]:
    """The state of each label; a label that is not known may be written as text."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise TypeError(f"`{name}` must be a list of labels, but is {labels!r:.60}.")
    given = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if not given:
        raise ValueError(f"`{name}` must name at least one state, but is empty.")
    by_text = {str(label): label for label in net.state_labels}
    known = set(net.state_labels)
    labels = [label if label in known else by_text.get(str(label), label) for label in given]
    states = net.find(labels, np.full(len(labels), last))
    if (states < 0).any():
        i = int(np.argmax(states < 0))
        raise ValueError(f"`{name}` must be labels of the network, but {given[i]!r:.60} is none.")
    return states


def _first_links(
    net: Network,
    plan: GoalPlan,
    *,
    weights: Mapping[str, float],
    nodes: Int[np.ndarray, " N"],
    goals: Int[np.ndarray, " N"],
    key: PRNGKeyArray,
) -> Int[np.ndarray, " N"]:
    """The link that each trip starts with, of those that leave its node: in proportion to exp(reward + V)."""
    import jax.random as jr

    base = net.base
    assert base is not None
    rng = np.random.default_rng(np.asarray(jr.key_data(key)))
    own = sum((w * base.attributes[name] for name, w in weights.items() if name in base.attributes), np.zeros(1))
    own = np.broadcast_to(own, base.num_arcs)
    order = np.argsort(base.tail, kind="stable")
    first = np.searchsorted(base.tail[order], np.arange(base.num_states + 1))
    index = np.searchsorted(plan.goals, goals)
    pairs, trip = np.unique(np.stack([nodes, index], axis=1), axis=0, return_inverse=True)
    links = np.empty(len(nodes), np.int64)
    by_pair = np.argsort(trip.ravel(), kind="stable")
    parts = np.split(by_pair, np.cumsum(np.bincount(trip.ravel()))[:-1])
    for (node, g), members in zip(pairs, parts, strict=True):
        leaving = order[first[node] : first[node + 1]]
        chances = _chances(own[leaving] + plan.value[g, leaving])
        if chances is None:
            raise ValueError(
                f"There is no way from {base.state_labels[node]!r} to {net.state_labels[plan.goals[g]]!r}."
            )
        links[members] = rng.choice(leaving, len(members), p=chances)
    return links


def _chances(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"] | None:
    return softmax(values) if len(values) and np.isfinite(values.max()) else None


def _require_reachable(
    net: Network, plan: GoalPlan, starts: Int[np.ndarray, " N"], goals: Int[np.ndarray, " N"]
) -> None:
    lost = ~np.isfinite(plan.value[np.searchsorted(plan.goals, goals), starts])
    if lost.any():
        i = int(np.argmax(lost))
        raise ValueError(f"There is no way from {net.state_labels[starts[i]]!r} to {net.state_labels[goals[i]]!r}.")


def trip_frame(net: Network, demos: Demonstrations) -> "pd.DataFrame":
    """Trips as a table with a row for each state, or each node, that they pass."""
    import pandas as pd

    demos.check(net.mdp)
    if demos.goals is None or demos.next_states is None or not demos.terminated.all():
        raise ValueError("Trips must be whole, with goals: some of these end before theirs.")
    lengths = demos.lengths
    last = np.cumsum(lengths + 1) - 1
    states = np.empty(int((lengths + 1).sum()), np.int64)
    inner = np.ones(len(states), bool)
    inner[last] = False
    states[inner], states[last] = demos.tabular_states, demos.goals
    column, labels = "node" if net.base is None else "state", net.state_labels
    base = net.base
    if base is not None and base.arc_labels is None and net.is_end[demos.goals].all():
        # A trip over the links k₁ … kₙ passes the tail of k₁ and the heads of all.
        nodes = np.empty_like(states)
        nodes[~np.insert(inner, 0, False)[:-1]] = base.tail[demos.start_states]
        nodes[np.insert(inner, 0, False)[:-1]] = base.head[demos.tabular_states]
        column, labels, states = "node", base.state_labels, nodes
    names = np.arange(demos.num_episodes) if demos.labels is None else demos.labels
    table = {
        "trip": np.repeat(names, lengths + 1),
        "position": np.arange(len(states)) - np.repeat(last - lengths, lengths + 1),
        column: [labels[state] for state in states.tolist()],
    }
    return pd.DataFrame(table)
