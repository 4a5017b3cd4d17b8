"""Whether an objective has a finite optimum, decided apart from the solver that looked for one.

For feature matching and the path model, with rewards that are linear in their parameters, the answer is exact: the
demonstrator's features lie in the relative interior of what policies can do, or they do not (`polytope`). What is cheap
is tried first: a feature that the demonstrator avoids altogether, and a policy that does everything. Then comes the
linear programme, or, where that would be large, a search for a separating direction by gradients, each of which is the
difference between some policy's features and the demonstrator's. (The gradients that a solver met on its way do not
serve: far out, what it would take to tell them from the boundary is lost in rounding.)

For likelihoods, which need not be convex, an optimum exists if the point that was found is one: the curvature is
positive wherever parameters matter at all, and one more Newton step changes no policy.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog

from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.objectives import FeatureMatching, Likelihood, PathMatching
from irlax.estimators.tabular.polytope import (
    SMALLEST_SHARE,
    Features,
    Options,
    Planned,
    flows,
    num_cells,
    separating_direction,
    share_of_chance,
    sp,
)
from irlax.estimators.tabular.problem import Evaluation, Problem
from irlax.estimators.tabular.solvers import DENSE_HESSIAN
from irlax.estimators.tabular.undiscounted import start_where_values_exist
from irlax.planning import soft_plan
from irlax.rewards import AbstractReward, TabularReward
from irlax.typing import Bool, Float

#: Linear programmes of up to so many cells take less than a second; of up to so many, less than a minute.
SMALL, LARGE = 2_000, 20_000
#: Features of cells with more numbers than this (400 MB) are not looked at one by one.
MANY_NUMBERS = 50_000_000
#: How far to look along a direction, in units of the features: near, and where policies are all but deterministic.
DISTANCES = (1.0, 10.0, 100.0, 1e4, 1e8)
#: Errors of planning do not blur the direction of a gradient, or the sign of a slope, of this share of the first one.
CLEARLY = 1e-5
#: A Newton step that changes no log probability by more than this ends at an optimum; towards one at infinity it is 1.
STILL = 0.1


class Search(NamedTuple):
    """What was minimised, for whom, and where the solver stopped."""

    problem: Problem
    rewards: tuple[AbstractReward, ...]
    experts: tuple[Expert, ...]
    at: Evaluation
    #: Whether the gradient is within the tolerance.
    arrived: bool

    @property
    def noise(self) -> float:
        """Gradients and curvature this much smaller than the largest are rounding, of values planned to 1e-10."""
        # In single precision what is left of differences is less than the resolution of the loss.
        return 1e-10 if self.problem.resolution < 1e-8 else 1e-4


def optimum_exists(search: Search) -> bool | None:
    """Whether the unpenalised objective has a finite optimum; None where that could not be decided."""
    if not all(reward.is_linear for reward in search.rewards):
        return None
    objectives = search.problem.objectives
    if all(isinstance(objective, (FeatureMatching, PathMatching)) for objective in objectives):
        return _matching_exists(search)
    if all(isinstance(objective, Likelihood) for objective in objectives):
        return _likelihood_exists(search)
    return None


def _matching_exists(search: Search) -> bool | None:
    if all(expert.does_everything for expert in search.experts):
        return True
    few, size = len(search.at.x) <= DENSE_HESSIAN, _num_cells(search)
    features = [_features(objective, search) for objective in _planned(search)] if _fits(search) else None
    if features is not None and _avoids_a_feature(search, features):
        return False
    if features is not None and size <= SMALL:
        return _by_linear_programme(search, features)
    if few:
        return _by_gradients(search)
    return _by_linear_programme(search, features) if features is not None and size <= LARGE else None


def _fits(search: Search) -> bool:
    """Whether the features of all cells can be held in memory."""
    tables = sum(math.prod(expert.mdp.table_shape) for expert in search.experts)
    return tables * (1 if isinstance(search.rewards[0], TabularReward) else len(search.at.x)) <= MANY_NUMBERS


def _num_cells(search: Search) -> int:
    """Of the linear programme, at most."""
    return sum(num_cells(objective.mdp, path=isinstance(objective, PathMatching)) for objective in _planned(search))


def _planned(search: Search) -> list[Planned]:
    return [objective for objective in search.problem.objectives if isinstance(objective, Planned)]


def _features(objective: Planned, search: Search) -> Features:
    return Features.of(objective, search.problem.flattening, len(search.at.x))


def _demonstrated(search: Search, features: list[Features]) -> Float[np.ndarray, " K"]:
    """The demonstrator's features, over all MDPs by their shares."""
    total = np.zeros(len(search.at.x))
    for objective, each, share in zip(_planned(search), features, np.asarray(search.problem.shares), strict=True):
        assert not isinstance(objective, Likelihood)
        total += share * (each.plain.T @ np.asarray(objective.visits).T.ravel())
        if each.ahead is not None:
            assert isinstance(objective, PathMatching)
            total += share * (each.ahead.T @ np.asarray(objective.transitions).ravel())
    return total


