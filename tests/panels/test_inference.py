"""What the tables of a panel's fit say: identification, tests, effects, shares, the discount."""

import re

import numpy as np
import pandas as pd
import pytest

import irlax as ix
from irlax.estimators.tabular.linear_tests import _directions_apart
from tests.panels.panels import (
    DISCOUNT,
    LEVELS,
    ROLES,
    as_frame,
    choice_probabilities,
    excluded,
    machines,
    transitions,
    walk,
)


@pytest.fixture(scope="module")
def panel():
    return ix.Panel.from_frame(machines(), **ROLES)


@pytest.fixture(scope="module")
def fit(panel):
    return panel.fit("mileage:keep + replace", discount=DISCOUNT)


@pytest.fixture(scope="module")
def collinear(panel):
    """The cost of replacing only ever appears beside that of keeping."""
    return panel.fit("mileage:keep + replace + keep", discount=DISCOUNT)


def test_a_parameter_that_is_not_identified_is_marked_and_its_combination_agrees(panel, fit, collinear):
    other = panel.fit(
        "mileage:keep + replace + keep", discount=DISCOUNT, estimator=ix.TwoStepIRL(iterations=None, l2=0.0)
    )
    start = collinear.reward.with_parameters(np.array([0.0, 3.0, 0.0]))
    moved = ix.MCEIRL(objective="likelihood").fit(collinear.mdp, start, panel.demos)
    assert abs(moved.reward.weights[1] - collinear.reward.weights[1]) > 0.5
    for one in (other, moved):
        gaps = np.asarray(one.reward.weights) - np.asarray(collinear.reward.weights)
        assert abs(gaps[0]) < 1e-6 and abs(gaps[1] - gaps[2]) < 1e-6
    text = str(collinear.regression_table())
    assert "Not identified: replace + keep" in text and "Identified instead: replace − keep" in text
    rows = {row[0]: row for row in collinear.regression_table().tables[0].rows}
    assert rows["replace"][-1] == "no" and rows["replace"][2] is None and rows["mileage:keep"][-1] == "yes"
    combined = {row[0]: row[1:3] for row in collinear.regression_table().tables[-1].rows}
    assert np.allclose(combined["replace − keep"], [fit.reward.weights[1], fit.standard_errors()[1]], rtol=1e-5)


def test_demand_along_an_identified_combination_is_that_of_the_identified_model(fit, collinear):
    curve = collinear.demand_curve(action="replace", parameter="replace - keep", values=[-3.0, -2.0])
    plain = fit.demand_curve(action="replace", parameter="replace", values=[-3.0, -2.0])
    assert np.allclose(curve.rate, plain.rate, atol=1e-7)
    assert np.allclose(curve.standard_error, plain.standard_error, rtol=1e-4)
    with pytest.raises(ValueError, match="Vary a combination that is identified"):
        collinear.demand_curve(action="replace", parameter="replace", values=[-3.0, -2.0])


def test_the_interval_of_a_demand_curve_has_the_error_of_the_transitions(panel, fit):
    """The direct part by moving the estimated probabilities one draw at a time, in NumPy."""
    curve = fit.demand_curve(action="replace", parameter="replace", values=[-2.0])
    given = fit.mdp
    at = np.array([fit.reward.weights[0], -2.0])
    reward = np.stack([at[0] * np.arange(LEVELS), np.full(LEVELS, at[1])])
    P = np.stack([matrix.toarray() for matrix in given.dynamics.to_scipy()])

    def rate(P, reward):
        policy = choice_probabilities(reward, P, DISCOUNT)
        chain = np.einsum("as,ast->st", policy, P)
        share = np.linalg.matrix_power(chain, 2000)[0]
        return share @ policy[1]

    step = 1e-5
    slope = (rate(P, reward + step * np.stack([np.arange(LEVELS), np.zeros(LEVELS)])) - rate(P, reward)) / step
    demos, information = panel.demos, fit.information
    rows = demos.followed
    counts = np.zeros((2, LEVELS))
    np.add.at(counts, (demos.actions[rows], demos.states[rows]), 1)
    direct = np.zeros(demos.num_steps)
    table = {}
    for row in rows:
        cell = (demos.actions[row], demos.states[row], demos.states[row + 1])
        if cell not in table:
            moved = np.array(P)
            moved[cell[:2]] += step * (np.eye(LEVELS)[cell[2]] - P[cell[:2]])
            table[cell] = (rate(moved, reward) - rate(P, reward)) / step / counts[cell[:2]]
        direct[row] = table[cell]
    by_row = ((information.scores + information.corrections) @ np.linalg.inv(information.hessian))[
        :, 0
    ] * slope + direct
    wanted = np.sqrt((np.bincount(demos.episode, weights=by_row) ** 2).sum())
    assert curve.rate[0] == pytest.approx(rate(P, reward), abs=1e-9)
    assert curve.standard_error[0] == pytest.approx(wanted, rel=1e-3)


