"""The command line: each command does what its help says."""

import html
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import irlax as ix
from irlax import load as load_fit
from irlax.cli import app
from irlax.demos import read_demos
from irlax.mdp.npz import load_mdp
from irlax.showcase import SECTIONS, Section
from irlax.tables import Summary, pairs
from tests.command_line import S, irlax, small_demos, small_files, small_mdp

IRLAX = [sys.executable, "-c", "from irlax.cli import main; main()"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return small_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def run(files):
    assert (
        irlax("fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--l2", 0.1, "--out", files / "run").code
        == 0
    )
    return files / "run"


def test_version():
    assert irlax("--version") == (0, f"{ix.__version__}\n", "")


def test_help_documents_the_files():
    assert "Exit codes" in irlax("--help").out and irlax().out == irlax("--help").out
    text = CliRunner().invoke(app, ["fit", "--help"]).output
    for word in ("transitions", "successors", "initial", "horizon", "available", "layout", "next_state", "terminated"):
        assert word in text
    for option in ("--episode", "--time", "--state", "--action", "--resume", "--held-out"):
        assert option in text


def test_fit_writes_what_it_prints(run, files):
    fit = load_fit(run)
    assert fit.converged and fit.method == "MCEIRL"
    shown = irlax("show", run)
    assert shown == (0, f"{fit.summary()}\n", "")
    direct = ix.MCEIRL(l2=0.1).fit(small_mdp(), ix.TabularReward("s"), small_demos(small_mdp()))
    assert np.array_equal(fit.reward.parameters, direct.reward.parameters)
    assert load_mdp(run / "mdp.npz").labels.states == ("home", "work", "shop")


@pytest.mark.parametrize("panel", ["panel.parquet", "panel.npz"])
def test_every_format_of_demonstrations_gives_the_same_fit(files, run, tmp_path, panel):
    end = irlax("fit", files / "mdp.npz", files / panel, "--reward", "s", "--l2", 0.1, "--out", tmp_path / "run")
    assert end.code == 0
    assert np.array_equal(load_fit(tmp_path / "run").reward.parameters, load_fit(run).reward.parameters)


def test_show_in_other_forms(run):
    summary = load_fit(run).summary()
    assert irlax("show", run, "--markdown").out == f"{summary.to_markdown()}\n"
    assert irlax("show", run, "--latex").out == f"{summary.to_latex()}\n"
    record = json.loads(irlax("show", run, "--json").out)
    assert record["converged"] is True and record["status"] == "converged" and record["settings"]["l2"] == 0.1
    assert [parameter["name"] for parameter in record["parameters"]] == [f"r({s})" for s in range(S)]
    assert irlax("show", run, "--json", "--latex").code == 2


def test_features_names_columns_and_held_out_data(files, tmp_path):
    renamed = {"episode": "id", "t": "when", "state": "place", "action": "what", "next_state": "then"}
    frame = read_demos(files / "panel.csv").to_frame().rename(columns=renamed)
    frame.to_csv(tmp_path / "renamed.csv", index=False)
    columns = ["--episode", "id", "--time", "when", "--state", "place", "--action", "what", "--next-state", "then"]
    end = irlax(
        *("fit", files / "mdp.npz", tmp_path / "renamed.csv", *columns, "--out", tmp_path / "run", "--json"),
        *("--features", files / "features.npy", "--feature-names", "rest, pay", "--held-out", tmp_path / "renamed.csv"),
        *("--objective", "likelihood", "--solver", "newton", "--tol", 1e-6, "--start", "mdp", "--set", "max_steps=50"),
        *("--l2", 0.01),
    )
    assert end.code == 0, end.err
    record = json.loads(end.out)
    assert [parameter["name"] for parameter in record["parameters"]] == ["rest", "pay"]
    assert record["held_out_log_likelihood"] == record["log_likelihood"]
    assert record["settings"] == {"objective": "likelihood", "l2": 0.01}


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("maxent", ["--l2", "0.1"]),
        ("two-step", ["--set", "iterations=none", "--l2", "0.1"]),
        ("apprenticeship", ["--set", "method=max-margin", "--tol", "0.2"]),
        (
            "bayesian",
            ["--set", "num_warmup=20", "--set", "num_samples=20", "--set", "num_chains=2", "--set", "prior=Normal(2)"],
        ),
    ],
)
def test_every_method_can_be_fitted_and_reported(files, tmp_path, method, options):
    pytest.importorskip("blackjax") if method == "bayesian" else None
    out = tmp_path / "run"
    end = irlax(
        "fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--method", method, *options, "--out", out
    )
    assert end.code in (0, 1) and "Traceback" not in end.err
    assert irlax("show", out).out == end.out
    assert irlax("report", out).code == 0 and (out / "report.html").stat().st_size > 10_000


