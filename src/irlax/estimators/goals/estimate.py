"""`MCEIRL.fit` where demonstrations name their goals."""

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from irlax.demos import Demonstrations
from irlax.estimators.goals.assess_goals import assess
from irlax.estimators.goals.goal_fit import GoalFit
from irlax.estimators.goals.goal_problem import GoalObjective, GoalProblem, objective_of
from irlax.estimators.goals.reward_of_options import RewardOfOptions
from irlax.estimators.goals.start import start_where_values_exist
from irlax.estimators.goals.trips import Sums, Trips
from irlax.estimators.tabular.assess import advice
from irlax.estimators.tabular.components import CrossValidation
from irlax.estimators.tabular.cross_validation import CANDIDATES, FOLDS, fold_of_episodes
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.solvers import AbstractSolver, Adam, Newton, Solution, SolverName, minimise
from irlax.estimators.tabular.solvers.choice import SOLVERS
from irlax.iteration import History, Session, Watch
from irlax.mdp import MDP
from irlax.planning.goals import GoalPlanner
from irlax.precision import scope
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.status import warn_unless_success

if TYPE_CHECKING:
    from irlax.estimators.tabular.mce import MCEIRL


def fit_goals(
    estimator: "MCEIRL",
    mdp: Any,
    reward: Any,
    demos: Demonstrations,
    *,
    held_out: Demonstrations | None = None,
    watch: Watch = Watch(),  # noqa: B008
    started: float | None = None,
) -> GoalFit:
    """The fit of one reward to demonstrations that each end at their own goal."""
    started = time.perf_counter() if started is None else started
    bound = _checked(estimator, mdp, reward, demos)
    cross_validation = None
    if estimator.l2 == "cv":
        with scope():
            cross_validation = _choose_l2(estimator, mdp, bound, demos)
        estimator_used = dataclasses.replace(estimator, l2=cross_validation.l2)
    else:
        estimator_used = estimator
    with scope():
        problem, found, status, certificate = _solved(estimator_used, mdp, bound, demos, watch)
    theta = np.asarray(found.at.x) / np.asarray(problem.scale)
    learned = bound.with_parameters(_tree(bound, theta))
    slope = problem.raw_gradient(found.at.gradient) - float(problem.l2) * theta
    fit = GoalFit(
        estimator=estimator,
        mdp=mdp,
        reward=learned,
        demos=demos,
        status=status,
        history=History.of(found.history),
        seconds=time.perf_counter() - started,
        log_likelihood=problem.objective.log_likelihood(theta),
        feature_gap=-slope if estimator.objective == "feature-matching" else None,
        certificate=certificate,
        cross_validation=cross_validation,
        held_out_log_likelihood=None,
    )
    if estimator.maximises_likelihood:
        fit = fit.with_objective(problem.objective)
    if held_out is not None:
        fit = dataclasses.replace(fit, held_out_log_likelihood=fit.log_likelihood_of(held_out))
    warn_unless_success(status, advice(status, certificate, estimator.tol))
    return fit


def _solved(
    estimator: "MCEIRL", mdp: MDP, reward: AbstractReward, demos: Demonstrations, watch: Watch
) -> tuple[GoalProblem, Solution, Any, Any]:
    """The problem, its solution, and how it ended."""
    problem = goal_problem(estimator, mdp, reward, demos, GoalPlanner.of(mdp))
    first = start_where_values_exist(problem, flat(reward.parameters) * problem.scale, reward.parameter_names())
    solver = _solver(estimator.solver, reward)
    with Session(type(estimator).__name__, total=solver.max_steps, watch=watch) as session:
        found = minimise(solver, problem, first, estimator.tol, session)
    convex = estimator.objective == "feature-matching" and reward.is_linear
    status, certificate = assess(problem, found, l2=float(problem.l2), convex=convex)
    return problem, found, status, certificate


