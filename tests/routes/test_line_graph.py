"""Links as states: turns by brute force over all pairs of links, angles by complex numbers."""

import cmath
import math

import numpy as np
import pandas as pd
import pytest

from irlax.routes import Network, read_tntp
from tests.networks import FOLDER, PUBLIC, needs_networks, random_frame


def places(frame, seed):
    rng = np.random.default_rng(seed)
    return {label: tuple(rng.normal(size=2)) for label in {*frame["from"]} | {*frame["to"]}}


def brute_force(rows, xy):
    """Every turn, with what it is: links are pairs of nodes."""
    found = {}
    for a, b in rows:
        for c, d in rows:
            if b != c:
                continue
            before, after = (complex(*xy[q]) - complex(*xy[p]) for p, q in ((a, b), (c, d)))
            degrees = math.degrees(cmath.phase(after / before))
            kind = "straight" if abs(degrees) < 40 else "left" if degrees > 0 else "right"
            found[(a, b), (c, d)] = ("uturn" if d == a or abs(degrees) > 177 else kind), degrees
    return found


@pytest.mark.parametrize("kind", ["int", "text", "pair"])
@pytest.mark.parametrize("seed", range(4))
def test_turns_are_those_of_all_pairs_of_links(seed, kind):
    frame = random_frame(seed, kind=kind)
    xy = places(frame, seed)
    rows = list(zip(frame["from"], frame["to"], strict=True))
    expected = brute_force(rows, xy)
    links = Network.from_arcs(frame, nodes=xy).links_as_states()
    minutes = dict(zip(rows, frame["minutes"], strict=True))
    seen, arrivals = set(), set()
    for e in range(links.num_arcs):
        before, after = links.state_labels[links.tail[e]], links.state_labels[links.head[e]]
        values = {name: float(array[e]) for name, array in links.attributes.items()}
        if links.is_end[links.head[e]]:
            assert before[1] == after and set(values.values()) == {0.0}
            arrivals.add((before, after))
            continue
        what, degrees = expected[before, after]
        assert [name for name in ("left", "right", "straight", "uturn") if values[name]] == [what]
        assert values["turns"] == 1 and values["minutes"] == minutes[after]
        assert before[0] == after[1] or math.isclose(math.degrees(values["angle"]), degrees, abs_tol=1e-9)
        seen.add((before, after))
    assert seen == set(expected) and arrivals == {(row, row[1]) for row in rows}
    assert links.num_arcs == len(seen) + len(arrivals)
    assert links.num_states == len(rows) + len(set(frame["to"]))


def test_left_is_left():
    xy = {"o": (0, 0), "south": (0, -1), "west": (-1, 0), "east": (1, 0), "north": (0.1, 1), "loop": (0, -1.0)}
    arcs = {"from": ["south", "o", "o", "o", "o", "o"], "to": ["o", "west", "east", "north", "south", "loop"]}
    links = Network.from_arcs(arcs, nodes=xy).links_as_states(ends=[])
    kinds = {}
    for e in np.flatnonzero(links.tail == links.state_of(("south", "o"))):
        kinds[links.state_labels[links.head[e]][1]] = [
            name for name in ("left", "right", "straight", "uturn") if links.attribute(name)[e]
        ]
    expected = {"west": "left", "east": "right", "north": "straight", "south": "uturn", "loop": "uturn"}
    assert kinds == {node: [kind] for node, kind in expected.items()}
    assert links.attribute("angle")[0] == pytest.approx(math.pi / 2)


def test_longitudes_are_scaled_by_the_latitude():
    # At 60° north a degree of longitude is half as long: a turn of 45° looks like one of 26.6° in plain degrees.
    xy = {1: (0, 59.999), 2: (0, 60.0), 3: (-0.002, 60.001)}
    net = Network.from_arcs({"from": [1, 2], "to": [2, 3]}, nodes=xy)
    angle = net.links_as_states(ends=[], lonlat=True).attribute("angle")[0]
    assert math.degrees(angle) == pytest.approx(45, abs=0.01)
    assert math.degrees(net.links_as_states(ends=[]).attribute("angle")[0]) == pytest.approx(63.4, abs=0.1)


def test_without_coordinates_uturns_are_known_and_can_be_left_out():
    net = Network.from_arcs({"from": [1, 2, 2], "to": [2, 1, 3], "km": [1.0, 2.0, 3.0]})
    links = net.links_as_states(ends=[3])
    assert list(links.attributes) == ["km", "turns", "uturn"]
    pairs = {(links.state_labels[t], links.state_labels[h]): u for t, h, u in
             zip(links.tail, links.head, links.attribute("uturn"), strict=True)}  # fmt: skip
    assert pairs == {((1, 2), (2, 1)): 1, ((1, 2), (2, 3)): 0, ((2, 1), (1, 2)): 1, ((2, 3), 3): 0}
    fewer = net.links_as_states(ends=[3], uturns=False)
    assert fewer.num_arcs == 2 and set(fewer.attribute("uturn")) == {0.0}


