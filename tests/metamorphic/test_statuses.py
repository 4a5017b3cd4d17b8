"""Success means that the gradient is within the tolerance; anything else, that no estimate is presented."""

import jax
import numpy as np
import pytest

import irlax as ix
from irlax.estimators.tabular import LBFGS, Adam, DualAscent, Newton
from tests.metamorphic import reference
from tests.metamorphic.reading import columns
from tests.metamorphic.registry import CASES, LIKELIHOOD, OBJECTIVES, PLAIN, Case, fit_of, fitted, outcome, theta
from tests.metamorphic.worlds import EPISODES, TRUTH, WORLDS, endless, finite, with_first_column_only

#: What rounding leaves of a gradient that an estimator could not make smaller.
FLOOR = 1e-7
TOL = 1e-8
#: Solvers that cannot arrive.
CUT_SHORT = {
    "newton": Newton(max_steps=1),
    "lbfgs": LBFGS(max_steps=2),
    "dual-ascent": DualAscent(max_steps=2),
    "tiny steps": DualAscent(step_size=1e-9, max_steps=10),
    "adam": Adam(max_steps=3),
    "tiny adam": Adam(learning_rate=1e-9, max_steps=100, patience=20),
}


def _cut_short(objective, solver):
    if objective == "paths":
        return Case(solver, ix.MaxEntIRL(solver=CUT_SHORT[solver], tol=TOL), objective)
    return Case(solver, ix.MCEIRL(objective=objective, solver=CUT_SHORT[solver], tol=TOL), objective)


@pytest.mark.parametrize(
    ("case", "name"),
    [
        pytest.param(case, name, id=f"{case.name}-{name}")
        for name in WORLDS
        for case in CASES
        if case.estimates and not case.random and (case.finishes or name == "finite")
    ],
)
def test_success_means_a_gradient_within_the_tolerance(case, name):
    world = WORLDS[name]()
    fit, warnings = outcome(case, world)
    slope = np.abs(reference.slope(world, case.objective, theta(fit))).max()
    if case.name == "TwoStepIRL one step":
        best = fit_of(LIKELIHOOD, world).log_likelihood
        assert not fit.status.success or fit.log_likelihood > best - 1
    elif fit.status.success:
        assert slope <= max(case.estimator.tol, FLOOR)
    else:
        assert any(text.startswith("The fit ") for text in warnings)


@pytest.mark.parametrize("objective", [*OBJECTIVES, "paths"])
@pytest.mark.parametrize("solver", CUT_SHORT)
def test_a_solver_that_did_not_arrive_does_not_say_so(solver, objective):
    world = finite()
    fit, warnings = fitted(_cut_short(objective, solver), world.mdp, world.reward, world.demos)
    assert np.abs(reference.slope(world, objective, theta(fit))).max() > 100 * TOL
    assert not fit.status.success
    assert any(text.startswith("The fit ") for text in warnings)


def _unfinished(solver):
    world = endless()
    return fitted(_cut_short("likelihood", solver), world.mdp, world.reward, world.demos).fit


@pytest.mark.parametrize("solver", CUT_SHORT)
def test_nothing_is_presented_as_an_estimate_that_is_none(solver):
    fit, world = _unfinished(solver), endless()
    smaller = fit_of(LIKELIHOOD, with_first_column_only(world))
    refused = {
        "standard errors": fit.standard_errors,
        "intervals": fit.confidence_intervals,
        "bootstrap": lambda: fit.bootstrap(num=3, key=jax.random.key(0)),
        "regression table": fit.regression_table,
        "nested": lambda: fit.compare_nested(smaller),
        "demand curve": lambda: fit.demand_curve(action=0, parameter=0, values=[1.0]),
    }
    answered = []
    for name, asked in refused.items():
        try:
            asked()
        except ValueError:
            continue
        answered.append(name)
    assert not answered
    assert not {"s.e.", "z"} & columns(fit.summary())


def _one_step_beside_the_maximum(episodes, smoothing=1.0, **first_step):
    """Whether one step claims success, and the log likelihood that it lacks."""
    world = finite()
    few = world.demos.select(episodes)
    case = Case("one step", ix.TwoStepIRL(iterations=1, smoothing=smoothing), "likelihood")
    one = fitted(case, world.mdp, world.reward, few, **first_step).fit
    best = fitted(LIKELIHOOD, world.mdp, world.reward, few).fit
    return one.status.success, best.log_likelihood - one.log_likelihood


def test_one_step_from_few_data_is_no_success_where_it_is_far_from_the_maximum():
    episodes = np.random.default_rng(3).choice(EPISODES, 4, replace=False)
    success, lacks = _one_step_beside_the_maximum(episodes, smoothing=0.0)
    assert not success or lacks < 2


def test_one_step_from_wrong_choice_probabilities_is_no_success():
    """Those of a demonstrator who wants ten times the opposite."""
    world = finite()
    opposite = np.asarray(ix.soft_plan(world.mdp, world.features @ (-10 * TRUTH)).policy)
    success, lacks = _one_step_beside_the_maximum(np.arange(EPISODES), choice_probabilities=opposite)
    assert not success or lacks < 2


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_a_fit_that_starts_at_the_optimum_stays_there(case):
    if not case.estimates or case.name == "TwoStepIRL one step":
        pytest.skip("It does not start from parameters.")
    world = finite()
    found = theta(fit_of(case, world))
    again = fitted(case, world.mdp, ix.LinearReward(world.features, found), world.demos).fit
    assert again.status.success
    np.testing.assert_allclose(theta(again), found, atol=1e-6)


@pytest.mark.parametrize("case", [case for case in PLAIN if case.estimates], ids=lambda case: case.name)
def test_an_estimate_does_not_depend_on_where_it_starts(case):
    world = finite()
    moved = fitted(case, world.mdp, ix.LinearReward(world.features, 3 * TRUTH), world.demos).fit
    np.testing.assert_allclose(theta(moved), theta(fit_of(case, world)), atol=max(case.equal, 1e-5))
