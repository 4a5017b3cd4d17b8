"""From frames to fits, against planning, likelihoods and counts in NumPy and SciPy."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import irlax as ix
from tests.panels.panels import DISCOUNT, LEVELS, ROLES, choice_probabilities, machines

FORMULA = "mileage:keep + replace"


@pytest.fixture(scope="module")
def frame():
    return machines()


@pytest.fixture(scope="module")
def panel(frame):
    return ix.Panel.from_frame(frame.sample(frac=1, random_state=0), **ROLES)


@pytest.fixture(scope="module")
def fit(panel):
    return panel.fit(FORMULA, discount=DISCOUNT)


def counted(frame):
    """P̂[a, s, s'] by a loop over rows, and the number of each next state."""
    counts = np.zeros((2, LEVELS, LEVELS))
    for _, rows in frame.sort_values(["id", "t"]).groupby("id"):
        state, action = rows.mileage.to_numpy(), (rows.choice == "replace").to_numpy().astype(int)
        np.add.at(counts, (action[:-1], state[:-1], state[1:]), 1)
    return counts


def log_likelihood(theta, P, frame):
    reward = np.stack([theta[0] * np.arange(LEVELS), np.full(LEVELS, theta[1])])
    policy = choice_probabilities(reward, P, DISCOUNT)
    return np.log(policy[(frame.choice == "replace").astype(int), frame.mileage]).sum()


def test_states_transitions_and_demonstrations_are_those_of_the_frame(panel, frame):
    counts = counted(frame)
    P = counts / counts.sum(axis=-1, keepdims=True)
    mdp = panel.mdp(discount=DISCOUNT)
    assert mdp.labels.states == tuple(f"mileage {s}" for s in range(LEVELS)) and mdp.labels.actions == (
        "keep",
        "replace",
    )
    found = np.stack([matrix.toarray() for matrix in mdp.dynamics.to_scipy()])
    assert np.allclose(found, P, atol=1e-14)
    ordered = frame.sort_values(["id", "t"])
    assert np.array_equal(panel.demos.states, ordered.mileage) and np.array_equal(panel.demos.times, ordered.t)
    observed = counts[counts > 0] @ np.log(P[counts > 0])
    assert panel.transitions.log_likelihood == pytest.approx(observed, rel=1e-12)


def test_estimates_and_their_errors_are_those_of_scipy(fit, frame):
    """The errors by brute force: the Hessian, scores and cross derivatives are finite differences."""
    counts = counted(frame)
    P = counts / counts.sum(axis=-1, keepdims=True)
    found = minimize(lambda theta: -log_likelihood(theta, P, frame), [0.0, 0.0], method="BFGS", options={"gtol": 1e-4})
    assert np.allclose(fit.reward.weights, found.x, atol=1e-5)
    assert fit.log_likelihood == pytest.approx(-found.fun, abs=1e-6)
    # Moving each row of P̂ towards each next state, one observation at a time, moves θ̂ by H⁻¹ ∂²ℓ/∂θ∂P (e − P)/n.
    theta, step = np.asarray(fit.reward.weights), 1e-4

    def slope(P):
        return [
            (log_likelihood(theta + e, P, frame) - log_likelihood(theta - e, P, frame)) / (2 * step)
            for e in step * np.eye(2)
        ]

    cross = np.zeros((2, LEVELS, LEVELS, 2))
    for cell in np.argwhere(counts > 0):
        moved = np.array(P)
        row = moved[cell[0], cell[1]]
        toward = np.eye(LEVELS)[cell[2]] - row
        moved[cell[0], cell[1]] = row + step * toward
        cross[tuple(cell)] = (np.array(slope(moved)) - slope(P)) / step / counts[cell[0], cell[1]].sum()
    information = fit.information
    ordered = frame.sort_values(["id", "t"])
    state, action = ordered.mileage.to_numpy(), (ordered.choice == "replace").to_numpy().astype(int)
    rows = np.flatnonzero(np.diff(ordered.id.to_numpy()) == 0)
    expected = np.zeros((len(ordered), 2))
    expected[rows] = cross[action[rows], state[rows], state[rows + 1]]
    assert np.allclose(information.corrections, expected, atol=2e-4 * np.abs(expected).max())
    summed = pd.DataFrame(information.scores + expected).groupby(ordered.id.to_numpy()).sum().to_numpy()
    inverse = np.linalg.inv(information.hessian)
    assert np.allclose(fit.standard_errors(), np.sqrt(np.diag(inverse @ summed.T @ summed @ inverse)), rtol=1e-4)


def test_errors_of_two_steps_are_close_to_those_of_the_joint_likelihood(fit):
    full = fit.full_likelihood()
    assert np.allclose(fit.standard_errors("hessian"), full.standard_errors("hessian")[:2], rtol=0.01)
    assert np.allclose(fit.standard_errors(), full.standard_errors("sandwich", cluster="episode")[:2], rtol=0.03)


def test_variables_that_move_independently_have_the_product_of_their_chains():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"id": np.repeat(np.arange(40), 25), "t": np.tile(np.arange(25), 40)})
    rows = rows.assign(x=rng.integers(3, size=1000), y=rng.choice(["lo", "hi"], 1000), a=rng.choice(["p", "q"], 1000))
    models = {"x": ix.panels.Chain(), "y": ix.panels.Chain(by_action=False)}
    panel = ix.Panel.from_frame(rows, individual="id", period="t", state=["x", "y"], action="a", transitions=models)
    now, after = rows[rows.t < 24].reset_index(drop=True), rows[rows.t > 0].reset_index(drop=True)
    of_x = pd.crosstab([now.x, now.a], after.x, normalize="index")
    of_y = pd.crosstab(now.y, after.y, normalize="index")
    for a, label in enumerate(panel.actions):
        P = panel.mdp(discount=0.9).dynamics.to_scipy()[a].toarray()
        for s, (x, y) in enumerate(panel.states.itertuples(index=False)):
            wanted = [of_x.loc[(x, label), u] * of_y.loc[y, v] for u, v in panel.states.itertuples(index=False)]
            assert np.allclose(P[s], wanted, atol=1e-13)


