"""The command line in environments: one tiny fit, shown, reported, interrupted; and what is refused."""

import dataclasses
import json
import os
import signal
from pathlib import Path

import jax.random as jr
import numpy as np
import pytest

import irlax as ix
from irlax.cli import fitting, sampling
from irlax.cli.methods import ACTING, METHODS
from irlax.demos import read_demos, write_demos
from irlax.iteration import Session
from irlax.rl import PPO, SAC
from irlax.spaces import uniform_action
from tests.command_line import contents, irlax, small_files

#: Two rounds of eight episodes of ten steps.
TINY = ("rounds.num=2", "rounds.episodes=8", "reward.over=s", "reward.depth=0", "env.horizon=10")
TINY += ("potential.over=s", "potential.depth=0")
TINY += ("learner.discount=0.9", "learner.depth=0", "learner.minibatches=1", "learner.epochs=1")


def settings(*pairs):
    return [word for pair in pairs for word in ("--set", pair)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Four episodes at random in a short point maze, beside the files of a tabular problem."""
    folder = small_files(tmp_path_factory.mktemp("files"))
    env = ix.envs.make("point-maze", horizon=10)
    demos = ix.envs.collect(env, lambda observation, key: uniform_action(env.actions, key=key), 4, key=jr.key(0))
    write_demos(folder / "maze.npz", demos)
    return folder


def tiny_fit(files, out, *more):
    return "fit", "point-maze", files / "maze.npz", "--method", "airl", *settings(*TINY), "--out", out, *more


@pytest.fixture(scope="module")
def run(files):
    end = irlax(*tiny_fit(files, files / "maze"))
    assert end.code == 0, end.err
    (files / "printed.txt").write_text(end.out)
    return files / "maze"


def test_fit_writes_what_it_prints(run, files):
    fit = ix.load(run)
    printed = (files / "printed.txt").read_text()
    assert printed == f"{fit.summary()}\n" == irlax("show", run).out and "point-maze" in printed
    assert fit.method == "AIRL" and fit.status is ix.Status.TRAINED and fit.iterations == 2
    assert dict(fit.settings)["learner.discount"] == 0.9 and fit.reward.over == "s" and fit.learned.discount == 0.9
    seen = read_demos(files / "maze.npz")
    assert np.array_equal(fit.demos.observations, seen.observations) and fit.num_choices == 40


def test_show_is_json_for_machines(run):
    fit, record = ix.load(run), json.loads(irlax("show", run, "--json").out)
    assert record["method"] == "AIRL" and record["status"] == "trained" and record["environment"] == "point-maze"
    assert record["return_mean"] == fit.returns.mean() and record["steps"] == 160 and record["rounds"] == 2
    assert record["demonstrated_return_mean"] == fit.demos.returns.mean()
    assert record["history"]["accuracy"] == fit.history["accuracy"].tolist()
    assert irlax("show", run, "--markdown").out == f"{fit.summary().to_markdown()}\n"


def test_report_has_curves_returns_and_the_reward(run, tmp_path):
    end = irlax("report", run, "--out", tmp_path / "page.html", "--json")
    assert end.code == 0 and json.loads(end.out) == {"report": str(tmp_path / "page.html")}
    text = (tmp_path / "page.html").read_text()
    for heading in ("How it learned", "What the policy earns", "What was learned to be good", "Settings"):
        assert f"<h2>{heading}</h2>" in text
    assert text.count("<figure>") == 3 and "learner.discount" in text


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_the_fit_so_far(sent, files, tmp_path, monkeypatch):
    record = Session.record

    def and_interrupt(session, iterates):
        record(session, iterates)
        if len(session.history) == 1 and iterates:
            os.kill(os.getpid(), sent)

    three = settings("rounds.num=3")
    with monkeypatch.context() as patched:
        patched.setattr(Session, "record", and_interrupt)
        end = irlax(*tiny_fit(files, tmp_path / "run"), *three)
    fit = ix.load(tmp_path / "run")
    assert end.code == 128 + sent and "interrupted" in end.err and "Traceback" not in end.err
    assert fit.status is ix.Status.INTERRUPTED and fit.iterations == 2
    again = [irlax(*tiny_fit(files, tmp_path / "run"), *three, "--resume") for _ in range(2)]
    assert [each.code for each in again] == [0, 0] and "finished already" in again[1].err
    assert irlax(*tiny_fit(files, tmp_path / "whole"), *three).code == 0
    one, other = ix.load(tmp_path / "run"), ix.load(tmp_path / "whole")
    assert one.status is ix.Status.TRAINED and one.history["loss"].tolist() == other.history["loss"].tolist()
    assert one.log_likelihood == other.log_likelihood


def test_cloning_takes_the_demonstrations_that_ship(tmp_path):
    arguments = ("fit", "cartpole", "expert", "--method", "cloning", "--set", "steps=3", "--out", tmp_path / "run")
    end = irlax(*arguments, "--json")
    record = json.loads(end.out)
    assert end.code == 0 and record["reward"] is None and record["episodes"] == 20 and record["steps"] == 0


def test_flags_derive_from_the_classes():
    made = fitting.estimator_of("airl", {"tol": 0.1}, fitting.parse_settings(["reward.over=sas", "learner.epochs=2"]))
    learner = PPO(temperature=1.0, explore=0.0, epochs=2)
    assert made == ix.AIRL(reward=ix.RewardNet(over="sas"), rounds=ix.Rounds(tol=0.1), learner=learner)
    given = fitting.parse_settings(["potential.over=s", "potential.width=8", "rounds.num=3"])
    made = fitting.estimator_of("airl", {}, given)
    assert made == ix.AIRL(potential=ix.RewardNet(over="s", width=8), rounds=ix.Rounds(num=3))
    made = fitting.estimator_of("gcl", {}, fitting.parse_settings(["cloning.steps=7", "monotonic=1"]))
    assert made == ix.GCL(cloning=dataclasses.replace(ix.GCL().cloning, steps=7), monotonic=1)
    assert fitting.estimator_of("gail", {}, {}) == ix.GAIL()
    recipe = fitting.estimator_of("airl", {}, {"recipe": "control", "rounds.num": "3", "penalty": "0.5"})
    own = ix.AIRL.for_control()
    assert recipe == dataclasses.replace(own, rounds=dataclasses.replace(own.rounds, num=3), penalty=0.5)
    with pytest.raises(ValueError, match="recipe must be control"):
        fitting.estimator_of("gcl", {}, {"recipe": "control"})
    other = fitting.estimator_of("sampled-mce", {}, {"learner": "sac", "learner.width": "32"})
    assert other == ix.SampledMCEIRL(learner=SAC(temperature=1.0, width=32))
    given = fitting.parse_settings(["env.wall=right", "rounds.num=3", "env.horizon=7"])
    assert fitting.take_env_settings(given) == {"wall": "right", "horizon": 7} and given == {"rounds.num": "3"}
    tabular = {"mce", "maxent", "apprenticeship", "bayesian", "two-step", "mixture", "switching", "drifting"}
    assert set(METHODS) == set(ACTING) | tabular


def test_experts_are_shown_what_the_environment_shows_after_its_end():
    task = sampling.read("acrobot", Path(sampling.EXPERT), ix.AIRL(), {"after_end": "absorbing"}, {})
    assert isinstance(task.env, ix.envs.Absorbing) and task.demos.observations.shape[1] == 7


AIRL = ("--method", "airl")
WRONG = {
    "an MDP": (("mdp.npz", "maze.npz", *AIRL), "mdp.npz|environment|--method mce"),
    "an environment for mce": (("cartpole", "panel.csv", "--reward", "s"), "cartpole|MDP in a file|airl"),
    "Gymnasium for mce": (("gymnasium:CartPole-v1", "panel.csv", "--reward", "s"), "gymnasium:CartPole-v1|MDP"),
    "no such environment": (("cartpoel", "maze.npz", *AIRL), "cartpoel|cartpole"),
    "features": (("cartpole", "expert", *AIRL, "--features", "features.npy"), "--features|airl"),
    "feature names": (("cartpole", "expert", *AIRL, "--feature-names", "a,b"), "--feature-names|airl"),
    "a tabular reward": (("cartpole", "expert", *AIRL, "--reward", "s"), "--reward|--set reward.over"),
    "held-out": (("cartpole", "expert", *AIRL, "--held-out", "maze.npz"), "--held-out|airl"),
    "resume": (("cartpole", "expert", *AIRL, "--resume"), "--resume|no fit"),
    "objective": (("cartpole", "expert", *AIRL, "--objective", "likelihood"), "--objective|airl"),
    "setting": (("cartpole", "expert", *AIRL, "--set", "speed=9"), "speed|rounds.num|learner.discount"),
    "a sub-object itself": (("cartpole", "expert", *AIRL, "--set", "rounds=9"), "rounds|rounds.num"),
    "a potential of actions": (("cartpole", "expert", *AIRL, "--set", "potential.width=9"), "potential|over"),
    "setting of the learner": (("cartpole", "expert", *AIRL, "--set", "learner.speed=9"), "learner.speed"),
    "learner": (("cartpole", "expert", *AIRL, "--set", "learner=dqn"), "dqn|ppo or sac"),
    "temperature": (("cartpole", "expert", *AIRL, "--set", "learner.temperature=0.5"), "temperature"),
    "learner of cloning": (
        ("cartpole", "expert", "--method", "cloning", "--set", "learner.epochs=1"),
        "learner.epochs",
    ),
    "setting of the environment": (("cartpole", "expert", *AIRL, "--set", "env.wall=left"), "env.NAME|cartpole|wall"),
    "states for observations": (("cartpole", "panel.csv", *AIRL), "observations"),
    "demonstrations of another": (("cartpole", "maze.npz", *AIRL), "observations|4"),
    "no demonstrations": (("cartpole", "nothing.npz", *AIRL), "nothing.npz"),
    "no expert": (("risky-path", "expert", *AIRL), "risky-path"),
    "episodes that end": (
        ("gymnasium:CartPole-v1", "cartpole.npz", *AIRL),
        "gymnasium:CartPole-v1|--set env.after_end",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_combinations_end_in_one_line(files, case, monkeypatch):
    arguments, message = WRONG[case]
    monkeypatch.chdir(files)
    if "cartpole.npz" in arguments:
        pytest.importorskip("gymnasium")
        write_demos(files / "cartpole.npz", ix.expert_demos("cartpole"))
    before = contents(files)
    end = irlax("fit", *arguments, "--out", files / "run")
    assert end.code == 2 and end.out == "" and end.err.startswith("irlax: ") and end.err.count("\n") == 1, end
    assert all(word in end.err for word in message.split("|")), end.err
    assert contents(files) == before
