"""`irlax routes`, and `irlax fit` where episodes end at goals: from files to a report, in this process."""

import json

import numpy as np
import pandas as pd
import pytest

import irlax as ix
from irlax.demos import write_demos
from irlax.mdp.npz import save_mdp
from tests.command_line import irlax, route_files


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """A grid of streets in files, pairs of origins and destinations, and simulated trips over nodes and over links."""
    folder = tmp_path_factory.mktemp("city")
    (route_files(folder) / "trips.csv").rename(folder / "by_link.csv")
    options = ("--trips", folder / "pairs.csv", "--out", folder / "by_node.csv", "--num", 300)
    end = irlax("routes", "simulate", folder / "roads.csv", "--weights", "minutes=-1.5", *options)
    assert end.code == 0, end.err
    return folder


def fitted(city, trips, out, *options):
    return irlax(
        "routes", "fit", city / "roads.csv", city / trips, "--nodes", city / "nodes.csv", "--out", out, *options
    )


def test_simulated_trips_give_their_weights_back(city, tmp_path):
    end = fitted(city, "by_node.csv", tmp_path / "run", "--features", "minutes", "--json")
    assert end.code == 0, end.err
    record = json.loads(end.out)
    (found,) = record["parameters"]
    assert abs(found["estimate"] + 1.5) < 3 * found["standard_error"] < 0.5
    assert record["errors"]["kind"] == "hessian" and record["goals"] == 3
    page = (tmp_path / "run" / "report.html").read_text()
    assert record["report"] == str(tmp_path / "run" / "report.html")
    assert "Flows on the map" in page and "How it was made" in page


def test_links_as_states_with_clusters_and_held_out_trips(city, tmp_path):
    trips = pd.read_csv(city / "by_link.csv")
    assert list(trips.columns) == ["trip", "position", "node"]
    trips["traveller"] = trips["trip"] % 40
    trips.to_csv(tmp_path / "trips.csv", index=False)
    options = ("--links", "--features", "minutes,turns,left", "--held-out", tmp_path / "trips.csv")
    end = fitted(city, tmp_path / "trips.csv", tmp_path / "run", *options, "--cluster", "traveller", "--json")
    assert end.code == 0, end.err
    record = json.loads(end.out)
    estimates = np.array([row["estimate"] for row in record["parameters"]])
    assert np.all(np.abs(estimates - [-1.5, -0.5, -1]) < 4 * np.array(record["errors"]["standard_errors"]))
    assert record["held_out_log_likelihood"] == pytest.approx(record["log_likelihood"])
    fit = ix.load(tmp_path / "run")
    by_hand = fit.standard_errors("sandwich", cluster=np.arange(300) % 40)
    assert record["errors"]["standard_errors"] == pytest.approx(by_hand.tolist())
    text = fitted(city, tmp_path / "trips.csv", tmp_path / "run", *options, "--cluster", "trip").out
    assert "sandwich, clustered by individual" in text and "Report:" in text
    assert irlax("show", tmp_path / "run").code == 0
    assert irlax("report", tmp_path / "run").code == 0


def test_a_network_is_described_and_drawn(city, tmp_path):
    for name in ("map.html", "map.png"):
        options = ("--nodes", city / "nodes.csv", "--show", "minutes", "--out", tmp_path / name)
        end = irlax("routes", "describe", city / "roads.csv", *options)
        assert end.code == 0 and str(tmp_path / name) in end.out, end.err
        assert (tmp_path / name).stat().st_size > 1000
    record = json.loads(irlax("routes", "describe", city / "roads.csv", "--json").out)
    assert record["network"]["arcs"] == 48 and record["attributes"][0]["attribute"] == "minutes"


