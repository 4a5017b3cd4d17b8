"""Assessment of a mixture: at a maximum of its likelihood, without a finite maximum, or with a redundant type."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp, softmax

from irlax.estimators.tabular.choices import group_choices
from irlax.estimators.tabular.mixture_model import Mixture, joint_at
from irlax.estimators.tabular.objectives import Likelihood
from irlax.estimators.tabular.observed_likelihood import likelihood_of
from irlax.estimators.tabular.problem import Evaluation, Flattening, Problem, largest
from irlax.estimators.tabular.solvers import Solution
from irlax.estimators.tabular.solvers.solver import minimisation_iterate
from irlax.iteration import Session
from irlax.status import Status
from irlax.typing import Array, Bool, Float

#: A type is redundant if giving its share to another type costs less than this of the total log likelihood. If e
#: individuals are expected to be of the type, the cost is at most e²/2: that is so below a thousandth of an individual.
REDUNDANT_LOSS = 1e-6
#: Directions with less curvature than this share of the largest are not identified, up to rounding.
IDENTIFIED = 1e-11
#: A curvature below minus this share of the largest is that of a saddle point.
SADDLE = 1e-7
#: Newton's method has converged if its step changes no log policy and no log share by more than this.
CONVERGED_CHANGE = 1e-3
#: Towards an optimum at infinity slope and curvature vanish at the same rate, and every Newton step changes some log
#: policy by about 1; towards a finite optimum the second step is far shorter than the first.
DIVERGING_CHANGE = 0.3
#: The most Newton steps beyond the tolerance.
EXTRA_STEPS = 8
#: Only states with at least this many expected choices of a type enter the assessment of the type's policy.
MIN_CHOICES = 1e-3
#: The length of a step along directions that are not identified, and the largest change of a log policy by it that is a
#: rounding error.
PROBE, ROUNDING = 1e-4, 1e-6


class Assessment(NamedTuple):
    """The point at which the search ended, its status, and the reason if that is not a success."""

    at: Evaluation
    status: Status
    reason: str
    #: ½ ∇ᵀH⁻¹∇, the decrease that one more Newton step predicts.
    newton_decrement: float | None


def assess_mixture(
    mixture: Mixture, problem: Problem, found: Solution, session: Session, *, tol: float, individuals: float
) -> Assessment:
    """The assessment of a point with a small gradient, by Newton steps from it; `individuals` is the sum of weights.

    It does not depend on how the point was reached, so that all searches that lead to one maximum, or to the same
    optimum at infinity, get the same status.
    """
    if found.status in (Status.MAX_STEPS, Status.INTERRUPTED) or not np.isfinite(found.at.loss):
        return Assessment(found.at, found.status, "Raise `max_steps`.", None)
    options = _observed_options(mixture, problem, found.at.x, individuals)
    at, curvature, changes = _extra_newton_steps(options, mixture, problem, found.at, session)
    redundant = _redundant_type(mixture, problem, at.x, individuals)
    sizes = [change.max() for change in changes]
    unidentified = _changes(options, mixture, problem, at.x, at.x + PROBE * curvature.unidentified)
    status, reason = Status.UNBOUNDED, ""
    if redundant is not None:
        reason = _redundancy(mixture, at.x, redundant, individuals)
    elif len(sizes) > 2 and min(sizes) > DIVERGING_CHANGE:
        reason = _divergence(int(changes[-1].argmax()))
    elif sizes[-1] > CONVERGED_CHANGE:
        status, reason = Status.STALLED, "Newton's method does not converge: raise `num_starts`, or pass `l2=`."
    elif curvature.least < -SADDLE:
        status, reason = Status.STALLED, "It is at a saddle point of the likelihood: raise `num_starts`."
    elif unidentified.max() > ROUNDING:
        reason = _divergence(int(unidentified.argmax()))
    elif largest(at.gradient, np.asarray(problem.scale)) <= tol:
        status = Status.CONVERGED
    else:
        status, reason = found.status, "" if found.status.success else "Raise `num_starts`, or pass `l2=`."
    return Assessment(at, status, reason, -float(at.gradient @ curvature.step) / 2)


def _divergence(g: int) -> str:
    return f"Type {g + 1} is perfectly consistent in a choice, so its parameters grow without bound: pass `l2=`."


def _redundancy(mixture: Mixture, x: Float[np.ndarray, " P"], types: tuple[int, int], individuals: float) -> str:
    g, other = types
    share = mixture.shares(x)[g]
    size = f"of share {share:.2g} ({share * individuals:.2g} of {individuals:g} individuals)"
    return f"Type {g + 1}, {size}, adds nothing to the likelihood beside type {other + 1}: fit fewer types."


class Curvature(NamedTuple):
    """Newton's step at a point, and what the Hessian says about other directions."""

    #: Newton's step, along the identified directions.
    step: Float[np.ndarray, " P"]
    #: The least eigenvalue, relative to the largest.
    least: float
    #: A direction in the space of those that are not identified.
    unidentified: Float[np.ndarray, " P"]


