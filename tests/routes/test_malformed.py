"""A thousand malformed networks, files and trips: each is refused by an error that says something."""

import copy
import json
import warnings

import numpy as np
import pandas as pd
import pytest

from irlax.routes import Network, read_network, read_tntp, read_tntp_trips, read_trips
from tests.networks import TNTP, TNTP_TRIPS, random_frame, random_walks

#: How many of each kind.
NUM = 200


def refused(attempt, what):
    """The attempt ends in a ValueError or TypeError with a message, or in a warning that the data are incomplete.

    The tests' own checks of types do not count as a refusal: a user does not have them.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            attempt()
    except (ValueError, TypeError) as error:
        # Ours are sentences; what Python says of an operation that failed inside is not.
        assert str(error).strip().endswith((".", "?")), f"{what}: {error!r}"
        assert "Type-check error" not in str(error), f"{what}: {error}"
        return
    except UserWarning as warning:
        assert "complete" in str(warning)
        return
    except Exception as error:
        pytest.fail(f"{what}: {type(error).__name__}: {error}")
    pytest.fail(f"{what} was accepted")


def pick(rng, choices):
    return choices[rng.integers(len(choices))]


def with_cell(frame, row, column, value):
    """The frame with another value in one cell, whatever its type."""
    values = frame[column].tolist()
    values[row] = value
    return frame.assign(**{column: pd.Series(values, dtype=object if isinstance(value, (list, dict, set)) else None)})


def malformed_table(rng, frame):
    """What was done to a valid table of arcs, and how it is used."""
    row, ends = int(rng.integers(len(frame))), pick(rng, ["from", "to"])

    def linear(frame, name="minutes", **options):
        return lambda: Network.from_arcs(frame, **options).linear(name)

    labels = [*frame["from"], *frame["to"]]
    places = {label: (float(i), 1.0) for i, label in enumerate(dict.fromkeys(labels))}
    missing = {label: place for label, place in places.items() if label != labels[row]}
    return pick(
        rng,
        [
            ("a missing column", linear(frame.drop(columns=ends))),
            ("a column twice", linear(pd.concat([frame, frame[[pick(rng, list(frame.columns))]]], axis=1))),
            ("no rows", linear(frame.iloc[:0])),
            ("a missing label", linear(with_cell(frame, row, ends, None))),
            ("a label that is NaN", linear(with_cell(frame, row, ends, float("nan")))),
            ("a label that is a list", linear(with_cell(frame, row, ends, [1]))),
            ("a label that is a set", linear(with_cell(frame, row, ends, {1}))),
            ("labels that are no whole numbers", linear(frame.assign(**{ends: np.arange(len(frame)) + 0.5}))),
            ("labels that are infinite", linear(frame.assign(**{ends: np.inf}))),
            ("labels that are booleans", linear(frame.assign(**{ends: True}))),
            ("an attribute with NaN", linear(with_cell(frame, row, "minutes", float("nan")))),
            ("an attribute with infinity", linear(with_cell(frame, row, "minutes", float("inf")))),
            ("an attribute with text", linear(with_cell(frame, row, "minutes", "long"))),
            ("an attribute with lists", linear(with_cell(frame, row, "minutes", [1.0]))),
            ("an unknown attribute", linear(frame, pick(rng, ["speed", "", "from", 3]))),
            ("an attribute twice", linear(frame, ["minutes", "minutes"])),
            ("no attribute", linear(frame, [])),
            ("not a frame", linear(pick(rng, [None, 3, "arcs", [1, 2], frame.to_numpy()]))),
            ("a dict of unequal lengths", linear({"from": [1, 2], "to": [2]})),
            ("an unknown zone", linear(frame, zones=["nowhere"])),
            ("a zone that is a list", linear(frame, zones=[[1]])),
            ("zones that are no list", linear(frame, zones=pick(rng, ["a", 3]))),
            ("coordinates that are missing", linear(frame, nodes=missing)),
            ("coordinates that are NaN", linear(frame, nodes=places | {labels[row]: (0.0, float("nan"))})),
            ("coordinates of three numbers", linear(frame, nodes=dict.fromkeys(places, (1, 2, 3)))),
            ("coordinates that are text", linear(frame, nodes=dict.fromkeys(places, ("a", "b")))),
            ("coordinates of no known kind", linear(frame, nodes=pick(rng, [3, "xy", [1]]))),
            ("names of arcs that repeat", linear(frame.assign(id=0), link="id")),
            ("an unknown end", lambda: Network.from_arcs(frame).links_as_states(ends=["nowhere"])),
            ("parallel links without names", lambda: Network.from_arcs(pd.concat([frame, frame])).links_as_states()),
            ("closing an arc that is not", lambda: Network.from_arcs(frame).without([len(frame)])),
            ("closing no number", lambda: Network.from_arcs(frame).without(["a"])),
            ("too few new values", lambda: Network.from_arcs(frame).with_attributes(size=np.ones(len(frame) - 1))),
            ("new values of text", lambda: Network.from_arcs(frame).with_attributes(size="large")),
        ],
    )


@pytest.mark.parametrize("kind", ["int", "text"])
def test_malformed_tables_are_refused(kind):
    rng = np.random.default_rng(0)
    for k in range(NUM // 2):
        frame = random_frame(k, num_nodes=5, num_arcs=9, kind=kind)
        Network.from_arcs(frame)
        what, attempt = malformed_table(rng, frame)
        refused(attempt, f"{k}: {what}")


def malformed_trips(rng, frame, walks):
    """Trips of which one is wrong, by index, and what was done to it."""
    k, arcs = int(rng.integers(len(walks))), set(zip(frame["from"], frame["to"], strict=True))
    nodes = list({*frame["from"], *frame["to"]})
    walk = list(walks[k])
    place = int(rng.integers(len(walk)))
    unknown = pick(rng, ["nowhere", -1, None, float("nan"), 2.5, (1, 2, 3), [1], {"a": 1}])
    at = int(rng.integers(1, len(walk)))
    node = pick(rng, [node for node in nodes if (walk[at - 1], node) not in arcs])
    what, wrong = pick(
        rng,
        [
            ("an unknown label", [*walk[:place], unknown, *walk[place + 1 :]]),
            ("a jump", [*walk[:at], node, *walk[at + 1 :]]),
            ("a trip of one label", walk[:1]),
            ("an empty trip", []),
            ("a step that repeats", walk[: place + 1] + walk[place:]),
            ("a trip that passes its goal", [*walk, walk[-1]]),
            ("a trip that is text", "trip"),
            ("a trip that is a number", 7),
            ("a trip that is a dict", {node: node for node in walk}),
        ],
    )
    return what, [*walks[:k], wrong, *walks[k + 1 :]]


@pytest.mark.parametrize("kind", ["int", "text", "pair"])
def test_malformed_trips_are_refused(kind):
    rng = np.random.default_rng(1)
    for k in range(NUM // 3 + 1):
        frame = random_frame(k, num_nodes=7, num_arcs=16, kind=kind)
        net, walks = Network.from_arcs(frame), random_walks(frame, k, num=5)
        links = net.links_as_states()
        what, wrong = malformed_trips(rng, frame, walks)
        net.trips(walks), links.node_trips(walks)
        refused(lambda net=net, wrong=wrong: net.trips(wrong), f"{k}: {what}")
        refused(lambda links=links, wrong=wrong: links.node_trips(wrong), f"{k}: {what}, by links")
    for options in ({"weights": [np.nan] * 5}, {"weights": ["a"] * 5}, {"labels": [[1]] * 5}, {"labels": [1]}):
        refused(lambda options=options: net.trips(walks, **options), str(options))


def test_trips_that_pass_their_goal_are_refused():
    net = Network.from_arcs({"from": [0, 1, 2, 0], "to": [1, 2, 0, 2]})
    for path in ([0, 1, 2, 0, 1], [1, 2, 0, 1, 2], [0, 2, 0, 2]):
        refused(lambda path=path: net.trips([path]), str(path))


def malformed_text(rng, text):
    """A text with one cell, line or number of its metadata changed, of which none may go unseen."""
    lines = text.splitlines()
    data = [i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith(("<", "~"))]
    i = pick(rng, data)
    cells = lines[i].split()
    place = int(rng.integers(len(cells)))

    def with_line(number, line):
        return "\n".join(lines[:number] + ([] if line is None else [line]) + lines[number + 1 :])

    bad = pick(rng, ["x", "nan", "inf", "1e999", "--", "1,5", "é", "0x1"])
    stated = [k for k, line in enumerate(lines) if line.startswith("<") and "ZONES" not in line]
    return pick(
        rng,
        [
            ("a cell of no number", with_line(i, "\t".join([*cells[:place], bad + bad, *cells[place + 1 :]]))),
            ("a row too few", with_line(i, None)),
            ("metadata left out", with_line(pick(rng, stated), None)),
            ("a truncated file", "\n".join(lines[: int(rng.integers(i + 1))])),
            ("a file of nothing", ""),
            ("another file", pick(rng, ["hello", "{}", "<a>", "a,b\n1,2\n", "\x00\x01"])),
        ],
    )


def test_malformed_tntp_networks_are_refused(tmp_path):
    rng, path = np.random.default_rng(2), tmp_path / "net.tntp"
    for k in range(NUM):
        what, text = malformed_text(rng, TNTP)
        path.write_text(text)
        refused(lambda: read_tntp(path), f"{k}: {what}:\n{text}")


def test_malformed_tntp_trips_are_refused(tmp_path):
    rng, path = np.random.default_rng(3), tmp_path / "trips.tntp"
    for k in range(NUM // 2):
        what, text = malformed_text(rng, TNTP_TRIPS)
        if "ORIGIN" in text.upper() and "<TOTAL OD FLOW>" not in text:
            continue  # the total may be left out
        path.write_text(text)
        refused(lambda: read_tntp_trips(path), f"{k}: {what}:\n{text}")


def test_malformed_geojson_is_refused(tmp_path):
    rng, path = np.random.default_rng(4), tmp_path / "lines.geojson"
    line = {"type": "LineString", "coordinates": [[0, 0], [1, 0]]}
    valid = {
        "features": [{"type": "Feature", "properties": {"from": i, "to": i + 1}, "geometry": line} for i in range(4)]
    }
    path.write_text(json.dumps(valid))
    read_network(path)
    bad = [None, 3, "x", [], {}, [[0, 0]], [[0], [1]], [["a", 0], [1, 1]], [[0, 0], None], [[0, 0], [1, True]]]
    for k in range(NUM // 2):
        content, i = copy.deepcopy(valid), int(rng.integers(4))
        feature = content["features"][i]
        change = int(rng.integers(6))
        if change == 0:
            feature["geometry"]["coordinates"] = pick(rng, bad)
        elif change == 1:
            feature["geometry"] = pick(rng, [None, 3, "x", [], {"type": "Point", "coordinates": [0, 0]}])
        elif change == 2:
            feature["properties"] = pick(rng, [3, "x", [1], {"from": 1}, {}, None])
        elif change == 3:
            feature["properties"][pick(rng, ["from", "to"])] = pick(rng, [None, [1], {"a": 1}])
        elif change == 4:
            content["features"][i] = pick(rng, [None, 3, "x", [1]])
        else:
            content = pick(rng, [None, 3, [], {}, {"features": None}, {"features": []}, {"features": {"a": 1}}])
        text = json.dumps(content)
        path.write_text(text if rng.random() < 0.9 else text[: int(rng.integers(len(text)))])
        refused(lambda: read_network(path), f"{k}: {path.read_text()}")


def test_malformed_files_of_trips_are_refused(tmp_path):
    rng, path = np.random.default_rng(5), tmp_path / "trips.csv"
    net = Network.from_arcs({"from": [1, 2, 3, 4], "to": [2, 3, 4, 1]})
    valid = pd.DataFrame(
        {"trip": ["a"] * 3 + ["b"] * 2, "position": [0, 1, 2, 0, 1], "node": [1, 2, 3, 4, 1], "weight": 1.0}
    )
    valid.to_csv(path, index=False)
    read_trips(path, net)
    for k in range(NUM // 2):
        row, column = int(rng.integers(5)), pick(rng, list(valid.columns))
        frame = valid.astype(object)
        change = int(rng.integers(5))
        if change == 0:
            frame = frame.drop(columns=pick(rng, ["trip", "node"]))
        elif change == 1:
            frame.loc[row, column] = ""
        elif change == 2:
            column = pick(rng, ["position", "node", "weight"])
            frame.loc[row, column] = pick(rng, ["x", "1;2", "nan", "é"])
        elif change == 3:
            # Each node has one arc only, so another node is a jump.
            frame.loc[row, "node"] = pick(rng, [node for node in (1, 2, 3, 4, 5, -1, "1.0") if node != valid.node[row]])
        else:
            frame = pick(rng, [frame.iloc[:0], frame.iloc[:1], pd.concat([frame, frame.iloc[[row]]])])
        frame.to_csv(path, index=False)
        refused(lambda: read_trips(path, net), f"{k}: {path.read_text()}")


def test_damaged_archives_are_refused(tmp_path):
    rng, path = np.random.default_rng(6), tmp_path / "net.npz"
    Network.from_arcs(random_frame(0, kind="pair")).links_as_states().save(path)
    with np.load(path) as archive:
        valid = dict(archive)
    for k in range(NUM // 2):
        name = pick(rng, [name for name in valid if name != "base_coordinates"])
        array = valid[name]
        changed = pick(
            rng,
            [None, np.zeros(0), np.array("x"), np.array([1j]), np.full((2, 2), -1), np.array(7), array.astype(str),
             np.concatenate([array, array]) if array.ndim else None, np.array(["a"]), np.frombuffer(b"{}", np.uint8)],
        )  # fmt: skip
        kept = {key: value for key, value in valid.items() if key != name}
        np.savez(path, **kept | ({} if changed is None else {name: changed}))
        refused(lambda: read_network(path), f"{k}: {name} is {changed!r:.80}")


@pytest.mark.parametrize("name", ["net.tntp", "net.csv", "net.parquet", "net.geojson", "net.npz", "net.tntp.gz"])
def test_bytes_of_nothing_are_no_network(tmp_path, name):
    rng, path = np.random.default_rng(7), tmp_path / name
    for k in range(10):
        path.write_bytes(rng.bytes(int(rng.integers(200))))
        refused(lambda: read_network(path), f"{k}: {name}")
