"""States extended by previous choices and levels, against pandas, NumPy and `with_history`."""

import numpy as np
import pytest

import irlax as ix
from irlax.demos import Demonstrations
from tests.command_line import irlax
from tests.panels.panels import DISCOUNT, LEVELS, ROLES, as_frame, choice_probabilities, machines, transitions, walk

#: Of an agent that dislikes to choose otherwise than before.
WEAR, REPLACE, CHANGE = -0.2, -2.0, -0.8
TERMS = {"wear": "mileage * keep", "cost": "replace", "change": "(last_choice != choice) * 1.0"}


def extended(P):
    """P[a, x, x'] over x = (mileage, last choice)."""
    num = P.shape[1]
    out = np.zeros((2, num, 2, num, 2))
    for a in range(2):
        out[a, :, :, :, a] = P[a][:, None, :]
    return out.reshape(2, 2 * num, 2 * num)


def rewards(theta):
    mileage, last = np.repeat(np.arange(LEVELS), 2), np.tile([0, 1], LEVELS)
    return np.stack([theta[0] * mileage + theta[2] * (last == 1), theta[1] + theta[2] * (last == 0)])


@pytest.fixture(scope="module")
def frame():
    """A tenth of the rows is missing."""
    P = extended(transitions())
    policy = choice_probabilities(rewards([WEAR, REPLACE, CHANGE]), P, DISCOUNT)
    states, actions = walk(P, policy, individuals=100, periods=30, seed=0)
    whole = as_frame(states // 2, actions)
    return whole[np.random.default_rng(1).random(len(whole)) > 0.1].sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def panel(frame):
    return ix.Panel.from_frame(frame, **ROLES, history={"choice": 1})


def lagged(frame):
    """Rows whose period before was observed, with the choice and the level in it."""
    before = frame.assign(t=frame.t + 1).rename(columns={"choice": "last", "mileage": "was"})
    return frame.merge(before, on=["id", "t"]).sort_values(["id", "t"])


def test_rows_are_those_whose_period_before_was_observed(frame, panel):
    rows = lagged(frame)
    assert panel.demos.num_steps == len(rows) and panel.without_history == len(frame) - len(rows)
    states = panel.states.iloc[panel.demos.states]
    assert (states.last_choice.astype(str).to_numpy() == rows["last"].to_numpy()).all()
    assert (states.mileage.to_numpy() == rows.mileage.to_numpy()).all()
    assert f"{panel.without_history}" in str(panel.summary()) and "`choice` of the period before" in str(
        panel.summary()
    )
    two = ix.Panel.from_frame(frame, **ROLES, history={"mileage": 2})
    again = lagged(frame).merge(
        frame.assign(t=frame.t + 2)[["id", "t", "mileage"]], on=["id", "t"], suffixes=("", "_2")
    )
    states = two.states.iloc[two.demos.states]
    assert np.array_equal(states[["last_mileage", "last_mileage_2"]].to_numpy(), again[["was", "mileage_2"]].to_numpy())


def test_what_happens_next_depends_on_the_present_state_and_action_alone(frame, panel):
    rows = lagged(frame)
    follow = rows.merge(rows.assign(t=rows.t - 1)[["id", "t", "mileage"]], on=["id", "t"], suffixes=("", "_next"))
    counts = np.zeros((2, LEVELS, LEVELS))
    np.add.at(counts, ((follow.choice == "replace").astype(int), follow.mileage, follow.mileage_next), 1)
    wanted = extended(counts / counts.sum(axis=-1, keepdims=True))
    found = np.stack([matrix.toarray() for matrix in panel.mdp(discount=0.9).dynamics.to_scipy()])
    place = panel.codes[:, 0] * 2 + panel.codes[:, 1]
    assert np.allclose(found, wanted[:, place][:, :, place], atol=1e-12)
    assert panel.transitions.num_free == (counts > 0).sum() - 2 * LEVELS


def test_the_estimate_is_that_of_a_likelihood_in_numpy(frame, panel):
    fit = panel.fit(TERMS, discount=DISCOUNT)
    assert (np.abs(fit.reward.weights - [WEAR, REPLACE, CHANGE]) < 3 * fit.standard_errors()).all()
    P = np.zeros((2, 2 * LEVELS, 2 * LEVELS))
    place = panel.codes[:, 0] * 2 + panel.codes[:, 1]
    for a, matrix in enumerate(panel.mdp(discount=0.9).dynamics.to_scipy()):
        P[a][np.ix_(place, place)] = matrix.toarray()
    rows = lagged(frame)
    x = rows.mileage.to_numpy() * 2 + (rows["last"] == "replace").to_numpy()
    chosen = (rows.choice == "replace").to_numpy().astype(int)

    def loss(theta):
        return -np.log(choice_probabilities(rewards(theta), P, DISCOUNT)[chosen, x]).sum()

    assert fit.log_likelihood == pytest.approx(-loss(fit.reward.weights), abs=1e-6)
    slopes = [(loss(fit.reward.weights + e) - loss(fit.reward.weights - e)) / 2e-4 for e in 1e-4 * np.eye(3)]
    assert np.abs(slopes).max() < 1e-3


def test_previous_levels_are_those_of_with_history():
    frame = machines()
    panel = ix.Panel.from_frame(frame, **ROLES, history={"mileage": 1})
    fit = panel.fit("mileage:keep + replace + last_mileage:replace", discount=DISCOUNT)
    base, whole = (ix.Panel.from_frame(part, **ROLES) for part in (frame[frame.t > 0], frame))
    assert np.array_equal(base.codes, whole.codes)
    # At a late entry the history is not known.
    late = Demonstrations(**vars(whole.demos) | {"times": whole.demos.times + 1})
    places = ix.with_history(base.mdp(discount=DISCOUNT), late, last=1, unknown="drop")
    now, before = places.present, places.previous[:, 0]
    features = np.zeros((len(now), 2, 3))
    features[:, 0, 0], features[:, 1, 1], features[:, 1, 2] = now, 1.0, np.maximum(before, 0)
    other = ix.MCEIRL(objective="likelihood").fit(places.mdp, ix.LinearReward(features), places.demos)
    assert other.log_likelihood == pytest.approx(fit.log_likelihood, abs=1e-6)
    assert np.allclose(other.reward.weights, fit.reward.weights, atol=1e-6)


def test_models_by_variable_exits_and_conditions_know_the_history(frame):
    wear = {"mileage": ix.panels.Chain(given=["last_choice"], unseen="stay")}
    last = frame.t == frame.groupby("id").t.transform("max")
    panel = ix.Panel.from_frame(
        frame.assign(gone=last & (frame.id % 2 == 0)),
        **ROLES,
        history={"choice": 2},
        transitions=wear,
        exit="gone",
        exit_given=["last_choice_2"],
    )
    assert np.allclose(panel.probs[:-1].sum(axis=-1), 1) and panel.has_exit
    code = {name: j for j, name in enumerate(["mileage", "last_choice", "last_choice_2"])}
    for s in range(panel.num_states - 1):
        for a in range(2):
            after = panel.codes[panel.successors[s, a][panel.probs[s, a] > 0]]
            after = after[after[:, 0] >= 0]
            assert (after[:, code["last_choice"]] == a).all()
            assert (after[:, code["last_choice_2"]] == panel.codes[s, code["last_choice"]]).all()
    seldom = lagged(frame).query("last == 'keep' or choice == 'keep'")
    rows = seldom.assign(t=seldom.groupby("id").cumcount())
    with pytest.raises(ValueError, match="does not exist"):
        ix.Panel.from_frame(rows, **ROLES, history={"choice": 1}, available={"replace": "mileage > 9"})
    alternate = frame.assign(choice=np.where(frame.t % 2, "replace", "keep"), mileage=0)
    rested = ix.Panel.from_frame(
        alternate, **ROLES, history={"choice": 1}, available={"replace": "last_choice == 'keep'"}
    )
    assert np.array_equal(rested.available[:, 1], rested.codes[:, 1] == 0)


def test_wrong_histories_are_refused_and_the_command_line_takes_right_ones(frame, tmp_path):
    for history, complaint in (({"miles": 1}, "history"), ({"choice": 0}, "history")):
        with pytest.raises((TypeError, ValueError), match=complaint):
            ix.Panel.from_frame(frame, **ROLES, history=history)
    with pytest.raises(ValueError, match="known history"):
        ix.Panel.from_frame(frame, **ROLES, history={"choice": 30})
    with pytest.raises(ValueError, match="different names"):
        ix.Panel.from_frame(frame.assign(last_choice=1), **(ROLES | {"state": ["last_choice"]}), history={"choice": 1})
    with pytest.raises(ValueError, match="with_history"):
        ix.Panel.from_frame(frame, **ROLES, history={"choice": 1}, transitions=np.zeros((12, 2, 12)))
    path = tmp_path / "machines.csv"
    frame.to_csv(path, index=False)
    columns = ("--individual", "id", "--period", "t", "--state", "mileage", "--action", "choice")
    shown = irlax("panel", "describe", str(path), *columns, "--history", "choice=1")
    assert shown.code == 0 and "last_choice" in shown.out
    wrong = irlax("panel", "describe", str(path), *columns, "--history", "choice=some")
    assert wrong.code == 2 and "whole number" in wrong.err