def test_a_fit_without_success_is_written_and_says_so(files, tmp_path):
    end = irlax(
        *("fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--l2", 0.1, "--out", tmp_path / "run"),
        *("--solver", "dual-ascent", "--set", "max_steps=2", "--set", "step_size=0.01"),
    )
    assert end.code == 1 and "warning" in end.err and "limit of steps" in end.err
    assert load_fit(tmp_path / "run").status is ix.Status.MAX_STEPS


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--solver", "dual-ascent", "--set", "max_steps=2"), 1)])
def test_text_and_json_tell_of_the_same_end(options, code, files, tmp_path):
    fit = ["fit", files / "mdp.npz", files / "panel.csv", "--reward", "s", "--l2", 0.1, *options]
    text, for_machines = irlax(*fit, "--out", tmp_path / "one"), irlax(*fit, "--out", tmp_path / "other", "--json")
    record = json.loads(for_machines.out)
    assert text.code == for_machines.code == code and record["converged"] == (code == 0)
    (line,) = [line for line in text.out.splitlines() if line.startswith("status")]
    assert line.removeprefix("status").strip() == record["message"] == ix.Status[record["status"].upper()].value


def test_penalty_by_cross_validation(files, tmp_path, monkeypatch):
    from irlax.estimators.tabular import cross_validation

    monkeypatch.setattr(cross_validation, "CANDIDATES", (0.01, 1.0))
    options = ["--reward", "s", "--l2", "cv", "--out", tmp_path / "run", "--json"]
    record = json.loads(irlax("fit", files / "mdp.npz", files / "panel.csv", *options).out)
    assert record["settings"]["l2"] == record["cross_validation"]["l2"] in (0.01, 1.0)


def test_report_goes_where_it_is_told(run, tmp_path):
    end = irlax("report", run, "--out", tmp_path / "new" / "page.html")
    assert end == (0, f"{tmp_path / 'new' / 'page.html'}\n", "")
    text = (tmp_path / "new" / "page.html").read_text()
    for heading in ("Reward", "Policy", "Where expert and model go", "Convergence"):
        assert f"<h2>{heading}</h2>" in text
    assert html.escape("log likelihood") in text


def test_grid_from_a_drawing_to_a_report(tmp_path):
    drawing = tmp_path / "maze.txt"
    drawing.write_text("S..\n.#X\n..G\n")
    grid, walks, run = tmp_path / "maze.npz", tmp_path / "walks.csv", tmp_path / "run"
    making = ["mdp", "grid", drawing, "--out", grid, "--slip", 0.1, "--stay", "--horizon", 6, "--demos", walks]
    assert irlax(*making) == (0, f"{grid}\n", "")
    record = {"mdp": str(grid), "demos": str(walks), "num_states": 8, "num_actions": 5, "episodes": 200}
    assert json.loads(irlax(*making, "--json").out) == record
    assert load_mdp(grid).labels.layout == ("S..", ".#X", "..G")
    assert read_demos(walks).num_episodes == 200
    assert irlax("fit", grid, walks, "--reward", "s", "--l2", 0.1, "--out", run).code == 0
    assert irlax("report", run).code == 0
    endless = irlax("mdp", "grid", drawing, "--out", grid, "--ends", "--demos", walks, "--num", 3, "--key", 7)
    assert endless.code == 0 and read_demos(walks).num_episodes == 3


