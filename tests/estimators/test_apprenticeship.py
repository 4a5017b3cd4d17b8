"""Apprenticeship learning: it matches whom it can match, by one policy, and proves it when it cannot."""

import itertools

import jax
import numpy as np
import pytest
from scipy.optimize import minimize

import irlax as ix
from irlax.estimators.tabular.apprenticeship import ApprenticeshipIRL, policy_of
from irlax.estimators.tabular.closest_mixture import closest_mixture
from irlax.status import Status, UnfinishedWarning
from tests import oracles
from tests.problems import A, S, T, as_mdp, random_policy, random_problem

METHODS = ("projection", "max-margin")
HORIZONS = (T, None)


def occupancy_of(problem, policy):
    """By enumeration of paths, or by adding up steps until γᵗ is nothing."""
    if problem.horizon is None:
        return oracles.stationary_occupancy(problem, policy, 400)
    return oracles.occupancy(problem, policy)


def features_of(problem, policy, features):
    visits = occupancy_of(problem, policy).reshape(-1, *problem.available.shape).sum(axis=0)
    return np.tensordot(visits, features, 2)


def some_policy(problem, seed):
    return random_policy(problem, seed, stationary=problem.horizon is None)


def some_features(seed, num=3):
    return np.random.default_rng((seed, 11)).normal(size=(S, A, num))


def deterministic_policies(problem):
    rows = [np.flatnonzero(row) for _ in range(problem.horizon or 1) for row in problem.available]
    lead = () if problem.horizon is None else (problem.horizon,)
    for chosen in itertools.product(*rows):
        yield np.eye(A)[np.reshape(chosen, (*lead, S))]


def distance_to_hull(points, target):
    """By SLSQP over the weights of all points."""
    lacks = target - np.asarray(points)
    found = minimize(
        lambda weights: (weights @ lacks) @ (weights @ lacks),
        np.full(len(lacks), 1 / len(lacks)),
        jac=lambda weights: 2 * lacks @ (weights @ lacks),
        bounds=[(0, 1)] * len(lacks),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-16},
    )
    return np.sqrt(found.fun)


def impossible_occupancy(problem, seed):
    """Mass that no policy could distribute so: it does not flow along the transitions."""
    lead = () if problem.horizon is None else (problem.horizon,)
    mass = np.random.default_rng((seed, 13)).exponential(size=(*lead, S, A)) * problem.available
    if problem.horizon is None:
        return mass / mass.sum() / (1 - problem.discount)
    weight = problem.discount ** np.arange(problem.horizon)
    return mass / mass.sum(axis=(1, 2), keepdims=True) * weight[:, None, None]


def fit_to_impossible(problem, seed, method):
    features, joint = some_features(seed, num=4), impossible_occupancy(problem, seed)
    with pytest.warns(UnfinishedWarning, match="cannot be matched"):
        fit = ApprenticeshipIRL(method=method).fit(as_mdp(problem), ix.LinearReward(features), occupancy=joint)
    wanted = np.tensordot(joint.reshape(-1, S, A).sum(axis=0), features, 2)
    return fit, features, wanted


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("method", METHODS)
def test_features_of_any_policy_are_matched(method, horizon, seed, masked):
    problem = random_problem(seed, horizon=horizon, masked=masked)
    expert, features = some_policy(problem, seed), some_features(seed)
    fit = ApprenticeshipIRL(method=method, tol=1e-9).fit(as_mdp(problem), ix.LinearReward(features), expert)
    assert fit.status is Status.CONVERGED
    assert np.linalg.norm(fit.feature_gap) <= 1e-9
    gap = features_of(problem, expert, features) - features_of(problem, fit.policy, features)
    assert np.abs(gap).max() <= 1e-8
    assert np.all(fit.policy[..., ~problem.available] == 0)
    np.testing.assert_allclose(fit.policy.sum(axis=-1), 1, rtol=1e-12)


@pytest.mark.parametrize("over", ["s", "sa", "sas"])
@pytest.mark.parametrize("horizon", HORIZONS)
def test_with_a_feature_for_each_place_the_visits_are_matched(horizon, over):
    problem = random_problem(3, horizon=horizon)
    expert = some_policy(problem, 3)
    fit = ApprenticeshipIRL(method="max-margin").fit(as_mdp(problem), ix.TabularReward(over), expert)
    assert fit.converged
    visits = [occupancy_of(problem, policy).reshape(-1, S, A).sum(axis=0) for policy in (expert, fit.policy)]
    axis = (1,) if over == "s" else ()
    np.testing.assert_allclose(visits[0].sum(axis=axis), visits[1].sum(axis=axis), atol=1e-6)


