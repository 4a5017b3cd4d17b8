"""The recursive logit with scales that differ by state, and attributes that differ by start and goal."""

import dataclasses
import time
import warnings
from typing import Any

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.goals.assess_goals import assess
from irlax.estimators.goals.components import PairFeatures, StateScales
from irlax.estimators.goals.estimate import fit_goals
from irlax.estimators.goals.fitted_model import FittedModel, fitted_model, parts_of
from irlax.estimators.goals.goal_fit import GoalFit
from irlax.estimators.goals.goal_problem import GoalProblem
from irlax.estimators.goals.group_objective import GroupedTrips, GroupObjective
from irlax.estimators.tabular.assess import advice
from irlax.estimators.tabular.mce import MCEIRL
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.solvers import AbstractSolver, Newton, Solution, SolverName, check_solver, minimise
from irlax.estimators.tabular.solvers.choice import SOLVERS
from irlax.iteration import Callback, History, Session, Watch
from irlax.mdp import MDP
from irlax.precision import scope
from irlax.registry import stored
from irlax.rewards import AbstractReward
from irlax.run_folder import RunLike, as_run_folder
from irlax.status import UnfinishedWarning, warn_unless_success


@stored("recursive-logit")
class RecursiveLogit(eqx.Module):
    r"""Maximum likelihood of a route-choice model in which goals or states differ by more than where they are.

    $$V(s) = \mu_s \log\sum_a \exp\frac{\theta^\top\phi(s,a) + \eta^\top\psi_{og}(s,a) + V(s')}{\mu_s}, \quad
      \mu_s = e^{\omega^\top x_s}, \quad V(g) = 0$$

    * `scale_features` x give the nested recursive logit of Mai, Fosgerau and Frejinger (2015, "A nested recursive logit
      model for route choice analysis", Transportation Research Part B 75): the variance of what is not observed differs
      by state, so that ways which share roads are substitutes. ω = 0 is the plain model.
    * `pair_features` ψ are attributes that differ by start and goal, such as the link size (`link_size`) of Fosgerau,
      Frejinger and Karlström (2013).

    The plain model, `MCEIRL(objective="likelihood")`, is fitted first; θ, η and ω are then estimated jointly from
    there, by Newton's method with exact derivatives. Every group of trips (with one goal; with pair features, with one
    start and goal) takes factorisations of its own, so this costs more than the plain model. The likelihood is not
    concave.
    """

    solver: SolverName | AbstractSolver = "auto"
    l2: float = 0.0
    tol: float = 1e-8
    progress: bool | None = None

    def __check_init__(self) -> None:
        checks.positive("l2", self.l2, zero=True)
        checks.positive("tol", self.tol)
        check_solver(self.solver)

    @property
    def maximises_likelihood(self) -> bool:
        """Always."""
        return True

    @property
    def objective(self) -> str:
        """Every observed choice counts once."""
        return "likelihood"

    def settings(self) -> list[tuple[str, Any]]:
        """The settings that a summary prints."""
        return [("objective", self.objective), ("l2", self.l2)]

    def fit(
        self,
        mdp: MDP,
        reward: AbstractReward,
        demos: Demonstrations,
        *,
        scale_features: Any = None,
        scale_names: Any = None,
        pair_features: PairFeatures | None = None,
        held_out: Demonstrations | None = None,
        callback: Callback | None = None,
        run: RunLike = None,
    ) -> GoalFit:
        """Learn `reward`, which must be linear, from demonstrations with goals; with η and ω if there are features.

        `scale_features` are features of states, [S, M] or [S]; `scale_names` are their names.
        """
        started = time.perf_counter()
        plain = self._plain(mdp, reward, demos)
        scales = None if scale_features is None else StateScales.of(mdp, scale_features, scale_names)
        if pair_features is not None and not isinstance(pair_features, PairFeatures):
            raise TypeError(
                f"`pair_features` must be PairFeatures (as `link_size` returns, or `PairFeatures.of(mdp, starts, "
                f"goals, features)`), but is a {type(pair_features).__name__}."
            )
        first = dataclasses.replace(plain, estimator=self, pairs=_without_weights(pair_features), scales=scales)
        names = first.parameter_names
        if len(set(names)) < len(names):
            raise ValueError(f"All parameters must have different names, but these are {', '.join(names)}.")
        if scales is None and pair_features is None:
            warn_unless_success(first.status, advice(first.status, first.certificate, self.tol))
            return _scored(first, held_out)
        with scope():
            fit = self._jointly(first, Watch(self.progress, callback, as_run_folder(run)), started)
        warn_unless_success(fit.status, advice(fit.status, fit.certificate, self.tol))
        return _scored(fit, held_out)

    def _plain(self, mdp: Any, reward: Any, demos: Any) -> GoalFit:
        """The plain model, from which the search starts."""
        if not isinstance(demos, Demonstrations) or demos.goals is None:
            raise ValueError("The recursive logit needs Demonstrations with goals, as `net.trips(...)` makes them.")
        if not isinstance(reward, AbstractReward) or not reward.is_linear:
            raise ValueError("The recursive logit needs a reward that is linear in its parameters, as `net.linear`.")
        estimator = MCEIRL(objective="likelihood", solver=self.solver, l2=self.l2, tol=self.tol, progress=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnfinishedWarning)
            return fit_goals(estimator, mdp, reward, demos)

    def _jointly(self, first: GoalFit, watch: Watch, started: float) -> GoalFit:
        model = fitted_model(first, None, None)
        if model.features is None:
            raise ValueError("Scales and attributes by pair need a reward with at most 200 parameters.")
        problem = _problem(first, model, self.l2)
        solver = self.solver if isinstance(self.solver, AbstractSolver) else Newton()
        if isinstance(self.solver, str) and self.solver != "auto":
            solver = SOLVERS[self.solver]()
        with Session(type(self).__name__, total=solver.max_steps, watch=watch) as session:
            found: Solution = minimise(solver, problem, first.estimates * problem.scale, self.tol, session)
        status, certificate = assess(problem, found, l2=self.l2, convex=False)
        beta = np.asarray(found.at.x) / np.asarray(problem.scale)
        theta, eta, omega = parts_of(beta, first.reward.num_parameters, first.pairs, first.scales)
        fit = dataclasses.replace(
            first,
            reward=first.reward.with_parameters(_like(first.reward.parameters, theta)),
            pairs=None if first.pairs is None else eqx.tree_at(lambda part: part.weights, first.pairs, eta),
            scales=None if first.scales is None else eqx.tree_at(lambda part: part.weights, first.scales, omega),
            status=status,
            certificate=certificate,
            history=History.of(found.history),
            seconds=time.perf_counter() - started,
            log_likelihood=problem.objective.log_likelihood(beta),
        )
        return fit.with_objective(problem.objective)