def _avoids_a_feature(search: Search, features: list[Features]) -> bool:
    """Whether the demonstrator has none at all of a feature that is never negative (or never positive), and others do.

    A reward against that feature alone is then one for which the demonstrator is optimal.
    """
    low, high = np.zeros(len(search.at.x)), np.zeros(len(search.at.x))
    for objective, each in zip(_planned(search), features, strict=True):
        met = sp.csr_array(each.plain[np.unique(Options.of(objective.mdp, path=False).cell)])
        for columns in (met, each.ahead):
            if columns is not None:
                low = np.minimum(low, columns.min(axis=0).toarray().ravel())
                high = np.maximum(high, columns.max(axis=0).toarray().ravel())
    demonstrated = _demonstrated(search, features)
    # The gradient is what the model has more than the demonstrator.
    modelled = search.problem.raw_gradient(search.at.gradient) + demonstrated
    return bool((((low >= 0) | (high <= 0)) & (demonstrated == 0) & (np.abs(modelled) > 0)).any())


def _by_gradients(search: Search) -> bool | None:
    """Look along directions in which every policy met so far has more of something than the demonstrator.

    Far enough along one the sign must turn, or the demonstrator is optimal for that direction's reward. If there is no
    such direction, a mixture of the policies that were met has the demonstrator's features; a moderate one, which does
    everything often enough to be seen, is part of it, so that it lies in the relative interior.
    """
    problem, num = search.problem, len(search.at.x)
    moderate = problem.evaluate(start_where_values_exist(problem, np.zeros(num), search.rewards))
    size = float(np.linalg.norm(moderate.gradient))
    if size == 0:
        return True
    met = [moderate.gradient / size]
    for _ in range(20 + 10 * num):
        direction = _away_from(met)
        if direction is None:
            return True
        turned = _turned(search, moderate, direction)
        if turned @ direction > -1000 * search.noise * size:
            return False
        length = float(np.linalg.norm(turned))
        if length < CLEARLY * size:
            return None
        met.append(turned / length)
    return None


def _away_from(gradients: list[Float[np.ndarray, " K"]]) -> Float[np.ndarray, " K"] | None:
    """A direction d with ∇·d ≥ 0 for all of them and > 0 for the first; None if there is none (Farkas)."""
    first, *others = gradients
    if not others:
        return first / np.abs(first).max()
    rows = np.array(others)
    # To no more digits than planning gives to gradients, or rounding would leave no direction at all.
    found = linprog(-first, A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1))
    if found.status != 0 or -found.fun <= 1e-6:
        return None
    # What is all but level is made so: of a direction along the boundary more digits are needed than that.
    level = rows[np.abs(rows @ found.x) < 1e-6]
    return found.x - np.linalg.lstsq(level, level @ found.x)[0] if len(level) else found.x


