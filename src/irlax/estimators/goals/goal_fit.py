"""The fit of a reward to demonstrations that each end at a goal of their own."""

from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import numpy as np

from irlax.analysis.standard_errors import confidence_interval, null_directions
from irlax.demos import Demonstrations
from irlax.demos.demonstrations import from_rows
from irlax.estimators.goals.components import PairFeatures, StateScales
from irlax.estimators.goals.predicting import AbstractGoalFit
from irlax.estimators.tabular.components import Certificate, CrossValidation
from irlax.estimators.tabular.inference import Information, episodes_of
from irlax.estimators.tabular.memo import Memo
from irlax.iteration import History
from irlax.mdp import MDP
from irlax.planning.goals import GoalPlan, GoalPlanner, goal_plan, simulate
from irlax.registry import check_fields, stored
from irlax.report.html import Page
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.status import Status
from irlax.tables import Summary
from irlax.typing import Float, PRNGKeyArray

if TYPE_CHECKING:
    from irlax.estimators.goals.objective import AbstractGoalObjective

Kind = Literal["hessian", "opg", "sandwich"]


@stored("goal-fit")
class GoalFit(AbstractGoalFit):
    """A reward learned from demonstrations with goals: one reward, and a policy for each goal."""

    estimator: Any
    mdp: MDP
    reward: AbstractReward
    demos: Demonstrations
    status: Status
    history: History
    seconds: float
    #: Σ log π over all observed choices, by weight.
    log_likelihood: float
    #: Feature expectations of the demonstrations minus those of the model, for feature matching.
    feature_gap: Float[np.ndarray, " K"] | None
    certificate: Certificate
    cross_validation: CrossValidation | None = None
    held_out_log_likelihood: float | None = None
    #: Attributes that differ by start and goal, and scales that differ by state, of the fits that have them.
    pairs: PairFeatures | None = None
    scales: StateScales | None = None
    _memo: Memo = eqx.field(init=False, repr=False, static=True, default_factory=Memo)

    @property
    def iterations(self) -> int:
        return max(len(self.history) - 1, 0)

    @property
    def l2(self) -> float:
        """The weight of the penalty ½·l2·‖θ‖² that the fit was made with."""
        return float(self.estimator.l2) if self.cross_validation is None else self.cross_validation.l2

    @property
    def settings(self) -> tuple[tuple[str, Any], ...]:
        """The settings of the estimator, for the summary; `l2` is the one that was used."""
        return tuple((name, self.l2 if name == "l2" else value) for name, value in self.estimator.settings())

    @property
    def rewards(self) -> tuple[AbstractReward, ...]:
        """The reward, in the form of fits to several MDPs."""
        return (self.reward,)

    @property
    def goals(self) -> np.ndarray:
        """The distinct goals of the demonstrations."""
        assert self.demos.goals is not None
        return np.unique(self.demos.goals)

    @property
    def num_choices(self) -> int:
        """The number of observed choices."""
        return self.demos.num_steps

    @property
    def num_episodes(self) -> int:
        """The number of observed episodes."""
        return self.demos.num_episodes

    @property
    def has_standard_errors(self) -> bool:
        """Whether this is a maximum of the likelihood of observed choices."""
        return self.estimator.maximises_likelihood and self.converged and self.reward.is_linear

    @property
    def parameter_names(self) -> list[str]:
        """The names of all estimated parameters: of the reward, of attributes by pair, and of scales."""
        extra = [name for part in (self.pairs, self.scales) if part is not None for name in part.names]
        return [*self.reward.parameter_names(), *extra]

    @property
    def estimates(self) -> Float[np.ndarray, " K"]:
        """All estimated parameters."""
        extra = [part.weights for part in (self.pairs, self.scales) if part is not None]
        return np.concatenate([flat(self.reward.parameters), *extra])

    def plan(self, goals: Any = None) -> GoalPlan:
        """Values and policies under the learned reward, for some goals; by default for those of the demonstrations."""
        if self.pairs is not None:
            raise ValueError("This fit has attributes by start and goal, so that a goal has no one plan: use `flows`.")
        goals = self.goals if goals is None else goals
        return goal_plan(self.mdp, self.reward, goals, scale=None if self.scales is None else self.scales.scale)

    def simulate(self, starts: Any, goals: Any, *, key: PRNGKeyArray) -> Demonstrations:
        """Episodes under the learned reward, one for each pair of a start and a goal."""
        return simulated_demos(self.plan(np.unique(np.asarray(goals))), starts, goals, key=key)

    def score(self, demos: Demonstrations) -> float:
        """The log likelihood of other demonstrations with goals, mean over their choices by weight."""
        if not isinstance(demos, Demonstrations):
            raise TypeError(f"`demos` must be Demonstrations, but is a {type(demos).__name__}.")
        return self.log_likelihood_of(demos) / float(demos.choice_weights.sum())

    def log_likelihood_of(self, demos: Demonstrations) -> float:
        """Σ w log π over the choices of demonstrations; their goals may be others than those of the fit."""
        if demos.goals is None:
            raise ValueError("This fit is to demonstrations with goals, but these have none (`Demonstrations.goals`).")
        demos.check(self.mdp)
        return self._objective_of(demos).log_likelihood(self.estimates)

    def with_objective(self, objective: "AbstractGoalObjective") -> "GoalFit":
        """The same fit, which keeps the objective that it was made with: it holds solutions at the estimate."""
        self._memo.once("objective", (self.mdp, self.demos), lambda: objective)
        return self

    def _objective_of(self, demos: Demonstrations) -> "AbstractGoalObjective":
        from irlax.estimators.goals.goal_problem import objective_of

        if self.pairs is not None or self.scales is not None:
            from irlax.estimators.goals.fitted_model import fitted_model
            from irlax.estimators.goals.recursive_logit import group_objective

            return group_objective(self, fitted_model(self, None, None), demos)
        return objective_of(self.mdp, self.reward, demos, GoalPlanner.of(self.mdp))

    @property
    def objective(self) -> "AbstractGoalObjective":
        """The likelihood of the demonstrations as a function of the parameters, with derivatives."""
        return self._memo.once("objective", (self.mdp, self.demos), lambda: self._objective_of(self.demos))

    @property
    def information(self) -> Information:
        """Curvature and scores of the likelihood at the estimate, computed once."""
        return self._memo.once("information", (self.reward, self.demos), self._information)

    def _information(self) -> Information:
        theta, objective = self.estimates, self.objective
        total = float(self.demos.weights.sum())
        hessian = objective.hessian(theta) * total
        return Information(
            (hessian + hessian.T) / 2,
            objective.scores(theta),
            *episodes_of([self.demos]),
            self.l2 * total,
        )

    def standard_errors(
        self,
        kind: Kind = "hessian",
        *,
        cluster: Any = None,
        weights: Literal["frequency", "sampling"] = "frequency",
    ) -> Float[np.ndarray, " K"]:
        """Standard errors of the estimates under the likelihood objective; NaN for what is not identified.

        As `TabularFit.standard_errors`: `cluster` None takes one score for each observed choice, "episode" one for each
        trip, and a label for each episode (its traveller, say) one for each label.
        """
        return np.sqrt(np.diag(self.covariance(kind, cluster=cluster, weights=weights)))

    def covariance(
        self, kind: Kind = "hessian", *, cluster: Any = None, weights: Literal["frequency", "sampling"] = "frequency"
    ) -> Float[np.ndarray, "K K"]:
        """The covariance of the estimates, NaN where they are not identified."""
        self._refuse_unless_likelihood()
        return self.information.covariance(kind, cluster, weights)

    def _refuse_unless_likelihood(self) -> None:
        if not self.estimator.maximises_likelihood:
            raise ValueError(
                "Standard errors need a maximum likelihood estimate: fit with MCEIRL(objective='likelihood')."
            )
        if not self.converged:
            raise ValueError(f"The fit {self.status.value}, so it has no standard errors.")

    def confidence_intervals(
        self,
        level: float = 0.95,
        kind: Kind = "hessian",
        *,
        cluster: Any = None,
        weights: Literal["frequency", "sampling"] = "frequency",
    ) -> Float[np.ndarray, "K 2"]:
        """Estimate ± z·standard error, for each parameter."""
        errors = self.standard_errors(kind, cluster=cluster, weights=weights)
        return confidence_interval(self.estimates, errors, level)

    def unidentified(self) -> Float[np.ndarray, "n K"]:
        """Directions of the parameters along which the likelihood of these demonstrations is constant."""
        return null_directions(self.information.hessian)

    def regression_table(
        self,
        kind: Kind = "hessian",
        *,
        cluster: Any = None,
        weights: Literal["frequency", "sampling"] = "frequency",
        level: float = 0.95,
    ) -> Summary:
        """Estimates with standard errors, z, p, intervals, AIC, BIC and pseudo-R²; see `to_latex` and `to_markdown`."""
        from irlax.estimators.goals.goal_summary import regression_table_of_goals

        return regression_table_of_goals(self, kind, cluster, weights, level)

    def summary(self) -> Summary:
        from irlax.estimators.goals.goal_summary import summary

        return summary(self)

    def describe(self) -> dict[str, Any]:
        from irlax.estimators.goals.goal_summary import description

        return description(self)

    def page(self) -> Page:
        from irlax.estimators.goals.goal_page import goal_page

        return goal_page(self)

    def plot(self) -> Any:
        """One matplotlib figure: maps of the reward, of expected flows, and of observed minus expected flows.

        Where states have no places (`MDP.labelled`): the estimates with their intervals, and the convergence.
        """
        from irlax.estimators.goals.goal_page import goal_figure

        return goal_figure(self)

    @classmethod
    def from_stored_fields(cls, fields: dict[str, Any]) -> "GoalFit":
        """The fit of a file, with its demonstrations and reward validated."""
        check_fields(cls, "goal-fit", fields)
        if fields["demos"].goals is None:
            raise ValueError("The demonstrations of a fit with goals must have goals.")
        fields["demos"].check(fields["mdp"])
        return cls(**fields | {"reward": fields["reward"].bind(fields["mdp"])})


def simulated_demos(plan: GoalPlan, starts: Any, goals: Any, *, key: PRNGKeyArray) -> Demonstrations:
    """Demonstrations that follow a plan, one for each pair of a start and a goal."""
    starts, goals = np.broadcast_arrays(np.atleast_1d(starts), np.atleast_1d(goals))
    if (starts == goals).any():
        raise ValueError(f"Episode {int(np.argmax(starts == goals))} starts at its goal, so that it has no step.")
    states, actions, after, lengths = simulate(plan, starts, goals, key)
    return from_rows(states, actions, lengths, next_states=after, terminated=True, goals=goals.astype(np.int64))