def test_increments_restart_and_the_last_level_absorbs(frame):
    models = {"mileage": ix.panels.Increments(restart={"replace": 0})}
    panel = ix.Panel.from_frame(frame, **ROLES, transitions=models)
    counts = counted(frame)
    # From the last level, and the one before it, an increment of 1 is cut off or cannot be told from 0.
    kept = np.array([[counts[0, s, s], counts[0, s, s + 1]] for s in range(LEVELS - 1)]).sum(axis=0)
    up = (kept + counts[1].sum(axis=0)[:2])[1] / (kept.sum() + counts[1].sum())
    keep, replace = (matrix.toarray() for matrix in panel.mdp(discount=0.9).dynamics.to_scipy())
    assert np.allclose(keep[2, 2:4], [1 - up, up]) and keep[-1, -1] == pytest.approx(1)
    assert np.allclose(replace[:, :2], [1 - up, up])
    assert panel.transitions.num_free == 1


def test_formulae_use_names_values_and_the_next_period(panel, frame):
    reward = panel.reward("mileage:keep + next_mileage", known="{3 * replace}", fixed={"next_mileage": 2.0})
    mdp = panel.mdp(discount=DISCOUNT)
    P = np.stack([matrix.toarray() for matrix in mdp.dynamics.to_scipy()])
    table = reward.with_parameters(np.array([-0.5])).table(mdp)
    after = P @ np.arange(LEVELS)
    assert reward.names == ("mileage:keep",)
    assert np.allclose(table[:, 0], -0.5 * np.arange(LEVELS) + 2 * after[0])
    assert np.allclose(table[:, 1], 3 + 2 * after[1])
    named = panel.reward({"cost": "-mileage * keep", "price": "-replace"})
    assert named.names == ("cost", "price") and named.features[3, 0, 0] == -3 and named.features[3, 1, 1] == -1


