"""Names, orders and units of states, actions, features and episodes do not change an estimate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.metamorphic.registry import CASES, PLAIN, assert_same_behaviour, assert_same_estimates, fit_of, theta
from tests.metamorphic.worlds import (
    WORLDS,
    A,
    K,
    S,
    finite,
    with_actions,
    with_another_frame,
    with_constant,
    with_episodes,
    with_states,
    with_units,
)

PAIRS = [
    pytest.param(case, name, id=f"{case.name}-{name}")
    for name in WORLDS
    for case in (CASES if name == "finite" else PLAIN)
    if not case.random
]
on_every_case = pytest.mark.parametrize(("case", "name"), PAIRS)
#: Where only the data differ, which no solver sees.
with_any_solver = pytest.mark.parametrize(("case", "name"), [pair for pair in PAIRS if pair.values[0] in PLAIN])
few = settings(derandomize=True, max_examples=4, deadline=None, database=None)


#: Smaller units and larger ones in turn: with either, every world and every estimator.
FACTORS = (1e-3, 50.0)
WITH_UNITS = [
    pytest.param(case, name, FACTORS[(number + list(WORLDS).index(name)) % 2], id=f"{case.name}-{name}")
    for number, case in enumerate(case for case in CASES if case.finishes and case.estimates and not case.random)
    for name in WORLDS
    if name == "finite" or case in PLAIN
]


@pytest.mark.parametrize(("case", "name", "factor"), WITH_UNITS)
def test_a_feature_in_other_units_has_a_parameter_in_other_units(case, name, factor):
    world = WORLDS[name]()
    one, other = fit_of(case, world), fit_of(case, with_units(world, factor))
    units = np.append(np.ones(K - 1), factor)
    # The tolerance of a solver bounds the gradient in larger units, so smaller ones may be found more exactly.
    case_equal = max(case.equal, 1e-4)
    np.testing.assert_allclose(theta(one), theta(other) * units, atol=case_equal)
    np.testing.assert_allclose(np.asarray(one.policy), np.asarray(other.policy), atol=case_equal)


@pytest.mark.parametrize("name", ["finite", "endless"])
@pytest.mark.parametrize("case", [c for c in CASES if c.finishes and not c.random], ids=lambda c: c.name)
def test_a_constant_is_paid_to_every_choice_alike(case, name):
    world = WORLDS[name]()
    one, other = fit_of(case, world), fit_of(case, with_constant(world, 2.0))
    assert_same_behaviour(case, one, other)
    if case.estimates:
        np.testing.assert_allclose(theta(one), theta(other), atol=max(case.equal, 1e-4))


def _in_other_orders(world, states, actions):
    return with_actions(with_states(world, tuple(states)), tuple(actions))


@on_every_case
def test_the_order_of_states_and_actions_means_nothing(case, name, states=(2, 0, 3, 1), actions=(2, 0, 1)):
    world = WORLDS[name]()
    one, other = fit_of(case, world), fit_of(case, _in_other_orders(world, states, actions))
    assert_same_behaviour(case, one, other, states=np.argsort(states), actions=np.argsort(actions))
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-4)
    if case.estimates:
        np.testing.assert_allclose(theta(one), theta(other), atol=case.equal)


@few
@given(states=st.permutations(range(S)), actions=st.permutations(range(A)))
def test_any_order_of_states_and_actions_means_nothing(states, actions):
    world = finite()
    for case in PLAIN[:3]:
        one, other = fit_of(case, world), fit_of(case, _in_other_orders(world, states, actions))
        assert_same_behaviour(case, one, other, states=np.argsort(states), actions=np.argsort(actions))


@with_any_solver
def test_orders_and_labels_of_a_frame_mean_nothing(case, name):
    world = WORLDS[name]()
    one, other = fit_of(case, world), fit_of(case, with_another_frame(world))
    assert_same_estimates(case, one, other)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-6)


@with_any_solver
def test_the_order_of_episodes_means_nothing(case, name):
    world = WORLDS[name]()
    backwards = with_episodes(world, tuple(reversed(range(world.demos.num_episodes))))
    assert_same_estimates(case, fit_of(case, world), fit_of(case, backwards))


@pytest.mark.parametrize("case", [case for case in PLAIN if case.errors], ids=lambda case: case.name)
def test_standard_errors_by_episode_do_not_depend_on_labels(case):
    one, other = fit_of(case, finite()), fit_of(case, with_another_frame(finite()))
    errors = [fit.standard_errors("sandwich", cluster="episode") for fit in (one, other)]
    np.testing.assert_allclose(*errors, rtol=1e-6)