def group_objective(fit: GoalFit, model: FittedModel, demos: Demonstrations) -> GroupObjective:
    """The likelihood of demonstrations that were checked, under the model of a fit."""
    return GroupObjective(model, GroupedTrips.of(model.options, fit.mdp, demos))


def _problem(first: GoalFit, model: FittedModel, l2: float) -> GoalProblem:
    objective = group_objective(first, model, first.demos)
    parts = [np.asarray(first.reward.scales(first.mdp), np.float64)]
    if first.pairs is not None:
        parts.append(np.abs(first.pairs.features).max(axis=(0, 1, 2)))
    if first.scales is not None:
        parts.append(np.abs(first.scales.features).max(axis=0))
    scale = np.concatenate(parts)
    return GoalProblem(
        objective=objective,
        flattening=Flattening.of(np.zeros(len(scale))),
        scale=np.where(scale > 0, scale, 1.0),
        l2=np.asarray(l2),
        uses=np.bincount(objective.trips.option, weights=objective.trips.weight, minlength=len(model.options.state)),
    )


def _without_weights(pairs: PairFeatures | None) -> PairFeatures | None:
    """The same attributes with weights of 0, from which the search starts."""
    return None if pairs is None else eqx.tree_at(lambda part: part.weights, pairs, np.zeros(len(pairs.weights)))


def _scored(fit: GoalFit, held_out: Demonstrations | None) -> GoalFit:
    if held_out is None:
        return fit
    return dataclasses.replace(fit, held_out_log_likelihood=fit.log_likelihood_of(held_out))


def _like(tree: Any, vector: np.ndarray) -> Any:
    """The vector as a tree of parameters."""
    import jax

    with scope():
        return jax.tree.map(np.asarray, Flattening.of(tree).unflatten(vector))
