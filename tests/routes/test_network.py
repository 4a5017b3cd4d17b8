"""Networks from tables: states, arcs, attributes and the MDP, compared with plain loops over the rows."""

import numpy as np
import pandas as pd
import pytest

import irlax as ix
from irlax.routes import Network
from tests.networks import random_frame

KINDS = ["int", "text", "pair"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_arcs_and_attributes_are_those_of_the_rows(seed, kind):
    frame = random_frame(seed, kind=kind)
    net = Network.from_arcs(frame)
    assert set(net.state_labels) == {*frame["from"], *frame["to"]} and net.num_arcs == len(frame)
    for e, row in enumerate(frame.itertuples(index=False)):
        assert (net.state_labels[net.tail[e]], net.state_labels[net.head[e]]) == row[:2]
        assert [net.attribute(name)[e] for name in ("minutes", "paved", "lanes")] == list(row[2:])
        assert net.arc_of(*row[:2]) == e
    assert list(net.attributes) == ["minutes", "paved", "lanes"]
    if kind != "pair":
        assert list(net.state_labels) == sorted(net.state_labels)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_the_mdp_has_an_action_for_each_arc_and_the_reward_its_attributes(seed, kind):
    frame = random_frame(seed, num_nodes=12, num_arcs=25, kind=kind)
    net = Network.from_arcs(frame)
    mdp, reward = net.mdp, net.linear(["minutes", "paved"], [-1.0, 0.5])
    assert mdp.ends_at_goal and mdp.discount == 1 and mdp.num_states == net.num_states
    leaving = {}
    for row in frame.itertuples(index=False):
        leaving.setdefault(net.state_of(row[0]), []).append((net.state_of(row[1]), row.minutes, row.paved))
    assert int(np.asarray(mdp.available).sum()) == len(frame) + net.num_states - len(leaving)
    for state in range(net.num_states):
        expected = leaving.get(state, [(state, 0, 0)])
        assert mdp.num_available[state] == len(expected)
        for action, (head, minutes, paved) in enumerate(expected):
            cell = mdp.cells([state], [action])
            assert mdp.dynamics.probability(*cell, np.array([head]))[0] == 1
            assert reward.features[cell][0].tolist() == [minutes, paved]
    total = frame["minutes"].sum(), frame["paved"].sum()
    assert np.allclose(reward.features.reshape(-1, 2).sum(axis=0), total)
    assert reward.names == ("minutes", "paved") and reward.weights.tolist() == [-1.0, 0.5]
    assert reward.bind(mdp) is reward


def test_a_hub_takes_several_rows_and_keeps_its_attributes():
    tail, head = np.r_[np.zeros(200, int), np.arange(1, 201)], np.r_[np.arange(1, 201), np.zeros(200, int)]
    net = Network.from_arcs({"from": tail, "to": head, "toll": np.arange(400.0)})
    assert not net.mdp.rows.one_per_state
    features = net.linear("toll").features
    assert features.shape == (*net.mdp.table_shape, 1)
    assert features[(*net.mdp.cells(tail), 0)].tolist() == list(range(400))


def test_columns_without_numbers_are_left_out_and_named_when_asked_for():
    net = Network.from_arcs({"from": [1, 2], "to": [2, 1], "name": ["a", "b"], "m": pd.array([1, None], "Int64")})
    assert list(net.attributes) == ["m"] and np.isnan(net.attribute("m")[1])
    with pytest.raises(ValueError, match="Column `name` is no attribute, because it does not hold numbers"):
        net.linear("name")
    with pytest.raises(ValueError, match=r"no attribute 'speed'\. The network has m"):
        net.linear(["speed"])
    with pytest.raises(ValueError, match="`attribute m` must be finite, but has NaN or infinite entries at 1"):
        net.linear("m")
    with pytest.raises(ValueError, match="each once"):
        net.linear(["m", "m"])


def test_attributes_can_be_added_and_arcs_closed():
    net = Network.from_arcs(random_frame(0))
    more = net.with_attributes(size=np.arange(net.num_arcs), one=1)
    assert more.attribute("size").tolist() == list(range(net.num_arcs)) and set(more.attribute("one")) == {1.0}
    assert "size" not in net.attributes
    closed = more.without([net.arc_of(*random_frame(0).iloc[3, :2])])
    assert closed.num_arcs == net.num_arcs - 1 and closed.state_labels == net.state_labels
    assert closed.attribute("size").tolist() == [e for e in range(net.num_arcs) if e != 3]
    with pytest.raises(ValueError, match="There are 0 arcs"):
        closed.arc_of(*random_frame(0).iloc[3, :2])
    mask = np.arange(net.num_arcs) % 2 == 0
    assert net.without(mask).num_arcs == net.num_arcs // 2
    assert net.without([]).num_arcs == net.num_arcs
    with pytest.raises(ValueError, match="must have shape"):
        net.with_attributes(size=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"must lie in 0\.\.29"):
        net.without([30])
    with pytest.raises(ValueError, match="leave at least one"):
        net.without(range(30))
    with pytest.raises(ValueError, match="read-only"):
        net.attribute("minutes")[0] = 1


def test_coordinates_come_from_a_frame_or_a_dict():
    arcs = {"from": ["a", "b"], "to": ["b", "c"]}
    places = {"c": (2, 3), "a": (0, 0), "b": (1, 5), "unused": (9, 9)}
    frame = pd.DataFrame(places, index=["x", "y"]).T
    for nodes in (places, frame):
        assert Network.from_arcs(arcs, nodes=nodes).coordinates.tolist() == [[0, 0], [1, 5], [2, 3]]
    assert Network.from_arcs(arcs).coordinates is None
    with pytest.raises(ValueError, match="has none for 'c'"):
        Network.from_arcs(arcs, nodes={"a": (0, 0), "b": (1, 5)})


def test_the_summary_counts_what_a_loop_finds():
    frame = pd.DataFrame({"from": [1, 2, 3, 3, 1, 6], "to": [2, 1, 4, 4, 3, 6], "km": [1.0, 2, 3, 4, np.nan, 5]})
    net = Network.from_arcs(frame)
    counts = dict(net.summary().tables[0].rows)
    assert counts["states"] == 5 and counts["arcs"] == 6
    assert counts["arcs that share both states with another"] == 2
    assert counts["arcs from a state to itself"] == 1
    assert counts["dead ends: other states that no arc leaves"] == 1
    assert counts["states that no arc leads to"] == 0
    assert counts["strongly connected components"] == 4 and counts["states in the largest of them"] == 2
    assert net.summary().tables[1].rows == (("km", 1.0, 3.0, 5.0, 1),)
    assert repr(net) == "Network(5 states, 6 arcs; attributes: km)"


def test_free_rewards_of_arcs_fit_the_mdp():
    net = Network.from_arcs(random_frame(1))
    assert ix.TabularReward("sa").bind(net.mdp).parameters.size


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"from": None}, ValueError, "There is no column `from`. The table has `to`"),
        ({"from": [1, np.nan]}, ValueError, "Column `from` must hold a label in every row, but row 1 has none"),
        ({"to": [1, [2]]}, TypeError, r"Column `to` must hold labels .* but row 1 has the list \[2\]"),
        ({"to": [1.5, 2.0]}, ValueError, "must hold whole numbers"),
        ({"to": [True, False]}, TypeError, "holds true and false"),
        ({"from": [], "to": []}, ValueError, "no rows"),
        ({"zones": [7]}, ValueError, "7 have no arcs"),
        ({"zones": "ab"}, TypeError, "must be a list of labels"),
        ({"zones": [[1]]}, TypeError, "not hashable"),
        ({"link": "id"}, ValueError, "There is no column `id`"),
        ({"link": "from"}, ValueError, "must be different columns"),
        ({"nodes": {1: (0, 0), 2: (0, np.nan)}}, ValueError, "`nodes` must be finite"),
        ({"nodes": pd.DataFrame({"x": [0, 1]}, index=[1, 2])}, ValueError, "has no y"),
        ({"nodes": pd.DataFrame({"x": [0, 1, 1], "y": 0}, index=[1, 2, 2])}, ValueError, "one row for each label"),
        ({"nodes": [1, 2]}, TypeError, "must be a DataFrame"),
    ],
)
def test_malformed_tables_are_refused(changes, error, message):
    columns = {
        name: values for name, values in ({"from": [1, 2], "to": [2, 1]} | changes).items() if values is not None
    }
    options = {name: columns.pop(name) for name in ("zones", "link", "nodes") if name in columns}
    with pytest.raises(error, match=message):
        Network.from_arcs({name: pd.Series(values) for name, values in columns.items()}, **options)


def test_names_of_arcs_differ():
    with pytest.raises(ValueError, match="Column `id` must name each arc differently, but row 2 repeats 'a'"):
        Network.from_arcs({"from": [1, 2, 3], "to": [2, 3, 1], "id": ["a", "b", "a"]}, link="id")
