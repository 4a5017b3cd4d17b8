"""Networks and trips from files, of small texts of our own and of public road networks."""

import gzip
import importlib.util
import json

import numpy as np
import pandas as pd
import pytest

from irlax.routes import Network, read_network, read_tntp, read_tntp_trips, read_trips
from tests.networks import FOLDER, PUBLIC, TNTP, TNTP_TRIPS, needs_networks, random_frame


def assert_same(net, other):
    """Two networks are equal, field by field."""
    assert (net.state_labels, net.arc_labels, net.ignored) == (other.state_labels, other.arc_labels, other.ignored)
    assert all(np.array_equal(getattr(net, name), getattr(other, name)) for name in ("tail", "head", "is_end"))
    assert list(net.attributes) == list(other.attributes)
    assert all(np.array_equal(net.attribute(name), other.attribute(name), equal_nan=True) for name in net.attributes)
    assert (net.coordinates is None) == (other.coordinates is None)
    assert net.coordinates is None or np.array_equal(net.coordinates, other.coordinates)
    assert (net.base is None) == (other.base is None)
    if net.base is not None:
        assert_same(net.base, other.base)


@pytest.mark.parametrize("zipped", [False, True])
def test_tntp_files_hold_links_zones_and_nodes(tmp_path, zipped):
    path = tmp_path / ("net.tntp.gz" if zipped else "net.tntp")
    path.write_bytes(gzip.compress(TNTP.encode()) if zipped else TNTP.encode())
    (tmp_path / "node.tntp").write_text("Node\tX\tY\t;\n" + "".join(f"{i}\t{i}\t{i * i}\t;\n" for i in range(1, 6)))
    net = read_network(path, nodes=tmp_path / "node.tntp")
    assert net.state_labels == (1, 2, 3, 4, 5, 1, 2) and net.is_end.tolist() == [False] * 5 + [True] * 2
    assert net.attribute("length").tolist() == [1.5, 1.5, 2.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    assert list(net.attributes) == [
        "capacity", "length", "free_flow_time", "b", "power", "speed", "toll", "link_type"
    ]  # fmt: skip
    assert net.coordinates.tolist() == [[i, i * i] for i in (1, 2, 3, 4, 5, 1, 2)]
    assert net.trips([[1, 3, 4, 5, 2], [2, 4, 3, 1]]).goals.tolist() == [6, 5]


def test_tntp_trips_are_a_table(tmp_path):
    (tmp_path / "trips.tntp").write_text(TNTP_TRIPS)
    frame = read_tntp_trips(tmp_path / "trips.tntp")
    assert frame.to_numpy().tolist() == [[1, 1, 0.0], [1, 2, 10.5], [2, 1, 20.0]]
    (tmp_path / "less.tntp").write_text(TNTP_TRIPS.replace("20.0;", "2.0;"))
    with pytest.warns(UserWarning, match=r"states a total flow of 30.5, but its trips sum to 12.5"):
        read_tntp_trips(tmp_path / "less.tntp")


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("<END OF METADATA>", "", "no <END OF METADATA>"),
        ("<FIRST THRU NODE> 3", "", "no <FIRST THRU NODE>"),
        ("NODES> 5", "NODES> five", "must be a whole number, but is 'five'"),
        ("NODES> 5", "NODES> 4", "Nodes must lie in 1..4"),
        ("LINKS> 8", "LINKS> 9", "says 9, but there are 8 rows"),
        ("\t3\t4\t200", "\t3\t200", "Line 10 must have 10 cells"),
        ("\t3\t4\t200", "\t3\tx\t200", "line 10 has 'x'"),
        ("\t3\t4\t200", "\t3.5\t4\t200", "`init_node` must be whole numbers, but one is 3.5"),
        ("\t3\t4\t200", "\t3\t4\tnan", "finite numbers, but not all in line 10"),
        ("capacity", "length", "name each column once"),
    ],
)
def test_malformed_tntp_files_are_refused(tmp_path, old, new, message):
    assert old in TNTP
    (tmp_path / "net.tntp").write_text(TNTP.replace(old, new))
    with pytest.raises(ValueError, match=f"net.tntp.*{message}"):
        read_tntp(tmp_path / "net.tntp")


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("Origin 1", "Origin one", "followed by the number of a zone, but is by 'one'"),
        ("Origin 1", "", "must start with `Origin`"),
        ("10.5;", "10.5", "must have pairs"),
        ("10.5", "-1", "from 1 to 2 must be a number from 0 on"),
        ("2 :   10.5", "3 :   10.5", "zones must lie in 1..2"),
        ("2 :   10.5", "1 :   10.5", "1 to 1 has several"),
    ],
)
def test_malformed_tntp_trips_are_refused(tmp_path, old, new, message):
    (tmp_path / "trips.tntp").write_text(TNTP_TRIPS.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        read_tntp_trips(tmp_path / "trips.tntp")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("kind", ["int", "text"])
def test_tables_are_read_as_they_were_written(tmp_path, suffix, kind):
    frame = random_frame(3, kind=kind).assign(id=[f"0{i}" for i in range(30)])
    getattr(frame, f"to_{suffix}")(tmp_path / f"arcs.{suffix}", index=False)
    assert_same(read_network(tmp_path / f"arcs.{suffix}", link="id"), Network.from_arcs(frame, link="id"))


def feature(points, **properties):
    return {"type": "Feature", "properties": properties, "geometry": {"type": "LineString", "coordinates": points}}


def write_lines(path, features):
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def test_lines_have_their_end_points_as_nodes(tmp_path):
    lines = [feature([[0, 0], [3, 3], [1, 0]], km=1.5, name="a"), feature([[1, 0, 7], [0, 0]], km=2, oneway=True)]
    net = read_network(write_lines(tmp_path / "lines.geojson", lines))
    assert net.state_labels == ((0.0, 0.0), (1.0, 0.0)) and net.coordinates.tolist() == [[0, 0], [1, 0]]
    assert net.attribute("km").tolist() == [1.5, 2] and net.ignored == ("name", "oneway")
    assert net.trips([[(0, 0), (1, 0)]]).goals.tolist() == [1]


def test_lines_may_name_their_nodes(tmp_path):
    lines = [feature([[0, 0], [1, 0]], u="x", v="y"), feature([[1, 0.001], [0, 0]], u="y", v="x")]
    lines[1]["geometry"] = {"type": "MultiLineString", "coordinates": [lines[1]["geometry"]["coordinates"]]}
    net = read_network(write_lines(tmp_path / "lines.json", lines), tail="u", head="v")
    assert net.state_labels == ("x", "y") and net.coordinates.tolist()[0] == [0, 0]


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "cannot be read as GeoJSON"),
        ("[]", "must be a FeatureCollection"),
        ('{"features": []}', "at least one feature"),
        ('{"features": [3]}', "feature 0 is a None"),
        (json.dumps({"features": [feature([[0, 0]])]}), "two points or more"),
        (json.dumps({"features": [feature([[0, 0], ["a", 1]])]}), "pairs of numbers"),
        (json.dumps({"features": [feature([[0, 0], [1, float("nan")]])]}), "must be finite"),
        (json.dumps({"features": [feature([[0, 0], [1, 1]]) | {"properties": [1]}]}), "must have properties"),
        (json.dumps({"features": [feature([[0, 0], [1, 1]], **{"from": 1})]}), "no column `to`"),
    ],
)
def test_malformed_lines_are_refused(tmp_path, content, message):
    (tmp_path / "lines.geojson").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_network(tmp_path / "lines.geojson")


