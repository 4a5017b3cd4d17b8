"""`irlax reproduce`: every line is judged by what is printed, and the exit code says how it went."""

import json
from pathlib import Path

import numpy as np
import pytest

from irlax.reproduce import Line, Result, catalogue, fu_2018, wulfmeier_2015
from tests.command_line import irlax


def judged(*lines):
    return Result(name="made-up", title="A title", source="Nobody (1900)", takes="1 s", lines=lambda _: lines)


def absent(_):
    raise FileNotFoundError("the data lie nowhere")
    yield


@pytest.fixture
def results(monkeypatch):
    """A catalogue with one result that holds, one that fails and one that lacks its data."""
    good, bad = Line.printed("a", "1.25", 1.2548), Line.printed("b", "-1.25", -1.2702)
    made = {
        "good": judged(good),
        "bad": judged(good, bad),
        "absent": Result(name="absent", title="", source="", takes="1 s", lines=absent, data="some"),
    }
    monkeypatch.setattr("irlax.reproduce.catalogue", lambda: made)
    return made


def test_a_printed_figure_is_judged_by_its_last_digit():
    assert Line.printed("x", "9.7558", 9.75599).holds
    assert not Line.printed("x", "9.7558", 9.75601).holds
    assert not Line.printed("s.e.", "1.227", 1.2276, units=0.5).holds
    line = Line.printed("x", "-3304.155", -3304.1533)
    assert (line.published, line.ours, line.tolerance, line.holds) == ("−3304.155", "−3304.153", "±0.002", True)
    assert not Line.below("x", "none", np.nan, 1.0).holds and not Line.closed_form("x", 1.0, np.nan, 1.0).holds


def test_every_result_says_where_it_is_from_and_what_it_takes():
    known = catalogue()
    assert {"fu-2018", "risky-path", "rust-1987", "wulfmeier-2015"} <= set(known)
    for name, result in known.items():
        assert result.name == name and result.title and result.takes and any(c.isdigit() for c in result.source)
    listed = json.loads(irlax("reproduce", "--list", "--json").out)["results"]
    assert [entry["name"] for entry in listed] == list(known)
    assert all(name in irlax("reproduce", "--list").out for name in known)


def test_the_exit_code_says_how_it_went(results):
    good, bad = irlax("reproduce", "good"), irlax("reproduce", "good", "bad")
    assert good.code == 0 and "Nobody (1900)" in good.out and "All 1 lines hold" in good.out
    assert bad.code == 1 and "FAILS" in bad.out and "1 of 2 lines fail" in bad.out
    lacking = irlax("reproduce", "absent")
    assert lacking.code == 2 and lacking.err == "irlax: absent is skipped: the data lie nowhere\n" and lacking.out == ""


def test_all_leaves_out_what_lacks_its_data(results):
    del results["bad"]
    end = irlax("reproduce", "all", "--json")
    record = json.loads(end.out)
    assert end.code == 0 and record["holds"] and record["skipped"] == {"absent": "the data lie nowhere"}
    assert record["results"][0]["lines"] == [
        {"what": "a", "published": "1.25", "ours": "1.25", "tolerance": "±0.02", "holds": True}
    ]


def test_mistakes_end_in_one_line(results, tmp_path):
    for arguments, word in (((), "Say what"), (("gold",), "good, bad, absent"), (("good", "--data", "no"), "folder")):
        end = irlax("reproduce", *arguments)
        assert end.code == 2 and word in end.err and end.err.count("\n") == 1 and end.out == ""


def test_data_that_are_not_below_a_folder_are_told_where_to_get(tmp_path):
    end = irlax("reproduce", "rust-1987", "--data", tmp_path)
    assert end.code == 2 and "g870.asc" in end.err and "http" in end.err


def test_risky_path_is_reproduced_as_the_page_shows_it():
    end = irlax("reproduce", "risky-path")
    assert end.code == 0 and end.out.count(" holds") == 10
    page = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text()
    # All but the last line, which says how long it took.
    assert end.out.rstrip("\n").rpartition("\n")[0] in page
    assert irlax("reproduce", "--list").out in page


def test_a_random_mdp_reveals_its_state_only_reward(monkeypatch):
    """The first line in one world; compiling for the others would take the suite too long."""
    monkeypatch.setattr(fu_2018, "WORLDS", 1)
    first = next(iter(fu_2018.RESULT.lines(None)))
    assert first.holds, first
    assert not Line.below("", "", fu_2018.off_by(fu_2018.TRUTH + 1e-5 * np.arange(16)), 1e-6).holds
    assert all(line.holds for line in fu_2018._identified(fu_2018.worlds(1)))


def test_objectworld_is_judged_by_the_shape_of_its_curves(monkeypatch):
    def losses(network, linear):
        few_to_many = zip(wulfmeier_2015.COUNTS, network, linear, strict=True)
        return {
            key: (value, value)
            for num, n, l in few_to_many
            for key, value in ((("network", num), n), (("linear", num), l))
        }

    def verdicts(*curves):
        monkeypatch.setattr(wulfmeier_2015, "_losses", lambda: losses(*curves))
        return [line.holds for line in wulfmeier_2015.RESULT.run().lines]

    assert all(verdicts((1.0, 0.5, 0.2), (2.0, 2.0, 1.5)))
    assert verdicts((1.0, 0.5, 0.6), (2.0, 2.0, 1.5)) == [False, True, True, True]
    assert verdicts((1.0, 0.5, 0.2), (2.0, 0.5, 0.3)) == [True, False, False, False]