def _turned(search: Search, start: Evaluation, direction: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """The gradient where its sign along the direction has clearly turned, or where it comes closest to that."""
    problem, clearly = search.problem, -CLEARLY * float(np.linalg.norm(start.gradient))
    near, wanted, best = 0.0, list(DISTANCES), start.gradient
    while wanted and best @ direction > clearly:
        far = wanted.pop(0)
        new = problem.evaluate(start.x - far * direction, start.warm_starts)
        if not (np.isfinite(new.loss) and np.isfinite(new.gradient).all()):
            # At γ = 1 values exist up to some distance only, and grow without bound before it: the sign turns there.
            wanted = [(near + far) / 2] if far - near > 1e-9 * far else []
            continue
        near = far
        best = min(best, new.gradient, key=lambda gradient: gradient @ direction)
    return best


def _by_linear_programme(search: Search, features: list[Features]) -> bool:
    parts = []
    for objective, each, share in zip(_planned(search), features, np.asarray(search.problem.shares), strict=True):
        mdp = objective.mdp
        options = Options.of(mdp, path=isinstance(objective, PathMatching))
        starts = np.zeros((mdp.horizon or 1, mdp.num_states))
        starts[0] = np.asarray(mdp.initial)
        paths = flows(mdp, options, starts)
        parts.append((paths, sp.csr_array(each.of_options(mdp, options)[paths.option]), float(share)))
    share = share_of_chance(parts, _demonstrated(search, features))
    return share is not None and share > SMALLEST_SHARE


def _likelihood_exists(search: Search) -> bool | None:
    few, size = len(search.at.x) <= DENSE_HESSIAN, _num_cells(search)
    feasible = size <= (SMALL if few else LARGE)
    direction = _separated(search) if feasible else None
    if direction is not None and _leads_down(search, direction):
        return False
    if not search.arrived:
        return None
    if few:
        return _is_an_optimum(search)
    return True if feasible else None


def _separated(search: Search) -> Float[np.ndarray, " K"] | None:
    parts = []
    problem = search.problem
    for objective in problem.objectives:
        assert isinstance(objective, Likelihood)
        mdp, options = objective.mdp, Options.of(objective.mdp, path=False)
        seen = _observed(objective)
        owner = mdp.state_of_row
        starts = np.zeros((len(seen), mdp.num_states))
        time, row = np.nonzero(seen.any(axis=-1))
        starts[time, owner[row]] = 1.0
        paths = flows(mdp, options, starts)
        features = _features(objective, search).of_options(mdp, options)
        observed = seen.reshape(len(seen), -1)[paths.time, options.cell[paths.option]]
        parts.append((paths, sp.csr_array(features[paths.option]), observed))
    return separating_direction(parts, np.asarray(problem.scale))


def _observed(objective: Likelihood) -> Bool[np.ndarray, "T R W"]:
    """Which choices were observed, at which time (one for all of an endless problem)."""
    weights = np.asarray(objective.weights)
    seen = np.zeros((len(weights), *objective.mdp.table_shape), bool)
    time, column = np.nonzero(weights > 0)
    seen[time, np.asarray(objective.states)[time, column], np.asarray(objective.actions)[time, column]] = True
    return seen


def _leads_down(search: Search, direction: Float[np.ndarray, " K"]) -> bool:
    """Whether the loss far along a direction is no higher than where the solver stopped."""
    at, length = search.at, np.abs(direction).max()
    for far in DISTANCES[1:]:
        beyond = search.problem.evaluate(at.x + far / length * direction, at.warm_starts)
        if not np.isfinite(beyond.loss):
            return False
        if beyond.loss <= at.loss + 1e-13 * max(1.0, abs(at.loss)):
            return True
    return False


def _is_an_optimum(search: Search) -> bool | None:
    """Whether the curvature is positive where parameters matter, and one more Newton step changes no policy."""
    problem, at = search.problem, search.at
    curvature, axes = np.linalg.eigh(problem.hessian(at))
    # Losses of an episode are of order one: a curvature that is nothing but rounding is small next to that.
    most = max(np.abs(curvature).max(initial=0.0), 1e-4)
    flat_ = curvature < search.noise * most
    if (curvature < -100 * search.noise * most).any():
        return None
    if flat_.any() and not _without_effect(search, axes[:, flat_]):
        return False
    step = -axes[:, ~flat_] @ ((axes[:, ~flat_].T @ at.gradient) / curvature[~flat_])
    if _policy_change(search, step) <= STILL:
        return True
    return False if _leads_down(search, step) else None


def _without_effect(search: Search, axes: Float[np.ndarray, "K n"]) -> bool:
    """Whether the loss is the same wherever one goes in a space of directions that curvature does not show.

    If it is not, curvature has vanished on the way: back from there the loss rises.
    """
    at = search.at
    mixed = axes @ np.random.default_rng(0).choice([-1.0, 1.0], axes.shape[1])
    for far in (-30.0, 30.0):
        beyond = search.problem.evaluate(at.x + far / np.abs(mixed).max() * mixed, at.warm_starts)
        if not abs(beyond.loss - at.loss) <= 10 * search.noise * max(1.0, abs(at.loss)):
            return False
    return True


def _policy_change(search: Search, step: Float[np.ndarray, " K"]) -> float:
    """The largest change of any log π by a step, over all MDPs."""
    problem, largest = search.problem, 0.0
    for reward, expert in zip(search.rewards, search.experts, strict=True):
        before, after = (
            soft_plan(
                expert.mdp,
                np.asarray(reward.fold(expert.mdp)(problem.flattening.unflatten(jnp.asarray(x / problem.scale)))).T,
            ).log_policy
            for x in (search.at.x, search.at.x + step)
        )
        exists = np.isfinite(before)
        largest = max(largest, float(np.abs(np.where(exists, after, 0) - np.where(exists, before, 0)).max()))
    return largest