@pytest.mark.parametrize("horizon", HORIZONS)
def test_one_policy_has_the_occupancy_of_a_mixture(horizon):
    problem = random_problem(1, horizon=horizon, masked=True)
    members = [policy for policy, _ in zip(deterministic_policies(problem), range(4), strict=False)]
    members.append(some_policy(problem, 5))
    weights = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    mixture = sum(weight * occupancy_of(problem, policy) for weight, policy in zip(weights, members, strict=True))
    np.testing.assert_allclose(occupancy_of(problem, policy_of(as_mdp(problem), mixture)), mixture, rtol=1e-10)


def test_actions_are_even_where_nobody_goes():
    # State 2 can be left but not entered; one of its actions does not exist.
    transitions = np.zeros((3, 3, 3))
    transitions[:, 0, 0] = transitions[:, 1, 1] = transitions[:, 2, 0] = 1
    available = np.ones((3, 3), bool)
    available[2, 1] = False
    mdp = ix.MDP.from_dense(transitions, [1.0, 0, 0], discount=0.9, horizon=3, available=available)
    expert = np.where(available, 1.0, 0.0) / available.sum(axis=1, keepdims=True)
    expert[:2] = [0.7, 0.2, 0.1]
    fit = ApprenticeshipIRL().fit(mdp, ix.TabularReward("sa"), expert)
    np.testing.assert_allclose(fit.policy[:, 2], [[0.5, 0, 0.5]] * 3)
    # At t = 0 everyone is in state 0.
    np.testing.assert_allclose(fit.policy[0, 1], [1 / 3] * 3)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("horizon", [2, None])
def test_distance_of_an_impossible_demonstrator_is_that_to_the_hull_of_all_policies(horizon, seed):
    problem = random_problem(seed, horizon=horizon)
    margins = []
    for method in METHODS:
        fit, features, wanted = fit_to_impossible(problem, seed, method)
        assert fit.status is Status.STALLED
        # The policy, the gap and the margin are of one mixture.
        gap = wanted - features_of(problem, fit.policy, features)
        np.testing.assert_allclose(fit.feature_gap, gap, atol=1e-10)
        margins.append(np.linalg.norm(gap))
        assert fit.mixture.distance == pytest.approx(margins[-1], rel=1e-9)
    assert margins[0] == pytest.approx(margins[1], rel=1e-9)
    points = [features_of(problem, policy, features) for policy in deterministic_policies(problem)]
    assert margins[0] == pytest.approx(distance_to_hull(points, wanted), rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_last_direction_separates_an_impossible_demonstrator_from_all_policies(method):
    problem = random_problem(4, horizon=2)
    fit, features, wanted = fit_to_impossible(problem, 4, method)
    direction = fit.reward.weights
    assert np.linalg.norm(direction) == pytest.approx(1)
    margins = [direction @ (wanted - features_of(problem, p, features)) for p in deterministic_policies(problem)]
    bound = min(fit.mixture.bound, fit.mixture.distance)
    assert bound > 0
    assert min(margins) == pytest.approx(bound, rel=1e-6)
    # The plan is the best one for that reward.
    best = features_of(problem, np.asarray(fit.plan.policy), features)
    assert direction @ (wanted - best) == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_closest_mixture_is_that_of_slsqp(seed):
    rng = np.random.default_rng(seed)
    num, dim = rng.integers(3, 12), rng.integers(1, 6)
    points = rng.normal(size=(num, dim)) + rng.choice([0.0, 2.0])
    # Repeated points, and one between two others, so that weights are not unique.
    points = np.vstack([points, points[:2], points[:2].mean(axis=0)])
    start = np.eye(len(points))[0]
    weights = closest_mixture(points, start)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    found = weights @ points
    assert np.linalg.norm(found) <= distance_to_hull(-points, np.zeros(dim)) + 1e-7
    # Optimality, which needs no other solver: no point of the hull is ahead of the closest one.
    assert (points @ found).min() >= found @ found - 1e-12
    assert (weights > 0).sum() <= dim + 1


@pytest.mark.parametrize("method", METHODS)
def test_distance_never_rises_and_callbacks_see_it(method):
    problem = random_problem(2, horizon=T)
    seen = []
    fit = ApprenticeshipIRL(method=method).fit(
        as_mdp(problem), ix.LinearReward(some_features(2, num=5)), some_policy(problem, 2), callback=seen.append
    )
    assert [iterate.loss for iterate in seen] == list(fit.history.loss)
    assert [iterate.step for iterate in seen] == list(range(fit.iterations + 1))
    assert np.all(np.diff(fit.history.loss) <= 1e-12)


def test_who_acts_at_random_is_matched_at_once():
    problem = random_problem(0, horizon=T, masked=True)
    even = problem.available / problem.available.sum(axis=1, keepdims=True)
    fit = ApprenticeshipIRL().fit(as_mdp(problem), ix.LinearReward(some_features(0)), even)
    assert fit.iterations == 0
    np.testing.assert_allclose(fit.policy, np.broadcast_to(even, fit.policy.shape), rtol=1e-12)


def test_likelihood_is_that_of_the_mixture():
    problem = random_problem(0, horizon=T)
    mdp, expert = as_mdp(problem), some_policy(problem, 0)
    demos, others = (ix.rollout(mdp, expert, num=num, key=jax.random.key(num)) for num in (30, 20))
    fit = ApprenticeshipIRL().fit(mdp, ix.LinearReward(some_features(0)), demos, held_out=others)
    for found, given in ((fit.log_likelihood, demos), (fit.held_out_log_likelihood, others)):
        with np.errstate(divide="ignore"):
            choices = np.log(fit.policy[given.times, given.states, given.actions])
        assert found == pytest.approx(choices.sum())
    text = str(fit.summary())
    assert "margin" in text
    assert "policies mixed" in text


def test_too_few_steps_are_reported():
    problem = random_problem(0, horizon=T)
    with pytest.warns(UnfinishedWarning, match="max_steps"):
        fit = ApprenticeshipIRL(max_steps=1).fit(
            as_mdp(problem), ix.LinearReward(some_features(0, num=5)), some_policy(problem, 0)
        )
    assert fit.status is Status.MAX_STEPS
    assert fit.iterations == 1


def corridor(back):
    """0 → 1 → end, undiscounted; the second action leads nowhere, or only sometimes."""
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 1] = transitions[1, 0, 2] = 1
    transitions[[0, 1], 1] = np.array([[back, 1 - back, 0], [back, 0, 1 - back]])
    transitions[2, :, 2] = 1
    available = np.array([[True, True], [True, True], [True, False]])
    return ix.MDP.from_dense(transitions, [1.0, 0, 0], discount=1.0, available=available)


