"""Assessment of groups: at a maximum of their likelihood, without a finite maximum, or with a redundant group."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from irlax.estimators.mixed.cells import AvailableChoices
from irlax.estimators.mixed.hidden import log_likelihoods
from irlax.estimators.mixed.hidden_problem import HiddenProblem
from irlax.estimators.tabular.problem import AbstractProblem, Evaluation, largest
from irlax.estimators.tabular.solvers import DENSE_HESSIAN, Solution
from irlax.estimators.tabular.solvers.saddle import SADDLE
from irlax.estimators.tabular.solvers.solver import minimisation_iterate
from irlax.iteration import Session
from irlax.status import Status
from irlax.typing import Float

#: A group is redundant if another group in its place costs less than this of the total log likelihood. If e individuals
#: are expected to be of a type, the cost is at most e²/2: that is so below a thousandth of an individual.
REDUNDANT_LOSS = 1e-6
#: Directions with less curvature than this share of the largest are not identified, up to rounding.
IDENTIFIED = 1e-11
#: Newton's method has converged if its step changes no log policy and no log probability by more than this.
CONVERGED_CHANGE = 1e-3
#: Towards an optimum at infinity slope and curvature vanish at the same rate, and every Newton step changes some log
#: policy by about 1; towards a finite optimum the second step is far shorter than the first.
DIVERGING_CHANGE = 0.3
#: The most Newton steps beyond the tolerance.
EXTRA_STEPS = 8
#: The length of a step along directions that are not identified, and the largest change of a log policy by it that is a
#: rounding error.
PROBE, ROUNDING = 1e-4, 1e-6


class Words(NamedTuple):
    """How messages name a group and the units."""

    group: str
    units: str


class Assessment(NamedTuple):
    """The point at which the search ended, its status, and the reason if that is not a success."""

    at: Evaluation
    status: Status
    reason: str
    #: ½ ∇ᵀH⁻¹∇, the decrease that one more Newton step predicts.
    newton_decrement: float | None


def assess_groups(problem: HiddenProblem, found: Solution, session: Session, *, tol: float, words: Words) -> Assessment:
    """The assessment of a point with a small gradient, by Newton steps from it.

    It does not depend on how the point was reached, so that all searches that lead to one maximum, or to the same
    optimum at infinity, get the same status.
    """
    if found.status in (Status.MAX_STEPS, Status.INTERRUPTED) or not np.isfinite(found.at.loss):
        return Assessment(found.at, found.status, "Raise `max_steps`.", None)
    if len(found.at.x) > DENSE_HESSIAN:
        # The matrix of curvature would take longer than the fit, so that only the gradient is assessed.
        redundant = _redundant_group(problem, found.at)
        if redundant is not None:
            return Assessment(found.at, Status.UNBOUNDED, _redundancy(problem, found.at, redundant, words), None)
        reason = "" if found.status.success else "Raise `num_starts` or `max_steps`, or pass `l2=`."
        return Assessment(found.at, found.status, reason, None)
    options = problem.cells.available(problem.expected(found.at).counts * problem.total)
    at, curvature, changes = _extra_newton_steps(options, problem, found.at, session)
    redundant = _redundant_group(problem, at)
    sizes = [change.max() for change in changes]
    unidentified = _changes(options, problem, at, at.x + PROBE * curvature.unidentified)
    status, reason = Status.UNBOUNDED, ""
    if redundant is not None:
        reason = _redundancy(problem, at, redundant, words)
    elif len(sizes) > 2 and min(sizes) > DIVERGING_CHANGE:
        reason = _divergence(int(changes[-1].argmax()), words)
    elif sizes[-1] > CONVERGED_CHANGE:
        status, reason = Status.STALLED, "Newton's method does not converge: raise `num_starts`, or pass `l2=`."
    elif curvature.least < -SADDLE:
        status, reason = Status.STALLED, "It is at a saddle point of the likelihood: raise `num_starts`."
    elif unidentified.max() > ROUNDING:
        reason = _divergence(int(unidentified.argmax()), words)
    elif largest(at.gradient, np.asarray(problem.to_problem().scale)) <= tol:
        status = Status.CONVERGED
    else:
        status, reason = found.status, "" if found.status.success else "Raise `num_starts`, or pass `l2=`."
    return Assessment(at, status, reason, -float(at.gradient @ curvature.step) / 2)


def _divergence(g: int, words: Words) -> str:
    return (
        f"{words.group.capitalize()} {g + 1} is perfectly consistent in a choice, so its parameters grow without "
        f"bound: pass `l2=`."
    )


def _redundancy(problem: HiddenProblem, at: Evaluation, groups: tuple[int, int], words: Words) -> str:
    g, other = groups
    share = problem.shares(at)[g]
    size = f"of share {share:.2g} ({share * problem.total:.2g} of {problem.total:g} {words.units})"
    return (
        f"{words.group.capitalize()} {g + 1}, {size}, adds nothing to the likelihood beside {words.group} "
        f"{other + 1}: fit fewer {words.group}s."
    )


class Curvature(NamedTuple):
    """Newton's step at a point, and what the Hessian says about other directions."""

    #: Newton's step, along the identified directions.
    step: Float[np.ndarray, " P"]
    #: The least eigenvalue, relative to the largest.
    least: float
    #: A direction in the space of those that are not identified.
    unidentified: Float[np.ndarray, " P"]


