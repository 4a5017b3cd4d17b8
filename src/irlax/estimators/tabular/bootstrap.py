"""The bootstrap: estimates from resamples of the episodes, refitted in one batch or in parts on an engine."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.analysis.standard_errors import hidden, seen_basis
from irlax.engine import AbstractEngine
from irlax.estimators.tabular.aggregated import refuse_statistics
from irlax.estimators.tabular.inference import refuse_unless_likelihood
from irlax.estimators.tabular.objectives import Likelihood
from irlax.estimators.tabular.observed_likelihood import ObservedLikelihood
from irlax.estimators.tabular.on_engine import problem_of, rows_on
from irlax.estimators.tabular.problem import Flattening
from irlax.precision import StaysOnDevice, scope, to_device
from irlax.rewards.reward import flat
from irlax.typing import Array, Float, PRNGKeyArray, UInt

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit

#: Newton steps of one bootstrap refit, which starts at the estimate and converges quadratically.
BOOTSTRAP_STEPS = 15
#: A refit has converged if its last Newton step is shorter than this, in standard errors; towards an optimum at
#: infinity all steps have a length of about one.
CONVERGED_STEP = 1e-4
#: So many resamples are refitted together, by one `vmap`, and on an engine by one task.
TOGETHER = 64


def bootstrap(
    fit: "TabularFit",
    *,
    num: int,
    key: PRNGKeyArray,
    engine: AbstractEngine | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Float[np.ndarray, "num K"]:
    """Estimates from `num` resamples of the episodes, refitted by Newton's method.

    A resample has as many episodes as were observed, drawn with probabilities proportional to their weights. A resample
    without a finite estimate is a row of NaN; a parameter that is not identified is a column of NaN.
    """
    checks.count("num", num)
    _refuse_what_cannot_be_resampled(fit)
    if engine is None and out is None:
        draws = refit_resamples(fit, num=num, key=key)
    else:
        numbers = np.asarray(jr.key_data(key)).tolist()
        cases = [{"draw": draw, "num": num, "key": numbers} for draw in range(num)]
        rows = rows_on(engine, refitted, cases, problem=(fit,), out=out, together=TOGETHER)
        draws = np.array([row["estimate"] for row in rows])
    draws[:, hidden(fit.information.hessian)] = np.nan
    return draws


def refit_resamples(fit: "TabularFit", *, num: int, key: PRNGKeyArray) -> Float[np.ndarray, "num K"]:
    """As `bootstrap`, but along directions that are not identified the estimates stay at those of the fit."""
    _refuse_what_cannot_be_resampled(fit)
    return _refit(fit, _resample_counts(_weights(fit), num, np.asarray(jr.key_data(key))))


def refitted(cases: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """The task of a sweep: estimates from some of the resamples, of the fit that the sweep's folder holds."""
    first = cases[0]
    (fit,) = problem_of(folder, first["problem"])
    counts = _resample_counts(_weights(fit), first["num"], np.asarray(first["key"], np.uint32))
    return [{"estimate": row} for row in _refit(fit, counts[[case["draw"] for case in cases]]).tolist()]


def _refuse_what_cannot_be_resampled(fit: "TabularFit") -> None:
    refuse_unless_likelihood(fit)
    if len(fit.experts) > 1:
        raise ValueError("The bootstrap is for fits to one MDP.")
    refuse_statistics(next(iter(fit.experts)).statistics, "The bootstrap")


def _weights(fit: "TabularFit") -> Float[np.ndarray, " N"]:
    demos = fit.experts[0].demos
    assert demos is not None
    return demos.weights


def _refit(fit: "TabularFit", counts: Float[np.ndarray, "num N"]) -> Float[np.ndarray, "num K"]:
    """The estimate from each resample, which is how often it has each episode."""
    num = len(counts)
    if num > TOGETHER:
        # The last batch as full as the others: one of another size would be compiled on its own.
        counts = np.resize(counts, (-(-num // TOGETHER) * TOGETHER, counts.shape[1]))
    reward, expert, information = fit.reward, next(iter(fit.experts)), fit.information
    demos = expert.demos
    assert demos is not None
    with scope():
        likelihood = ObservedLikelihood.of(expert, reward)
        share = (counts / demos.weights.sum())[:, demos.episode]
        share = share if demos.row_weights is None else share * demos.row_weights
        cells, num_cells = likelihood.cells(), math.prod(likelihood.shape)
        flat_grids = [np.bincount(cells, resample, num_cells) for resample in share]
        grids = to_device(np.reshape(flat_grids, (len(counts), *likelihood.shape)))
        # Without a penalty the likelihood is constant along unidentified directions, so these are left out.
        basis = seen_basis(information.hessian) if information.penalty == 0 else np.eye(len(information.hessian))
        start = jnp.asarray(flat(reward.parameters))
        flattening = Flattening.of(reward.parameters)
        refits = Refits(likelihood.objective, flattening, start, jnp.asarray(basis), jnp.asarray(fit.l2))
        return np.array(_refit_all(refits, grids))[:num]


def _resample_counts(
    weights: Float[np.ndarray, " N"], num: int, key_data: UInt[np.ndarray, " words"]
) -> Float[np.ndarray, "num N"]:
    """How often each episode is in each resample, scaled so that a resample has the total weight of the data."""
    total = weights.sum()
    rng, size = np.random.default_rng(key_data), max(1, round(total))
    return rng.multinomial(size, weights / total, num) * (total / size)


class Refits(StaysOnDevice):
    """Weights of choices ↦ the maximum of their likelihood, by Newton's method from the estimate."""

    likelihood: Likelihood
    flattening: Flattening
    start: Float[Array, " K"]
    #: The directions in which the likelihood is maximised.
    basis: Float[Array, "K r"]
    penalty: Float[Array, ""]

    def __call__(self, grid: Float[Array, "T M"]) -> Float[Array, " K"]:
        def loss(z):
            theta = self.start + self.basis @ z
            log_policy, _ = self.likelihood.log_policy(self.flattening.unflatten(theta))
            return -(grid * log_policy).sum() + 0.5 * self.penalty * (theta @ theta)

        def step(z, _):
            newton_step = jnp.linalg.solve(jax.hessian(loss)(z), jax.grad(loss)(z))
            return z - newton_step, jnp.abs(newton_step).max()

        z, lengths = jax.lax.scan(step, jnp.zeros(self.basis.shape[1]), length=BOOTSTRAP_STEPS)
        curvature = jnp.linalg.eigvalsh(jax.hessian(loss)(z))
        exists = (lengths[-1] <= CONVERGED_STEP) & (curvature[0] > 1e-9 * curvature[-1])
        return jnp.where(exists, self.start + self.basis @ z, jnp.nan)


@eqx.filter_jit
def _refit_all(refits: Refits, grids: Float[Array, "num T M"]) -> Float[Array, "num K"]:
    return jax.lax.map(refits, grids, batch_size=TOGETHER)
