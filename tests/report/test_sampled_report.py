"""The report on a dynamics-free fit: everything that is known is drawn, whatever the problem."""

import dataclasses

import jax.random as jr
import numpy as np
import pytest

from irlax import Status
from irlax.demos.demonstrations import from_rows
from irlax.envs import Box, Discrete
from irlax.estimators.sampled import SampledFit
from irlax.estimators.sampled.page import mean_reward, rewards_along, sampled_page
from irlax.networks import Normaliser
from irlax.rewards import RewardNet
from irlax.rl.policies import init_policy
from tests.report.test_report import EVIL, Elements

N, T = 3, 5


def made(size=2, actions=None, over="s", *, learned=True, **changes):
    """A fit that nobody fitted."""
    rng = np.random.default_rng(0)
    actions = Discrete(3) if actions is None else actions
    acted = rng.integers(3, size=N * T) if isinstance(actions, Discrete) else rng.uniform(-1, 1, (N * T, 2))
    seen = rng.normal(size=(N * T, size)).astype(np.float32)
    demos = from_rows(
        None,
        acted,
        np.full(N, T),
        terminated=np.zeros(N, bool),
        observations=seen,
        next_observations=seen + 1,
        rewards=rng.normal(size=N * T),
    )
    shape = {"width": 4, "depth": 1}
    reward = RewardNet(over, **shape).init(Normaliser.init(size), actions, key=jr.key(1))
    history = {name: rng.normal(size=6) for name in ("return", "gap", "log_likelihood", "effective_share", "entropy")}
    fit = SampledFit(
        method="AIRL",
        settings=(("over", over), ("rounds", 6)),
        learned=reward if learned else None,
        policy=init_policy(actions, size, **shape, activation="tanh", key=jr.key(2)),
        status=Status.TRAINED,
        history={"steps": np.arange(1.0, 7), **history},
        log_likelihood=-3.0,
        feature_gap=np.zeros(size),
        returns=rng.normal(size=8),
        demos=demos,
        environment="somewhere",
        seconds=1.0,
    )
    return dataclasses.replace(fit, **changes)


def page_of(fit):
    elements = Elements(sampled_page(fit).render())
    assert "script" not in elements.tags
    return " ".join(elements.text)


@pytest.mark.parametrize(("over", "actions"), [("s", None), ("sa", Box(-np.ones(2), np.ones(2)))])
def test_rewards_of_two_coordinates_are_drawn_on_a_plane(over, actions):
    text = page_of(made(over=over, actions=actions))
    assert "each place" in text and ("policy's actions" in text) == (over == "sa")


def test_other_rewards_are_drawn_along_demonstrations():
    text = page_of(made(2, over="sas", status=Status.INTERRUPTED, environment=EVIL))
    assert "along 3 demonstrations" in text and "two scales" in text
    assert Status.INTERRUPTED.value in text and EVIL in text


def test_what_is_not_known_is_left_out():
    fit = made(3, over="sa")
    blind = dataclasses.replace(fit, demos=dataclasses.replace(fit.demos, rewards=None))
    text = page_of(blind)
    assert "along 3 demonstrations" in text and "two scales" not in text and "beside" not in text
    clone = made(learned=False, history={"steps": np.zeros(4), "log_likelihood": np.arange(4.0)})
    text = page_of(clone)
    assert "a policy from demonstrations" in text and "gradient steps" in text and "learned to be good" not in text


def test_extreme_numbers_can_be_drawn():
    wild = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 0])
    fit = made(returns=np.array([1e120, -1e120]))
    page_of(dataclasses.replace(fit, history={**fit.history, "gap": wild}))


def test_what_is_drawn_is_the_reward():
    fit = made(over="s")
    demos = fit.demos
    by_hand = [
        float(fit.reward(s, a, x))
        for s, a, x in zip(demos.observations, demos.actions, demos.next_observations, strict=True)
    ]
    np.testing.assert_allclose(rewards_along(fit.reward, demos), by_hand, rtol=1e-5)
    np.testing.assert_allclose(mean_reward(fit, demos.observations), by_hand, rtol=1e-5)


def test_demonstrated_returns_count_by_weight():
    fit = made()
    demos = dataclasses.replace(fit.demos, weights=np.array([3.0, 0.0, 1.0]))
    earned = [sum(demos.rewards[k * T : (k + 1) * T]) for k in range(N)]
    assert np.isclose(dataclasses.replace(fit, demos=demos).demonstrated_return, (3 * earned[0] + earned[2]) / 4)
    silent = dataclasses.replace(fit, demos=dataclasses.replace(demos, rewards=None))
    assert silent.demonstrated_return is None
