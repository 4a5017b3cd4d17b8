"""Rows of demonstrations with weights of their own, in every estimator by likelihood."""

import dataclasses

import jax
import numpy as np
import pytest

import irlax as ix

NUM_STATES, NUM_ACTIONS = 4, 3
FEATURES = np.random.default_rng(0).normal(size=(NUM_STATES, NUM_ACTIONS, 2))
REWARD = ix.LinearReward(FEATURES)


@pytest.fixture(scope="module")
def mdp():
    probabilities = np.random.default_rng(1).dirichlet(np.ones(NUM_STATES), size=(NUM_STATES, NUM_ACTIONS))
    return ix.MDP.from_dense(probabilities, np.full(NUM_STATES, 0.25), discount=0.9)


@pytest.fixture(scope="module")
def demos(mdp):
    """One-step episodes: an episode of weight w and a row of weight w are then the same."""
    plan = ix.soft_plan(mdp, FEATURES @ [1.0, -0.5])
    return ix.rollout(mdp, plan.policy, num=200, length=1, key=jax.random.key(0))


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(2).integers(0, 4, 200).astype(float)


ESTIMATORS = [
    ix.MCEIRL(objective="likelihood", start="mdp"),
    ix.MCEIRL(objective="discounted-likelihood", start="mdp"),
    ix.TwoStepIRL(start="mdp"),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=["likelihood", "discounted", "two-step"])
def test_a_row_of_weight_w_counts_as_w_one_row_episodes(mdp, demos, weights, estimator):
    # The row weights have the mean 1, so that the penalty per episode is the same as well.
    by_row = estimator.fit(mdp, REWARD, demos.with_row_weights(weights))
    by_episode = estimator.fit(mdp, REWARD, dataclasses.replace(demos, weights=weights))
    assert np.allclose(by_row.reward.weights, by_episode.reward.weights, atol=1e-7)
    assert np.isclose(by_row.log_likelihood, by_episode.log_likelihood)
    assert np.isclose(by_row.score(by_row.experts[0].demos), by_episode.score(by_episode.experts[0].demos))


def test_standard_errors_of_weighted_rows_are_those_of_repeated_rows(mdp, demos, weights):
    estimator = ESTIMATORS[0]
    by_row = estimator.fit(mdp, REWARD, demos.with_row_weights(weights))
    repeated = estimator.fit(mdp, REWARD, demos.select(np.repeat(np.arange(200), weights.astype(int))))
    for kind in ("hessian", "opg", "sandwich"):
        assert np.allclose(by_row.standard_errors(kind), repeated.standard_errors(kind), rtol=1e-6), kind


def test_clustered_scores_of_an_episode_are_sums_over_weighted_rows(mdp):
    plan = ix.soft_plan(mdp, FEATURES @ [1.0, -0.5])
    demos = ix.rollout(mdp, plan.policy, num=40, length=5, key=jax.random.key(1))
    rows = np.random.default_rng(3).uniform(0.5, 2, demos.num_steps)
    information = ESTIMATORS[0].fit(mdp, REWARD, demos.with_row_weights(rows)).information
    expected = [(rows[:, None] * information.scores)[demos.episode == k].sum(axis=0) for k in range(40)]
    assert np.allclose(information.clustered("sandwich", "episode", "frequency"), expected, rtol=1e-12)


def test_feature_matching_refuses_weights_of_rows(mdp, demos, weights):
    with pytest.raises(ValueError, match="rows have weights of their own"):
        ix.MCEIRL().fit(mdp, REWARD, demos.with_row_weights(weights))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
def test_weights_of_rows_survive_files(demos, weights, tmp_path, suffix):
    ix.write_demos(tmp_path / f"demos.{suffix}", demos.with_row_weights(weights))
    assert np.array_equal(ix.read_demos(tmp_path / f"demos.{suffix}").row_weights, weights)


@pytest.mark.parametrize("wrong", [[-1.0] * 200, [0.0] * 200, [np.nan] * 200, [1.0]])
def test_bad_weights_of_rows_are_refused(demos, wrong):
    with pytest.raises(ValueError, match="row_weights"):
        demos.with_row_weights(wrong)


def test_statistics_refuse_weights_of_rows(mdp, demos, weights):
    with pytest.raises(ValueError, match="without weights of their own"):
        ix.DemoStatistics.from_demos(
            demos.with_row_weights(weights), num_states=NUM_STATES, num_actions=NUM_ACTIONS, discount=0.9
        )


def test_selected_episodes_keep_the_weights_of_their_rows(demos, weights):
    assert np.array_equal(demos.with_row_weights(weights).select([3, 1]).row_weights, weights[[3, 1]])