def test_a_constant_is_one_for_each_link(city, tmp_path):
    end = fitted(city, "by_node.csv", tmp_path / "run", "--features", "minutes,constant", "--json")
    _, constant = json.loads(end.out)["parameters"]
    assert end.code == 0 and abs(constant["estimate"]) < 4 * constant["standard_error"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--features", "hours"), "There is no attribute 'hours'"),
        (("--features", "minutes,minutes"), "--features must be different names"),
        (("--features", "minutes", "--label", "street"), "There must be one column `street`"),
        (("--features", "minutes", "--cluster", "person"), "has no column `person`"),
        (("--features", "minutes", "--lonlat"), "--lonlat needs --links"),
        (("--features", "minutes", "--objective", "feature-matching", "--cluster", "trip"), "--objective likelihood"),
        (("--features", "minutes", "--l2", "much"), "--l2 must be a number"),
        (("--features", "minutes", "--held-out", "none.csv"), "none.csv"),
        (("--features", "minutes", "--tail", "tail"), "There is no column `tail`"),
    ],
)
def test_wrong_input_is_one_line_and_writes_nothing(city, tmp_path, options, message):
    end = fitted(city, "by_node.csv", tmp_path / "run", *options)
    assert end.code == 2 and message in end.err and end.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("weights", "pairs", "message"),
    [
        ("minutes", "origin,destination\n0,1\n", "--weights must be NAME=NUMBER"),
        ("minutes=-1,minutes=2", "origin,destination\n0,1\n", "--weights must be NAME=NUMBER"),
        ("hours=-1", "origin,destination\n0,1\n", "There is no attribute 'hours'"),
        ("minutes=-1", "origin,to\n0,1\n", "has no destination"),
        ("minutes=-1", "origin,destination\n0,0\n", "no trips from one node to another"),
        ("minutes=-1", "origin,destination\n0,99\n", "99 is none"),
        ("minutes=-1", "origin,destination,flow\n0,1,-2\n", "`flow` must hold numbers from 0 on"),
        ("minutes=1", "origin,destination\n0,1\n", "Values for goal"),
    ],
)
def test_wrong_simulations_are_one_line(city, tmp_path, weights, pairs, message):
    (tmp_path / "pairs.csv").write_text(pairs)
    options = ("--weights", weights, "--trips", tmp_path / "pairs.csv", "--out", tmp_path / "trips.csv", "--num", 3)
    end = irlax("routes", "simulate", city / "roads.csv", *options)
    assert end.code == 2 and message in end.err and end.err.count("\n") == 1
    assert not (tmp_path / "trips.csv").exists()


def test_no_way_is_said_by_labels(tmp_path):
    (tmp_path / "roads.csv").write_text("from,to,minutes\na,b,1\nb,c,1\n")
    (tmp_path / "pairs.csv").write_text("origin,destination\nc,a\n")
    for more in ((), ("--links",)):
        options = ("--trips", tmp_path / "pairs.csv", "--out", tmp_path / "trips.csv", *more)
        end = irlax("routes", "simulate", tmp_path / "roads.csv", "--weights", "minutes=-1", *options)
        assert end.code == 2 and "'a'" in end.err and end.err.count("\n") == 1


def test_links_with_names_are_written_as_states(tmp_path):
    (tmp_path / "roads.csv").write_text("from,to,road,minutes\na,b,A1,1\na,b,A2,2\nb,c,B1,1\nb,a,B2,1\n")
    (tmp_path / "pairs.csv").write_text("origin,destination\na,c\n")
    named = ("--links", "--link", "road")
    options = ("--weights", "minutes=-1,uturn=-2", "--trips", tmp_path / "pairs.csv", "--num", 50)
    end = irlax("routes", "simulate", tmp_path / "roads.csv", *named, *options, "--out", tmp_path / "trips.csv")
    assert end.code == 0, end.err
    assert set(pd.read_csv(tmp_path / "trips.csv")["state"]) >= {"A1", "A2", "B1", "c"}
    files = (tmp_path / "roads.csv", tmp_path / "trips.csv")
    end = irlax("routes", "fit", *files, *named, "--features", "minutes,uturn", "--l2", 0.01, "--out", tmp_path / "run")
    assert end.code == 0, end.err


@pytest.fixture(scope="module")
def goal_files(city, tmp_path_factory):
    folder = tmp_path_factory.mktemp("goals")
    net = ix.routes.read_network(city / "roads.csv", nodes=city / "nodes.csv")
    save_mdp(folder / "mdp.npz", net.mdp)
    demos = ix.routes.read_trips(city / "by_node.csv", net)
    write_demos(folder / "demos.npz", demos)
    write_demos(folder / "demos.csv", demos)
    np.save(folder / "f.npy", np.asarray(net.linear(["minutes"]).features))
    return folder


