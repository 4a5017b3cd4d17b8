"""Trips as demonstrations, compared with plain loops over their labels."""

import itertools
import time

import numpy as np
import pandas as pd
import pytest

from irlax.routes import Network
from tests.networks import random_frame, random_walks


def assert_follows(net, demos, sequences):
    """Each episode takes the arcs of its sequence, and ends at its last label."""
    assert demos.num_episodes == len(sequences) and demos.terminated.all()
    for k, sequence in enumerate(sequences):
        rows = range(demos.offsets[k], demos.offsets[k + 1])
        assert [net.state_labels[demos.states[i]] for i in rows] == list(sequence[:-1])
        assert [net.state_labels[demos.next_states[i]] for i in rows] == list(sequence[1:])
        assert net.state_labels[demos.goals[k]] == sequence[-1]
        for i in rows:
            cell = net.mdp.cells([demos.states[i]], [demos.actions[i]])
            assert net.mdp.dynamics.probability(*cell, demos.next_states[i : i + 1])[0] == 1
    demos.check(net.mdp)


@pytest.mark.parametrize("kind", ["int", "text", "pair"])
@pytest.mark.parametrize("seed", range(4))
def test_trips_take_the_arcs_between_their_labels(seed, kind):
    frame = random_frame(seed, kind=kind)
    net, walks = Network.from_arcs(frame), random_walks(frame, seed)
    assert_follows(net, net.trips(walks), walks)


@pytest.mark.parametrize("kind", ["int", "text", "pair"])
@pytest.mark.parametrize("seed", range(4))
def test_trips_by_nodes_are_trips_by_links(seed, kind):
    frame = random_frame(seed, kind=kind)
    links, walks = Network.from_arcs(frame).links_as_states(), random_walks(frame, seed)
    by_links = [[*itertools.pairwise(walk), walk[-1]] for walk in walks]
    assert_follows(links, links.node_trips(walks), by_links)
    assert_follows(links, links.trips(by_links), by_links)


def test_a_network_of_links_may_pass_the_node_of_the_goal():
    links = Network.from_arcs({"from": [1, 2, 3], "to": [2, 3, 2]}).links_as_states()
    demos = links.node_trips([[1, 2, 3, 2]])
    assert [links.state_labels[state] for state in demos.states] == [(1, 2), (2, 3), (3, 2)]
    demos.check(links.mdp)


def test_weights_and_names_are_kept():
    net = Network.from_arcs({"from": [1, 2], "to": [2, 3]})
    demos = net.trips(np.array([[1, 2], [2, 3]]), weights=[1.0, 2.5], labels=["ann", "bob"])
    assert demos.weights.tolist() == [1, 2.5] and demos.labels.tolist() == ["ann", "bob"]
    assert demos.where(1) == "episode bob, t = 0"


NET = Network.from_arcs({"from": [1, 2, 3, 1, 1, 4], "to": [2, 3, 4, 3, 3, 1]})


@pytest.mark.parametrize(
    "sequences, options, message",
    [
        (
            [[1, 2], [2, 7]],
            {},
            r"Trip 1, position 1: there is no state 7 in the network. States are called 1, 2, 3, 4.",
        ),
        ([["1", "2"]], {}, "Trip 0, position 0: there is no state '1'"),
        ([[1, np.nan]], {}, "Trip 0, position 1: there is no state nan"),
        ([[1, [2]]], {}, r"Trip 0, position 1: a label must be .* list \[2\]"),
        ([[1, 2], [2, 3, 1]], {"labels": ["ann", "bob"]}, "Trip 'bob', position 1: no arc leads from 3 to 1"),
        ([[1, 1]], {}, "no arc leads from 1 to 1"),
        ([[1, 2], [2]], {}, "at least two labels, but trip 1 has 1"),
        ([[]], {}, "trip 0 has 0"),
        ([], {}, "no trips"),
        ([[2, 3, 4, 1, 2, 3]], {}, "Trip 0, position 1: the trip is at its goal 3 before its end"),
        ([[1, 3]], {}, "Trip 0, position 0: 2 arcs lead from 1 to 3.*`links_as_states`"),
        ("12", {}, "list of sequences"),
        (["12"], {}, "Trip 0 must be a sequence of labels, but is the str '12'"),
        ([1, 2], {}, "Trip 0 must be a sequence of labels"),
        ([[1, 2]], {"labels": ["a", "b"]}, "`labels` must name each of the 1 trips"),
        ([[1, 2]], {"labels": [None]}, "whole numbers or text"),
        ([[1, 2]], {"weights": [-1.0]}, "`weights` must not be negative"),
        ([[1, 2]], {"weights": [1.0, 2.0]}, "`weights` must have shape"),
    ],
)
def test_malformed_trips_are_refused_by_trip_and_position(sequences, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        NET.trips(sequences, **options)


def test_trips_by_nodes_need_links_and_ends():
    with pytest.raises(ValueError, match="states of this network are nodes"):
        NET.node_trips([[1, 2]])
    links = Network.from_arcs({"from": [1, 2], "to": [2, 3]}).links_as_states(ends=[3])
    with pytest.raises(ValueError, match="Trip 0, position 1: the trip ends at node 2, which is no end"):
        links.node_trips([[1, 2]])
    with pytest.raises(ValueError, match="Trip 0, position 1: no arc leads from 2 to 1"):
        links.node_trips([[1, 2, 1, 2, 3]])


def test_a_turn_that_was_left_out_is_no_step():
    links = Network.from_arcs({"from": [1, 2, 2], "to": [2, 1, 3]}).links_as_states(uturns=False)
    with pytest.raises(ValueError, match=r"Trip 0, position 0: no arc leads from \(1, 2\) to \(2, 1\)"):
        links.node_trips([[1, 2, 1]])


def test_many_trips_in_a_large_network_take_seconds():
    """A board of 200 × 200 nodes, and 50,000 walks of 20 steps to the right and up."""
    n, rng = 200, np.random.default_rng(0)
    node = np.arange(n * n).reshape(n, n)
    pairs = [(node[:, :-1], node[:, 1:]), (node[:, 1:], node[:, :-1]), (node[:-1], node[1:]), (node[1:], node[:-1])]
    tail, head = (np.concatenate([pair[k].ravel() for pair in pairs]) for k in (0, 1))
    steps = rng.integers(2, size=(50_000, 20))
    start = rng.integers(n - 20, size=(50_000, 2))
    row = start[:, :1] + np.cumsum(np.c_[np.zeros(50_000, int), steps], axis=1)
    column = start[:, 1:] + np.cumsum(np.c_[np.zeros(50_000, int), 1 - steps], axis=1)
    began = time.perf_counter()
    net = Network.from_arcs(pd.DataFrame({"from": tail, "to": head, "km": 1.0}))
    demos = net.trips(node[row, column])
    assert demos.num_steps == 10**6 and demos.goals.tolist() == node[row[:, -1], column[:, -1]].tolist()
    assert time.perf_counter() - began < 20
