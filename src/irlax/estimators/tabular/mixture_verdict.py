"""Whether a mixture is at a maximum of its likelihood, has none that is finite, or has a type too many."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp, softmax

from irlax.estimators.tabular.expert import grouped
from irlax.estimators.tabular.mixture_model import Mixture, joint_at
from irlax.estimators.tabular.objectives import Likelihood
from irlax.estimators.tabular.observed_likelihood import likelihood_of
from irlax.estimators.tabular.problem import Evaluation, Flattening, Problem, largest
from irlax.estimators.tabular.solvers import Solution
from irlax.estimators.tabular.solvers.solver import minimisation_iterate
from irlax.iteration import Session
from irlax.status import Status
from irlax.typing import Array, Bool, Float

#: A type whose share could go to another type for less than this of log likelihood, in all, is one too many. For a type
#: that e individuals are expected to be of, that is e²/2 at most: it holds below a thousandth of an individual.
WORTHLESS = 1e-6
#: Directions with less curvature than this share of the largest are not seen by the data, as far as rounding can tell.
SEEN = 1e-11
#: Curvature below minus this share of the largest is not that of a maximum.
SADDLE = 1e-7
#: A Newton step that changes no log policy and no log share by more is the end of the way.
SETTLED = 1e-3
#: Towards an optimum at infinity, where slope and curvature fall alike, each Newton step changes some log policy by
#: about 1, for ever; towards a finite one the second step is far shorter than the first.
FOR_EVER = 0.3
#: Newton steps beyond the tolerance.
FURTHER = 8
#: A type that is expected to be seen this often in a state acts there; what it would do elsewhere is not judged.
OFTEN = 1e-3
#: The length of a step along directions that the data do not see, and the change of a log policy that is none.
PROBE, UNMOVED = 1e-4, 1e-6


class Verdict(NamedTuple):
    """Where the search ended, how, and what is wrong, if anything."""

    at: Evaluation
    status: Status
    reason: str
    #: ½ ∇ᵀH⁻¹∇, what one more Newton step would gain.
    newton_decrement: float | None


def verdict(
    mixture: Mixture, problem: Problem, found: Solution, session: Session, *, tol: float, individuals: float
) -> Verdict:
    """Assess a point with a small gradient by Newton steps beyond it; `individuals` is the sum of their weights.

    Nothing depends on how the point was reached: all that lead to one maximum, or to one infinity, are assessed alike.
    """
    if found.status in (Status.MAX_STEPS, Status.INTERRUPTED) or not np.isfinite(found.at.loss):
        return Verdict(found.at, found.status, "Raise `max_steps`.", None)
    acts = _acting(mixture, problem, found.at.x, individuals)
    at, here, changes = _further(acts, mixture, problem, found.at, session)
    spare = _spare(mixture, problem, at.x, individuals)
    sizes = [change.max() for change in changes]
    flat = _changes(acts, mixture, problem, at.x, at.x + PROBE * here.unseen)
    status, reason = Status.UNBOUNDED, ""
    if spare is not None:
        reason = _one_too_many(mixture, at.x, spare, individuals)
    elif len(sizes) > 2 and min(sizes) > FOR_EVER:
        reason = _consistent(int(changes[-1].argmax()))
    elif sizes[-1] > SETTLED:
        status, reason = Status.STALLED, "Newton's method does not settle: raise `num_starts`, or pass `l2=`."
    elif here.least < -SADDLE:
        status, reason = Status.STALLED, "It is at a saddle point of the likelihood: raise `num_starts`."
    elif flat.max() > UNMOVED:
        reason = _consistent(int(flat.argmax()))
    elif largest(at.gradient, np.asarray(problem.scale)) <= tol:
        status = Status.CONVERGED
    else:
        status, reason = found.status, "" if found.status.success else "Raise `num_starts`, or pass `l2=`."
    return Verdict(at, status, reason, -float(at.gradient @ here.step) / 2)


def _consistent(g: int) -> str:
    return f"Type {g + 1} is perfectly consistent in a choice, so its parameters grow for ever: pass `l2=`."


def _one_too_many(mixture: Mixture, x: Float[np.ndarray, " P"], spare: tuple[int, int], individuals: float) -> str:
    g, other = spare
    share = mixture.shares(x)[g]
    many = f"of share {share:.2g} ({share * individuals:.2g} of {individuals:g} individuals)"
    return f"Type {g + 1}, {many}, adds nothing to the likelihood beside type {other + 1}: fit fewer types."


class Curvature(NamedTuple):
    """What the Hessian at a point says."""

    #: Newton's step, on the directions that the data see.
    step: Float[np.ndarray, " P"]
    #: The least eigenvalue, relative to the largest.
    least: float
    #: A direction within those that the data do not see.
    unseen: Float[np.ndarray, " P"]


def _curvature(problem: Problem, at: Evaluation) -> Curvature:
    sizes, axes = np.linalg.eigh(problem.hessian(at))
    top = max(np.abs(sizes).max(initial=0.0), 1e-300)
    seen = np.abs(sizes) > SEEN * top
    step = -axes[:, seen] @ ((axes[:, seen].T @ at.gradient) / sizes[seen])
    # One direction in all that are unseen: what any of them moves, it moves.
    unseen = axes[:, ~seen] @ np.random.default_rng(0).normal(size=np.count_nonzero(~seen))
    return Curvature(step, float(sizes.min(initial=0.0) / top), unseen / max(np.linalg.norm(unseen), 1.0))


def _further(
    acts: "Acting", mixture: Mixture, problem: Problem, at: Evaluation, session: Session
) -> tuple[Evaluation, Curvature, list[Float[np.ndarray, " G"]]]:
    """Newton's method until it settles, or for some steps; the curvature at the end, and what each step changed."""
    here = _curvature(problem, at)
    changes = [_changes(acts, mixture, problem, at.x, at.x + here.step)]
    while changes[-1].max() > SETTLED and len(changes) <= FURTHER:
        new = problem.evaluate(at.x + here.step, at.warm_starts)
        if not new.loss <= at.loss + 1e-13 * abs(at.loss):
            break
        at = new
        session.record([minimisation_iterate(problem, at)])
        here = _curvature(problem, at)
        changes.append(_changes(acts, mixture, problem, at.x, at.x + here.step))
    return at, here, changes