def test_a_bin_has_the_mean_of_its_rows_in_formulae(frame):
    miles = frame.mileage * 1000 + np.random.default_rng(0).uniform(0, 999, len(frame))
    binned = {"miles": ix.panels.Edges(1000 * np.arange(LEVELS + 1))}
    panel = ix.Panel.from_frame(frame.assign(miles=miles), **(ROLES | {"state": binned}))
    assert np.allclose(panel.states.miles, miles.groupby(frame.mileage).mean())
    quantiles = ix.Panel.from_frame(frame.assign(miles=miles), **(ROLES | {"state": {"miles": ix.panels.Quantiles(2)}}))
    assert abs(np.diff(np.bincount(quantiles.demos.states))[0]) <= 2
    assert "2 bins by quantiles" in str(quantiles.summary())


def test_the_overview_counts_gaps_late_entries_and_cells_never_seen(frame):
    rows = frame[~((frame.id == 3) & frame.t.isin([5, 6, 9])) & ~((frame.id == 4) & (frame.t < 2))]
    facts = dict(ix.Panel.from_frame(rows, **ROLES).summary().tables[0].rows)
    assert facts["periods that are missing between others"] == 3 and facts["individuals that enter late"] == 1
    assert facts["individuals"] == 80 and facts["choices"] == len(rows)


def test_covariates_and_groups_share_or_separate_parameters(frame):
    rows = frame.assign(depot=np.where(frame.id % 2, "north", "south"))
    panel = ix.Panel.from_frame(rows, **ROLES, covariates=["depot"])
    apart = panel.fit(FORMULA, discount=DISCOUNT, by="depot")
    assert apart.reward.names[:2] == ("mileage:keep [depot north]", "replace [depot north]")
    north = rows[rows.depot == "north"]
    P = counted(frame)
    P = P / P.sum(axis=-1, keepdims=True)
    found = minimize(lambda theta: -log_likelihood(theta, P, north), [0.0, 0.0], method="BFGS", options={"gtol": 1e-4})
    assert np.allclose(apart.reward.weights[:2], found.x, atol=1e-4)
    assert np.isfinite(apart.standard_errors()).all()


def test_a_saved_fit_keeps_its_panel(fit, tmp_path):
    fit.save(tmp_path / "fit")
    again = ix.load(tmp_path / "fit")
    assert np.allclose(again.standard_errors(), fit.standard_errors(), rtol=1e-10)
    assert str(again.regression_table()) == str(fit.regression_table())
    assert "replace" in str(again.summary())


def test_an_exit_is_absorbing_and_gaps_do_not_change_its_probability():
    """Exits against counts by hand; being alive is a term, and a hint where it is missing."""
    rng = np.random.default_rng(1)
    rows = []
    for who in range(300):
        state = int(rng.integers(2))
        for t in range(12):
            action, gone = int(rng.random() < 0.5), bool(rng.random() < (0.1, 0.3)[state])
            rows.append((who, t, state, "ab"[action], gone))
            if gone:
                break
            state = int(rng.random() < (0.7, 0.2)[action])
    frame = pd.DataFrame(rows, columns=["who", "t", "s", "a", "gone"])
    names = {"individual": "who", "period": "t", "state": ["s"], "action": "a", "exit": "gone"}
    panel = ix.Panel.from_frame(frame[(frame.t != 4) | frame.gone], **names)
    seen = frame[(frame.t != 4) | frame.gone]
    last = seen.t == seen.groupby("who").t.transform("max")
    at_risk = seen[~last | seen.gone]
    hazard = at_risk.groupby(["s", "a"]).gone.mean()
    P = [matrix.toarray() for matrix in panel.mdp(discount=0.9).dynamics.to_scipy()]
    assert panel.has_exit and panel.state_labels[-1] == "exit" and P[0][2, 2] == 1
    assert np.allclose([[P[a][s, 2] for a in range(2)] for s in range(2)], hazard.unstack(), atol=1e-12)
    fit = panel.fit("s:a", discount=0.9)
    assert any("alive" in note for note in fit.panel.notes)
    assert panel.reward("alive").features[2].max() == 0