def test_undiscounted_ways_to_an_end_are_matched():
    features = np.zeros((3, 2, 2))
    features[:2, :, 0], features[:2, 1, 1] = 1, 1
    expert = np.array([[0.7, 0.3], [0.4, 0.6], [1.0, 0.0]])
    fit = ApprenticeshipIRL().fit(corridor(0.5), ix.LinearReward(features), expert)
    assert fit.converged
    reached = [ix.feature_expectations(corridor(0.5), policy, features) for policy in (expert, fit.policy)]
    np.testing.assert_allclose(*reached, atol=1e-6)
    # Where one can go round for ever, features have no bound.
    with pytest.raises(ValueError, match="Give a horizon"):
        ApprenticeshipIRL().fit(corridor(1.0), ix.LinearReward(features), expert)


def test_bad_arguments_are_refused(as_a_user):
    problem = random_problem(0, horizon=T)
    mdp, reward, expert = as_mdp(problem), ix.LinearReward(some_features(0)), some_policy(problem, 0)
    with pytest.raises(ValueError, match="method"):
        ApprenticeshipIRL(method="margin")
    with pytest.raises(ValueError, match="tol"):
        ApprenticeshipIRL(tol=0)
    with pytest.raises(ValueError, match="max_steps"):
        ApprenticeshipIRL(max_steps=-1)
    network = ix.NeuralReward(np.eye(S), key=jax.random.key(0))
    with pytest.raises(ValueError, match="linear in its parameters"):
        ApprenticeshipIRL().fit(mdp, network, expert)
    with pytest.raises(TypeError, match="one MDP"):
        ApprenticeshipIRL().fit([mdp, mdp], reward, [expert, expert])
    with pytest.raises(TypeError, match="exactly one"):
        ApprenticeshipIRL().fit(mdp, reward)
    with pytest.raises(TypeError, match="held_out"):
        ApprenticeshipIRL().fit(mdp, reward, expert, held_out=expert)
