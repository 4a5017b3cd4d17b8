"""The command line as tests use it: in this process, and a small problem in files."""

import contextlib
import io
import warnings
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd

from irlax import MDP, rollout, soft_plan
from irlax.cli import main
from irlax.demos import write_demos
from irlax.mdp.npz import save_mdp

S, A, T = 3, 2, 4


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def irlax(*arguments):
    """Run a command; what it printed, and its exit code."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            return Ended(end.code or 0, out.getvalue(), err.getvalue())
    raise AssertionError("main returned")


def small_mdp(horizon=T):
    """Three states in a ring; the action says whether to stay or go on, and mostly has its way. State 2 → 1 never."""
    transitions = np.zeros((S, A, S))
    for s in range(S):
        transitions[s, 0, s], transitions[s, 0, (s + 1) % S] = 0.8, 0.2
        transitions[s, 1, s], transitions[s, 1, (s + 1) % S] = 0.1, 0.9
    return MDP.from_dense(transitions, [0.5, 0.5, 0.0], discount=0.9, horizon=horizon)


def small_demos(mdp, num=30):
    plan = soft_plan(mdp, np.array([0.0, 0.5, -0.5]))
    return rollout(mdp, plan.policy, num=num, key=jax.random.key(0))


def small_files(folder):
    """mdp.npz, panel.csv, .parquet and .npz, and features.npy."""
    mdp = small_mdp()
    demos = small_demos(mdp)
    save_mdp(folder / "mdp.npz", mdp.labelled(states=["home", "work", "shop"], actions=["stay", "go"]))
    for suffix in ("csv", "parquet", "npz"):
        write_demos(folder / f"panel.{suffix}", demos)
    np.save(folder / "features.npy", np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    return folder


def route_files(folder, side=4):
    """A city of streets on a grid: roads.csv, nodes.csv, pairs.csv, and trips.csv, from known weights."""
    nodes = [(x, y) for y in range(side) for x in range(side)]
    number = {place: k for k, place in enumerate(nodes)}
    streets = [(a, b) for a in nodes for b in nodes if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    roads = pd.DataFrame({"from": [number[a] for a, _ in streets], "to": [number[b] for _, b in streets]})
    roads["minutes"] = np.random.default_rng(0).uniform(1, 3, len(roads)).round(2)
    roads.to_csv(folder / "roads.csv", index=False)
    places = {"node": range(len(nodes)), "x": [x for x, _ in nodes], "y": [y for _, y in nodes]}
    pd.DataFrame(places).to_csv(folder / "nodes.csv", index=False)
    pairs = [(o, d) for o in range(len(nodes)) for d in (0, 5, 15) if o != d]
    pd.DataFrame(pairs, columns=["origin", "destination"]).to_csv(folder / "pairs.csv", index=False)
    weights = ("--weights", "minutes=-1.5,turns=-.5,left=-1", "--links", "--nodes", folder / "nodes.csv")
    made = ("--trips", folder / "pairs.csv", "--num", 300, "--out", folder / "trips.csv")
    assert irlax("routes", "simulate", folder / "roads.csv", *weights, *made).code == 0
    return folder


def contents(folder):
    """Every file below a folder, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
