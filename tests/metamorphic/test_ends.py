"""Undiscounted problems that end, absorbing states in which there is something to choose, and plans from elsewhere."""

import dataclasses

import jax
import numpy as np
import pytest

import irlax as ix
from tests.metamorphic.registry import CASES, LIKELIHOOD, fitted, theta
from tests.metamorphic.worlds import S, demonstrated, ended, endless, finite, maze

PLANNING = [case for case in CASES if case.estimates and case.finishes and not case.random]
MATCHING = [case for case in CASES if case.objective in ("feature-matching", "paths") and case.finishes]


@pytest.mark.parametrize("case", PLANNING, ids=lambda case: case.name)
def test_an_estimate_is_found_from_where_no_soft_value_exists(case):
    world = maze()
    good = fitted(case, world.mdp, ix.LinearReward(world.features, [1.5, 0.4]), world.demos).fit
    assert good.status.success
    fit = fitted(case, world.mdp, ix.LinearReward(world.features), world.demos).fit
    assert fit.status.success
    np.testing.assert_allclose(theta(fit), theta(good), atol=max(case.equal, 1e-5))


@pytest.mark.parametrize("case", [case for case in CASES if not case.random], ids=lambda case: case.name)
def test_episodes_that_end_nowhere_are_refused(case):
    """Marked as terminated, though the last move does not lead into an absorbing state."""
    world = ended()
    long = np.flatnonzero(world.demos.lengths > 1)[:10]
    whole = world.demos.select(long)
    cut = [
        (whole.states[start:end], whole.actions[start : end - 1])
        for start, end in zip(whole.offsets[:-1], whole.offsets[1:], strict=True)
    ]
    demos = ix.Demonstrations.from_episodes(cut, terminated=True)
    with pytest.raises(ValueError, match=r"absorbing|terminated"):
        fitted(case, world.mdp, world.reward, demos)


def _with_a_choice_at_the_end(world):
    """The world with an absorbing state, in which a demonstrator is anything but indifferent between actions."""
    transitions, features = world.transitions.copy(), world.features.copy()
    transitions[-1] = np.eye(S)[-1]
    features[-1, :, 0] = [1.0, -1.0, 0.0]
    initial = np.array([0.4, 0.3, 0.3, 0.0])
    world = world.changed("choice at the end", transitions=transitions, features=features, initial=initial)
    whole = demonstrated(world, np.array([2.0, -0.5]), num=300, length=16)
    rows = whole.demos
    # What is done after the end is not recorded.
    episodes, terminated = [], []
    for a, b in zip(rows.offsets[:-1], rows.offsets[1:], strict=True):
        at_end = rows.next_states[a:b] == S - 1
        last = a + int(np.argmax(at_end)) + 1 if at_end.any() else b
        episodes.append((np.append(rows.states[a:last], rows.next_states[last - 1]), rows.actions[a:last]))
        terminated.append(bool(at_end.any()))
    return dataclasses.replace(whole, demos=ix.Demonstrations.from_episodes(episodes, terminated=np.array(terminated)))


@pytest.mark.parametrize("world", [endless, finite], ids=["endless", "finite"])
@pytest.mark.parametrize("case", MATCHING, ids=lambda case: case.name)
def test_choices_after_the_end_are_not_made_up(case, world):
    """Feature matching says that it cannot know them, or finds what the likelihood finds, but for sampling."""
    world = _with_a_choice_at_the_end(world())
    likelihood = fitted(LIKELIHOOD, world.mdp, world.reward, world.demos).fit
    try:
        fit = fitted(case, world.mdp, world.reward, world.demos).fit
    except ValueError as refused:
        assert "available" in str(refused) or "likelihood" in str(refused)
        return
    if case.estimates:
        assert (np.abs(theta(fit) - theta(likelihood)) < 5 * likelihood.standard_errors()).all()
    else:
        there = np.asarray(likelihood.policy)[..., -1, :]
        np.testing.assert_allclose(np.asarray(fit.policy)[..., -1, :], there, atol=0.1)


def _elsewhere():
    """A plan of a world in which the action that `finite` lacks in state 1 exists and is the best."""
    world = finite()
    mdp = ix.MDP.from_dense(world.transitions, world.initial, discount=world.discount, horizon=world.horizon)
    return ix.soft_plan(mdp, 3.0 * (np.arange(3) == 2) * np.ones((S, 1)))


@pytest.mark.parametrize(
    "use",
    [
        lambda world, plan: ix.rollout(world.mdp, plan, num=5, key=jax.random.key(0)),
        lambda world, plan: ix.occupancy(world.mdp, plan),
        lambda world, plan: ix.visits(world.mdp, plan),
        lambda world, plan: ix.expected_return(world.mdp, plan, world.features[..., 0]),
        lambda world, plan: ix.causal_entropy(world.mdp, plan),
    ],
    ids=["rollout", "occupancy", "visits", "expected_return", "causal_entropy"],
)
def test_a_plan_whose_actions_do_not_exist_here_is_refused(use):
    with pytest.raises(ValueError, match=r"available|exist"):
        use(finite(), _elsewhere())


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.takes_policies and case.finishes], ids=lambda case: case.name
)
def test_a_demonstrator_whose_actions_do_not_exist_here_is_refused(case):
    world = finite()
    with pytest.raises(ValueError, match=r"available|exist"):
        fitted(case, world.mdp, world.reward, _elsewhere())


def test_rows_that_contradict_each_other_are_refused():
    """The next state of a row is the state of the row after it."""
    rows = finite().demos.to_frame()
    names = {"episode": "episode", "time": "t", "state": "state", "action": "action", "next_state": "next_state"}
    ix.Demonstrations.from_frame(rows, **names)
    rows.loc[0, "next_state"] = (rows.loc[1, "state"] + 1) % S
    with pytest.raises(ValueError, match="next"):
        ix.Demonstrations.from_frame(rows, **names)
