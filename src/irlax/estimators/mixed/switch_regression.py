"""The M-step of switching: log-odds given the expected numbers of switches in each state."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from irlax.estimators.tabular.objectives import AbstractObjective
from irlax.estimators.tabular.problem import Flattening, Problem
from irlax.estimators.tabular.solvers import LBFGS, Newton, minimise
from irlax.typing import Array, Float

#: Steps of the regression: they must increase the likelihood, but need not maximise it.
STEPS = 8
#: Above this many log-odds of one motive L-BFGS takes the place of Newton's method.
MANY = 100
#: The least probability of a switch: from 0 it could never grow again.
LEAST = 1e-12


class SwitchRegression(AbstractObjective):
    """Minus the log likelihood of switches from one motive, as a multinomial logistic regression on states."""

    #: Expected numbers: staying first, then the other motives.
    counts: Float[Array, "S G"]
    features: Float[Array, "S F"] | None
    l2: Float[Array, ""]

    def __call__(self, parameters: Any, warm_start: Any = None) -> tuple[Float[Array, ""], None]:
        base, slopes = parameters
        odds = base + (slopes if self.features is None else self.features @ slopes)
        # The log-odds of staying are 0.
        total = logsumexp(jnp.concatenate([jnp.zeros((len(odds), 1)), odds], axis=1), axis=1)
        likelihood = (self.counts[:, 1:] * odds).sum() - self.counts.sum(axis=1) @ total
        return 0.5 * self.l2 * (slopes**2).sum() - likelihood, None


def maximised_switching(
    expected: Float[np.ndarray, "S G G"],
    base: Float[np.ndarray, "G odds"],
    slopes: Any,
    features: Any,
    l2: float,
) -> tuple[Float[np.ndarray, "G odds"], Any]:
    """The log-odds of switches after an M-step; those of a motive that is never left or entered stay as they are."""
    if slopes is None:
        return _by_relative_frequency(expected.sum(axis=0), base), None
    base, slopes = np.array(base), np.array(slopes)
    # A motive alone has no other to switch to.
    for g in range(len(base) if base.size else 0):
        others = np.delete(expected[:, g], g, axis=1)
        counts = np.concatenate([expected[:, g, g][:, None], others], axis=1)
        objective = SwitchRegression(jnp.asarray(counts), features, jnp.asarray(l2))
        start = np.concatenate([base[g], slopes[:, g].ravel()])
        problem = Problem(
            objectives=(objective,),
            shares=jnp.ones(1),
            flattening=Flattening.of((base[g], slopes[:, g])),
            scale=jnp.ones(len(start)),
            l2=jnp.zeros(()),
        )
        solver = Newton(max_steps=STEPS) if len(start) <= MANY else LBFGS(max_steps=4 * STEPS, report_every=60.0)
        x = minimise(solver, problem, start, 1e-10).at.x
        base[g], slopes[:, g] = x[: base.shape[1]], x[base.shape[1] :].reshape(slopes[:, g].shape)
    return base, slopes


def _by_relative_frequency(
    counts: Float[np.ndarray, "G G"], base: Float[np.ndarray, "G odds"]
) -> Float[np.ndarray, "G odds"]:
    result = np.array(base)
    for g, row in enumerate(counts):
        if row.sum() > 0:
            logs = np.log(np.maximum(row / row.sum(), LEAST))
            result[g] = np.delete(logs, g) - logs[g]
    return result
