"""Counterfactuals of panels: their intervals against differences in NumPy, draw by draw of the transitions."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

import irlax as ix
from tests.panels.panels import DISCOUNT, LEVELS, ROLES, choice_probabilities, machines

SET = -3.0


@pytest.fixture(scope="module")
def panel():
    return ix.Panel.from_frame(machines(), **ROLES)


@pytest.fixture(scope="module")
def fit(panel):
    return panel.fit("mileage:keep + replace", discount=DISCOUNT)


def behaviour(theta, P, horizon=None, discount=DISCOUNT):
    """The value at the start, and the shares of keep and replace: in the long run, or within a horizon."""
    reward = np.stack([theta[0] * np.arange(LEVELS), np.full(LEVELS, theta[1])])
    now, counts = np.eye(LEVELS)[0], np.zeros(2)
    if horizon is None:
        policy = choice_probabilities(reward, P, discount)
        share = np.linalg.matrix_power(np.einsum("as,ast->st", policy, P), 2000)[0]
        q = reward - np.log(policy)
        value = np.linalg.solve(np.eye(LEVELS) - discount * np.einsum("as,ast->st", policy, P), (policy * q).sum(0))
        return np.append(value[0], policy @ share)
    value, policies = np.zeros(LEVELS), []
    for _ in range(horizon):
        q = reward + discount * P @ value
        value = np.logaddexp.reduce(q, axis=0)
        policies.append(np.exp(q - value))
    for policy in reversed(policies):
        counts += policy @ now
        now = np.einsum("s,as,ast->t", now, policy, P)
    return np.append(value[0], counts / counts.sum())


def expected(fit, panel, before, after, step=1e-5):
    """Values [Q, 3] of behaviour as fitted, changed and their difference, and their clustered standard errors."""
    P = np.stack([matrix.toarray() for matrix in fit.mdp.dynamics.to_scipy()])
    theta, information, demos = np.asarray(fit.reward.weights), fit.information, panel.demos

    def both(theta, P):
        one, other = before(theta, P), after(theta, P)
        return np.stack([one, other, other - one], axis=1)

    slopes = np.stack([(both(theta + e, P) - both(theta - e, P)) / (2 * step) for e in step * np.eye(2)])
    rows = demos.followed
    counts = np.zeros((2, LEVELS))
    np.add.at(counts, (demos.actions[rows], demos.states[rows]), 1)
    direct, table = np.zeros((demos.num_steps, 3, 3)), {}
    for row in rows:
        cell = (demos.actions[row], demos.states[row], demos.states[row + 1])
        if cell not in table:
            turn = np.zeros_like(P)
            turn[cell[:2]] = step * (np.eye(LEVELS)[cell[2]] - P[cell[:2]])
            table[cell] = (both(theta, P + turn) - both(theta, P - turn)) / (2 * step) / counts[cell[:2]]
        direct[row] = table[cell]
    moved = (information.scores + information.corrections) @ np.linalg.inv(information.hessian)
    by_row = np.tensordot(moved, slopes, 1) + direct
    by_person = np.zeros((demos.num_episodes, 3, 3))
    np.add.at(by_person, demos.episode, by_row)
    return both(theta, P), np.sqrt((by_person**2).sum(axis=0))


def test_errors_are_differences_in_the_parameters_and_in_each_transition(fit, panel):
    found = fit.counterfactual(parameters={"replace": SET}).changes
    values, errors = expected(fit, panel, behaviour, lambda theta, P: behaviour([theta[0], SET], P))
    assert np.allclose(found.values, values, atol=1e-8)
    assert np.allclose(found.standard_errors, errors, rtol=1e-3)
    reach = 1.959964 * errors / (values * (1 - values))
    wanted = expit(logit(values[1:, :2])[..., None] + reach[1:, :2, None] * [-1, 1])
    assert np.allclose(found.interval[1:, :2], wanted, rtol=1e-3)


def test_another_discount_keeps_the_estimated_transitions_and_other_dynamics_do_not(fit, panel):
    patient = fit.counterfactual(mdp=panel.mdp(discount=0.5)).changes
    values, errors = expected(fit, panel, behaviour, lambda theta, P: behaviour(theta, P, discount=0.5))
    assert np.allclose(patient.values, values, atol=1e-8) and np.allclose(patient.standard_errors, errors, rtol=1e-3)
    given = np.stack([np.eye(LEVELS, k=1), np.eye(LEVELS, k=1)])
    given[:, -1, -1] = 1
    given[1] = np.eye(LEVELS)[0]
    given = 0.9 * given + 0.1 / LEVELS
    mdp = ix.MDP.from_dense(given.swapaxes(0, 1), np.eye(LEVELS)[0], discount=DISCOUNT)
    other = fit.counterfactual(mdp=mdp).changes
    values, errors = expected(fit, panel, behaviour, lambda theta, P: behaviour(theta, given))
    assert np.allclose(other.values, values, atol=1e-8) and np.allclose(other.standard_errors, errors, rtol=1e-3)


def test_within_a_horizon_shares_are_those_of_all_its_choices(panel):
    fit = panel.fit("mileage:keep + replace", discount=DISCOUNT, horizon=40)
    found = fit.counterfactual(parameters={"replace": SET})
    values, errors = expected(
        fit,
        panel,
        lambda theta, P: behaviour(theta, P, 40),
        lambda theta, P: behaviour([theta[0], SET], P, 40),
    )
    assert np.allclose(found.changes.values, values, atol=1e-8)
    assert np.allclose(found.changes.standard_errors, errors, rtol=1e-3)
    assert "Shares of choices" in str(found)


def test_the_difference_to_itself_has_no_error_and_what_is_not_identified_has_none_to_show(panel, fit):
    same = fit.counterfactual(mdp=fit.mdp).changes
    assert (same.standard_errors[:, 2] == 0).all() and (same.standard_errors[:, 0] > 0).all()
    collinear = panel.fit("mileage:keep + replace + keep", discount=DISCOUNT)
    with pytest.warns(ix.NotIdentifiedWarning, match="keep"):
        open_ended = collinear.counterfactual(parameters={"replace": SET})
    assert np.isnan(open_ended.changes.standard_errors[1:, 1:]).all()
    # As fitted, behaviour is known, and the value at the start is not: a constant is in it.
    plain = fit.counterfactual(parameters={"replace": SET}).changes
    assert np.allclose(open_ended.changes.standard_errors[1:, 0], plain.standard_errors[1:, 0], rtol=1e-4)
    assert np.isnan(open_ended.changes.standard_errors[0, 0])
    assert "nan" not in str(open_ended).lower() and "do not identify" in str(open_ended)
    closed = collinear.counterfactual(parameters={"replace": SET, "keep": 0.0})
    assert not closed.depends_on
    assert np.allclose(closed.changes.standard_errors[1:, 1], plain.standard_errors[1:, 1], rtol=1e-4)


def test_before_the_end_errors_are_differences_too():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"who": np.arange(500), "t": 0, "s": rng.integers(2, size=500)})
    rows = rows.assign(a=rng.choice(["a", "b"], 500), gone=rng.random(500) < 0.1 + 0.2 * rows.s)
    after = rows[~rows.gone].assign(t=1, s=rng.integers(2, size=(~rows.gone).sum()), gone=False)
    frame = pd.concat([rows, after])
    panel = ix.Panel.from_frame(frame, individual="who", period="t", state=["s"], action="a", exit="gone")
    fit = panel.fit("s:a", discount=0.9)
    found = fit.counterfactual(parameters={"s:a": 1.0}, kind="hessian").changes
    P = np.stack([matrix.toarray() for matrix in fit.mdp.dynamics.to_scipy()])

    def share(theta, P):
        """The share of `a` before the end."""
        reward = np.array([[0.0, theta, 0.0], [0.0, 0.0, -1e9]])
        policy, now, counts = choice_probabilities(reward, P, 0.9), np.asarray(fit.mdp.initial), np.zeros(2)
        for _ in range(500):
            counts += policy[:, :2] @ now[:2]
            now = np.einsum("s,as,ast->t", now, policy, P)
        return counts[0] / counts.sum()

    theta, step = float(fit.reward.weights[0]), 1e-5
    assert found.values[1, :2] == pytest.approx([share(theta, P), share(1.0, P)], abs=1e-9)
    # The changed behaviour has the error of the transitions alone: binomials of exits, and of the next state of others.
    follow = rows.merge(after[["who", "s"]], on="who", how="left", suffixes=("", "_next"))
    variance, turn = 0.0, step * np.array([1.0, -1.0])
    for (s, a), cell in follow.groupby(["s", "a"]):
        stayed = cell[~cell.gone]
        stay = np.array([(stayed.s_next == 0).mean(), (stayed.s_next == 1).mean()])
        alive = np.array([(~cell.gone).mean(), cell.gone.mean()])

        def of(stay, alive, where=(int(a == "b"), s)):
            moved = P.copy()
            moved[where] = [*(alive[0] * stay), alive[1]]
            return share(1.0, moved)

        assert of(stay, alive) == pytest.approx(share(1.0, P), abs=1e-9)
        by_stay = (of(stay + turn, alive) - of(stay - turn, alive)) / (2 * step)
        by_exit = (of(stay, alive + turn) - of(stay, alive - turn)) / (2 * step)
        variance += by_stay**2 * stay.prod() / len(stayed) + by_exit**2 * alive.prod() / len(cell)
    assert found.standard_errors[1, 1] == pytest.approx(np.sqrt(variance), rel=1e-3)


def test_plots_and_tables(fit):
    found = fit.counterfactual(parameters={"replace": SET}, level=0.9)
    assert found.plot().savefig and found.changes.plot().savefig
    text = str(found)
    assert "90% from" in text and "clustered by individual" in text and "s.e. of difference" in text
    rows = {row[:2]: row[2:] for row in found.changes.table().rows}
    assert rows["replace", "changed"][0] == pytest.approx(found.rate("replace"))
    with pytest.raises(ValueError, match="level"):
        fit.counterfactual(parameters={"replace": SET}, level=2)