def goal_problem(
    estimator: "MCEIRL", mdp: MDP, reward: AbstractReward, demos: Demonstrations, planner: GoalPlanner
) -> GoalProblem:
    """The problem to minimise; `estimator.l2` must be a number."""
    trips = Trips.of(planner, mdp, demos)
    objective = GoalObjective(
        planner, RewardOfOptions(mdp, reward, planner.options), trips, _sums(estimator, planner, trips)
    )
    assert not isinstance(estimator.l2, str)
    return GoalProblem(
        objective=objective,
        flattening=Flattening.of(reward.parameters),
        scale=np.asarray(reward.scales(mdp), np.float64),
        l2=np.asarray(float(estimator.l2)),
        uses=objective.sums.uses,
    )


def _sums(estimator: "MCEIRL", planner: GoalPlanner, trips: Trips) -> Sums:
    transitions, discount = planner.options.transitions, planner.options.discount
    if estimator.objective == "feature-matching":
        return trips.matching(transitions, discount)
    return trips.likelihood(transitions, discount, discounted=estimator.objective == "discounted-likelihood")


def _solver(solver: SolverName | AbstractSolver, reward: AbstractReward) -> AbstractSolver:
    if isinstance(solver, AbstractSolver):
        return solver
    if solver != "auto":
        return SOLVERS[solver]()
    if not reward.is_linear:
        return Adam()
    return Newton()


def _checked(estimator: "MCEIRL", mdp: Any, reward: Any, demos: Demonstrations) -> AbstractReward:
    """The reward, bound to the MDP, after all else was checked."""
    if not isinstance(mdp, MDP) or not isinstance(reward, AbstractReward):
        raise TypeError(
            "With demonstrations that have goals pass one MDP and one reward: goals take the place of lists."
        )
    if estimator.start == "mdp":
        raise ValueError("Demonstrations with goals start where they start: leave `start` at 'auto'.")
    if estimator.low_memory:
        raise ValueError("`low_memory` is for finite horizons, which goals have not. Leave it out.")
    demos.check(mdp)
    if estimator.objective == "feature-matching" and demos.row_weights is not None:
        raise ValueError(
            "Feature matching compares whole episodes, but rows have weights of their own. Use objective='likelihood'."
        )
    if estimator.objective == "feature-matching" and not demos.terminated.all():
        truncated = int(np.argmin(demos.terminated))
        raise ValueError(
            f"Feature matching compares whole episodes, but episode {truncated} does not reach its goal "
            f"(`terminated` is false). Use objective='likelihood', or leave such episodes out."
        )
    return reward.bind(mdp)


def _tree(reward: AbstractReward, theta: Any) -> Any:
    with scope():
        tree = Flattening.of(reward.parameters).unflatten(theta)
    import jax

    return jax.tree.map(np.asarray, tree)


def _choose_l2(estimator: "MCEIRL", mdp: MDP, reward: AbstractReward, demos: Demonstrations) -> CrossValidation:
    """The l2 with the best held-out log likelihood over five folds of episodes."""
    folds, scores = fold_of_episodes(demos), np.zeros(len(CANDIDATES))
    first, solver = dataclasses.replace(estimator, l2=0.0), _solver(estimator.solver, reward)
    planner = GoalPlanner.of(mdp)
    for fold in range(FOLDS):
        problem = goal_problem(first, mdp, reward, demos.select((folds != fold) & (folds >= 0)), planner)
        held_out = objective_of(mdp, reward, demos.select(folds == fold), planner)
        x = start_where_values_exist(problem, flat(reward.parameters) * problem.scale, reward.parameter_names())
        # From the strongest penalty to the weakest, each fit starts where the one before ended.
        for index in reversed(range(len(CANDIDATES))):
            penalised = dataclasses.replace(problem, l2=np.asarray(CANDIDATES[index]))
            x = np.asarray(minimise(solver, penalised, x, estimator.tol).at.x)
            scores[index] += held_out.log_likelihood(x / np.asarray(problem.scale))
    best = int(np.argmax(scores))
    return CrossValidation(CANDIDATES[best], float(scores[best] / demos.choice_weights.sum()))