def test_combinations_and_wald_tests_are_quadratic_forms_by_name(fit):
    covariance = fit.information.covariance("sandwich", "episode", "frequency")
    weight, theta = np.array([-2.0, 1.0]), np.asarray(fit.reward.weights)
    (row,) = fit.combinations("replace - 2*mileage:keep").rows
    assert row[1:3] == pytest.approx((weight @ theta, np.sqrt(weight @ covariance @ weight)))
    (test,) = fit.wald("replace = -2", "mileage:keep = -0.5").rows
    gap = theta - [-0.5, -2.0]
    assert test[0] == pytest.approx(gap @ np.linalg.solve(covariance, gap)) and test[1] == 2
    with pytest.raises(ValueError, match="must be a linear combination"):
        fit.wald("replace * mileage:keep = 0")
    for text, complaint in (("nothing = 1", "must be a linear combination"), ("replace = keep = 1", "one '='")):
        with pytest.raises(ValueError, match=complaint):
            fit.wald(text)


def test_two_estimators_are_compared_by_what_individuals_add_to_both(panel, fit):
    equal = fit.compare_estimates(panel.fit("mileage:keep + replace", discount=DISCOUNT, estimator=ix.TwoStepIRL()))
    assert "equivalent in large samples" in equal.notes[0]
    others = machines(seed=1)
    models = {"mileage": ix.panels.Increments(restart={"replace": 0})}
    other = ix.Panel.from_frame(others.assign(id=others.id + 1000), **ROLES, transitions=models)
    other = other.fit("mileage:keep + replace", discount=DISCOUNT)
    rows = fit.compare_estimates(other).rows
    assert rows[0][-1] == pytest.approx(np.hypot(fit.standard_errors()[0], other.standard_errors()[0]), rel=0.2)


def test_marginal_effects_are_finite_differences_of_mean_probabilities(fit, panel):
    P = np.stack([matrix.toarray() for matrix in fit.mdp.dynamics.to_scipy()])

    def mean(theta):
        reward = np.stack([theta[0] * np.arange(LEVELS), np.full(LEVELS, theta[1])])
        return choice_probabilities(reward, P, DISCOUNT)[:, panel.demos.states].mean(axis=1)

    theta = np.asarray(fit.reward.weights)
    slopes = np.array([(mean(theta + e) - mean(theta - e)) / 2e-5 for e in 1e-5 * np.eye(2)])
    effects = fit.marginal_effects()
    assert np.allclose(effects.effects, slopes, atol=1e-7) and (effects.standard_errors > 0).all()
    assert np.allclose(fit.elasticities().effects, theta[:, None] * slopes / mean(theta), atol=1e-6)
    steps = fit.marginal_effects("mileage")
    policy = np.asarray(fit.policy)
    assert steps.names[0] == "0 → 1" and np.allclose(steps.effects[0], policy[1] - policy[0], atol=1e-9)
    assert effects.plot().savefig and "delta method" in str(effects)


def test_choice_shares_are_those_of_the_frame_and_the_policy(fit, panel):
    shares = fit.choice_shares("mileage")
    for level in range(LEVELS):
        here = panel.demos.states == level
        assert shares.observed[level, 1] == pytest.approx((panel.demos.actions[here] == 1).mean())
        assert shares.predicted[level, 1] == pytest.approx(fit.policy[level, 1])
    assert 0.01 < shares.p <= 1 and shares.degrees == LEVELS
    wrong = panel.fit("replace", discount=DISCOUNT).choice_shares("mileage")
    assert wrong.p < 1e-6
    assert shares.plot().savefig and "Pearson test" in str(shares)


def test_baselines_are_counts(fit, panel):
    rows = {row[0]: row for row in fit.baselines().rows}
    states, actions = panel.demos.states, panel.demos.actions
    counts = np.zeros((LEVELS, 2))
    np.add.at(counts, (states, actions), 1)
    wanted = np.log((counts / counts.sum(axis=1, keepdims=True))[states, actions]).mean()
    assert rows["counts by state"][2] == pytest.approx(wanted) and rows["equal chances"][2] == pytest.approx(-np.log(2))
    assert rows["counts by state"][3] < wanted and rows["this fit"][2] == pytest.approx(fit.score(panel.demos))


def test_late_entries_are_matched_from_their_first_period(panel):
    """Feature matching on an endless problem is the same whenever individuals enter."""
    late = machines()
    late = late.assign(t=late.t + late.id % 3)
    entered = ix.Panel.from_frame(late, **ROLES)
    reward = panel.reward("mileage:keep + replace")
    with pytest.warns(UserWarning, match="unobserved"):
        fits = [ix.MCEIRL().fit(one.mdp(discount=DISCOUNT), reward, one.demos) for one in (panel, entered)]
    assert np.allclose(fits[0].reward.weights, fits[1].reward.weights, atol=1e-8)


