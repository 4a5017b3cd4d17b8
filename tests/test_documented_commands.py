"""Every `irlax` command in a fence of the README or of the documentation runs as printed, in its page's order.

Long ones are given options that make them short. What a page takes for granted is written beforehand.
"""

import functools
import re
import shlex

import pytest
from docs.tools.pages import ROOT

from irlax.demos import write_demos
from irlax.envs import expert_demos
from irlax.rl import PPO
from tests.command_line import irlax, route_files, small_files

#: What makes a command short, by how it begins. A page sets this discount; with the same, all use one compiled program.
SHORT_FIT = ("rounds.num=1", "rounds.episodes=2", "updates=1", "learner.discount=0.95", "learner.depth=0")
SHORT_FIT += ("learner.epochs=1", "learner.minibatches=1")
SHORTER = {
    "fit cartpole": tuple(word for setting in SHORT_FIT for word in ("--set", setting)),
    "expert train": ("--steps", "4096"),
}
#: Run elsewhere: by tests/reproduce, without what takes minutes or data; sweeps by tests/test_sweep.py; and by
#: tests/studio a server that only Ctrl-C ends. Networks that a reader downloads are not here.
ELSEWHERE = (
    "irlax reproduce",
    "irlax sweep",
    "irlax studio",
    "irlax routes simulate SiouxFalls",
    "irlax routes fit SiouxFalls",
)
FENCE = re.compile(r"^```.*?\n(.*?)^```", re.M | re.S)


def commands(page):
    """The commands of a page, without prompts and comments."""
    lines = [line.removeprefix("$ ") for fence in FENCE.findall(page.read_text()) for line in fence.splitlines()]
    return [line.split("  #")[0].strip() for line in lines if line.startswith("irlax ")]


PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if commands(page)]


def test_there_are_commands_to_run():
    assert sum(len(commands(page)) for page in PAGES) >= 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_run_as_printed(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (small_files(tmp_path) / "features.npy").rename("f.npy")
    route_files(tmp_path)
    write_demos("demos.npz", expert_demos("cartpole"))
    for command in commands(page):
        if command.startswith(ELSEWHERE):
            continue
        words = shlex.split(command)[1:]
        with monkeypatch.context() as small:
            if words[:2] == ["expert", "train"]:  # which has no options for the learner's settings
                small.setattr("irlax.rl.PPO", functools.partial(PPO, depth=0, epochs=1, minibatches=1))
            end = irlax(*words, *SHORTER.get(" ".join(words[:2]), ()))
        assert end.code == 0, f"{command}\n{end.err}"