@pytest.mark.skipif(importlib.util.find_spec("geopandas") is not None, reason="GeoPandas is installed")
def test_other_formats_need_an_extra(tmp_path):
    (tmp_path / "roads.shp").write_bytes(b"")
    with pytest.raises(ImportError, match=r"pip install irlax\[geo\]"):
        read_network(tmp_path / "roads.shp")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_trips_are_read_by_row_or_by_position(tmp_path, suffix):
    net = Network.from_arcs({"from": [1, 2, 3], "to": [2, 3, 1]})
    rows = pd.DataFrame({"trip": ["b", "b", "a", "b", "a"], "node": [1, 2, 3, 3, 1]})
    getattr(rows, f"to_{suffix}")(tmp_path / f"trips.{suffix}", index=False)
    demos = read_trips(tmp_path / f"trips.{suffix}", net)
    assert demos.labels.tolist() == ["b", "a"] and demos.states.tolist() == [0, 1, 2] and demos.goals.tolist() == [2, 0]
    rows = rows.assign(position=[3, 2, 1, 1, 0], weight=[2, 2, 1, 2, 1], node=[3, 2, 1, 1, 3])
    getattr(rows, f"to_{suffix}")(tmp_path / f"trips.{suffix}", index=False)
    again = read_trips(tmp_path / f"trips.{suffix}", net)
    assert again.states.tolist() == [0, 1, 2] and again.weights.tolist() == [2, 1]