def _curvature(problem: AbstractProblem, at: Evaluation) -> Curvature:
    sizes, axes = np.linalg.eigh(problem.hessian(at))
    top = max(np.abs(sizes).max(initial=0.0), 1e-300)
    known = np.abs(sizes) > IDENTIFIED * top
    step = -axes[:, known] @ ((axes[:, known].T @ at.gradient) / sizes[known])
    # A random combination of the others changes whatever any of them changes.
    other = axes[:, ~known] @ np.random.default_rng(0).normal(size=np.count_nonzero(~known))
    return Curvature(step, float(sizes.min(initial=0.0) / top), other / max(np.linalg.norm(other), 1.0))


def _extra_newton_steps(
    options: AvailableChoices, groups: HiddenProblem, at: Evaluation, session: Session
) -> tuple[Evaluation, Curvature, list[Float[np.ndarray, " G"]]]:
    """The point after Newton steps to convergence (or `EXTRA_STEPS`), its curvature, and the changes by each step."""
    problem = groups.to_problem()
    curvature = _curvature(problem, at)
    changes = [_changes(options, groups, at, at.x + curvature.step)]
    while changes[-1].max() > CONVERGED_CHANGE and len(changes) <= EXTRA_STEPS:
        new = problem.evaluate(at.x + curvature.step, at.warm_starts)
        if not new.loss <= at.loss + 1e-13 * abs(at.loss):
            break
        at = new
        session.record([minimisation_iterate(problem, at)])
        curvature = _curvature(problem, at)
        changes.append(_changes(options, groups, at, at.x + curvature.step))
    return at, curvature, changes


def _redundant_group(problem: HiddenProblem, at: Evaluation) -> tuple[int, int] | None:
    """The rarest redundant group, and the group that could take its place; None if all are needed.

    A redundant group is empty, or acts as the other.
    """
    choices, rest = np.asarray(problem.expected(at).choices), problem.rest(at.x)
    weights = np.asarray(problem.loss.weights) * problem.total
    likelihoods = np.asarray(log_likelihoods(problem.loss, jnp.asarray(choices), rest))
    for g in reversed(range(problem.num_groups)):
        for other in (h for h in range(problem.num_groups) if h != g):
            replaced = choices.copy()
            replaced[g] = choices[other]
            without = np.asarray(log_likelihoods(problem.loss, jnp.asarray(replaced), rest))
            if weights @ (likelihoods - without) < REDUNDANT_LOSS:
                return g, other
    return None


def _changes(
    options: AvailableChoices, problem: HiddenProblem, before: Evaluation, after: Float[np.ndarray, " P"]
) -> Float[np.ndarray, " G"]:
    """For each group, the largest change of its log policy in observed states, or of its log probabilities."""
    scale = np.asarray(problem.to_problem().scale)
    first, then = (options.log_policies((x / scale)[: problem.num_rewards]) for x in (before.x, after))
    with np.errstate(invalid="ignore"):
        # Equal where both are −∞.
        change = np.where(then == first, 0.0, np.abs(then - first))
    by_policy = np.where(options.used, change, 0.0).max(axis=1, initial=0.0)
    logs = [problem.hidden.log_probabilities(problem.rest(x)) for x in (before.x, after)]
    by_probability = np.abs(logs[1] - logs[0]).reshape(problem.num_groups, -1).max(axis=1)
    changes = np.maximum(by_policy, by_probability)
    return np.where(np.isfinite(changes), changes, np.inf)
