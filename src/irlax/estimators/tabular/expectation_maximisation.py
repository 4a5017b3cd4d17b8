"""Expectation and maximisation for mixtures of types (Dempster, Laird and Rubin 1977)."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.special import softmax

from irlax.estimators.tabular.mixture_model import Mixture, joint_at
from irlax.estimators.tabular.problem import Evaluation, Problem
from irlax.estimators.tabular.solvers import Newton, minimise
from irlax.estimators.tabular.solvers.solver import minimisation_iterate
from irlax.iteration import AbstractIteration, Iterate
from irlax.status import Status
from irlax.typing import Float

#: Newton steps of each weighted fit: they must increase the likelihood, but need not maximise it.
M_STEPS = 3
#: EM ends once a step increases the log likelihood of an individual by less than this.
MIN_GAIN = 1e-4


class EMState(NamedTuple):
    """The current point, and the increase of the mean log likelihood of an individual by the last step."""

    at: Evaluation
    gain: float


class EM(AbstractIteration[EMState]):
    """Expectation and maximisation, until a step increases the log likelihood by little."""

    mixture: Mixture
    #: The problem of a single type.
    single: Problem
    start: Float[np.ndarray, " P"]
    tol: float

    def init(self) -> EMState:
        return EMState(self.mixture.to_problem(self.single).evaluate(self.start), np.inf)

    def step(self, state: EMState) -> EMState:
        x = _em_step(self.mixture, self.single, state.at.x, self.tol)
        at = self.mixture.to_problem(self.single).evaluate(x)
        return EMState(at, state.at.loss - at.loss)

    def status(self, state: EMState) -> Status | None:
        # Newton's method takes over from here.
        return Status.STEPS_TAKEN if state.gain < MIN_GAIN else None

    def iterates(self, state: EMState) -> list[Iterate]:
        return [minimisation_iterate(self.mixture.to_problem(self.single), state.at)]


def _em_step(mixture: Mixture, single: Problem, x: Float[np.ndarray, " P"], tol: float) -> Float[np.ndarray, " P"]:
    """The parameters after one step: posteriors at x, then shares and weighted fits of the types given these."""
    posterior = softmax(np.asarray(joint_at(mixture, mixture.to_problem(single), jnp.asarray(x))), axis=1)
    shares = np.asarray(mixture.weights) @ posterior
    size = len(single.scale)
    parameters = []
    for g in range(mixture.num_types):
        # Weights per individual of the type, so that a rare type is fitted as exactly as a frequent one.
        share = max(float(shares[g]), 1e-300)
        weighted = eqx.tree_at(
            lambda problem: (problem.objectives[0].weights, problem.l2),
            single,
            (jnp.asarray(mixture.grid(posterior[:, g]) / share), single.l2 / share),
        )
        start = x[g * size : (g + 1) * size]
        parameters.append(minimise(Newton(max_steps=M_STEPS), weighted, start, tol / 10).at.x)
    # The share of an empty type stays positive: from a share of 0 it could never grow again.
    log_shares = np.log(np.maximum(shares, 1e-12))
    return np.concatenate([*parameters, log_shares[1:] - log_shares[0]])
