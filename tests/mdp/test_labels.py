"""Names of states and actions travel with an MDP, and no compiled program depends on them."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import irlax as ix
from irlax.mdp import Labels
from tests.problems import as_mdp, random_problem

NAMED = Labels(states=("home", "work", "shop"), actions=("stay", "go"), time_unit="day")


def small(**labels):
    return as_mdp(random_problem(0)).labelled(**labels)


def named():
    return small(states=NAMED.states, actions=NAMED.actions, time_unit="day")


@pytest.mark.parametrize(
    "change",
    [
        lambda mdp: eqx.tree_at(lambda mdp: mdp.initial, mdp, np.array([1.0, 0, 0])),
        lambda mdp: mdp.single_precision(),
        lambda mdp: mdp.sharded(jax.make_mesh((1,), ("states",))),
        lambda mdp: dataclasses.replace(mdp, discount=0.5),
        lambda mdp: mdp.replace(horizon=7),
        lambda mdp: jax.tree.map(lambda leaf: leaf, mdp),
    ],
    ids=["tree_at", "single_precision", "sharded", "dataclasses.replace", "replace", "tree.map"],
)
def test_a_changed_mdp_keeps_its_labels(change):
    assert change(named()).labels == NAMED


def test_labels_that_are_not_given_stay():
    mdp = named().labelled(actions=["wait", "walk"])
    assert mdp.labels == dataclasses.replace(NAMED, actions=("wait", "walk"))


def test_labels_reach_plans_and_fits():
    mdp = named()
    plan = ix.soft_plan(mdp, np.zeros(3))
    fit = ix.MCEIRL(l2=0.1, progress=False).fit(mdp, ix.TabularReward("s"), plan.policy)
    assert plan.mdp.labels == fit.mdp.labels == fit.plan.mdp.labels == NAMED


@pytest.mark.parametrize("jit", [jax.jit, eqx.filter_jit], ids=["jit", "filter_jit"])
def test_labels_do_not_compile_anew(jit):
    traces = []

    @jit
    def planned(mdp, reward):
        traces.append(1)
        return ix.soft_plan(mdp, reward)

    mdps = [small(), named(), small(states=["a", "b", "c"])]
    with jax.enable_x64(True):
        plans = [planned(mdp, jnp.zeros(3)) for mdp in mdps]
    assert len(traces) == 1
    assert len({jax.tree.structure(mdp) for mdp in mdps}) == 1
    # What a program returns must not have the labels of the MDP with which it was compiled.
    assert [plan.mdp.labels for plan in plans] == [Labels()] * 3


def test_compiled_in_either_order_a_program_has_no_labels_of_others():
    same = jax.jit(lambda mdp: mdp)
    assert same(named()).labels == Labels()
    assert same(small(states=["a", "b", "c"])).labels == Labels()


def test_environments_name_what_they_consist_of():
    grid = ix.envs.Gridworld(("S.#", "..G"), stay=True).mdp.labels
    assert grid.layout == ("S.#", "..G") and grid.actions == ("up", "right", "down", "left", "stay")
    assert ix.envs.Gridworld(("SG",)).mdp.labels.actions == ("up", "right", "down", "left")
    assert ix.envs.Objectworld(size=3, num_objects=2).mdp.labels.layout == ("...",) * 3
    assert ix.envs.RiskyPath().mdp.labels.actions == ("safe", "risky")
    bus = ix.envs.BusEngine([0.5, 0.5], bins=3).mdp.labels
    assert bus.states == ("bin 0", "bin 1", "bin 2") and bus.actions == ("keep", "replace")
    assert bus.time_unit == "month"
    assert ix.envs.make("gridworld", layout=["SG"]).layout == ("SG",)


@pytest.mark.parametrize(
    "labels, error, message",
    [
        ({"states": ["a"]}, ValueError, r"`states` must have shape \(3\)"),
        ({"actions": ["a", "b", "c"]}, ValueError, r"`actions` must have shape \(2\)"),
        ({"actions": [1, 2]}, TypeError, "`actions` must hold text, but holds 1, 2"),
        ({"states": "abc"}, TypeError, "`states` must be a list of texts"),
        ({"layout": ["..", "."]}, ValueError, "rows of equal length"),
        ({"layout": []}, ValueError, "rows of equal length"),
        ({"layout": ["..", ".."]}, ValueError, "each of the 3 states, but draws 4"),
        ({"time_unit": 3}, TypeError, "`time_unit` must hold text"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, error, message, as_a_user):
    with pytest.raises(error, match=message):
        small(**labels)
