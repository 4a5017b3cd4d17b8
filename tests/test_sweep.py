"""Sweeps: one table whatever the engine, nothing lost and nothing done twice, whatever dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import irlax as ix
from irlax.engine import Here, OnRay, Processes, Shard
from irlax.engine.folder import CLAIM, EVENTS, SweepFolder
from irlax.engine.spec import read_spec
from irlax.engine.task import tasks_of
from tests.command_line import irlax, small_files
from tests.sweeps import fitted, square, squares

FITS = [{"seed": seed, "objective": "feature-matching"} for seed in range(4)]
#: What a task's worker needs to import these tests.
ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch):
    """Workers import `tests.sweeps`."""
    monkeypatch.syspath_prepend(str(ROOT))


def events(out, kind):
    """How often each task was started, or has ended, by name."""
    lines = {path.parent.name: path.read_text() for path in Path(out).glob(f"tasks/*/{EVENTS}")}
    return {name: text.count(f'"{kind}"') for name, text in lines.items()}


def test_the_table_is_the_same_bit_for_bit_by_every_engine(tmp_path):
    # In this process the programs are compiled for several threads, so workers are compared with workers.
    one = ix.map_fits(fitted, FITS, engine=Processes(1), out=tmp_path / "one")
    ix.map_fits(fitted, FITS, engine=Processes(2), out=tmp_path / "two")
    assert list(one.table.columns) == ["seed", "objective", "first", "second", "nan"] and len(one.table) == 4
    assert one.table["nan"].isna().all() and not one.errors and not one.missing
    tables = [(tmp_path / name / "table.parquet").read_bytes() for name in ("one", "two")]
    assert tables[0] == tables[1]
    name = tasks_of(fitted, FITS)[2].name
    saved = ix.load(tmp_path / "two" / "tasks" / name / "fit")
    assert saved.reward.weights[0] == one.table["first"][2]
    here = ix.map_fits(fitted, FITS, engine=Here())
    assert np.allclose(here.table[["first", "second"]], one.table[["first", "second"]], rtol=1e-9)


def test_shards_share_nothing_but_the_folder_and_the_last_writes_the_table(tmp_path):
    cases = [{"x": x} for x in range(7)]
    for part in (2, 0, 1):
        found = ix.map_fits(square, cases, engine=Shard(part, 3), out=tmp_path)
    assert found.table["square"].tolist() == [x**2 for x in range(7)] and not found.missing
    assert pd.read_parquet(tmp_path / "table.parquet").equals(found.table)
    assert set(events(tmp_path, "finished").values()) == {1}


def test_a_changed_sweep_computes_what_is_new_only(tmp_path):
    ix.map_fits(square, [{"x": 1}, {"x": 2}], out=tmp_path)
    again = ix.map_fits(square, [{"x": 2}, {"x": 3}], out=tmp_path)
    assert again.table["square"].tolist() == [4, 9]
    assert list(events(tmp_path, "started").values()) == [1, 1, 1]
    whole = ix.map_fits(squares, [{"x": x} for x in range(5)], together=2)
    assert whole.table["together"].tolist() == [2, 2, 2, 2, 1]


def test_what_is_in_a_file_counts_and_not_where_it_is(tmp_path):
    for name, text in (("a", "1"), ("b", "1"), ("c", "2")):
        (tmp_path / name).write_text(text)
    one, same, other = (
        tasks_of(square, [{"x": str(tmp_path / name)}], files=["x"])[0].name for name in ("a", "b", "c")
    )
    assert one == same != other


def test_errors_are_collected_and_tried_again_by_the_next_call(tmp_path):
    cases = [{"x": 1}, {"x": 2, "trouble": "error"}]
    with pytest.warns(UserWarning, match="1 of 2 tasks failed, the first with 'ArithmeticError: no square of 2'"):
        found = ix.map_fits(square, cases, out=tmp_path)
    assert found.table["square"].tolist() == [1] and "Traceback" in found.errors[0]["traceback"]
    with pytest.warns(UserWarning, match="1 of 2 tasks failed"):
        ix.map_fits(square, cases, out=tmp_path)
    assert sorted(events(tmp_path, "finished").values()) == [0, 1]


def test_workers_that_die_are_replaced_and_a_task_that_kills_them_is_given_up(tmp_path):
    cases = [{"x": 0, "trouble": "dies"}, {"x": 1, "trouble": str(tmp_path / "once")}, {"x": 2}, {"x": 3}]
    with pytest.warns(UserWarning, match="2 workers died"):
        found = ix.map_fits(square, cases, engine=Processes(2), out=tmp_path / "sweep", retries=1)
    assert found.table["square"].tolist() == [1, 4, 9]
    finished = events(tmp_path / "sweep", "finished")
    assert sorted(finished.values()) == [0, 1, 1, 1]


DRIVER = """
import sys
from irlax.engine import Processes, map_fits
from tests.sweeps import square
map_fits(square, [{"x": x} for x in range(300)], engine=Processes(2), out=sys.argv[1])
"""


def test_a_driver_that_is_killed_goes_on_with_nothing_lost_and_nothing_done_twice(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)], env=environment)
    deadline = time.monotonic() + 120
    while not any(tmp_path.glob("tasks/*/rows.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    found = ix.map_fits(square, [{"x": x} for x in range(300)], engine=Here(), out=tmp_path)
    assert found.table["square"].tolist() == [x**2 for x in range(300)]
    finished = events(tmp_path, "finished")
    assert len(finished) == 300 and set(finished.values()) == {1}


def test_the_claim_of_a_dead_worker_is_taken_over_and_that_of_a_living_one_is_not(tmp_path, monkeypatch):
    folder, (task,) = SweepFolder(tmp_path), tasks_of(square, [{"x": 1}])
    with folder.claimed(task) as mine, folder.claimed(task) as twice:
        assert mine and not twice
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    claim = folder.of(task) / CLAIM
    # A process of this machine that is gone; one of another machine, which is known by its touches only.
    here, there = {"host": socket.gethostname(), "pid": ended.pid}, {"host": "other", "pid": 1}
    for number, (holder, age, expected) in enumerate(((here, 0, True), (there, 10, False), (there, 90, True))):
        claim.write_text(json.dumps(holder | {"token": str(number)}))
        os.utime(claim, (time.time() - age,) * 2)
        with folder.claimed(task) as mine:
            assert mine is expected


def test_resamples_and_folds_are_the_same_on_an_engine(tmp_path):
    env = ix.envs.RandomMDP(4, 2, discount=0.9)
    reward = ix.LinearReward(np.random.default_rng(2).normal(size=(4, 2, 1)), [1.0])
    demos = ix.rollout(env.mdp, ix.soft_plan(env.mdp, reward), num=12, length=10, key=jax.random.key(0))
    estimator = ix.MCEIRL(objective="likelihood", progress=False)
    fit, key = estimator.fit(env.mdp, reward, demos), jax.random.key(1)
    expected = fit.bootstrap(num=70, key=key)
    with pytest.raises(RuntimeError, match="6 of 70 cases are left to other jobs"):
        fit.bootstrap(num=70, key=key, engine=Shard(0, 2), out=tmp_path)
    found = fit.bootstrap(num=70, key=key, engine=Shard(1, 2), out=tmp_path)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    # Another problem in the same folder is another sweep.
    other = estimator.fit(env.mdp, reward, demos.select(range(6)))
    assert not np.allclose(other.bootstrap(num=2, key=key, engine=Here(), out=tmp_path), found[:2])
    scores = [ix.cross_validate(estimator, env.mdp, reward, demos, folds=3, engine=engine) for engine in (None, Here())]
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-9)


def test_a_penalty_is_chosen_on_an_engine_as_without(monkeypatch):
    monkeypatch.setattr("irlax.estimators.tabular.cross_validation.CANDIDATES", (0.01, 1.0))
    env = ix.envs.RandomMDP(4, 2, discount=0.9)
    demos = ix.rollout(env.mdp, ix.soft_plan(env.mdp, env.reward), num=12, length=10, key=jax.random.key(0))
    reward = ix.LinearReward(np.random.default_rng(2).normal(size=(4, 2, 1)))
    estimator = ix.MCEIRL(objective="likelihood", l2="cv", progress=False)
    one, other = (estimator.fit(env.mdp, reward, demos, engine=engine) for engine in (None, Here()))
    assert one.cross_validation == other.cross_validation and one.l2 in (0.01, 1.0)
    with pytest.raises(ValueError, match=r"`engine` computes the folds of l2='cv', but `l2` is 0\.1"):
        ix.MCEIRL(l2=0.1).fit(env.mdp, reward, demos, engine=Here())


def test_a_function_that_others_cannot_import_is_refused():
    with pytest.raises(ValueError, match="inside a function"):
        ix.map_fits(lambda x: {}, [{"x": 1}])
    with pytest.raises(ValueError, match="cannot be imported"):
        ix.map_fits("tests.sweeps:cube", [{"x": 1}])
    with pytest.raises(TypeError, match="must be numbers, text, lists"):
        ix.map_fits(square, [{"x": object()}])
    with pytest.raises(ValueError, match="given twice"):
        ix.map_fits(square, [{"x": 1}, {"x": 1}])
    with pytest.raises(ValueError, match="between 0 and 2"):
        Shard(3, 3)


SPEC = """
together = 2
[fixed]
mdp = "{0}/mdp.npz"
demos = "{0}/panel.npz"
reward = "s"
settings.tol = 1e-6
[grid]
l2 = [0.1, 0.2]
resample = "0:2"
"""


def test_the_command_reads_a_description_and_says_how_it_went(tmp_path):
    small_files(tmp_path)
    (tmp_path / "sweep.toml").write_text(SPEC.format(tmp_path))
    spec = read_spec(tmp_path / "sweep.toml")
    assert [(case["l2"], case["resample"]) for case in spec.cases] == [(0.1, 0), (0.1, 1), (0.2, 0), (0.2, 1)]
    assert spec.cases[0]["settings"] == {"tol": 1e-6} and spec.files[0] == "mdp"
    half = irlax("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out", "--shard", "0/2")
    assert half.code == 0 and "2 cases are not computed yet" in half.out
    end = irlax("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out", "--engine", "here", "--json")
    record = json.loads(end.out)
    assert end.code == 0 and record["finished"] == 4 and not record["errors"]
    estimates = pd.read_parquet(tmp_path / "out" / "table.parquet")
    fit = ix.MCEIRL(l2=0.2).fit(
        ix.load_mdp(tmp_path / "mdp.npz"), ix.TabularReward("s"), ix.read_demos(tmp_path / "panel.npz")
    )
    assert np.allclose(estimates["estimate r(0)"][2], fit.reward.parameters[0], atol=1e-5)
    assert estimates["estimate r(0)"][2] != estimates["estimate r(0)"][3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grids = 1", "'grids'"),
        ("[grid]\nx = 3", "list the values of x"),
        ("fixed = 3", "must be tables"),
        ("[", "cannot be read"),
    ],
)
def test_a_wrong_description_is_one_line(tmp_path, text, message):
    (tmp_path / "sweep.toml").write_text(text)
    end = irlax("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out")
    assert end.code == 2 and message in end.err and end.err.count("\n") == 1
    wrong = irlax("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out", "--shard", "3")
    assert wrong.code == 2


@pytest.mark.skipif(not os.environ.get("IRLAX_TEST_RAY"), reason="takes half a minute: set IRLAX_TEST_RAY=1")
def test_ray_gives_the_table_of_processes(tmp_path):
    pytest.importorskip("ray", reason="Ray is an extra")
    ix.map_fits(fitted, FITS, engine=Processes(2), out=tmp_path / "processes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ix.map_fits(fitted, FITS, engine=OnRay(num=2), out=tmp_path / "ray")
    tables = [(tmp_path / name / "table.parquet").read_bytes() for name in ("processes", "ray")]
    assert tables[0] == tables[1]
