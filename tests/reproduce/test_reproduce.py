"""`irlax reproduce`: every line is judged by what is printed, and the exit code says how it went."""

import json
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from irlax import BehaviouralCloning, envs
from irlax.reproduce import Line, Result, catalogue, fu_2018, fu_2018_transfer, imitation, wulfmeier_2015
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
    assert {"fu-2018", "risky-path", "rust-1987", "wulfmeier-2015", "fu-2018-transfer", "imitation"} <= set(known)
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
    for arguments, word in (
        ((), "Name the results"),
        (("gold",), "good, bad, absent"),
        (("good", "--data", "no"), "folder"),
    ):
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
        monkeypatch.setattr(wulfmeier_2015, "_value_differences", lambda: losses(*curves))
        return [line.holds for line in wulfmeier_2015.RESULT.run().lines]

    assert all(verdicts((1.0, 0.5, 0.2), (2.0, 2.0, 1.5)))
    assert verdicts((1.0, 0.5, 0.6), (2.0, 2.0, 1.5)) == [False, True, True, True]
    assert verdicts((1.0, 0.5, 0.2), (2.0, 0.5, 0.3)) == [True, False, False, False]


def test_imitation_is_scored_between_chance_and_the_expert(monkeypatch):
    """Two steps of cloning on one problem: the real code, but for how long it learns."""
    monkeypatch.setattr(imitation, "PROBLEMS", ("point-maze",))
    monkeypatch.setattr(imitation, "ESTIMATORS", {"cloning": BehaviouralCloning(steps=2, depth=0)})
    monkeypatch.setattr(imitation, "SEEDS", 2)
    (line,) = imitation.RESULT.run().lines
    assert "point-maze" in line.what and float(line.ours.replace("−", "-")) < 0.95 and not line.holds
    references = imitation.ReferenceReturns(-90.0, -20.0)
    np.testing.assert_allclose(references.score(np.array([-90.0, -55.0, -20.0])), [0, 0.5, 1])
    # The lowest and the highest of four do not count.
    assert imitation.interquartile_mean(np.array([0.0, 1.0, 2.0, 9.0])) == 1.5


def test_transfer_is_judged_by_its_order(monkeypatch):
    def verdicts(*scores):
        named = list(zip(fu_2018_transfer.SHOWN, scores, strict=True))
        monkeypatch.setattr(fu_2018_transfer, "_scores", lambda: iter(named))
        return [line.holds for line in fu_2018_transfer.RESULT.run().lines]

    assert verdicts(0.97, 0.2, -0.1) == [True, True, True]
    assert verdicts(0.5, 0.6, 0.1) == [False, False, True]
    assert "−8.82" in fu_2018_transfer.RESULT.run().lines[0].published


def test_a_reward_is_taken_to_the_other_maze(monkeypatch):
    """A policy is trained for the reward where the wall has moved; without a reward, the policy goes there itself."""
    calls = []

    def retrained(*arguments):
        calls.append(arguments)
        return [lambda observation, key: jnp.ones(2)]

    monkeypatch.setattr(fu_2018_transfer, "retrained", retrained)
    old, new = (envs.make("point-maze", wall=wall, horizon=10) for wall in ("left", "right"))
    mazes = fu_2018_transfer.Mazes(old, None, new, [-10.0], imitation.ReferenceReturns(-12.0, -10.0))

    def moved(**reward):
        fit = SimpleNamespace(policy=lambda observation, key: -jnp.ones(2), **reward)
        monkeypatch.setattr(fu_2018_transfer, "fitted", lambda *_: [fit])
        return fu_2018_transfer.transfer(None, mazes, seeds=1, steps=40)

    found, imitated = moved(reward="a reward"), moved()
    assert calls == [(new, ["a reward"], fu_2018_transfer.LEARNER, 40)]
    # Up and to the right comes closer to the goal than down and to the left; below the wall both mazes are alike.
    assert (
        found.new_returns[0] > found.old_returns[0]
        and imitated.new_returns == imitated.old_returns == found.old_returns
    )
    np.testing.assert_allclose(found.scores, (np.array(found.new_returns) + 12) / 2)
