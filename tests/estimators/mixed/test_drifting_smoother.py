"""Random walks, against dense matrices and the normal distribution of what is observed of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal

from irlax.estimators.mixed.drifting_smoother import sensitivity, smooth

B, R = 5, 2


def problem(seed):
    rng = np.random.default_rng(seed)
    halves = rng.normal(size=(B, R, R))
    curvature = halves @ halves.swapaxes(1, 2)
    curvature[2] = 0.0
    return curvature, rng.normal(size=(B, R)), rng.normal(size=(R, R))


def hessian(curvature, prior, root):
    difference = np.kron(np.diff(np.eye(B), axis=0), np.eye(R))
    precision = np.kron(np.eye(B - 1), np.linalg.inv(root @ root.T))
    first = np.zeros((B * R, B * R))
    first[:R, :R] = prior
    return block_diag(*curvature) + difference.T @ precision @ difference + first


def solved(curvature, information, prior, root):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, smooth(*map(jnp.asarray, (curvature, information, prior, root))))


@pytest.mark.parametrize("flat", [True, False])
def test_the_smoother_solves_the_block_tridiagonal_system(flat):
    curvature, information, root = problem(0)
    prior = np.zeros((R, R)) if flat else np.diag([0.3, 2.0])
    dense = hessian(curvature, prior, root)
    inverse = np.linalg.inv(dense)
    walk = solved(curvature, information, prior, root)
    mean = (inverse @ information.ravel()).reshape(B, R)
    np.testing.assert_allclose(walk.mean, mean, atol=1e-10)
    blocks = inverse.reshape(B, R, B, R)[np.arange(B), :, np.arange(B)]
    np.testing.assert_allclose(np.linalg.inv(walk.precision), blocks, atol=1e-10)
    step = root @ root.T
    np.testing.assert_allclose(walk.pull[:-1], np.diff(mean, axis=0) @ np.linalg.inv(step), atol=1e-10)
    expected = (B - 1) * np.linalg.slogdet(step)[1] + np.linalg.slogdet(dense)[1]
    assert np.isclose(walk.log_det, expected, atol=1e-10)


def test_what_does_not_drift_is_one_parameter_for_all_periods():
    curvature, information, _ = problem(1)
    still = solved(curvature, information, np.zeros((R, R)), np.zeros((R, R)))
    total = curvature.sum(axis=0)
    np.testing.assert_allclose(still.mean, np.tile(np.linalg.solve(total, information.sum(axis=0)), (B, 1)))
    assert np.isclose(still.log_det, np.linalg.slogdet(total)[1])
    half, tiny = (solved(curvature, information, np.zeros((R, R)), np.diag([0.5, size])) for size in (0.0, 1e-6))
    np.testing.assert_allclose(half.mean, tiny.mean, atol=1e-9)
    assert np.ptp(half.mean[:, 1]) < 1e-12 < np.ptp(half.mean[:, 0])
    assert np.isclose(half.log_det, tiny.log_det, atol=1e-9)


def test_the_evidence_of_normal_observations_is_their_density():
    """A Kalman smoother's model: y = z + noise. There the Laplace approximation is exact."""
    rng = np.random.default_rng(2)
    noise, root, prior = np.diag([0.5, 2.0]), np.diag([0.7, 0.1]), np.diag([1.0, 0.25])
    y = rng.normal(size=(B, R))
    curvature = np.tile(np.linalg.inv(noise), (B, 1, 1))
    walk = solved(curvature, y @ curvature[0], prior, root)
    gap = y - walk.mean
    fit = -0.5 * np.einsum("ti,ij,tj->", gap, curvature[0], gap) - 0.5 * B * np.linalg.slogdet(2 * np.pi * noise)[1]
    walked = -0.5 * ((walk.pull @ root) ** 2).sum() - 0.5 * walk.mean[0] @ prior @ walk.mean[0]
    found = fit + walked + 0.5 * np.linalg.slogdet(prior)[1] - 0.5 * walk.log_det
    time = np.minimum.outer(np.arange(B), np.arange(B))
    covariance = (
        np.kron(np.ones((B, B)), np.linalg.inv(prior)) + np.kron(time, root @ root.T) + np.kron(np.eye(B), noise)
    )
    assert np.isclose(found, multivariate_normal(np.zeros(B * R), covariance).logpdf(y.ravel()), atol=1e-10)


def test_sensitivity_is_the_derivative_in_the_logarithm_of_the_size():
    curvature, information, root = problem(3)
    prior, grown = np.diag([0.3, 2.0]), np.array([1.0, 0.0])
    walk = solved(curvature, information, prior, root)
    ends = [solved(curvature, information, prior, root * np.exp(h * grown)).mean for h in (1e-5, -1e-5)]
    with jax.enable_x64(True):
        found = sensitivity(*map(jnp.asarray, (curvature, prior, root, walk.pull, grown)))
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-5, atol=1e-8)
