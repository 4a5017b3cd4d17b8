"""Predicted routes against enumeration, and their scores against plain loops."""

import numpy as np
import pytest

from irlax.estimators.goals.route_scores import edit_distances
from tests.estimators.goals import oracles
from tests.estimators.goals.problems import fit, network, rewards_of, trips


def arcs_of(net, states, actions):
    place = {(int(tail), int(action)): e for e, (tail, action) in enumerate(zip(net.tail, net.action, strict=True))}
    return tuple(place[int(state), int(action)] for state, action in zip(states, actions, strict=False))


@pytest.mark.parametrize("seed", range(3))
def test_routes_are_the_most_probable_of_all_ways(seed):
    net, found = network(seed), fit(seed)
    rewards = rewards_of(net, np.asarray(found.estimates))
    for start, goal in [(0, 4), (5, 2), (7, 6)]:
        value = oracles.values(net, rewards, goal)[start]
        ways = oracles.ways(net, start, goal, 7)
        chances = np.exp([sum(rewards[list(way)]) - value for way in ways])
        order = np.argsort(-chances, kind="stable")
        routes = found.routes(start, goal, num=12)
        # A longer way is less probable than each of these.
        assert chances[order[11]] > (1 - chances.sum()) or len(ways) > 12
        assert np.allclose(routes.probability, chances[order[:12]], rtol=1e-9)
        for k in range(12):
            way = arcs_of(net, routes.states[k], routes.actions[k])
            assert np.isclose(chances[ways.index(way)], routes.probability[k], rtol=1e-9)
            assert routes.states[k][-1] == goal and routes.labels[k][0] == str(start)
        assert len({arcs_of(net, s, a) for s, a in zip(routes.states, routes.actions, strict=True)}) == 12


def test_routes_may_have_loops():
    found = fit(0)
    routes = found.routes(0, 4, num=400)
    assert any(len(set(states.tolist())) < len(states) for states in routes.states)
    assert (np.diff(routes.probability) <= 1e-15).all() and routes.probability.sum() < 1 + 1e-12
    assert "cumulative" in str(found.routes(0, 4))


@pytest.mark.parametrize("seed", range(2))
def test_scores_are_those_of_plain_loops(seed):
    net, found, demos = network(seed), fit(seed), trips(seed)
    rewards = rewards_of(net, np.asarray(found.estimates))
    lengths = np.asarray(net.linear(["minutes"]).features)[..., 0]
    scores = found.route_scores(demos, lengths=lengths)
    for k in range(demos.num_episodes):
        rows = slice(demos.offsets[k], demos.offsets[k + 1])
        start, goal = int(demos.states[rows][0]), int(demos.goals[k])
        seen = arcs_of(net, demos.states[rows], demos.actions[rows])
        ways = oracles.ways(net, start, goal, 7)
        best = max(ways, key=lambda way: sum(rewards[list(way)]))
        chance = sum(rewards[list(seen)]) - oracles.values(net, rewards, goal)[start]
        assert np.isclose(scores.log_probability[k], chance, rtol=1e-9)
        shared = [arc in best for arc in seen]
        minutes = net.attribute("minutes")[list(seen)]
        assert np.isclose(scores.overlap[k], np.mean(shared))
        assert np.isclose(scores.weighted_overlap[k], minutes @ shared / minutes.sum())
        edits = oracles.edit_distance(seen, best)
        assert np.isclose(scores.edit_distance[k], edits / max(len(seen), len(best)))
        assert scores.same[k] == (seen == best)
    mean, error = scores.means()["edit distance"]
    assert np.isclose(mean, scores.edit_distance.mean())
    assert np.isclose(error, scores.edit_distance.std(ddof=1) / np.sqrt(demos.num_episodes))


def test_edit_distances_are_those_of_the_plain_recursion():
    rng = np.random.default_rng(0)
    some = [rng.integers(5, size=rng.integers(1, 12)) for _ in range(400)]
    others = [rng.integers(5, size=rng.integers(1, 12)) for _ in range(400)]
    expected = [oracles.edit_distance(one, other) for one, other in zip(some, others, strict=True)]
    assert np.array_equal(edit_distances(some, others), expected)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f: f.routes(3, 3), "The start is the goal"),
        (lambda f: f.routes([0, 1], 3), "one state"),
        (lambda f: f.routes(0, 3, num=0), "at least 1"),
        (lambda f: f.route_scores(trips(0), lengths=np.ones(3)), "table over states and actions"),
    ],
)
def test_mistakes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(fit(0))
