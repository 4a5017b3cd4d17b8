"""Policies: their densities are densities, in the action's own units."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import scipy.stats

from irlax.networks import Normaliser, Perceptron
from irlax.rl.policies import init_policy
from irlax.rl.values import Units
from irlax.spaces import Box, Discrete

BOX = Box(np.array([-1.0, 0.0], np.float32), np.array([3.0, 0.5], np.float32))
SHAPE = {"width": 8, "depth": 1, "activation": "tanh"}


#: Compiled as one program each, not one for every operation.
init = eqx.filter_jit(init_policy)
log_prob_of = eqx.filter_jit(lambda policy, observation, action: policy.log_prob(observation, action))


def squashed():
    policy = init(BOX, 3, **SHAPE, key=jr.key(0))
    # Away from the start, where all weights of the last layer are about zero.
    weights = np.float32(0.3 * np.random.default_rng(1).normal(size=policy.network.weights[-1].shape))
    return eqx.tree_at(lambda policy: policy.network.weights[-1], policy, weights)


def test_layers_begin_orthogonal():
    network = eqx.filter_jit(Perceptron.init)(8, 4, width=8, depth=1, activation="tanh", last_gain=0.5, key=jr.key(0))
    first, second = map(np.asarray, network.weights)
    np.testing.assert_allclose(first @ first.T, np.eye(8), atol=1e-5)
    np.testing.assert_allclose(second @ second.T, 0.25 * np.eye(4), atol=1e-5)


def test_squashed_density_integrates_to_one_over_the_box():
    policy, seen = squashed(), jnp.array([0.3, -1.0, 0.5])
    first, second = (np.linspace(low, high, 503)[1:-1] for low, high in zip(BOX.low, BOX.high, strict=True))
    grid = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float32)
    density = np.exp(jax.jit(jax.vmap(lambda action: policy.log_prob(seen, action)))(grid))
    area = (first[1] - first[0]) * (second[1] - second[0])
    assert abs(density.sum() * area - 1) < 0.02


def test_squashed_density_is_scipy_s_with_the_jacobian_by_differences():
    policy, seen, key = squashed(), jnp.array([0.3, -1.0, 0.5]), jr.key(5)
    action, log_prob = eqx.filter_jit(policy.sample_and_log_prob)(seen, key=key)
    assert np.isclose(log_prob_of(policy, seen, action), log_prob, atol=1e-3)
    mean, log_std = map(np.asarray, eqx.filter_jit(policy.gaussian)(seen))

    def to_u(a):
        low, high = np.float64(BOX.low), np.float64(BOX.high)
        return np.arctanh(2 * (a - low) / (high - low) - 1)

    a, step = np.float64(action), 1e-6
    slope = (to_u(a + step) - to_u(a - step)) / (2 * step)
    expected = scipy.stats.norm(mean, np.exp(log_std)).logpdf(to_u(a)) + np.log(slope)
    assert np.isclose(log_prob, expected.sum(), atol=1e-3)
    assert (a > BOX.low).all() and (a < BOX.high).all()


def test_log_density_is_finite_at_the_edge_of_the_box():
    assert np.isfinite(log_prob_of(squashed(), jnp.zeros(3), BOX.high))


def test_categorical_samples_as_often_as_it_says():
    policy = init(Discrete(3), 2, **SHAPE, key=jr.key(0))
    policy = eqx.tree_at(lambda policy: policy.network.biases[-1], policy, jnp.array([0.0, 1.0, -1.0]))
    seen = jnp.array([1.0, 2.0])
    draws = jax.jit(jax.vmap(lambda key: policy(seen, key=key)))(jr.split(jr.key(1), 20_000))
    shares = np.bincount(draws, minlength=3) / 20_000
    probs = np.exp([log_prob_of(policy, seen, jnp.asarray(a)) for a in range(3)])
    assert np.isclose(probs.sum(), 1, atol=1e-6) and np.abs(shares - probs).max() < 0.015
    assert policy.mode(seen) == probs.argmax()


def test_running_moments_are_those_of_everything_seen():
    seen = np.random.default_rng(0).normal(3.0, [2.0, 0.0], size=(60, 2)).astype(np.float32)
    normaliser = Normaliser.init(2)
    for part in np.split(seen, [10, 25]):
        normaliser = normaliser.update(part)
    np.testing.assert_allclose(normaliser.mean, seen.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(normaliser.variance, [seen[:, 0].var(), 0.0], rtol=1e-4)
    np.testing.assert_allclose(normaliser(jnp.array([1e9, 3.5])), [10.0, 0.5])


def test_other_units_say_the_same():
    network = eqx.filter_jit(Perceptron.init)(3, 1, **SHAPE, key=jr.key(0))
    old, new = (Units(jnp.asarray(mean), jnp.asarray(scale)) for mean, scale in ((1.0, 2.0), (-50.0, 30.0)))
    converted, seen = old.convert(network, new), jnp.array([1.0, -2.0, 0.5])
    before, after = (u.mean + u.scale * net(seen) for u, net in ((old, network), (new, converted)))
    np.testing.assert_allclose(before, after, atol=1e-4)
    towards = old.towards(jnp.asarray(5.0), jnp.asarray(9.0), jnp.asarray(1.0))
    np.testing.assert_allclose([towards.mean, towards.scale], [5.0, 3.0], rtol=1e-5)
