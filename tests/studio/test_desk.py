"""The messages of the studio in one process: what is answered, and whether the numbers are those of the library."""

import dataclasses
import io
import json
import warnings
from pathlib import Path

import numpy as np
import pytest

import irlax as ix
from irlax.studio import learning
from irlax.studio.code import python_code, save_fit
from irlax.studio.desk import Desk
from irlax.studio.grid import grid_of
from irlax.studio.runs import log_lines, open_run, run_reply
from irlax.studio.scene import FORMAT, Scene, Truth, parse
from irlax.studio.storing import Folder
from irlax.studio.walks import demos_of

BOARD = ("...#", "S.#.", "....", "#..G")
WALKS = (
    ((1, 0), (2, 0), (2, 1), (2, 2), (2, 3), (3, 3)),
    ((0, 1), (1, 1), (2, 1), (2, 2), (3, 2), (3, 3)),
    ((0, 2), (0, 1), (0, 0), (1, 0), (2, 0)),
)
KEPT = Path(__file__).parents[1] / "kept_runs" / "irlax-run-1"
SCENE = Scene(BOARD, WALKS, slip=0.1, discount=0.8, l2=0.05, truth=Truth(0.0, 3.0, -3.0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Folder(tmp_path_factory.mktemp("studio"))


def ask(desk, number, kind, **fields):
    """An answer, as it comes out of JSON."""
    return json.loads(json.dumps(desk.answer(number, kind, fields), allow_nan=False))


def with_(scene, **fields):
    return parse(json.loads(json.dumps({**scene.record(), **fields}))).record()


@pytest.fixture(scope="module")
def fitted(folder):
    desk = Desk(folder)
    return desk, ask(desk, 1, "fit", scene=SCENE.record())


def test_a_scene_comes_back_from_its_record():
    assert parse(json.loads(json.dumps(SCENE.record()))) == SCENE


@pytest.mark.parametrize("change", [{}, {"slip": 0.0}, {"ends": False}, {"board": [*BOARD[:3], "#X.G"]}])
def test_the_mdp_with_states_for_walls_moves_as_gridworld_does(change):
    scene = parse(with_(SCENE, demonstrations=[], **change))
    grid, env = grid_of(scene), scene.gridworld
    ours, theirs = grid.mdp.dynamics.to_dense(), env.mdp.dynamics.to_dense()
    exists = env.mdp.available
    kept = np.ix_(grid.free, np.ones(4, bool), grid.free)
    assert np.array_equal(grid.mdp.available[grid.free], exists)
    np.testing.assert_allclose(ours[kept][exists], theirs[exists], atol=1e-15)
    np.testing.assert_allclose(np.asarray(grid.mdp.initial)[grid.free], env.mdp.initial)


def test_the_page_shows_what_the_copied_python_computes(fitted):
    """The code runs in an MDP without states for walls, and from the start."""
    _, answer = fitted
    names, printed = {}, io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names["print"] = lambda *shown: print(*shown, file=printed)
        exec(compile(python_code(SCENE), "copied", "exec"), names)
    env, fit = names["env"], names["fit"]
    shown = np.array(answer["reward"], float)
    np.testing.assert_allclose(shown, env.to_board(fit.reward.parameters), atol=1e-4)
    assert answer["log_likelihood"] == pytest.approx(fit.log_likelihood, abs=1e-4)
    np.testing.assert_allclose(
        np.array(answer["model"], float), env.to_board(ix.visits(fit.mdp, fit.plan).sum(axis=1)), atol=1e-4
    )
    assert "log likelihood" in printed.getvalue()


def test_python_without_a_walk_is_an_error_that_says_so(folder):
    answer = ask(Desk(folder), 1, "code", scene=with_(SCENE, demonstrations=[]))
    assert answer["kind"] == "error" and "Draw one first" in answer["message"]


def test_where_walks_end_there_is_no_policy(fitted):
    _, answer = fitted
    assert answer["policy"][3][3] == [None] * 4 and None not in answer["policy"][2][3]


def test_a_fit_that_takes_long_shows_its_reward_before(folder, fitted, monkeypatch):
    monkeypatch.setattr(learning, "SHOWN_AFTER", 0.0)
    told = []
    answer = ask(Desk(folder, tell=told.append), 7, "fit", scene=SCENE.record())
    (preview,) = told
    assert (preview["id"], preview["kind"]) == (7, "preview")
    one, other = np.array(preview["reward"], float), np.array(answer["reward"], float)
    assert np.array_equal(np.isnan(one), np.isnan(other)) and answer["reward"] == fitted[1]["reward"]


def test_an_unidentified_direction_leaves_the_policy_as_it_is(fitted):
    desk, answer = fitted
    doubt = ask(desk, 2, "doubt", of=1, cell=None)
    assert doubt["kinds"] == ["constant"] and doubt["null_dim"] == 1
    assert doubt["num_parameters"] == sum(row.count(cell) for row in BOARD for cell in ".SG")
    for size in (-5.0, 0.5, 7.0):
        moved = ask(desk, 3, "move", of=1, cell=None, sizes={"null0": size})
        change = np.array(moved["reward"], float) - np.array(answer["reward"], float)
        assert np.nanmax(np.abs(change)) == pytest.approx(abs(size))
        np.testing.assert_allclose(np.array(moved["policy"], float), np.array(answer["policy"], float), atol=1e-8)
        assert moved["policy_change"] <= 1e-8
        assert moved["log_likelihood"] == pytest.approx(answer["log_likelihood"], abs=1e-7)


def test_the_likelihood_falls_along_the_least_certain_direction(fitted):
    desk, answer = fitted
    curve = np.array(ask(desk, 4, "doubt", of=1, cell=None)["curve"])
    middle = len(curve) // 2
    assert curve[middle].tolist() == [0.0, pytest.approx(answer["log_likelihood"])]
    assert curve[0, 1] < curve[middle, 1] - 0.3 and curve[-1, 1] < curve[middle, 1] - 0.3
    moved = ask(desk, 5, "move", of=1, cell=None, sizes={"least": float(curve[3, 0])})
    assert moved["log_likelihood"] == pytest.approx(curve[3, 1])


def test_potentials_of_a_cell_are_hidden_where_the_reward_is_of_moves(folder):
    desk = Desk(folder)
    answer = ask(desk, 1, "fit", scene=with_(SCENE, reward="moves", ends=False))
    doubt = ask(desk, 2, "doubt", of=1, cell=[2, 1])
    assert doubt["kind"] == "doubt", doubt
    assert doubt["null_dim"] > 6 and "constant" in doubt["kinds"]
    moved = ask(desk, 3, "move", of=1, cell=[2, 1], sizes={"potential": 3.0})
    np.testing.assert_allclose(np.array(moved["policy"], float), np.array(answer["policy"], float), atol=1e-8)
    assert np.nanmax(np.abs(np.array(moved["reward"], float) - np.array(answer["reward"], float))) == pytest.approx(3)


def test_standard_errors_of_marks_are_those_of_the_library(folder, tmp_path):
    scene = parse(with_(SCENE, reward="marks", board=["..X#", *BOARD[1:]], ends=False))
    desk = Desk(folder)
    answer = ask(desk, 1, "fit", scene=scene.record())
    doubt = ask(desk, 2, "doubt", of=1)
    fit = ix.load(save_fit(scene, tmp_path / "run"))
    assert list(answer["parameters"].values()) == pytest.approx(fit.reward.weights.tolist(), abs=1e-4)
    assert doubt["error_list"] == pytest.approx(fit.standard_errors("hessian").tolist(), rel=1e-3)


def test_on_a_changed_grid_the_true_reward_does_what_gridworld_says(fitted):
    desk, _ = fitted
    changed = parse(with_(SCENE, board=[*BOARD[:2], ".#..", BOARD[3]], demonstrations=[], slip=0.3))
    answer = ask(desk, 6, "what-if", of=1, scene=changed.record())
    env = changed.gridworld
    plan = ix.soft_plan(env.mdp, env.reward)
    expected = env.to_board(ix.visits(env.mdp, plan).sum(axis=1))
    np.testing.assert_allclose(np.array(answer["truth"]["model"], float), expected, atol=1e-8)
    assert answer["returns"]["truth"] == pytest.approx(float(ix.expected_return(env.mdp, plan, env.reward)))
    assert answer["learned"]["reward"][2][1] is None


def test_both_models_agree_where_moves_are_certain(folder):
    scene = with_(SCENE, slip=0.0, objective="feature-matching", demonstrations=SCENE.record()["demonstrations"][:2])
    answer = ask(Desk(folder), 1, "models", scene=scene)
    np.testing.assert_allclose(
        np.array(answer["causal"]["reward"], float), np.array(answer["path"]["reward"], float), atol=1e-3
    )


def test_the_path_model_of_risky_path_takes_the_risk_above_log_2(folder):
    answer = ask(Desk(folder), 1, "risky", discount=0.9, hazard=-100, safe=0, risky=0)
    curve = answer["curve"]
    above = np.array(curve["discounts"]) > np.log(2)
    assert np.array_equal(np.array(curve["path"]) > 0.5, above)
    assert max(curve["causal"]) < 0.1 and answer["learned"] is None


def test_what_is_saved_is_read_by_the_library_and_the_page(folder, capsys):
    desk = Desk(folder)
    saved = ask(desk, 1, "save", scene=SCENE.record(), name="mine", what="fit")
    scene = ask(desk, 2, "save", scene=SCENE.record(), name="mine", what="scene")
    found = ask(desk, 3, "files")
    assert found["runs"] == ["mine"] and found["scenes"] == ["mine.scene.json"]
    assert "mine/mdp.npz" in found["mdps"] and "mine/demos.npz" in found["tables"]
    assert parse(ask(desk, 4, "load", file=scene["written"])["scene"]) == SCENE
    opened = ask(desk, 5, "open", run=saved["written"])
    assert opened["converged"] and opened["maps"][0]["board"] == list(BOARD)
    fit = ix.load(folder.root / "mine")
    np.testing.assert_allclose(
        np.array(opened["maps"][0]["reward"], float), SCENE.gridworld.to_board(fit.reward.parameters)
    )
    refitted = ask(
        desk, 6, "table", table="mine/demos.npz", mdp="mine/mdp.npz", reward="s", objective="likelihood", l2=0.05
    )
    assert refitted["converged"]
    np.testing.assert_allclose(
        np.array(refitted["maps"][0]["reward"], float), np.array(opened["maps"][0]["reward"], float), atol=1e-3
    )


def test_a_live_run_is_followed_line_by_line(folder):
    desk, path = Desk(folder), folder.root / "live"
    path.mkdir()
    (path / "log.jsonl").write_text('{"step": 0, "loss": 2.5}\n{"step": 1, "lo')
    answer = ask(desk, 1, "watch", run="live", offset=0)
    assert answer["lines"] == [{"step": 0, "loss": 2.5}] and not answer["finished"]
    with (path / "log.jsonl").open("a") as file:
        file.write('ss": 2.25}\n')
    assert ask(desk, 2, "watch", run="live", offset=answer["offset"])["lines"] == [{"step": 1, "loss": 2.25}]
    assert "live" in ask(desk, 3, "files")["live"]


def test_a_log_of_another_writer_may_hold_what_json_has_no_number_for(tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": 0, "loss": NaN, "size": Infinity, "count": 1%s}\n' % ("0" * 400))
    (line,), _ = log_lines(tmp_path, 0)
    assert line == {"step": 0, "count": 10**400}


def test_a_folder_that_may_not_be_read_is_left_out(folder, monkeypatch):
    (folder.root / "closed").mkdir()
    entries = Path.iterdir

    def refuse(path):
        if path.name == "closed":
            raise PermissionError(path)
        return entries(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert ask(Desk(folder), 1, "files")["kind"] == "files"


def test_a_scene_of_a_message_comes_back_with_all_its_fields(folder):
    answer = ask(Desk(folder), 1, "load", scene={"format": FORMAT, "board": ["..G"]})
    assert answer["scene"] == Scene(("..G",)).record()


def test_types_are_of_individuals_and_motives_of_choices():
    titles = [[each["title"] for each in open_run(KEPT / name)["maps"]] for name in ("mixture", "switching")]
    assert titles[0][0] == "Type 1: 100% of individuals" and titles[1][1] == "Motive 2: 0% of choices"


def test_arrows_follow_the_names_of_actions():
    env = SCENE.gridworld
    demos = demos_of(SCENE)
    order = np.array([3, 1, 0, 2])
    dynamics = np.asarray(env.mdp.dynamics.to_dense())[:, order]
    other = ix.MDP.from_dense(
        dynamics, env.mdp.initial, discount=0.8, available=np.asarray(env.mdp.available)[:, order]
    )
    other = other.labelled(layout=BOARD, actions=["left", "right", "up", "down"])
    renamed = dataclasses.replace(demos, actions=np.argsort(order)[demos.actions])
    estimator = ix.MCEIRL(objective="likelihood", l2=0.1, progress=False)
    shown = [
        run_reply(estimator.fit(mdp, ix.TabularReward("s"), each))["maps"][0]["policy"]
        for mdp, each in ((env.mdp, demos), (other, renamed))
    ]
    np.testing.assert_allclose(np.array(shown[0], float), np.array(shown[1], float), atol=1e-5)
    assert shown[0][3][3] == [None] * 4, "the goal, where walks end"
    named = other.labelled(actions=["a", "b", "c", "d"])
    assert run_reply(estimator.fit(named, ix.TabularReward("s"), renamed))["maps"][0]["policy"] is None


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("load", {"file": "../outside.scene.json"}),
        ("load", {"file": "/etc/passwd"}),
        ("load", {"file": "link.scene.json"}),
        ("open", {"run": ".."}),
        ("open", {"run": "a\0b"}),
        ("watch", {"run": "../live", "offset": 0}),
        ("table", {"table": "/etc/passwd", "mdp": "../x.npz", "reward": "s", "objective": "likelihood", "l2": 0}),
        ("save", {"scene": SCENE.record(), "name": "../evil", "what": "scene"}),
        ("save", {"scene": SCENE.record(), "name": ".hidden", "what": "fit"}),
        ("save", {"scene": SCENE.record(), "name": "a/b", "what": "fit"}),
        ("save", {"scene": SCENE.record(), "name": "other", "what": "fit"}),
    ],
)
def test_nothing_outside_the_folder_is_read_or_written(kind, fields, tmp_path):
    inside = tmp_path / "inside"
    (inside / "other").mkdir(parents=True)
    (inside / "other" / "thesis.txt").write_text("years of work")
    (tmp_path / "outside.scene.json").write_text(json.dumps(SCENE.record()))
    (inside / "link.scene.json").symlink_to(tmp_path / "outside.scene.json")
    before = sorted(tmp_path.rglob("*"))
    assert ask(Desk(Folder(inside)), 1, kind, **fields)["kind"] == "error"
    assert sorted(tmp_path.rglob("*")) == before
    assert (inside / "other" / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "irlax-scene-9"}, "must have format 'irlax-scene-1'"),
        ({"board": []}, "rows of equal length"),
        ({"board": ["..", "..."]}, "rows of equal length"),
        ({"board": ["." * 41]}, "from 1 to 40"),
        ({"board": ["##"]}, "not a wall"),
        ({"board": [".<"]}, "has '<'"),
        ({"slip": 2}, "`slip` must be a number from 0 to 1"),
        ({"discount": 1}, "Without a horizon"),
        ({"horizon": True}, "`horizon` must be a whole number"),
        ({"demonstrations": [[[0, 0], [2, 0]]]}, "no neighbour"),
        ({"demonstrations": [[[0, 2], [0, 3]]]}, "passes the wall"),
        ({"demonstrations": [[[0, 0]]]}, "at least two cells"),
        ({"demonstrations": [[[3, 3], [3, 2]]]}, "where walks end"),
        ({"demonstrations": [[[0, 0], [0, 1]]] * 201}, "at most 200"),
        ({"reward": "<script>"}, "must be one of cells, moves, marks"),
        ({"truth": {"step": 0}}, "step, goal and hazard"),
        ({"more": 1}, "has a field 'more'"),
    ],
)
def test_a_malformed_scene_gets_a_clear_message(change, message, folder):
    answer = ask(Desk(folder), 7, "fit", scene={**SCENE.record(), **change})
    assert answer["id"] == 7 and answer["kind"] == "error" and message in answer["message"]