def _curvature(problem: Problem, at: Evaluation) -> Curvature:
    sizes, axes = np.linalg.eigh(problem.hessian(at))
    top = max(np.abs(sizes).max(initial=0.0), 1e-300)
    known = np.abs(sizes) > IDENTIFIED * top
    step = -axes[:, known] @ ((axes[:, known].T @ at.gradient) / sizes[known])
    # A random combination of the others changes whatever any of them changes.
    other = axes[:, ~known] @ np.random.default_rng(0).normal(size=np.count_nonzero(~known))
    return Curvature(step, float(sizes.min(initial=0.0) / top), other / max(np.linalg.norm(other), 1.0))


def _extra_newton_steps(
    options: "ObservedOptions", mixture: Mixture, problem: Problem, at: Evaluation, session: Session
) -> tuple[Evaluation, Curvature, list[Float[np.ndarray, " G"]]]:
    """The point after Newton steps to convergence (or `EXTRA_STEPS`), its curvature, and the changes by each step."""
    curvature = _curvature(problem, at)
    changes = [_changes(options, mixture, problem, at.x, at.x + curvature.step)]
    while changes[-1].max() > CONVERGED_CHANGE and len(changes) <= EXTRA_STEPS:
        new = problem.evaluate(at.x + curvature.step, at.warm_starts)
        if not new.loss <= at.loss + 1e-13 * abs(at.loss):
            break
        at = new
        session.record([minimisation_iterate(problem, at)])
        curvature = _curvature(problem, at)
        changes.append(_changes(options, mixture, problem, at.x, at.x + curvature.step))
    return at, curvature, changes


def _redundant_type(
    mixture: Mixture, problem: Problem, x: Float[np.ndarray, " P"], individuals: float
) -> tuple[int, int] | None:
    """The rarest redundant type, and the type that could take its share: it is empty, or acts as the other. Or None."""
    joint, log_share = np.asarray(joint_at(mixture, problem, jnp.asarray(x))), mixture.log_shares(x)
    weights = np.asarray(mixture.weights) * individuals
    for g in reversed(range(mixture.num_types)):
        for other in (h for h in range(mixture.num_types) if h != g):
            without = joint.copy()
            without[:, g] = joint[:, other] - log_share[other] + log_share[g]
            if weights @ (logsumexp(joint, axis=1) - logsumexp(without, axis=1)) < REDUNDANT_LOSS:
                return g, other
    return None


class ObservedOptions(NamedTuple):
    """All available choices in the states that were observed, and which types are expected to choose there."""

    likelihood: Likelihood
    types: Bool[np.ndarray, "G T M"]


def _observed_options(
    mixture: Mixture, problem: Problem, x: Float[np.ndarray, " P"], individuals: float
) -> ObservedOptions:
    observed, mdp = mixture.likelihood, mixture.likelihood.mdp
    owner = mdp.state_of_row
    posterior = softmax(np.asarray(joint_at(mixture, problem, jnp.asarray(x))), axis=1)
    shape = (mixture.num_types, observed.states.shape[0], mdp.num_states)
    visits = np.zeros(shape)
    states, time = owner[np.asarray(observed.states)], np.arange(shape[1])[:, None]
    for g in range(mixture.num_types):
        np.add.at(visits[g], (time, states), individuals * mixture.grid(posterior[:, g]))
    time, rows = np.nonzero((visits.sum(axis=0) > 0)[:, owner])
    index, column = np.nonzero(np.asarray(mdp.available)[rows])
    choices = group_choices(mdp, time[index], rows[index], column, np.ones(len(index)))
    types = visits[:, np.arange(shape[1])[:, None], owner[choices.states]] >= MIN_CHOICES
    return ObservedOptions(likelihood_of(mdp, observed.folded, choices), types & (choices.weights > 0))


def _changes(
    options: ObservedOptions,
    mixture: Mixture,
    problem: Problem,
    x: Float[np.ndarray, " P"],
    after: Float[np.ndarray, " P"],
) -> Float[np.ndarray, " G"]:
    """For each type, the largest change of its log policy in observed states, or of its log share."""
    thetas = (problem.flattening.unflatten(jnp.asarray(at) / problem.scale)[0] for at in (x, after))
    before, then = (np.asarray(_log_policies(options.likelihood, mixture.flattening, theta)) for theta in thetas)
    by_policy = np.where(options.types, np.abs(then - before), 0.0).max(axis=(1, 2), initial=0.0)
    by_share = np.abs(mixture.log_shares(after) - mixture.log_shares(x))
    changes = np.maximum(by_policy, by_share)
    return np.where(np.isfinite(changes), changes, np.inf)


@eqx.filter_jit
def _log_policies(likelihood: Likelihood, flattening: Flattening, theta: Float[Array, "G K"]) -> Float[Array, "G T M"]:
    return jax.vmap(lambda row: likelihood.log_policy(flattening.unflatten(row))[0])(theta)
