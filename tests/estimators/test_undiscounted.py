"""γ = 1 without a horizon: where fits start, and what is refused before any work is done."""

import jax
import numpy as np
import pytest

import irlax as ix


def ring():
    """Four states in a row, the last an end; one may go on, back, or stay, so that at θ = 0 values do not exist."""
    transitions = np.zeros((4, 3, 4))
    for s in range(3):
        transitions[s, 0, s + 1] = transitions[s, 1, max(s - 1, 0)] = transitions[s, 2, s] = 1
    transitions[3, :, 3] = 1
    available = np.ones((4, 3), bool)
    available[3, 1:] = False
    mdp = ix.MDP.from_dense(transitions, [1.0, 0, 0, 0], discount=1.0, available=available)
    cost = np.zeros((4, 3, 1))
    cost[:3] = -1.0
    demos = ix.rollout(mdp, ix.soft_plan(mdp, cost @ [2.0]), num=100, length=200, key=jax.random.key(0))
    return mdp, cost, demos


def test_at_zero_there_is_no_value_to_start_from():
    mdp, cost, _ = ring()
    with pytest.raises(ValueError, match="does not exist"):
        ix.soft_plan(mdp, np.zeros((4, 3)))
    # The closed form: z = exp V solves z = M z + b with M = e^−θ on three ways to go, so θ must exceed a threshold.
    weight = np.exp(-2.0)
    matrix = weight * (np.diag([2.0, 1, 1]) + np.diag([1.0, 1], 1) + np.diag([1.0, 1], -1))
    z = np.linalg.solve(np.eye(3) - matrix, [0, 0, weight])
    np.testing.assert_allclose(ix.soft_plan(mdp, cost @ [2.0]).value[:3], np.log(z), rtol=1e-9)


@pytest.mark.parametrize("estimator", [ix.MCEIRL(), ix.MCEIRL(objective="likelihood"), ix.MaxEntIRL()])
def test_a_fit_starts_where_values_exist(estimator):
    mdp, cost, demos = ring()
    fit = estimator.fit(mdp, ix.LinearReward(cost), demos)
    assert fit.converged
    # All three are one in a deterministic problem of whole episodes: the mean number of steps is matched.
    np.testing.assert_allclose(ix.visits(mdp, fit.plan)[:3].sum(), demos.lengths.mean(), rtol=1e-6)


def test_rewards_that_cannot_have_values_are_refused_by_name():
    mdp, _, demos = ring()
    only_forth = np.zeros((4, 3, 1))
    only_forth[:3, 0] = 1.0
    with pytest.raises(ValueError, match=r"weights of péage.*make every step costly"):
        ix.MCEIRL().fit(mdp, ix.LinearReward(only_forth, names=["péage"]), demos)


def test_a_network_is_refused_before_it_is_trained():
    mdp, _, demos = ring()
    network = ix.NeuralReward(np.eye(4), width=4, depth=1, key=jax.random.key(0))
    steps = []
    with pytest.raises(ValueError, match="a NeuralReward is not"):
        ix.MCEIRL().fit(mdp, network, demos, callback=steps.append)
    assert not steps


def test_a_posterior_exists_where_values_do():
    mdp, cost, demos = ring()
    estimator = ix.BayesianIRL(num_chains=2, num_warmup=30, num_samples=30, prior=ix.Normal(10.0))
    with pytest.warns(ix.UnfinishedWarning, match="chains"):
        fit = estimator.fit(mdp, ix.LinearReward(cost), demos, key=jax.random.key(0))
    best = ix.MCEIRL(objective="likelihood").fit(mdp, ix.LinearReward(cost), demos)
    assert abs(fit.reward.weights[0] - best.reward.weights[0]) < 4 * best.standard_errors()[0]
