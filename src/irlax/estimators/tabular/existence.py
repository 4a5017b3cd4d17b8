"""Whether an objective has a finite optimum, decided independently of the solver's result.

For feature matching and the path model, with rewards that are linear in their parameters, the answer is exact: a finite
optimum exists if and only if the demonstrator's feature expectations lie in the relative interior of those that
policies can have (`polytope`). Cheap conditions are tested first: a feature that the demonstrator avoids completely,
and a policy under which every action has positive probability. Then comes the linear programme, or, if that would be
large, a search for a separating direction by gradients (`separation`).

For likelihoods, which need not be convex, an optimum exists if the solver's point is one: the curvature is positive in
all directions that have an effect, and one more Newton step changes no policy.
"""

import math

import numpy as np

from irlax.estimators.tabular.objectives import FeatureMatching, Likelihood, PathMatching
from irlax.estimators.tabular.polytope import (
    MIN_SHARE,
    Options,
    flows,
    num_cells,
    optimal_direction,
    uniform_share,
)
from irlax.estimators.tabular.reward_features import Features, Planned
from irlax.estimators.tabular.separation import DISTANCES, SolvedProblem, optimum_by_gradients
from irlax.estimators.tabular.solvers import DENSE_HESSIAN
from irlax.estimators.tabular.sparse import sp
from irlax.planning import soft_plan
from irlax.rewards import TabularReward
from irlax.rewards.reward import reward_at
from irlax.typing import Bool, Float

#: Linear programmes of up to this many cells take less than a second, and less than a minute.
SMALL, LARGE = 2_000, 20_000
#: Features of all cells with more numbers than this (400 MB) are not put into one matrix.
MAX_FEATURE_NUMBERS = 50_000_000
#: If a Newton step changes no log probability by more than this, the point is an optimum; towards an optimum at
#: infinity each step changes some log probability by about 1.
MAX_POLICY_CHANGE = 0.1


def optimum_exists(solved: SolvedProblem) -> bool | None:
    """Whether the unpenalised objective has a finite optimum; None where that could not be decided."""
    if not all(reward.is_linear for reward in solved.rewards):
        return None
    objectives = solved.problem.objectives
    if all(isinstance(objective, (FeatureMatching, PathMatching)) for objective in objectives):
        return _matching_exists(solved)
    if all(isinstance(objective, Likelihood) for objective in objectives):
        return _likelihood_exists(solved)
    return None


def _matching_exists(solved: SolvedProblem) -> bool | None:
    if all(expert.does_everything for expert in solved.experts):
        return True
    few, size = len(solved.at.x) <= DENSE_HESSIAN, _num_cells(solved)
    features = [_features(objective, solved) for objective in _planned(solved)] if _fits(solved) else None
    if features is not None and _avoids_a_feature(solved, features):
        return False
    if features is not None and size <= SMALL:
        return _by_linear_programme(solved, features)
    if few:
        return optimum_by_gradients(solved)
    return _by_linear_programme(solved, features) if features is not None and size <= LARGE else None


def _fits(solved: SolvedProblem) -> bool:
    """Whether the features of all cells are few enough for one matrix."""
    if any(expert.mdp.spans_processes for expert in solved.experts):
        return False
    tables = sum(math.prod(expert.mdp.table_shape) for expert in solved.experts)
    return tables * (1 if isinstance(solved.rewards[0], TabularReward) else len(solved.at.x)) <= MAX_FEATURE_NUMBERS


def _num_cells(solved: SolvedProblem) -> int:
    """An upper bound on the number of cells of the linear programme; beyond all limits if no process has all."""
    if any(expert.mdp.spans_processes for expert in solved.experts):
        return LARGE + 1
    return sum(num_cells(objective.mdp, path=isinstance(objective, PathMatching)) for objective in _planned(solved))


def _planned(solved: SolvedProblem) -> list[Planned]:
    return [objective for objective in solved.problem.objectives if isinstance(objective, Planned)]


def _features(objective: Planned, solved: SolvedProblem) -> Features:
    return Features.of(objective, solved.problem.flattening, len(solved.at.x))


def _demonstrated(solved: SolvedProblem, features: list[Features]) -> Float[np.ndarray, " K"]:
    """The demonstrator's feature expectations, averaged over all MDPs by their shares."""
    total = np.zeros(len(solved.at.x))
    for objective, each, share in zip(_planned(solved), features, np.asarray(solved.problem.shares), strict=True):
        assert not isinstance(objective, Likelihood)
        total += share * (each.by_cell.T @ np.asarray(objective.visits).T.ravel())
        if each.by_transition is not None:
            assert isinstance(objective, PathMatching)
            total += share * (each.by_transition.T @ np.asarray(objective.transitions).ravel())
    return total


def _avoids_a_feature(solved: SolvedProblem, features: list[Features]) -> bool:
    """Whether a feature that is never negative (or never positive) is 0 for the demonstrator, but not for the model.

    The demonstrator is then optimal for a reward that penalises that feature alone, so the optimum is at infinity.
    """
    low, high = np.zeros(len(solved.at.x)), np.zeros(len(solved.at.x))
    for objective, each in zip(_planned(solved), features, strict=True):
        reached = sp.csr_array(each.by_cell[np.unique(Options.of(objective.mdp, path=False).cell)])
        for columns in (reached, each.by_transition):
            if columns is not None:
                low = np.minimum(low, columns.min(axis=0).toarray().ravel())
                high = np.maximum(high, columns.max(axis=0).toarray().ravel())
    demonstrated = _demonstrated(solved, features)
    # The gradient is the model's feature expectations minus the demonstrator's.
    modelled = solved.problem.raw_gradient(solved.at.gradient) + demonstrated
    return bool((((low >= 0) | (high <= 0)) & (demonstrated == 0) & (np.abs(modelled) > 0)).any())


