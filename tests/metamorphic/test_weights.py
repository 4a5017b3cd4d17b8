"""A weight says how often an episode was seen: k times is k copies, not at all is left out, and units mean nothing."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import irlax as ix
from tests.metamorphic.reading import information_criteria
from tests.metamorphic.registry import (
    BY_NAME,
    CASES,
    LIKELIHOOD,
    PLAIN,
    assert_same_estimates,
    fit_of,
    fitted,
    theta,
)
from tests.metamorphic.worlds import EPISODES, WORLDS, copied, finite, some_weights, weighted, weights_with_zeros

ERRORS = [case for case in PLAIN if case.errors]
#: Every case on one world, and each estimator on all of them.
PAIRS = [
    pytest.param(case, name, id=f"{case.name}-{name}")
    for name in WORLDS
    for case in (CASES if name == "finite" else PLAIN)
]
on_every_case = pytest.mark.parametrize(("case", "name"), PAIRS)
#: Where only the weights differ, which no solver sees. What is random has no case by another solver.
with_any_solver = pytest.mark.parametrize(
    ("case", "name"), [pair for pair in PAIRS if pair.values[0] in PLAIN or pair.values[0].random]
)
with_errors = pytest.mark.parametrize("case", ERRORS, ids=lambda case: case.name)
with_errors_on_every_world = pytest.mark.parametrize(
    ("case", "name"),
    [
        pytest.param(case, name, id=f"{case.name}-{name}")
        for name in WORLDS
        for case in (ERRORS if name == "finite" else [LIKELIHOOD])
    ],
)


@on_every_case
def test_a_weight_of_k_is_k_copies(case, name):
    world = WORLDS[name]()
    weights = some_weights(world)
    one, other = fit_of(case, weighted(world, weights)), fit_of(case, copied(world, weights))
    assert_same_estimates(case, one, other)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=max(case.equal, 1e-9))


@pytest.mark.parametrize(
    ("kind", "cluster"),
    [("hessian", None), ("opg", None), ("opg", "episode"), ("sandwich", None), ("sandwich", "episode")],
)
@with_errors_on_every_world
def test_standard_errors_of_a_weight_of_k_are_those_of_k_copies(case, name, kind, cluster):
    world = WORLDS[name]()
    weights = some_weights(world)
    one, other = fit_of(case, weighted(world, weights)), fit_of(case, copied(world, weights))
    errors = [fit.standard_errors(kind, cluster=cluster) for fit in (one, other)]
    np.testing.assert_allclose(*errors, rtol=1e-4)


@with_errors_on_every_world
def test_information_criteria_of_a_weight_of_k_are_those_of_k_copies(case, name):
    world = WORLDS[name]()
    weights = some_weights(world)
    one, other = fit_of(case, weighted(world, weights)), fit_of(case, copied(world, weights))
    assert information_criteria(one) == information_criteria(other)


@with_any_solver
def test_the_unit_of_weights_means_nothing(case, name):
    if not case.scale_free:
        pytest.skip("Its prior or its smoothing counts as episodes of weight 1.")
    world = WORLDS[name]()
    tripled = weighted(world, (3,) * world.demos.num_episodes)
    one, other = fit_of(case, world), fit_of(case, tripled)
    assert_same_estimates(case, one, other)
    assert other.log_likelihood == pytest.approx(3 * one.log_likelihood, rel=max(case.equal, 1e-9))


@with_any_solver
def test_a_weight_of_zero_is_leaving_out(case, name):
    world = WORLDS[name]()
    weights = weights_with_zeros(world)
    one, other = fit_of(case, weighted(world, weights)), fit_of(case, copied(world, weights))
    assert_same_estimates(case, one, other)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=max(case.equal, 1e-9))


@pytest.mark.parametrize("kind", ["hessian", "opg", "sandwich"])
@with_errors
def test_standard_errors_do_not_see_a_weight_of_zero(case, kind):
    world = finite()
    weights = weights_with_zeros(world)
    one, other = fit_of(case, weighted(world, weights)), fit_of(case, copied(world, weights))
    np.testing.assert_allclose(one.standard_errors(kind), other.standard_errors(kind), rtol=1e-4)


@settings(derandomize=True, max_examples=5, deadline=None, database=None)
@given(st.lists(st.integers(1, 4), min_size=EPISODES, max_size=EPISODES), st.integers(0, EPISODES - 1))
def test_any_whole_weights_are_copies(weights, left_out):
    world = finite()
    weights[left_out] = 0
    fits = [
        fitted(LIKELIHOOD, world.mdp, world.reward, change(world, tuple(weights)).demos).fit
        for change in (weighted, copied)
    ]
    np.testing.assert_allclose(*map(theta, fits), atol=1e-6)
    np.testing.assert_allclose(*(fit.log_likelihood for fit in fits), rtol=1e-9)


@with_errors
def test_the_bootstrap_of_a_weight_of_k_spreads_as_that_of_k_copies(case):
    """A weight of 2 is two individuals, who are drawn apart; 200 draws show a spread to 5%, and √2 is 41%."""
    world = finite()
    weights = (2,) * world.demos.num_episodes
    one, other = fit_of(case, weighted(world, weights)), fit_of(case, copied(world, weights))
    spread = [np.nanstd(fit.bootstrap(num=200, key=jax.random.key(1)), axis=0) for fit in (one, other)]
    np.testing.assert_allclose(*spread, rtol=0.2)


def _cross_validated(world):
    """The penalty that was chosen, and the held-out log likelihood a choice."""
    case = dataclasses.replace(BY_NAME["MCEIRL likelihood newton"], estimator=ix.MCEIRL("likelihood", l2="cv"))
    fit = fitted(case, world.mdp, world.reward, world.demos).fit
    return fit.cross_validation.l2, fit.cross_validation.log_likelihood, theta(fit)


def test_the_score_of_a_cross_validated_penalty_is_a_mean_over_choices_as_often_as_they_count():
    """So it lies between the scores of certain and of even choices, in whatever unit weights are."""
    world = finite()
    _, score, _ = _cross_validated(weighted(world, (3,) * world.demos.num_episodes))
    assert -np.log(world.available.sum(axis=1).max()) < score < 0


def test_cross_validation_does_not_depend_on_the_unit_of_weights():
    world = finite()
    tripled = weighted(world, (3,) * world.demos.num_episodes)
    scores = [ix.cross_validate(LIKELIHOOD.estimator, world.mdp, world.reward, w.demos) for w in (world, tripled)]
    np.testing.assert_allclose(*scores, rtol=1e-6)


def test_cross_validation_has_a_score_whatever_has_no_weight():
    """An episode of weight 0 is in no fold, so no fold consists of it."""
    world = finite()
    few = world.demos.select(np.arange(6))
    few = dataclasses.replace(few, weights=np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0]))
    estimator = ix.MCEIRL("likelihood", l2=0.1)
    assert np.isfinite(ix.cross_validate(estimator, world.mdp, world.reward, few, folds=5)).all()
    with pytest.raises(ValueError, match="weight above 0"):
        ix.cross_validate(estimator, world.mdp, world.reward, few, folds=6)


def test_cross_validated_penalties_exist_where_one_fold_has_all_the_weight():
    """Nothing is learned from the other folds: an error that says so, or no NaN."""
    world = finite()
    only = dataclasses.replace(world.demos, weights=np.eye(world.demos.num_episodes)[3])
    try:
        best, score, estimate = _cross_validated(world.changed("one episode counts", demos=only))
    except ValueError as refused:
        assert "weight" in str(refused)
    else:
        assert np.isfinite([best, score, *estimate]).all()