def test_fit_takes_demonstrations_with_goals(goal_files, tmp_path):
    base = ("fit", goal_files / "mdp.npz", goal_files / "demos.csv", "--features", goal_files / "f.npy")
    run = (*base, "--objective", "likelihood", "--out", tmp_path / "run")
    end = irlax(*run, "--json", "--held-out", goal_files / "demos.npz")
    assert end.code == 0, end.err
    record = json.loads(end.out)
    assert record["goals"] == 3 and record["held_out_log_likelihood"] == pytest.approx(record["log_likelihood"])
    frame = pd.read_csv(goal_files / "demos.csv").rename(columns={"goal": "target"})
    frame.to_csv(tmp_path / "renamed.csv", index=False)
    renamed = ("fit", goal_files / "mdp.npz", tmp_path / "renamed.csv", "--features", goal_files / "f.npy")
    other = irlax(*renamed, "--objective", "likelihood", "--goal", "target", "--json", "--out", tmp_path / "other")
    assert json.loads(other.out)["parameters"] == record["parameters"]


def test_a_fit_with_goals_is_resumed_and_told_from_another(goal_files, tmp_path):
    base = ("fit", goal_files / "mdp.npz", goal_files / "demos.npz", "--features", goal_files / "f.npy")
    run = (*base, "--objective", "likelihood", "--out", tmp_path / "run")
    assert irlax(*run, "--solver", "newton", "--set", "max_steps=1").code == 1
    end = irlax(*run, "--resume", "--json")
    assert end.code == 0 and "continuing" in end.err
    assert json.loads(end.out)["certificate"]["gradient"] < 1e-6
    assert "already finished" in irlax(*run, "--resume").err
    demos = ix.read_demos(goal_files / "demos.npz").select(range(100))
    write_demos(tmp_path / "fewer.npz", demos)
    other = irlax(*("fit", goal_files / "mdp.npz", tmp_path / "fewer.npz"), *run[3:], "--resume")
    assert other.code == 2 and "other demonstrations" in other.err


@pytest.mark.parametrize("method", ["maxent", "apprenticeship"])
def test_methods_without_goals_refuse_them(goal_files, tmp_path, method):
    files = ("fit", goal_files / "mdp.npz", goal_files / "demos.npz", "--features", goal_files / "f.npy")
    end = irlax(*files, "--method", method, "--out", tmp_path / "run")
    assert end.code == 2 and "goals" in end.err and end.err.count("\n") == 1


def test_goals_that_are_missing_are_asked_for(goal_files, tmp_path):
    frame = pd.read_csv(goal_files / "demos.csv").drop(columns="goal")
    frame.to_csv(tmp_path / "bare.csv", index=False)
    files = ("fit", goal_files / "mdp.npz", tmp_path / "bare.csv", "--features", goal_files / "f.npy")
    end = irlax(*files, "--out", tmp_path / "run")
    assert end.code == 2 and "goal" in end.err and end.err.count("\n") == 1


def test_types_of_travellers_and_motives_that_switch(city, tmp_path):
    trips = pd.read_csv(city / "by_node.csv")
    trips["traveller"] = trips["trip"] % 60
    trips.to_csv(tmp_path / "trips.csv", index=False)
    options = ("--features", "minutes", "--set", "num_starts=1", "--method")
    for method, more in (
        ("mixture", ("--set", "num_types=1", "--individual", "traveller")),
        ("switching", ("--set", "num_motives=1")),
    ):
        end = fitted(city, tmp_path / "trips.csv", tmp_path / method, *options, method, *more, "--json")
        assert end.code == 0, end.err
        record = json.loads(end.out)
        (group,) = record["types" if method == "mixture" else "motives"]
        assert abs(group["parameters"][0]["estimate"] + 1.5) < 3 * group["parameters"][0]["standard_error"] < 0.5
        assert record.get("individuals", 60) == 60
        assert "observed uses" in (tmp_path / method / "report.html").read_text()
    for wrong, said in (
        (("mixture", "--cluster", "traveller"), "--cluster"),
        (("switching", "--individual", "traveller"), "--individual"),
        (("mixture", "--objective", "feature-matching"), "--objective"),
    ):
        end = fitted(city, tmp_path / "trips.csv", tmp_path / "other", *options, *wrong)
        assert end.code == 2 and said in end.err