def test_the_discount_is_identified_by_an_exclusion_and_not_without():
    """Two formulae on panels that look alike: the load is left out of the reward, or has a term in every state."""
    panel = ix.Panel.from_frame(excluded(), **(ROLES | {"state": ["mileage", "load"]}))
    fit = panel.fit("mileage:keep + replace", discount="estimate")
    assert fit.panel.discount.estimate == pytest.approx(float(fit.mdp.discount))
    profile = fit.discount_profile(discounts=[0.0, 0.4, 0.7, 0.9, 0.99])
    assert profile.identified and profile.contains(0.8)
    assert profile.estimate == pytest.approx(fit.panel.discount.estimate, abs=1e-3)
    # At the maximum over γ the profile is flat, and its ends are where it has fallen by κ·χ²/2.
    joint = profile.regression_table()
    errors = [row[2] for row in joint.rows]
    assert np.allclose(fit.standard_errors(), errors[:2], rtol=1e-2) and errors[2] > 0.02
    assert profile.plot().savefig and "exclusion restriction" in profile.reason
    rich = panel.fit("C(mileage):C(load):keep", discount=0.9)
    flat = rich.discount_profile(discounts=[0.0, 0.5, 0.95])
    assert not flat.identified and "Magnac and Thesmar" in flat.reason
    assert np.ptp(flat.log_likelihoods) < 1e-6
    with pytest.raises(ValueError, match=r"cannot be estimated\. Not identified"):
        panel.fit("C(mileage):C(load):keep", discount="estimate")


def test_every_table_has_four_formats(collinear):
    table = collinear.regression_table()
    assert r"\toprule" in table.to_latex() and "<table>" in table.to_html() and "| ---" in table.to_markdown()
    assert not re.search(r"\bnan\b", str(table), re.IGNORECASE)


def shares_of(frame):
    """The share of replacements, and of each individual Σ(a − p) / (n·p(1 − p)): what it adds to the log-odds."""
    share, number = (frame.choice == "replace").mean(), len(frame)
    gaps = (frame.choice == "replace").groupby(frame.id).agg(["sum", "size"])
    return share, (gaps["sum"] - share * gaps["size"]) / (number * share * (1 - share))


def binomial(frame):
    share, _ = shares_of(frame)
    return len(frame) * (share * np.log(share) + (1 - share) * np.log(1 - share))


def test_individuals_too_few_to_cluster_by_have_errors_by_choice():
    """With terms of one individual alone clustered scores are 0. Static shares have the errors of binomials."""
    frame = machines(3, 300).assign(name=lambda rows: rows.id.map({0: "Ada", 1: "Bob", 2: "Cleo"}))
    wear = {"mileage": ix.panels.Increments(restart={"replace": 0})}
    panel = ix.Panel.from_frame(frame, **ROLES, transitions=wear, covariates=["name"])
    fit = panel.fit("replace", discount=0, by="name")
    share = (frame.choice == "replace").groupby(frame.id).mean()
    assert np.allclose(fit.reward.weights, np.log(share / (1 - share)), atol=1e-6)
    assert np.allclose(fit.standard_errors(), 1 / np.sqrt(300 * share * (1 - share)), rtol=1e-5)
    assert "individuals are too few" in str(fit.regression_table())
    alone = ix.Panel.from_frame(frame[frame.id == 1], **ROLES, transitions=wear)
    one = alone.fit("mileage:keep + replace", discount=DISCOUNT)
    assert (one.standard_errors() > 0.3 * one.standard_errors("hessian")).all() and one.choice_shares("mileage").p < 1
    with pytest.raises(ValueError, match="need several clusters"):
        one.standard_errors(cluster="episode")


def test_rewards_with_and_without_covariates_are_nested():
    """At γ = 0 both are shares of choices, so that the statistic is that of two binomials."""
    frame = machines().assign(depot=lambda rows: np.where(rows.id % 2, "north", "south"))
    panel = ix.Panel.from_frame(frame, **ROLES, covariates=["depot"])
    larger, smaller = (panel.fit(text, discount=0) for text in ("replace + replace:C(depot)", "replace"))
    (row,) = larger.compare_nested(smaller).rows
    wanted = 2 * (sum(binomial(part) for _, part in frame.groupby("depot")) - binomial(frame))
    assert row[0] == pytest.approx(wanted, abs=1e-6) and row[1] == 1
    with pytest.raises(ValueError, match="same demonstrations"):
        larger.compare_nested(ix.Panel.from_frame(frame[frame.id > 0], **ROLES).fit("replace", discount=0))


