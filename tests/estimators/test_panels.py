"""Panels as economists have them: gaps, unequal lengths, late starts, weights, observed types."""

import jax
import numpy as np
import pandas as pd
import pytest

import irlax as ix
from tests.problems import bus_like, wear_and_replacement

FEATURES = wear_and_replacement()
REWARD = ix.LinearReward(FEATURES, names=["wear", "replacement"])
LIKELIHOOD = ix.MCEIRL(objective="likelihood")


def incomplete(demos, rng):
    """A frame of which a third of the rows is missing: gaps, late starts, and individuals lost early."""
    frame = demos.to_frame()[["episode", "t", "state", "action"]]
    last = rng.integers(20, 100, size=demos.num_episodes)
    kept = (rng.random(len(frame)) < 0.8) & (frame["t"] < last[frame["episode"]])
    weight = rng.choice([0.5, 1.0, 2.0], size=demos.num_episodes)
    return frame[kept].assign(weight=weight[frame["episode"]][kept]).sample(frac=1.0, random_state=0)


def test_gaps_unequal_lengths_late_starts_and_weights_enter_the_likelihood_as_they_should():
    """Each choice that was seen counts once, by its weight, and nothing is made of those that were not."""
    mdp = bus_like()
    rng = np.random.default_rng(0)
    plan = ix.soft_plan(mdp, FEATURES @ np.array([4.0, 3.0]))
    frame = incomplete(ix.rollout(mdp, plan, num=60, length=100, key=jax.random.key(1)), rng)
    names = {"episode": "episode", "time": "t", "state": "state", "action": "action", "weight": "weight"}
    demos = ix.Demonstrations.from_frame(frame, **names)
    assert len(set(demos.lengths)) > 10 and demos.times[demos.offsets[:-1]].max() > 0
    fit = LIKELIHOOD.fit(mdp, REWARD, demos)

    def total(theta):
        log_policy = ix.soft_plan(mdp, FEATURES @ theta).log_policy
        return (frame["weight"] * log_policy[frame["state"], frame["action"]]).sum()

    theta = fit.reward.weights
    np.testing.assert_allclose(fit.log_likelihood, total(theta), rtol=1e-10)
    for step in 1e-4 * np.eye(2):
        assert abs(total(theta + step) - total(theta - step)) / 2e-4 < 1e-3
    np.testing.assert_allclose(theta, [4.0, 3.0], atol=0.8)


def test_a_gap_is_no_transition_and_tells_the_time_of_a_finite_horizon():
    """From bin 0 nothing leads to bin 9 in one period: seen as neighbours that is refused, with a gap it is not."""
    mdp = bus_like()
    states, actions = [0, 9], [0, 1]
    frame = pd.DataFrame({"id": [0, 0], "t": [0, 1], "s": states, "a": actions})
    names = {"episode": "id", "time": "t", "state": "s", "action": "a"}
    with pytest.raises(ValueError, match="probability 0"):
        ix.Demonstrations.from_frame(frame, **names).check(mdp)
    demos = ix.Demonstrations.from_frame(frame.assign(t=[0, 6]), **names)
    demos.check(mdp)
    finite = mdp.replace(horizon=8)
    plan = ix.soft_plan(finite, FEATURES @ np.array([4.0, 3.0]))
    expected = plan.log_policy[0, 0, 0] + plan.log_policy[6, 9, 1]
    np.testing.assert_allclose(ix.log_likelihood(finite, plan, demos, discounted=False), expected, rtol=1e-12)


def typed_panel():
    """Two sizes: replacing costs 3 + 1.5·size."""
    mdp = bus_like()
    parts = []
    for size in (0, 1):
        plan = ix.soft_plan(mdp, FEATURES @ np.array([4.0, 3.0 + 1.5 * size]))
        frame = ix.rollout(mdp, plan, num=40, length=100, key=jax.random.key(size)).to_frame()
        parts.append(
            frame.assign(episode=frame["episode"] * 2 + size, size=float(size), depot=["north", "south"][size])
        )
    return mdp, pd.concat(parts).sample(frac=1.0, random_state=1)


def test_covariates_of_individuals_enter_the_reward_with_shared_parameters():
    mdp, frame = typed_panel()
    demos = ix.Demonstrations.from_frame(frame, episode="episode", time="t", state="state", action="action")
    types = ix.by_type(demos, frame, episode="episode", columns=["size"])
    np.testing.assert_array_equal(types.of_episode, np.arange(80) % 2)
    np.testing.assert_array_equal(types.values, [[0.0], [1.0]])
    assert sum(part.num_episodes for part in types.demos) == 80
    rewards = types.interact(REWARD, ["replacement"])
    assert rewards[1].names == ("wear", "replacement", "replacement × size")
    np.testing.assert_array_equal(rewards[1].features[..., 2], FEATURES[..., 1])
    fit = LIKELIHOOD.fit([mdp] * types.num, rewards, types.demos)
    truth, errors = np.array([4.0, 3.0, 1.5]), fit.standard_errors()
    assert (np.abs(fit.reward.weights - truth) < 3.5 * errors).all() and errors.max() < 0.5
    text = str(fit.summary())
    assert "replacement × size" in text and "all 3 parameters, together" in text
    # Text is the same thing under another name.
    by_text = ix.by_type(demos, frame, episode="episode", columns=["depot"])
    np.testing.assert_array_equal(by_text.values, types.values)
    assert by_text.names == ("depot=south",)
    by_array = ix.by_type(demos, np.arange(80) % 2)
    np.testing.assert_array_equal(by_array.of_episode, types.of_episode)


def test_covariates_that_change_or_are_missing_are_refused(as_a_user):
    _, frame = typed_panel()
    demos = ix.Demonstrations.from_frame(frame, episode="episode", time="t", state="state", action="action")
    named = {"episode": "episode", "columns": ["size"]}
    with pytest.raises(ValueError, match="must not change"):
        ix.by_type(demos, frame, episode="episode", columns=["state"])
    with pytest.raises(ValueError, match="no covariates of episodes 3"):
        ix.by_type(demos, frame[frame["episode"] != 3], **named)
    with pytest.raises(ValueError, match="missing"):
        ix.by_type(demos, frame.assign(size=np.nan), **named)
    with pytest.raises(ValueError, match="no column"):
        ix.by_type(demos, frame, episode="episode", columns=["age"])
    with pytest.raises(TypeError, match="columns"):
        ix.by_type(demos, frame)
    with pytest.raises(ValueError, match="shape"):
        ix.by_type(demos, np.zeros(3))
    with pytest.raises(ValueError, match="features"):
        ix.by_type(demos, np.arange(80) % 2).interact(REWARD, ["price"])
