"""Adam on the host against optax's."""

import jax
import numpy as np
import optax

from irlax.estimators.tabular.solvers.adam import Adam, Moments


def test_steps_are_those_of_optax():
    solver, num = Adam(learning_rate=0.3, max_steps=6), 8
    gradients = np.random.default_rng(0).normal(size=(num, 3)) * np.array([1e-3, 1.0, 50.0])
    theirs = optax.adam(optax.cosine_decay_schedule(0.3, 6, alpha=0.01))
    moments = Moments(np.zeros(3), np.zeros(3))
    with jax.enable_x64(True):
        update, state = jax.jit(theirs.update), theirs.init(gradients[0])
        for number, gradient in enumerate(gradients):
            moments = moments.with_gradient(gradient)
            step, state = update(gradient, state)
            np.testing.assert_allclose(-solver._rate(number) * moments.direction, step, rtol=1e-6)