def test_estimates_from_overlapping_individuals_are_not_taken_to_be_independent():
    frame = machines()
    half = frame[frame.id % 2 == 0]
    fits = [ix.Panel.from_frame(part, **ROLES).fit("replace", discount=0) for part in (frame, half)]
    table = fits[0].compare_estimates(fits[1])
    (_, mine), (_, theirs) = shares_of(frame), shares_of(half)
    wanted = np.sqrt(((mine - theirs.reindex(mine.index, fill_value=0)) ** 2).sum())
    assert table.rows[0][-1] == pytest.approx(wanted, rel=1e-5) and "partly the same" in table.notes[1]


def test_only_directions_in_which_two_estimators_differ_are_tested():
    own = np.array([[2.0, 0.5], [0.5, 1.0]])
    turned = np.array([1.0, -2.0])
    apart = _directions_apart(0.3 * np.outer(turned, turned) + 1e-9 * np.eye(2), own)
    assert len(apart) == 1 and np.linalg.matrix_rank([apart[0], np.linalg.solve(own, turned)], tol=1e-6) == 1


def test_a_discount_that_nothing_bounds_is_weakly_identified_and_said_so(monkeypatch):
    """The load looks as in `excluded`, but does not move the wear: what is left of it is sampling error."""
    states, actions = walk(*loaded_without_effect(), individuals=120, periods=30, seed=2)
    frame = as_frame(states // 2, actions).assign(load=states.ravel() % 2)
    models = {"mileage": ix.panels.Chain(given=["load"]), "load": ix.panels.Chain(by_action=False)}
    panel = ix.Panel.from_frame(frame, **(ROLES | {"state": ["mileage", "load"]}), transitions=models)
    monkeypatch.setattr("irlax.estimators.tabular.discount_profile.GRID", (0.0, 0.5, 0.95))
    with pytest.warns(ix.NotIdentifiedWarning, match="weakly"):
        fit = panel.fit("C(mileage):keep", discount="estimate")
    assert any("identified weakly" in note for note in fit.panel.notes)


def loaded_without_effect():
    """P and policy of machines with 3 levels of wear, and a load that comes and goes but does nothing."""
    wear, load = transitions(3, 0.5), np.array([[0.6, 0.4], [0.4, 0.6]])
    P = np.stack([np.kron(matrix, load) for matrix in wear])
    return P, choice_probabilities(np.stack([-np.repeat(np.arange(3.0), 2), np.full(6, -1.5)]), P, 0.8)


def test_where_lives_end_counterfactuals_have_the_shares_before_that(with_exit):
    fit = with_exit
    changed = fit.counterfactual(parameters={"s:a": 1.0})
    P = np.stack([matrix.toarray() for matrix in fit.mdp.dynamics.to_scipy()])
    now, counts = np.asarray(fit.mdp.initial), np.zeros(2)
    policy = np.asarray(changed.policy)
    for _ in range(2000):
        counts += now[:2] @ policy[:2]
        now = np.einsum("s,sa,ast->t", now, policy, P)
    shares = changed.summary().tables[1]
    assert "before the end" in shares.title
    assert np.allclose([row[2] for row in shares.rows], counts / counts.sum(), atol=1e-10)
    with pytest.raises(ValueError, match="absorbing state that lives end in"):
        fit.demand_curve(action="b", parameter="s:a", values=[0.0])


@pytest.fixture(scope="module")
def with_exit():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"who": np.arange(2000), "t": 0, "s": rng.integers(2, size=2000)})
    rows = rows.assign(a=rng.choice(["a", "b"], 2000), gone=rng.random(2000) < 0.1 + 0.2 * rows.s)
    after = rows[~rows.gone].assign(t=1, s=rng.integers(2, size=(~rows.gone).sum()), gone=False)
    frame = pd.concat([rows, after])
    panel = ix.Panel.from_frame(frame, individual="who", period="t", state=["s"], action="a", exit="gone")
    return panel.fit("s:a + alive", discount=0.9)


def test_latex_is_ascii_and_rows_that_begin_with_a_bracket_are_no_options(fit):
    miles = machines().assign(miles=lambda rows: rows.mileage + 0.5)
    binned = ix.Panel.from_frame(miles, **(ROLES | {"state": {"miles": ix.panels.Quantiles(2)}}))
    other = binned.fit("miles:keep + replace", discount=DISCOUNT)
    tables = [other.marginal_effects("miles").table(), other.regression_table(), other.wald("replace = 0")]
    tables += [other.choice_shares("miles").table(), other.baselines()]
    text = "\n".join(table.to_latex() for table in tables)
    assert text.isascii() and r"\texttt{miles}" in text and "`" not in text
    assert not re.search(r"(?m)^\[", text) and r"\multicolumn" not in text