def _spare(
    mixture: Mixture, problem: Problem, x: Float[np.ndarray, " P"], individuals: float
) -> tuple[int, int] | None:
    """A type, the rarest first, and one that could have its share at no cost: it is empty, or the other's twin."""
    joint, log_share = np.asarray(joint_at(mixture, problem, jnp.asarray(x))), mixture.log_shares(x)
    weights = np.asarray(mixture.weights) * individuals
    for g in reversed(range(mixture.num_types)):
        for other in (h for h in range(mixture.num_types) if h != g):
            without = joint.copy()
            without[:, g] = joint[:, other] - log_share[other] + log_share[g]
            if weights @ (logsumexp(joint, axis=1) - logsumexp(without, axis=1)) < WORTHLESS:
                return g, other
    return None


class Acting(NamedTuple):
    """All choices that individuals had where they were seen, and which types act there."""

    options: Likelihood
    types: Bool[np.ndarray, "G T M"]


def _acting(mixture: Mixture, problem: Problem, x: Float[np.ndarray, " P"], individuals: float) -> Acting:
    seen, mdp = mixture.likelihood, mixture.likelihood.mdp
    owner = mdp.state_of_row
    posterior = softmax(np.asarray(joint_at(mixture, problem, jnp.asarray(x))), axis=1)
    shape = (mixture.num_types, seen.states.shape[0], mdp.num_states)
    visits = np.zeros(shape)
    states, time = owner[np.asarray(seen.states)], np.arange(shape[1])[:, None]
    for g in range(mixture.num_types):
        np.add.at(visits[g], (time, states), individuals * mixture.grid(posterior[:, g]))
    time, rows = np.nonzero((visits.sum(axis=0) > 0)[:, owner])
    place, column = np.nonzero(np.asarray(mdp.available)[rows])
    cells = grouped(mdp, time[place], rows[place], column, np.ones(len(place)))
    types = visits[:, np.arange(shape[1])[:, None], owner[cells.states]] >= OFTEN
    return Acting(likelihood_of(mdp, seen.folded, cells), types & (cells.weights > 0))


def _changes(
    acts: Acting, mixture: Mixture, problem: Problem, x: Float[np.ndarray, " P"], after: Float[np.ndarray, " P"]
) -> Float[np.ndarray, " G"]:
    """The largest change of a log policy where a type acts, or of its log share, by type."""
    thetas = (problem.flattening.unflatten(jnp.asarray(at) / problem.scale)[0] for at in (x, after))
    before, then = (np.asarray(_log_policies(acts.options, mixture.flattening, theta)) for theta in thetas)
    moved = np.where(acts.types, np.abs(then - before), 0.0).max(axis=(1, 2), initial=0.0)
    shared = np.abs(mixture.log_shares(after) - mixture.log_shares(x))
    changes = np.maximum(moved, shared)
    return np.where(np.isfinite(changes), changes, np.inf)


@eqx.filter_jit
def _log_policies(options: Likelihood, flattening: Flattening, theta: Float[Array, "G K"]) -> Float[Array, "G T M"]:
    return jax.vmap(lambda row: options.log_policy(flattening.unflatten(row))[0])(theta)