def test_demo_finds_the_truth_and_writes_a_report(tmp_path, monkeypatch):
    # A sixth of the rounds: enough to see that it learns.
    monkeypatch.setattr("irlax.showcase.by_acting.ROUNDS", 10)
    monkeypatch.setattr("irlax.showcase.balancing.ROUNDS", 20)
    end = irlax("demo", "--out", tmp_path, "--json")
    record = json.loads(end.out)
    assert end.code == 0 and record["report"] == str(tmp_path / "report.html")
    assert {row["path_risk"] > 0.5 for row in record["planning"]["rows"] if row["discount"] > 0.7} == {True}
    for parameter in record["learning"]["parameters"]:
        assert parameter["low"] < parameter["truth"] < parameter["high"]
    # A constant; and for every cell a potential.
    states, choices = record["identifiability"]["rows"]
    assert states["hidden"] == 1 and choices["hidden"] == states["parameters"]
    assert record["identifiability"]["shaped_reward_has_the_same_policy"]
    acting = record["acting"]
    assert acting["correlation"] > 0.4 and acting["return_mean"] > 0.6 * acting["demonstrated_return_mean"] > 0
    balancing = record["balancing"]
    assert balancing["demonstrated_return_mean"] == 500 and balancing["first_return_mean"] < 50
    assert balancing["return_mean"] > 1.4 * balancing["first_return_mean"]
    text = (tmp_path / "report.html").read_text()
    assert text.count("<h2>") == len(SECTIONS) and text.count("<figure>") >= 6


def test_demo_prints_each_section(tmp_path, monkeypatch):
    table = Summary([pairs("A title", [("x", 1)])])
    monkeypatch.setattr(
        "irlax.showcase.SECTIONS", {"one": lambda: Section("One", table, {}, lambda page: page.text("Drawn."))}
    )
    end = irlax("demo", "--out", tmp_path)
    assert end == (0, f"{table}\n\nReport: {tmp_path / 'report.html'}\n", "")
    assert "<h2>1. One</h2>" in (tmp_path / "report.html").read_text()


def test_every_command_that_prints_results_has_json():
    def commands(group, path=()):
        for name, command in group.commands.items():
            yield from commands(command, (*path, name)) if hasattr(command, "commands") else [((*path, name), command)]

    found = dict(commands(typer.main.get_command(app)))
    # A page prints no results.
    del found["studio",]
    assert len(found) == 16
    flags = {name: {flag for option in command.params for flag in option.opts} for name, command in found.items()}
    assert [name for name in flags if "--json" not in flags[name]] == []
    # One name for one thing: what is drawn has --key, a number of episodes is --num.
    assert all("--seed" not in flags[name] and "--episodes" not in flags[name] for name in flags)


def test_the_shell_completes_commands_and_options(monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "_IRLAX_COMPLETE=complete_bash" in irlax("--show-completion", "bash").out
    monkeypatch.setenv("_IRLAX_COMPLETE", "complete_bash")
    for words, expected in (("irlax re", ["report", "reproduce"]), ("irlax show --j", ["--json"])):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        assert irlax().out.split() == expected


@pytest.mark.parametrize(
    ("program", "then", "code"), [("/usr/bin/irlax", "main()", 130), ("script.py", "import irlax.mdp", -signal.SIGINT)]
)
def test_an_interrupt_during_the_import_is_one_line_in_the_program_and_an_exception_elsewhere(program, then, code):
    script = f"""
import os, signal, sys
class Pressing:
    def find_spec(name, *_):
        if name == "jax":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Pressing)
sys.argv = ["{program}", "doctor"]
from irlax.cli import main
{then}
"""
    end = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (end.returncode, end.stdout) == (code, "")
    assert end.stderr == "irlax: interrupted.\n" if code == 130 else "KeyboardInterrupt" in end.stderr


def test_importing_irlax_imports_nothing_that_is_not_always_needed():
    heavy = {
        "pandas",
        "pyarrow",
        "matplotlib",
        "typer",
        "rich",
        "gymnasium",
        "blackjax",
        "tensorboard",
        "minari",
        "pooch",
    }
    code = f"import sys, irlax; print({heavy} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "set()"


def test_a_real_process_says_one_line_about_a_mistake(tmp_path):
    end = subprocess.run(
        [*IRLAX, "show", str(tmp_path / "nothing")], capture_output=True, text=True, check=False, cwd=Path.cwd()
    )
    assert end.returncode == 2 and end.stdout == "" and end.stderr.startswith("irlax: ")
    assert end.stderr.count("\n") == 1
