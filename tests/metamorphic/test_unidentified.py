"""States that nothing leads to, actions that exist nowhere and columns that say nothing change nothing."""

import jax
import numpy as np
import pytest

import irlax as ix
from tests.metamorphic.reading import information_criteria
from tests.metamorphic.registry import LIKELIHOOD, PLAIN, assert_same_behaviour, fit_of, fitted, theta
from tests.metamorphic.worlds import (
    COLUMNS,
    WORLDS,
    K,
    endless,
    finite,
    with_column,
    with_first_column_only,
    with_more_room,
)

with_errors = pytest.mark.parametrize("case", [case for case in PLAIN if case.errors], ids=lambda case: case.name)
#: All estimators on one world, and one of them on an endless one.
ON_FINITE = [*(pytest.param(case, "finite", id=case.name) for case in PLAIN), (LIKELIHOOD, "endless")]
with_every_column = pytest.mark.parametrize("kind", COLUMNS)


def _untouched(kind):
    return [k for k in range(K) if k not in COLUMNS[kind][1]]


@pytest.mark.parametrize(
    ("case", "name"),
    ON_FINITE,
)
def test_an_unreachable_state_and_an_action_that_exists_only_there_change_nothing(case, name):
    world = WORLDS[name]()
    one, other = fit_of(case, world), fit_of(case, with_more_room(world))
    assert_same_behaviour(case, one, other, states=slice(1, None), actions=slice(1, None))
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-5)
    if case.estimates:
        np.testing.assert_allclose(theta(one), theta(other), atol=max(case.equal, 1e-5))


@with_every_column
@pytest.mark.parametrize(
    ("case", "name"),
    ON_FINITE,
)
def test_a_column_that_says_nothing_leaves_the_policy(case, name, kind):
    world = WORLDS[name]()
    one, other = fit_of(case, world), fit_of(case, with_column(world, kind))
    assert one.status is other.status
    assert_same_behaviour(case, one, other)
    if case.estimates:
        assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-6)
        np.testing.assert_allclose(theta(one)[_untouched(kind)], theta(other)[_untouched(kind)], atol=1e-4)


@pytest.mark.parametrize("error", ["hessian", "opg", "sandwich"])
@with_every_column
@with_errors
def test_what_is_not_identified_has_no_standard_error(case, kind, error):
    world = finite()
    one, other = (fit_of(case, w).standard_errors(error) for w in (world, with_column(world, kind)))
    untouched = _untouched(kind)
    np.testing.assert_allclose(one[untouched], other[untouched], rtol=1e-4)
    assert np.isnan(np.delete(other, untouched)).all()


@with_every_column
@with_errors
def test_what_is_not_identified_has_no_bootstrap(case, kind):
    world = finite()
    one, other = (fit_of(case, w).bootstrap(num=40, key=jax.random.key(0)) for w in (world, with_column(world, kind)))
    untouched = _untouched(kind)
    np.testing.assert_allclose(one[:, untouched], other[:, untouched], atol=1e-4)
    assert np.isnan(np.delete(other, untouched, axis=1)).all()


@with_every_column
@with_errors
def test_information_criteria_count_what_is_identified(case, kind):
    world = finite()
    assert information_criteria(fit_of(case, world)) == information_criteria(fit_of(case, with_column(world, kind)))


@with_every_column
def test_tests_of_nested_rewards_count_what_is_identified(kind):
    world = finite()
    smaller = fit_of(LIKELIHOOD, with_first_column_only(world))
    tables = [fit_of(LIKELIHOOD, w).compare_nested(smaller) for w in (world, with_column(world, kind))]
    one, other = (table.rows[0] for table in tables)
    assert one[1:] == pytest.approx(other[1:], rel=1e-4)


def test_a_penalised_fit_is_not_tested_against_another():
    """Twice the gain of penalised likelihoods has no χ² distribution."""
    world = finite()
    smaller = fit_of(LIKELIHOOD, with_first_column_only(world))
    penalised = ix.MCEIRL("likelihood", l2=0.1).fit(world.mdp, world.reward, world.demos)
    with pytest.raises(ValueError, match=r"penal|l2"):
        penalised.compare_nested(smaller)


@pytest.mark.parametrize("method", ["delta", "draws", "bootstrap"])
@with_every_column
def test_demand_curves_do_not_see_what_is_not_identified(kind, method):
    """Of a parameter that is identified: the last one, next to a copy of the first or a column of zeros."""
    untouched = _untouched(kind)
    if not untouched:
        pytest.skip("No parameter is left that could be set.")
    request = {"action": 0, "parameter": untouched[-1], "values": [-1.0, 0.5], "method": method, "num": 60}
    if method != "delta":
        request["key"] = jax.random.key(0)
    world = endless()
    one, other = (fit_of(LIKELIHOOD, w).demand_curve(**request) for w in (world, with_column(world, kind)))
    np.testing.assert_allclose(one.rate, other.rate, atol=1e-5)
    # Draws of more parameters are other draws.
    close = {"delta": 1e-4, "draws": 0.05, "bootstrap": 1e-4}[method]
    np.testing.assert_allclose(one.interval, other.interval, atol=close)


def test_a_demand_curve_in_what_is_not_identified_is_refused():
    """To set one of two equal columns is to leave the rate to where the other happens to be."""
    fit = fit_of(LIKELIHOOD, with_column(endless(), "duplicate"))
    with pytest.raises(ValueError, match="identif"):
        fit.demand_curve(action=0, parameter=0, values=[1.0])


def test_a_fit_does_not_depend_on_where_what_is_not_identified_starts():
    world = with_column(finite(), "duplicate")
    moved = fitted(LIKELIHOOD, world.mdp, ix.LinearReward(world.features, [3.0, 0.0, -2.0]), world.demos).fit
    one = fit_of(LIKELIHOOD, world)
    np.testing.assert_allclose(np.asarray(one.policy), np.asarray(moved.policy), atol=1e-6)
    np.testing.assert_allclose(one.standard_errors(), moved.standard_errors(), rtol=1e-4)
