"""`irlax fit`, interrupted and resumed: what was learned is kept, and a fit of something else is never shown for it."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.demos import read_demos
from irlax.estimators.tabular.components import Posterior
from irlax.iteration import Session
from irlax.mdp.npz import save_mdp
from tests.command_line import S, contents, irlax, small_demos, small_files, small_mdp


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return small_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def run(files):
    options = ["--reward", "s", "--l2", 0.1, "--out", files / "run"]
    assert irlax("fit", files / "mdp.npz", files / "panel.csv", *options).code == 0
    return files / "run"


def test_resume_goes_on_from_an_unfinished_fit(files, tmp_path):
    fit = ["fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--l2", 0.1]
    first = irlax(*fit, "--solver", "dual-ascent", "--set", "max_steps=3", "--out", tmp_path / "run")
    again = irlax(*fit, "--out", tmp_path / "run", "--resume")
    assert (first.code, again.code) == (1, 0)
    resumed = ix.load(tmp_path / "run")
    assert len(resumed.history.loss) > 4 and (np.diff(resumed.history.loss) < 1e-9).all()
    whole = ix.MCEIRL(l2=0.1).fit(small_mdp(), ix.TabularReward("s"), small_demos(small_mdp()))
    np.testing.assert_allclose(resumed.reward.parameters, whole.reward.parameters, atol=1e-6)
    finished = irlax(*fit, "--out", tmp_path / "run", "--resume")
    assert finished.code == 0 and "already finished" in finished.err and finished.out == f"{resumed.summary()}\n"


def test_resume_refuses_a_fit_of_another_problem(files, run, tmp_path):
    panel = read_demos(files / "panel.csv")
    ix_panel = panel.select(np.arange(10))
    ix_panel.to_frame().to_csv(tmp_path / "other.csv", index=False)
    np.save(tmp_path / "other.npy", np.ones((S, 3)))
    problem = small_mdp()
    save_mdp(tmp_path / "longer.npz", problem.replace(horizon=5))
    save_mdp(tmp_path / "hasty.npz", problem.replace(discount=0.5))
    save_mdp(
        tmp_path / "moved.npz", ix.MDP.from_dense(np.full((S, 2, S), 1 / S), [0.5, 0.5, 0], discount=0.9, horizon=4)
    )
    mdp, same = files / "mdp.npz", files / "panel.csv"
    for arguments, message in (
        ((mdp, same, "--reward", "s", "--method", "maxent"), "method: 'MaxEntIRL' requested, 'MCEIRL' in the folder"),
        ((mdp, tmp_path / "other.csv", "--reward", "s"), "other demonstrations"),
        ((mdp, same, "--reward", "s", "--start", "mdp"), "another start distribution"),
        ((mdp, same, "--features", tmp_path / "other.npy"), "other features"),
        ((mdp, same, "--reward", "sa"), "another kind of reward"),
        ((tmp_path / "longer.npz", same, "--reward", "s"), "horizon: 5 requested, 4 in the folder"),
        ((tmp_path / "hasty.npz", same, "--reward", "s"), "discount: 0.5 requested, 0.9 in the folder"),
        ((tmp_path / "moved.npz", same, "--reward", "s"), "another MDP"),
        ((mdp, same, "--reward", "s", "--l2", 0.2), "l2: 0.2 requested, 0.1 in the folder"),
        ((mdp, same, "--reward", "s", "--l2", "cv"), "l2: 'cv' requested, 0.1 in the folder"),
        (
            (mdp, same, "--reward", "s", "--objective", "likelihood"),
            "objective: 'likelihood' requested, 'feature-matching' in the folder",
        ),
    ):
        given = arguments if "--l2" in arguments else (*arguments, "--l2", 0.1)
        before = contents(run)
        end = irlax("fit", *given, "--out", run, "--resume")
        assert end.code == 2 and message in end.err and end.err.count("\n") == 1, end.err
        assert "another --out, or leave out --resume" in end.err and end.out == "" and contents(run) == before
    nothing = irlax("fit", mdp, same, "--reward", "s", "--out", tmp_path / "none", "--resume")
    assert nothing.code == 2 and "no fit" in nothing.err and not (tmp_path / "none").exists()


def test_a_fit_that_was_saved_in_python_is_compared_by_its_estimator(files, tmp_path):
    mdp = small_mdp()
    ix.MCEIRL(l2=0.1).fit(mdp, ix.TabularReward("s"), small_demos(mdp)).save(tmp_path / "run")
    fit = ["fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--out", tmp_path / "run", "--resume"]
    assert "l2: 0.0 requested, 0.1 in the folder" in irlax(*fit).err
    assert "already finished" in irlax(*fit, "--l2", 0.1).err


def test_draws_with_another_key_are_another_fit(files, run, tmp_path):
    # As if it had been sampled, which takes longer than it tells.
    drawn = Posterior(np.zeros((8, S)), 1.0, 8.0, 0, np.asarray(jax.random.key_data(jax.random.key(3))))
    dataclasses.replace(ix.load(run), estimator=ix.BayesianIRL(), posterior=drawn).save(tmp_path / "run")
    fit = ["fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--out", tmp_path / "run", "--resume"]
    end = irlax(*fit, "--method", "bayesian", "--key", 4)
    assert end.code == 2 and "another --key than 4" in end.err
    assert "already finished" in irlax(*fit, "--method", "bayesian", "--key", 3).err


def test_a_finished_fit_is_gone_on_with_where_the_solver_or_the_tolerance_is_another(files, tmp_path):
    fit = ["fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--l2", 0.1, "--out", tmp_path / "run"]
    assert irlax(*fit, "--tol", 1e-2).code == 0
    rough = ix.load(tmp_path / "run")
    end = irlax(*fit, "--tol", 1e-9, "--solver", "lbfgs", "--resume")
    fine = ix.load(tmp_path / "run")
    assert end.code == 0 and "tol: 1e-09 requested, 0.01 in the folder" in end.err and "solver: 'lbfgs'" in end.err
    assert fine.certificate.gradient <= 1e-9 < rough.certificate.gradient
    assert fine.iterations > rough.iterations and fine.seconds > rough.seconds
    assert "already finished" in irlax(*fit, "--tol", 1e-9, "--solver", "lbfgs", "--resume").err


def test_a_finished_fit_is_scored_by_the_demonstrations_that_are_held_out_now(files, tmp_path):
    fit = ["fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--l2", 0.1, "--out", tmp_path / "run"]
    first = irlax(*fit, "--held-out", files / "panel.csv")
    other = read_demos(files / "panel.csv").select(np.arange(7))
    other.to_frame().to_csv(tmp_path / "other.csv", index=False)
    again = irlax(*fit, "--held-out", tmp_path / "other.csv", "--resume", "--json")
    kept = ix.load(tmp_path / "run")
    steps = zip(other.times, other.states, other.actions, strict=True)
    score = sum(np.log(kept.policy[t, s, a]) for t, s, a in steps)
    assert (first.code, again.code) == (0, 0) and "already finished" in again.err
    np.testing.assert_allclose(json.loads(again.out)["held_out_log_likelihood"], score, rtol=1e-10)
    np.testing.assert_allclose(kept.held_out_log_likelihood, score, rtol=1e-10)
    assert (irlax(*fit, "--resume").code, ix.load(tmp_path / "run").held_out_log_likelihood) == (
        0,
        kept.held_out_log_likelihood,
    )


def slow_fit(files, out):
    """So small a step that it takes minutes; it says "three steps" when it has made them."""
    options = ["--solver", "dual-ascent", "--set", "step_size=1e-5", "--set", "max_steps=10000000"]
    command = ["fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--l2", "0.1", "--out", out, *options]
    # What a shell runs in the background ignores interrupts, and so would all that it starts.
    program = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from irlax.cli import main
from irlax.iteration import Session
record = Session.record
def and_say(session, iterates):
    record(session, iterates)
    if len(session.history) == 3:
        print("three steps", file=sys.stderr, flush=True)
Session.record = and_say
main()
"""
    program = [sys.executable, "-c", program]
    return subprocess.Popen(
        [*program, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def test_interrupt_leaves_the_best_iterate_and_resume_finishes(files, tmp_path):
    process = slow_fit(files, tmp_path / "run")
    assert process.stderr.readline() == "three steps\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["run"], err
    unfinished = ix.load(tmp_path / "run")
    assert unfinished.status is ix.Status.INTERRUPTED and "unfinished" in out
    assert len(unfinished.history.loss) > 1 and unfinished.history.loss[-1] < unfinished.history.loss[0]
    assert np.abs(unfinished.reward.parameters).max() > 0
    fit = ["fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--l2", 0.1]
    assert irlax(*fit, "--out", tmp_path / "run", "--resume").code == 0
    whole = ix.MCEIRL(l2=0.1).fit(small_mdp(), ix.TabularReward("s"), small_demos(small_mdp()))
    np.testing.assert_allclose(ix.load(tmp_path / "run").reward.parameters, whole.reward.parameters, atol=1e-7)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_fit_at_its_next_step_and_is_told_by_the_exit_code(
    sent, files, tmp_path, monkeypatch, default_signals
):
    record = Session.record

    def and_interrupt(session, iterates):
        if len(session.history) == 3:
            assert signal.getsignal(sent) not in (signal.SIG_DFL, signal.default_int_handler), "it would end the tests"
            os.kill(os.getpid(), sent)
        record(session, iterates)

    monkeypatch.setattr(Session, "record", and_interrupt)
    options = ["--solver", "dual-ascent", "--set", "step_size=1e-3", "--json"]
    end = irlax("fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--out", tmp_path / "run", *options)
    kept = ix.load(tmp_path / "run")
    assert (end.code, json.loads(end.out)["status"], kept.status) == (128 + sent, "interrupted", ix.Status.INTERRUPTED)
    assert len(kept.history.loss) == 4 and np.abs(kept.reward.parameters).max() > 0
    assert signal.getsignal(sent) is default_signals[sent]