def test_choice_sets_follow_conditions_and_contradictions_are_named(frame):
    allowed = frame[(frame.mileage > 0) | (frame.choice == "keep")]
    panel = ix.Panel.from_frame(allowed, **ROLES, available={"replace": "mileage > 0"})
    assert np.array_equal(panel.available[:, 1], np.arange(LEVELS) > 0)
    with pytest.raises(ValueError, match="does not exist in state 'mileage 0', but it was chosen"):
        ix.Panel.from_frame(frame, **ROLES, available={"replace": "mileage > 0"})


def test_a_finite_life_is_planned_backwards(panel, frame):
    fit = panel.fit(FORMULA, discount=DISCOUNT, horizon=40)
    counts = counted(frame)
    P = counts / counts.sum(axis=-1, keepdims=True)
    reward = np.stack([fit.reward.weights[0] * np.arange(LEVELS), np.full(LEVELS, fit.reward.weights[1])])
    value = np.zeros(LEVELS)
    for t in reversed(range(40)):
        q = reward + DISCOUNT * P @ value
        value = np.log(np.exp(q).sum(axis=0))
        assert np.allclose(fit.policy[t], np.exp(q - value).T, atol=1e-8)


def test_actions_that_lead_to_the_same_states_give_a_hint(frame):
    rows = frame.assign(choice=np.where(frame.choice == "keep", np.where(frame.t % 3 == 0, "wash", "keep"), "replace"))
    models = {"mileage": ix.panels.Increments(restart={"replace": 0})}
    fit = ix.Panel.from_frame(rows, **ROLES, transitions=models).fit("mileage + replace", discount=DISCOUNT)
    assert any("`keep` and `wash` lead to the same next states" in note for note in fit.panel.notes)


def test_individuals_of_weight_0_are_left_out(frame):
    rows = frame.assign(w=np.where(frame.id < 40, 1.0, 0.0), mileage=frame.mileage + 100 * (frame.id == 79))
    filled = ix.panels.Counts(unseen="any-action")
    found = ix.Panel.from_frame(rows, **ROLES, weight="w", transitions=filled)
    kept = ix.Panel.from_frame(rows[rows.id < 40], **ROLES, transitions=filled)
    assert found.state_labels == kept.state_labels and np.allclose(found.probs, kept.probs)


def test_the_notes_state_what_was_set(frame):
    halved = {"x": lambda values: values.astype(int) // 2}
    panel = ix.Panel.from_frame(frame.assign(x=frame.mileage, t=frame.t + 50), **(ROLES | {"state": halved}))
    fit = panel.fit("x:keep + replace", discount=DISCOUNT, known="{0.3*keep}", fixed={"replace": -2.0}, horizon=45)
    text = "\n".join(fit.panel.notes)
    for wanted in ("levels by a function", "{0.3*keep}", "replace = -2", "in `t` 50, the last in 94"):
        assert wanted in text


def test_categories_keep_the_order_that_the_user_gave_them(frame):
    names = np.array(["new", "used", "used", "worn", "worn", "worn"])[frame.mileage]
    rows = frame.assign(wear=pd.Categorical(names, categories=["worn", "never", "used", "new"], ordered=True))
    panel = ix.Panel.from_frame(rows, **(ROLES | {"state": ["wear"]}))
    assert panel.variables[0].labels == ("worn", "used", "new")
    assert [panel.state_labels[s] for s in panel.demos.states[:40]] == [f"wear {name}" for name in names[:40]]
    assert panel.reward("C(wear):keep + replace").names[0] == "C(wear)[worn]:keep"
