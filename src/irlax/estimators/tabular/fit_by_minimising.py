"""From objectives to a fit: the part that all tabular estimators that minimise a loss share."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from irlax.demos import Demonstrations
from irlax.estimators.tabular.assess import advice, assess
from irlax.estimators.tabular.components import CrossValidation
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.log_likelihood import total_log_likelihood
from irlax.estimators.tabular.objectives import AbstractObjective
from irlax.estimators.tabular.problem import Flattening, Problem, largest
from irlax.estimators.tabular.separation import SolvedProblem
from irlax.estimators.tabular.small_problem import SmallProblem
from irlax.estimators.tabular.solvers import DENSE_HESSIAN, LBFGS, AbstractSolver, Newton, Solution, minimise
from irlax.estimators.tabular.solvers.saddle import lower_than_saddle
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.estimators.tabular.undiscounted import start_where_values_exist
from irlax.iteration import History, Session, Watch
from irlax.mdp import MDP
from irlax.planning import Plan
from irlax.precision import to_device
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.status import Status, warn_unless_success
from irlax.typing import Float


class Estimation(NamedTuple):
    """The objectives of an estimator, one for each MDP, and how a fit is made from their minimum."""

    objectives: Sequence[AbstractObjective]
    rewards: tuple[AbstractReward, ...]
    experts: tuple[Expert, ...]
    l2: float
    tol: float
    convex: bool
    #: The plan of a reward at its parameters.
    plan: Callable[[MDP, AbstractReward], Plan]
    #: (θ, gradient of the objective at θ without its penalty) ↦ feature gap; None if feature expectations are unknown.
    gap: Callable[[Any, Float[np.ndarray, " K"]], Float[np.ndarray, " K"]] | None
    #: The largest share of discounted mass that is unobserved in any problem.
    missing_mass: float = 0.0

    def to_problem(self) -> tuple[Problem, Float[np.ndarray, " K"]]:
        """The problem to minimise, and its start."""
        return make_problem(self.objectives, self.rewards, self.experts, self.l2)


def fit_by_minimising(
    estimator: AbstractTabularIRL,
    estimation: Estimation,
    solver: AbstractSolver,
    watch: Watch,
    *,
    held_out: Demonstrations | None,
    started: float,
    cross_validation: CrossValidation | None = None,
) -> TabularFit:
    """Minimise the sum of the objectives, and return the fit at the minimum.

    `started` is the time at which the user's call started, by `time.perf_counter`.
    """
    problem, first = estimation.to_problem()
    small = SmallProblem.of(problem)
    with Session(type(estimator).__name__, total=solver.max_steps, watch=watch) as session:
        solving = small if solver.only_evaluates else problem
        found = minimise(solver, solving, first, estimation.tol, session)
        at_optimum = found.status in (Status.CONVERGED, Status.ROUNDING_FLOOR) and isinstance(solver, Newton | LBFGS)
        if at_optimum and not estimation.convex and len(first) <= DENSE_HESSIAN:
            lower = lower_than_saddle(small, found.at)
            if lower is not None:
                found = minimise(solver, solving, lower, estimation.tol, session)
    return make_fit(
        estimator, estimation, small, found, held_out=held_out, started=started, cross_validation=cross_validation
    )


def make_fit(
    estimator: AbstractTabularIRL,
    estimation: Estimation,
    problem: Problem | SmallProblem,
    found: Solution,
    *,
    started: float,
    held_out: Demonstrations | None = None,
    cross_validation: CrossValidation | None = None,
) -> TabularFit:
    """The fit at a solution, with its status assessed; it warns unless the status is a success."""
    experts, l2, tol = estimation.experts, estimation.l2, estimation.tol
    within_tol = float(largest(found.at.gradient, np.asarray(problem.scale))) <= tol
    solved = SolvedProblem(problem, estimation.rewards, experts, found.at, within_tol or found.status.success)
    status, certificate = assess(solved, found, l2=l2, convex=estimation.convex)
    theta = problem.flattening.unflatten(found.at.x / np.asarray(problem.scale))
    slope = problem.raw_gradient(found.at.gradient) - l2 * flat(theta)
    learned = tuple(reward.with_parameters(on_host(theta)) for reward in estimation.rewards)
    plans = tuple(estimation.plan(expert.mdp, reward) for expert, reward in zip(experts, learned, strict=True))
    observed = all(expert.recorded is not None for expert in experts)
    fit = TabularFit(
        estimator=estimator,
        rewards=learned,
        plans=plans,
        experts=experts,
        status=status,
        feature_gap=None if estimation.gap is None else estimation.gap(theta, slope),
        log_likelihood=sum(map(total_log_likelihood, plans, experts)) if observed else None,
        held_out_log_likelihood=None if held_out is None else _held_out(plans, experts, held_out),
        history=History.of(found.history),
        seconds=time.perf_counter() - started,
        missing_mass=estimation.missing_mass,
        certificate=certificate,
        cross_validation=cross_validation,
    )
    warn_unless_success(status, advice(status, certificate, tol))
    return fit


def make_problem(
    objectives: Sequence[AbstractObjective],
    rewards: tuple[AbstractReward, ...],
    experts: tuple[Expert, ...],
    l2: float,
) -> tuple[Problem, Float[np.ndarray, " K"]]:
    """The problem in scaled parameters, and its start: the reward's parameters, if values exist there."""
    weights = np.array([expert.weight for expert in experts])
    scale = np.max([reward.scales(expert.mdp) for reward, expert in zip(rewards, experts, strict=True)], axis=0)
    problem = Problem(
        objectives=tuple(objectives),
        shares=to_device(weights / weights.sum()),
        flattening=Flattening.of(rewards[0].parameters),
        scale=to_device(scale),
        l2=to_device(np.asarray(l2)),
    )
    return problem, start_where_values_exist(problem, flat(rewards[0].parameters) * scale, rewards)


def _held_out(plans: Sequence[Plan], experts: tuple[Expert, ...], held_out: Demonstrations) -> float:
    if len(experts) != 1 or not isinstance(held_out, Demonstrations):
        raise TypeError("`held_out` must be Demonstrations, for a fit to one MDP.")
    (plan,), (expert,) = plans, experts
    return total_log_likelihood(plan, Expert.of(expert.mdp, held_out, None, "mdp"))


def on_host(tree: Any) -> Any:
    """The tree with NumPy arrays for its leaves."""
    return jax.tree.map(np.asarray, tree)