def test_zones_are_not_passed_and_trips_end_in_them():
    frame = pd.DataFrame({"from": [1, 10, 11, 2, 10, 10, 1], "to": [10, 2, 2, 11, 11, 1, 2]})
    net = Network.from_arcs(frame, zones=[1, 2])
    assert net.state_labels == (1, 2, 10, 11, 1, 2) and net.is_end.tolist() == [False] * 4 + [True] * 2
    assert net.state_of(1) == 0 and net.goal_of(1) == 4 and net.goal_of(10) == net.state_of(10) == 2
    assert not np.isin(net.head, [0, 1]).any() and not np.isin(net.tail, [4, 5]).any()
    demos = net.trips([[1, 10, 11, 2], [1, 10, 1], [1, 2], [2, 11]])
    assert demos.goals.tolist() == [5, 4, 5, 3]
    demos.check(net.mdp)
    with pytest.raises(ValueError, match=r"Trip 0, position 1: no arc leads from 10 to 2.* 2 is a zone"):
        net.trips([[1, 10, 2, 11]])
    links = net.links_as_states()
    turns = {(links.state_labels[t], links.state_labels[h]) for t, h in zip(links.tail, links.head, strict=True)}
    rows = list(frame.itertuples(index=False, name=None))
    expected = {((a, b), (c, d)) for a, b in rows for c, d in rows if b == c and b not in (1, 2)}
    assert turns == expected | {((a, b), b) for a, b in rows}
    back = np.flatnonzero(links.attribute("uturn"))
    assert {links.state_labels[state] for state in links.tail[back]} == {(1, 10), (2, 11)}
    assert {links.state_labels[state] for state in links.head[back]} == {(10, 1), (11, 2)}
    links.node_trips([[1, 10, 11, 2], [1, 10, 1]]).check(links.mdp)


def test_links_with_names_may_be_parallel():
    frame = pd.DataFrame({"from": ["a", "a", "b"], "to": ["b", "b", "c"], "id": [7, 8, 9]})
    with pytest.raises(ValueError, match=r"but 2 lead from 'a' to 'b'. Give each link a name .* `link=`"):
        Network.from_arcs(frame.drop(columns="id")).links_as_states()
    links = Network.from_arcs(frame, link="id").links_as_states()
    assert links.state_labels == (7, 8, 9, "b", "c")
    assert links.trips([[8, 9, "c"]]).goals.tolist() == [4]
    with pytest.raises(ValueError, match="2 links lead from 'a' to 'b', so which one was taken is unknown"):
        links.node_trips([["a", "b", "c"]])
    with pytest.raises(ValueError, match="Links and nodes must have different names"):
        Network.from_arcs(frame.replace({"a": 7, "b": 9, "c": 10}), link="id").links_as_states()


@pytest.mark.parametrize(
    "ends, message",
    [("some", "must be 'all'"), ([5], "no state 5"), ([2, 2], "each node once"), ([1], "none leads to 1")],
)
def test_ends_must_be_nodes_that_are_reached(ends, message):
    with pytest.raises(ValueError, match=message):
        Network.from_arcs({"from": [1, 2], "to": [2, 3]}).links_as_states(ends=ends)


def test_links_are_not_made_of_links_and_names_of_attributes_do_not_clash():
    net = Network.from_arcs({"from": [1, 2], "to": [2, 1], "uturn": [0, 1]})
    with pytest.raises(ValueError, match="rename the links' own 'uturn'"):
        net.links_as_states()
    with pytest.raises(ValueError, match="links already"):
        Network.from_arcs({"from": [1, 2], "to": [2, 1]}).links_as_states().links_as_states()


@needs_networks
@pytest.mark.parametrize("name", PUBLIC)
def test_public_networks_have_the_turns_that_their_degrees_give(name):
    nodes, num_nodes, num_links, num_zones = PUBLIC[name]
    net = read_tntp(FOLDER / f"{name}_net.tntp", nodes=FOLDER / nodes)
    assert (net.num_states, net.num_arcs, int(net.is_end.sum())) == (num_nodes + num_zones, num_links, num_zones)
    rows, reading = [], False
    for line in (FOLDER / f"{name}_net.tntp").read_text().splitlines():
        if reading and line.strip() and not line.startswith("~"):
            rows.append(tuple(int(cell) for cell in line.split()[:2]))
        reading = reading or "END OF METADATA" in line
    arriving, leaving = ({n: [r[k] for r in rows].count(n) for n in range(1, num_nodes + 1)} for k in (1, 0))
    turns = sum(arriving[n] * leaving[n] for n in range(num_zones + 1, num_nodes + 1))
    links = net.links_as_states(lonlat=name != "ChicagoSketch")
    assert links.num_arcs == turns + num_links and links.attribute("turns").sum() == turns
    kinds = sum(links.attribute(kind) for kind in ("left", "right", "straight", "uturn"))
    assert np.array_equal(kinds, links.attribute("turns"))
    assert links.num_states == num_links + sum(count > 0 for count in arriving.values())
