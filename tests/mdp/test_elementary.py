"""exp and log of our own, against those of NumPy and of mathematics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from irlax.mdp.elementary import exp, log


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


# Compiled as well: the compiler knows algebra, and rounding may not be simplified away.
@pytest.mark.parametrize("compiled", [False, True])
def test_to_the_last_digit_or_two(compiled):
    run = jax.jit if compiled else lambda function: function
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-40, 5, 5000), -np.logspace(-300, 2.85, 3000), [0.0, -707.0, 1e-17, 690.0]])
    np.testing.assert_allclose(run(exp)(jnp.asarray(x)), np.exp(x), rtol=5e-16, atol=0)
    x = np.concatenate([rng.uniform(0.1, 40, 5000), 1 + np.logspace(-16, -1, 999), np.logspace(-300, 300, 999), [1, 2]])
    np.testing.assert_allclose(run(log)(jnp.asarray(x)), np.log(x), rtol=5e-16, atol=0)


def many(x):
    """Enough of them that they are not left to XLA."""
    return jnp.tile(jnp.asarray(x), 300)


def test_at_the_edges():
    expected = [0, 0, 1, np.inf, np.inf, np.nan]
    np.testing.assert_array_equal(jax.jit(exp)(many([-np.inf, -1e4, 0, np.inf, 1e4, np.nan])), many(expected))
    np.testing.assert_array_equal(jax.jit(log)(many([0, 1, np.inf, np.nan])), many([-np.inf, 0, np.inf, np.nan]))


def test_derivatives_of_every_order_and_within_a_loop():
    def sweeps(exp, log):
        def step(value, _):
            return log(exp(value + many([0.3, 0.1])) + exp(-value).mean()), None

        return lambda start: jax.lax.scan(step, many(start), length=3)[0].mean()

    start = jnp.asarray([0.2, -0.4])
    ours, theirs = sweeps(exp, log), sweeps(jnp.exp, jnp.log)
    for derivative in (jax.grad, jax.hessian, lambda f: jax.jit(jax.jacfwd(jax.hessian(f)))):
        np.testing.assert_allclose(derivative(ours)(start), derivative(theirs)(start), rtol=1e-13)


def test_many_at_once_and_in_single_precision():
    x = np.linspace(-3, 0, 6000).reshape(2, 3, 1000)
    np.testing.assert_allclose(jax.vmap(jax.vmap(exp))(jnp.asarray(x)), np.exp(x), rtol=5e-16)
    narrow = exp(jnp.asarray(x, jnp.float32))
    assert narrow.dtype == jnp.float32
    np.testing.assert_allclose(log(narrow), x, atol=1e-5)
