"""Two-step estimation, against maximum likelihood, literal NumPy and simulation."""

import jax
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, xlogy

import irlax as ix
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.two_step import frequencies
from tests.problems import bus_like, wear_and_replacement

TRUTH = np.array([4.0, 3.0])
FEATURES = wear_and_replacement()
REWARD = ix.LinearReward(FEATURES, names=["wear", "replacement"])
MLE = ix.MCEIRL(objective="likelihood")


def panel(mdp, num=50, seed=1):
    """A panel of 100 periods, told as how often each choice was made: one shape for all, and the same likelihood."""
    demos = ix.rollout(mdp, ix.soft_plan(mdp, FEATURES @ TRUTH), num=num, length=100, key=jax.random.key(seed))
    counts = np.zeros((20, 2))
    np.add.at(counts, (demos.states, demos.actions), 1.0)
    return counted(counts)


def counted(counts):
    states, actions = np.indices(counts.shape).reshape(2, -1, 1)
    return ix.Demonstrations.from_arrays(states, actions, weights=counts.ravel())


@pytest.mark.parametrize("discount", [0.95, 0.9999])
def test_nested_pseudo_likelihood_is_maximum_likelihood_within_eight_steps(discount):
    mdp = bus_like(discount)
    demos = panel(mdp)
    best = MLE.fit(mdp, REWARD, demos)
    found = ix.TwoStepIRL(iterations=None).fit(mdp, REWARD, demos)
    assert found.status is ix.Status.CONVERGED and found.iterations <= 8
    np.testing.assert_allclose(found.reward.weights, best.reward.weights, atol=1e-6)
    np.testing.assert_allclose(found.log_likelihood, best.log_likelihood, rtol=1e-12)
    eight = ix.TwoStepIRL(iterations=8).fit(mdp, REWARD, demos)
    np.testing.assert_allclose(eight.reward.weights, best.reward.weights, atol=1e-4)
    # One step is near, but not there: else the iterations would show nothing.
    one = ix.TwoStepIRL().fit(mdp, REWARD, demos)
    assert one.status is ix.Status.STEPS_TAKEN and one.converged
    assert 1e-3 < np.abs(one.reward.weights - best.reward.weights).max() < 0.8


def literal_one_step(transitions, discount, policy, counts):
    """Hotz and Miller's estimator as the formulas say it, in NumPy."""
    chain = np.einsum("sa,sat->st", policy, transitions)
    solve = np.linalg.inv(np.eye(len(chain)) - discount * chain)
    slope = solve @ np.einsum("sa,sak->sk", policy, FEATURES)
    level = solve @ -xlogy(policy, policy).sum(axis=1)
    columns = FEATURES + discount * np.einsum("sat,tk->sak", transitions, slope)
    offset = discount * np.einsum("sat,t->sa", transitions, level)

    def loss(theta):
        return -(counts * log_softmax(columns @ theta + offset, axis=1)).sum()

    return minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}).x


def test_one_step_is_the_logit_of_the_literal_formulas():
    mdp = bus_like()
    demos = panel(mdp)
    counts = demos.weights.reshape(20, 2)
    policy = (counts + 2 * counts.sum(axis=0) / counts.sum()) / (counts.sum(axis=1) + 2)[:, None]
    expected = literal_one_step(mdp.dynamics.to_dense(), 0.95, policy, counts)
    found = ix.TwoStepIRL(smoothing=2.0).fit(mdp, REWARD, demos)
    np.testing.assert_allclose(found.reward.weights, expected, atol=1e-5)
    given = ix.TwoStepIRL().fit(mdp, REWARD, demos, choice_probabilities=policy)
    np.testing.assert_allclose(given.reward.weights, found.reward.weights, rtol=1e-9)


def test_one_step_is_consistent_and_as_precise_as_maximum_likelihood():
    mdp = bus_like()
    fit = ix.TwoStepIRL().fit(mdp, REWARD, panel(mdp, num=4000))
    errors = fit.standard_errors()
    assert errors.max() < 0.03
    assert (np.abs(fit.reward.weights - TRUTH) < 3.5 * errors).all()


def test_true_choice_probabilities_and_the_population_give_the_truth():
    """Weights of π(a|s) make the data the population: the estimate is exact whatever a sample would be."""
    mdp = bus_like()
    policy = ix.soft_plan(mdp, FEATURES @ TRUTH).policy
    fit = ix.TwoStepIRL().fit(mdp, REWARD, counted(policy), choice_probabilities=policy)
    np.testing.assert_allclose(fit.reward.weights, TRUTH, atol=1e-7)


def test_a_finite_horizon_missing_actions_and_several_mdps_are_taken_alike():
    features = np.random.default_rng(5).normal(size=(4, 3, 2))
    mdps, demos = [], []
    for seed in (5, 6):
        dense = ix.envs.RandomMDP(4, 3, horizon=4, seed=seed).mdp
        available = np.arange(12).reshape(4, 3) != 5
        transitions = dense.dynamics.to_dense()
        mdps.append(ix.MDP.from_dense(transitions, dense.initial, discount=0.9, horizon=4, available=available))
        plan = ix.soft_plan(mdps[-1], features @ np.array([0.8, -0.6]))
        demos.append(ix.rollout(mdps[-1], plan, num=300, key=jax.random.key(seed)))
    reward = ix.LinearReward(features)
    best = MLE.fit(mdps, reward, demos)
    found = ix.TwoStepIRL(iterations=None).fit(mdps, reward, demos)
    assert found.converged and found.iterations <= 8
    np.testing.assert_allclose(found.reward.weights, best.reward.weights, atol=1e-6)


def test_frequencies_shrink_to_how_often_an_action_is_chosen_anywhere():
    mdp = bus_like(num_bins=4)
    demos = ix.Demonstrations.from_episodes([([0, 1, 1, 1], [0, 0, 0, 1]), ([0], [0])], weights=[1.0, 3.0])
    expert = Expert.of(mdp, demos, None, "auto")
    # Counts: state 0 four times kept, state 1 twice kept and once replaced; in all 6 of 7 kept.
    expected = np.array([[4 + 6 / 7, 1 / 7], [2 + 6 / 7, 1 + 1 / 7], [6 / 7, 1 / 7], [6 / 7, 1 / 7]])
    expected = expected / expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(frequencies(expert, 1.0))[0].T, expected)


def test_what_cannot_be_estimated_so_is_refused_and_an_unfinished_iteration_is_not_silent(as_a_user):
    mdp = bus_like()
    demos = panel(mdp)
    network = ix.NeuralReward(FEATURES[:, 0], width=2, depth=1, key=jax.random.key(0))
    with pytest.raises(TypeError, match="linear"):
        ix.TwoStepIRL().fit(mdp, network, demos)
    with pytest.raises(TypeError, match="demonstrations"):
        ix.TwoStepIRL().fit(mdp, REWARD, np.full((20, 2), 0.5))
    with pytest.raises(ValueError, match="choice"):
        ix.TwoStepIRL().fit(mdp, REWARD, demos, choice_probabilities=np.full((3, 2), 0.5))
    for wrong in ({"iterations": 0}, {"smoothing": -1.0}, {"tol": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ix.TwoStepIRL(**wrong)
    with pytest.warns(ix.UnfinishedWarning, match="limit of steps"):
        fit = ix.TwoStepIRL(iterations=None, max_steps=1).fit(mdp, REWARD, demos)
    assert fit.status is ix.Status.MAX_STEPS
