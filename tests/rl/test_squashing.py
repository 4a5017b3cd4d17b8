"""Densities of actions near the edge of their box, where single floats are too coarse to tell them apart."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import scipy.stats

from irlax.envs.experience import collect_steps, init_runner
from irlax.rl import PPO
from irlax.rl.learner import flat
from irlax.rl.squashing import Gaussian, log_density_at, log_density_of, squash
from irlax.spaces import Box
from tests.probes import NormalBandit

BOXES = [(-1.0, 1.0), (-4.0, 6.0), (0.0, 0.5)]
EPS = np.finfo(np.float32).eps


def box_of(bounds):
    return Box(*(np.full(1, bound, np.float32) for bound in bounds))


def law_of(mean, spread):
    return Gaussian(np.full(1, mean, np.float32), np.full(1, np.log(spread), np.float32))


#: At many points at once, each a program for every number of points: one operation at a time would be fifty.
squash_all = jax.jit(jax.vmap(squash, in_axes=(None, 0)))
log_density_at_all = jax.jit(jax.vmap(log_density_at, in_axes=(None, 0, None)))
log_density_of_all = jax.jit(jax.vmap(log_density_of, in_axes=(None, 0, None)))


def log_slope(u, bounds):
    """log d a/d u in double precision: 1 − tanh² = 4 e^(−2|u|) / (1 + e^(−2|u|))²."""
    shrunk = np.exp(-2 * np.abs(u))
    return np.log(4 * shrunk) - 2 * np.log1p(shrunk) + np.log((bounds[1] - bounds[0]) / 2)


def entropy(mean, spread, bounds):
    """That of the action, by Gauss–Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(201)
    slopes = log_slope(mean + spread * nodes, bounds)
    return scipy.stats.norm(mean, spread).entropy() + weights @ slopes / weights.sum()


@pytest.mark.parametrize("bounds", BOXES)
def test_the_density_of_what_was_drawn_is_exact_however_far_out(bounds):
    law = law_of(1.5, 4.0)
    u = np.linspace(-20, 20, 81).astype(np.float32)
    found = log_density_at_all(box_of(bounds), u[:, None], law)
    exact = np.float64(u)
    expected = scipy.stats.norm(1.5, 4.0).logpdf(exact) - log_slope(exact, bounds)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("bounds", BOXES)
def test_actions_are_squashed_to_the_nearest_float(bounds):
    u = np.linspace(-20, 20, 81).astype(np.float32)
    found = np.asarray(squash_all(box_of(bounds), u[:, None]))[:, 0]
    low, high = bounds
    shares = 1 / (1 + np.exp(-2 * np.float64(u)))
    expected = np.where(u < 0, low + (high - low) * shares, high - (high - low) / (1 + np.exp(2 * np.float64(u))))
    np.testing.assert_allclose(found, expected, rtol=0, atol=EPS * max(abs(low), abs(high)))
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize("bounds", BOXES)
def test_the_density_of_an_action_is_that_of_its_preimage(bounds):
    """Of the very float that the action is: the oracle takes its distances to both edges in double precision."""
    u = np.linspace(-6, 6, 81).astype(np.float32)
    actions = np.asarray(squash_all(box_of(bounds), u[:, None]))
    found = log_density_of_all(box_of(bounds), actions, law_of(2.0, 1.0))
    exact = np.float64(actions[:, 0])
    preimage = 0.5 * np.log((exact - bounds[0]) / (bounds[1] - exact))
    expected = scipy.stats.norm(2.0, 1.0).logpdf(preimage) - log_slope(preimage, bounds)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("mean", [0.0, 6.0, 12.0, 20.0])