def _by_linear_programme(solved: SolvedProblem, features: list[Features]) -> bool:
    parts = []
    for objective, each, share in zip(_planned(solved), features, np.asarray(solved.problem.shares), strict=True):
        mdp = objective.mdp
        options = Options.of(mdp, path=isinstance(objective, PathMatching))
        starts = np.zeros((mdp.horizon or 1, mdp.num_states))
        starts[0] = np.asarray(mdp.initial)
        visits = flows(mdp, options, starts)
        parts.append((visits, sp.csr_array(each.of_options(mdp, options)[visits.option]), float(share)))
    share = uniform_share(parts, _demonstrated(solved, features))
    return share is not None and share > MIN_SHARE


def _likelihood_exists(solved: SolvedProblem) -> bool | None:
    few, size = len(solved.at.x) <= DENSE_HESSIAN, _num_cells(solved)
    feasible = size <= (SMALL if few else LARGE)
    direction = _optimal_direction(solved) if feasible else None
    if direction is not None and _falls_along(solved, direction):
        return False
    if not solved.within_tol:
        return None
    if few:
        return _is_an_optimum(solved)
    return True if feasible else None


def _optimal_direction(solved: SolvedProblem) -> Float[np.ndarray, " K"] | None:
    """Parameters under which all observed choices are optimal and others are not; None if there are none."""
    parts = []
    problem = solved.problem
    for objective in problem.objectives:
        assert isinstance(objective, Likelihood)
        mdp, options = objective.mdp, Options.of(objective.mdp, path=False)
        chosen = _observed_choices(objective)
        owner = mdp.state_of_row
        starts = np.zeros((len(chosen), mdp.num_states))
        time, row = np.nonzero(chosen.any(axis=-1))
        starts[time, owner[row]] = 1.0
        visits = flows(mdp, options, starts)
        features = _features(objective, solved).of_options(mdp, options)
        observed = chosen.reshape(len(chosen), -1)[visits.time, options.cell[visits.option]]
        parts.append((visits, sp.csr_array(features[visits.option]), observed))
    return optimal_direction(parts, np.asarray(problem.scale))


def _observed_choices(objective: Likelihood) -> Bool[np.ndarray, "T R W"]:
    """Which choices were observed, at which time (T = 1 on an infinite horizon)."""
    weights = np.asarray(objective.weights)
    observed = np.zeros((len(weights), *objective.mdp.table_shape), bool)
    time, column = np.nonzero(weights > 0)
    observed[time, np.asarray(objective.states)[time, column], np.asarray(objective.actions)[time, column]] = True
    return observed


def _falls_along(solved: SolvedProblem, direction: Float[np.ndarray, " K"]) -> bool:
    """Whether the loss far along a direction is no higher than where the solver stopped."""
    at, length = solved.at, np.abs(direction).max()
    for distance in DISTANCES[1:]:
        far = solved.problem.evaluate(at.x + distance / length * direction, at.warm_starts)
        if not np.isfinite(far.loss):
            return False
        if far.loss <= at.loss + 1e-13 * max(1.0, abs(at.loss)):
            return True
    return False


def _is_an_optimum(solved: SolvedProblem) -> bool | None:
    """Whether the curvature is positive in all directions with an effect, and a Newton step changes no policy."""
    problem, at = solved.problem, solved.at
    curvature, axes = np.linalg.eigh(problem.hessian(at))
    # The loss of an episode is of order one, so a curvature far below that is rounding error.
    scale = max(np.abs(curvature).max(initial=0.0), 1e-4)
    is_zero = curvature < solved.noise * scale
    if (curvature < -100 * solved.noise * scale).any():
        return None
    if is_zero.any() and not _without_effect(solved, axes[:, is_zero]):
        return False
    step = -axes[:, ~is_zero] @ ((axes[:, ~is_zero].T @ at.gradient) / curvature[~is_zero])
    if _policy_change(solved, step) <= MAX_POLICY_CHANGE:
        return True
    return False if _falls_along(solved, step) else None


def _without_effect(solved: SolvedProblem, axes: Float[np.ndarray, "K n"]) -> bool:
    """Whether the loss is constant along directions without curvature.

    If it is not, the curvature has vanished on the way to an optimum at infinity.
    """
    at = solved.at
    direction = axes @ np.random.default_rng(0).choice([-1.0, 1.0], axes.shape[1])
    for distance in (-30.0, 30.0):
        other = solved.problem.evaluate(at.x + distance / np.abs(direction).max() * direction, at.warm_starts)
        if not abs(other.loss - at.loss) <= 10 * solved.noise * max(1.0, abs(at.loss)):
            return False
    return True


def _policy_change(solved: SolvedProblem, step: Float[np.ndarray, " K"]) -> float:
    """The largest change of any log π by a step of the parameters, over all MDPs."""
    problem, largest = solved.problem, 0.0
    points = [problem.flattening.unflatten(x / np.asarray(problem.scale)) for x in (solved.at.x, solved.at.x + step)]
    for reward, expert in zip(solved.rewards, solved.experts, strict=True):
        folded = reward.fold(expert.mdp)
        tables = [np.asarray(reward_at(folded, parameters)).T for parameters in points]
        before, after = (soft_plan(expert.mdp, table).log_policy for table in tables)
        exists = np.isfinite(before)
        largest = max(largest, float(np.abs(np.where(exists, after, 0) - np.where(exists, before, 0)).max()))
    return largest
