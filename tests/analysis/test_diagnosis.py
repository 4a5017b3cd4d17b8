"""`irlax diagnose`, and what a report says the data cannot tell."""

import json

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.analysis.diagnosis import diagnose, diagnosis_page, hidden_part
from tests.command_line import irlax


def saved(tmp_path, mdp):
    path = tmp_path / "mdp.npz"
    ix.save_mdp(path, mdp)
    return path


def test_a_checkerboard_is_told_and_drawn(tmp_path):
    env = ix.envs.Gridworld(["....", ".#..", "...."], bump="unavailable")
    path = saved(tmp_path, env.mdp)
    found = diagnose(ix.load_mdp(path), ix.TabularReward("s"))
    summary = found.summary()
    assert dict(summary.tables[0].rows)["linked components"] == 2
    assert dict(summary.tables[0].rows)["decomposable"] is False
    assert {kind for kind, _ in summary.tables[-1].rows} == {"constant", "potential"}
    page = diagnosis_page(found).render()
    assert "Cells of the same colour are linked: 2 in all" in page
    assert "<svg" in page


def test_small_problems_without_a_grid_have_a_link_graph_with_escaped_names(tmp_path):
    env = ix.envs.TwoStateCycle(self_loops=True)
    path = saved(tmp_path, env.mdp.labelled(states=["<b>A</b>", "$B$"]))
    page = diagnosis_page(diagnose(ix.load_mdp(path), ix.TabularReward("s"))).render()
    assert "1-step linked" in page
    assert "<b>A</b>" not in page


def test_the_command_prints_and_writes(tmp_path):
    env = ix.envs.TwoStateCycle(self_loops=True)
    path = saved(tmp_path, env.mdp)
    ended = irlax("diagnose", path, "--out", tmp_path / "page.html")
    assert ended.code == 0
    assert "decomposable" in ended.out and "Kim et al. 2021" in ended.out
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    record = json.loads(irlax("diagnose", path, "--json").out)
    assert record["decomposable"] is True and record["linked_components"] == 1 and record["rank"] == 1
    assert [hidden["kind"] for hidden in record["hidden"]] == ["constant"]
    np.save(tmp_path / "f.npy", np.ones((2, 2, 1)))
    assert "0 of 1 dimensions" in irlax("diagnose", path, "--features", tmp_path / "f.npy").out
    wrong = irlax("diagnose", path, "--reward", "ssa")
    assert wrong.code == 2
    assert len(wrong.err.strip().splitlines()) == 1


def test_the_hidden_part_is_the_projection_on_what_no_policy_reveals():
    mdp = ix.envs.RandomMDP(5, 3).mdp
    found = ix.identify(mdp, ix.TabularReward("s"), ix.soft_plan(mdp, np.zeros(5)))
    reward = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    np.testing.assert_allclose(hidden_part(found, reward), 3.0, rtol=1e-7)
    np.testing.assert_array_equal(hidden_part(found, reward - 3), 0.0)


@pytest.mark.parametrize("objective", ["likelihood", "feature-matching"])
def test_a_report_on_a_grid_draws_the_hidden_part_and_the_errors(tmp_path, objective):
    env = ix.envs.Gridworld(["S..", ".#G"], stay=True, horizon=8)
    demos = ix.rollout(env.mdp, ix.soft_plan(env.mdp, env.reward), num=100, key=jax.random.key(0))
    fit = ix.MCEIRL(objective=objective, l2=0.01).fit(env.mdp, ix.TabularReward("s"), demos)
    fit.save(tmp_path / "run")
    ended = irlax("report", tmp_path / "run")
    assert ended.code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "What the data cannot tell" in page
    assert ("Standard errors are those of the identified part" in page) == (objective == "likelihood")