@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("bounds", BOXES)
def test_an_action_at_the_edge_stands_for_all_beyond(bounds, side, mean):
    width = EPS * max(map(abs, bounds))
    edge = np.full((1, 1), bounds[(side + 1) // 2], np.float32)
    # Half a cell from the edge.
    last = 0.5 * np.log((bounds[1] - bounds[0] - width / 2) / (width / 2))
    found = log_density_of_all(box_of(bounds), edge, law_of(side * mean, 0.7))
    expected = scipy.stats.norm(mean, 0.7).logsf(last) - np.log(width / 2)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize(("mean", "spread"), [(7.5, 0.05), (8.5, 0.5), (15.0, 0.0067)])
def test_cells_near_the_edge_hold_all_the_mass(mean, spread):
    """Whether the spread is more than a cell there, or less."""
    box, law = box_of(BOXES[0]), law_of(mean, spread)
    actions = (1 - EPS * np.arange(20_000, dtype=np.float64)).astype(np.float32)[:, None]
    density = np.exp(np.float64(log_density_of_all(box, actions, law)))
    widths = np.full(len(actions), float(EPS))
    widths[0] /= 2
    np.testing.assert_allclose(density @ widths, 1.0, rtol=2e-3)


def test_densities_and_slopes_are_finite_everywhere():
    """Also where the box is a constant of a compiled program, whose sums XLA writes in another order."""

    def at(mean, log_std, action):
        return log_density_of(box_of((-1.0, 1.0)), action[None], Gaussian(mean[None], log_std[None]))

    means, log_stds = np.float32([-20, -8, 0, 7, 20]), np.float32([-5, 0, 2])
    near = 1 - np.float32([0, 6e-8, 1.2e-7, 1e-6, 1e-3])
    actions = np.concatenate([-near, np.float32([0, 2, -2]), near])
    every = [grid.ravel() for grid in np.meshgrid(means, log_stds, actions)]
    values = jax.jit(jax.vmap(jax.value_and_grad(at, argnums=(0, 1))))(*every)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(values))


@pytest.mark.parametrize(("mean", "spread"), [(0.0, 1.0), (6.0, 1.0), (7.5, 0.1), (-8.0, 0.5)])
def test_entropy_by_actions_is_right_as_far_as_floats_tell_them_apart(mean, spread):
    law, box = law_of(mean, spread), box_of((-4.0, 6.0))
    u = np.float32(mean + spread * np.random.default_rng(0).normal(size=(20_000, 1)))
    found = -np.mean(log_density_of_all(box, squash_all(box, u), law))
    np.testing.assert_allclose(found, entropy(mean, spread, (-4.0, 6.0)), atol=0.15)


@eqx.filter_jit
def learned_once(ppo, agent, env, *, key):
    """A batch, and the metrics of learning from it."""
    runners = jax.vmap(lambda key: init_runner(env, 0.0, key=key))(jr.split(key, ppo.num_envs))
    _, batch, _ = collect_steps(env, agent.policy, runners, length=ppo.length, key=key)
    return batch, ppo.learn(agent, batch, None, rate=1.0, key=key)[1]


@pytest.mark.parametrize("mean", [0.0, 9.0, 15.0])
def test_ppo_reports_the_entropy_of_a_policy_at_the_edge(mean):
    """Of which the actions, all of them the edge itself, tell nothing."""
    env, key = NormalBandit(), jr.key(1)
    ppo = PPO(num_envs=512, length=4, epochs=1, minibatches=1, width=4, depth=1, explore=0.0)
    agent = eqx.filter_jit(ppo.init_agent)(1, env.actions, key=jr.key(0))
    biases = jnp.array([mean, 0.0], jnp.float32)
    agent = eqx.tree_at(lambda agent: agent.policy.network.biases[-1], agent, biases)
    batch, metrics = learned_once(ppo, agent, env, key=key)
    # Four standard errors of 2,048 draws of 2|u|, whose spread is 2, and of the normal's own, about 1.
    np.testing.assert_allclose(metrics["entropy"], entropy(mean, 1.0, (-4.0, 6.0)), atol=4 * 2.5 / np.sqrt(2048))
    np.testing.assert_allclose(metrics["entropy"], -flat(batch).log_prob.mean(), rtol=1e-5)