def test_trips_in_a_network_of_links_are_of_nodes_or_of_links(tmp_path):
    links = Network.from_arcs({"from": ["1", "2"], "to": ["2", "3"], "id": ["x", "y"]}, link="id").links_as_states()
    (tmp_path / "nodes.csv").write_text("trip,node\n7,1\n7,2\n7,3\n")
    (tmp_path / "links.csv").write_text("trip,link\n7,x\n7,y\n7,3\n")
    for name in ("nodes", "links"):
        assert read_trips(tmp_path / f"{name}.csv", links).states.tolist() == [0, 1]


@pytest.mark.parametrize(
    "content, message",
    [
        ("trip,node\na,1\na,9\n", r"Trip 'a', position 1 \(row 1\): there is no state 9"),
        ("trip,node\na,1\nb,1\na,2\na,1\n", "but trip 'b' has only row 1"),
        ("trip,node\na,1\nb,1\na,2\na,1\nb,3\n", r"Trip 'a', position 1 \(row 2\): no arc leads from 2 to 1"),
        ("trip,node\na,1\na,\n", "Column `node` must hold a label in every row, but row 1 has none"),
        ("trip,place\na,1\n", "One column must hold the states"),
        ("node\n1\n", "There must be one column `trip`"),
        ("trip,node,position\na,1,0\na,2,0\n", "row 1 repeats that of 0"),
        ("trip,node,position\na,1,0\na,2,x\n", "Column `position` must hold numbers"),
        ("trip,node,weight\na,1,1\na,2,2\n", "Column `weight` must be the same in all rows of a trip, but row 1"),
        ("trip,node\n", "no rows"),
        ("", "cannot be read as a CSV file"),
    ],
)
def test_malformed_files_of_trips_are_refused(tmp_path, content, message):
    (tmp_path / "trips.csv").write_text(content)
    with pytest.raises((ValueError, TypeError), match=message):
        read_trips(tmp_path / "trips.csv", Network.from_arcs({"from": [1, 2, 3], "to": [2, 3, 1]}))


@pytest.mark.parametrize("kind", ["int", "text", "pair"])
def test_archives_keep_networks_of_nodes_and_of_links(tmp_path, kind):
    frame = random_frame(2, kind=kind).assign(name="road", sparse=np.nan)
    zones = list(dict.fromkeys(frame["from"]))[:2]
    xy = {label: (i, -i) for i, label in enumerate({*frame["from"], *frame["to"]})}
    net = Network.from_arcs(frame, zones=zones, nodes=xy)
    for each in (net, net.links_as_states(), Network.from_arcs({"from": [1], "to": [2], "id": ["a"]}, link="id")):
        each.save(tmp_path / "net.npz")
        assert_same(read_network(tmp_path / "net.npz"), each)


def test_archives_hold_plain_labels_only(tmp_path):
    net = Network.from_arcs({"from": [pd.Timestamp(0)], "to": [pd.Timestamp(1)]})
    with pytest.raises(TypeError, match="numbers, text or tuples"):
        net.save(tmp_path / "net.npz")
    assert not list(tmp_path.iterdir())


@needs_networks
@pytest.mark.parametrize("name", PUBLIC)
def test_public_networks_are_read_with_coordinates_and_trips(name, tmp_path):
    nodes, num_nodes, num_links, num_zones = PUBLIC[name]
    net = read_network(FOLDER / f"{name}_net.tntp", nodes=FOLDER / nodes)
    assert net.num_arcs == num_links and net.coordinates.shape == (num_nodes + num_zones, 2)
    assert (net.attribute("length") > 0).any() and not net.mdp.mask.all()
    trips = next(FOLDER.glob(f"{name}_trips.tntp*"))
    frame = read_tntp_trips(trips)
    opened = gzip.open if trips.suffix == ".gz" else open
    with opened(trips, "rt") as file:
        stated = float(next(line for line in file if "TOTAL OD FLOW" in line).split(">")[1])
    assert frame["flow"].sum() == pytest.approx(stated, rel=1e-3)
    assert set(frame["origin"]) <= set(net.state_labels)
