"""What fits of several hidden groups have in common: rewards, plans and the information about their parameters."""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from scipy.linalg import block_diag

from irlax.analysis.standard_errors import Kind, identified_covariance, not_identified, summed_by
from irlax.demos import Demonstrations
from irlax.estimators.fit import Fit
from irlax.estimators.mixed.hidden_problem import HiddenProblem
from irlax.estimators.mixed.towards_goals import TowardsGoals
from irlax.estimators.mixed.transition_errors import transition_corrections
from irlax.estimators.tabular.baselines import baselines
from irlax.estimators.tabular.components import Certificate, CrossValidation
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.memo import Memo
from irlax.estimators.tabular.panel_model import PanelModel
from irlax.estimators.tabular.plan_of_reward import plan_of, refuse_infinite_parameters
from irlax.estimators.tabular.regression import error_method
from irlax.mdp import MDP
from irlax.planning import Plan
from irlax.precision import scope
from irlax.registry import check_fields
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.tables import Table
from irlax.typing import Float, Int


class GroupInformation(NamedTuple):
    """Curvature and scores of the likelihood at the estimate, in (θ of all groups, parameters of the hidden model)."""

    #: Second derivatives of minus the total log likelihood, without penalties.
    hessian: Float[np.ndarray, "P P"]
    #: First derivatives of each unit's log likelihood; one row also for a unit of weight 2.
    scores: Float[np.ndarray, "N P"]
    #: What the estimation of a panel's transitions adds to the score of each choice, and the unit of each choice; None
    #: where transitions were given.
    corrections: Float[np.ndarray, "n P"] | None = None
    unit: Int[np.ndarray, " n"] | None = None


class AbstractMixedFit(Fit):
    """A reward for each of G groups, in M MDPs that share their parameters."""

    estimator: eqx.AbstractVar[AbstractTabularIRL]
    #: By MDP, then by group.
    all_rewards: eqx.AbstractVar[tuple[tuple[AbstractReward, ...], ...]]
    all_plans: eqx.AbstractVar[tuple[tuple[Plan | TowardsGoals, ...], ...]]
    experts: eqx.AbstractVar[tuple[Expert, ...]]
    certificate: eqx.AbstractVar[Certificate]
    log_likelihood: eqx.AbstractVar[float]
    cross_validation: eqx.AbstractVar[CrossValidation | None]
    #: What is wrong and what to do, if the status is not a success.
    reason: eqx.AbstractVar[str]
    #: Where the MDP was made from a panel (`irlax.Panel`): its variables, and how transitions were estimated.
    panel: eqx.AbstractVar[PanelModel | None]
    _memo: eqx.AbstractVar[Memo]

    @abc.abstractmethod
    def hidden_problem(self) -> HiddenProblem:
        """The likelihood that the estimate maximises, built from what the fit holds."""

    @abc.abstractmethod
    def hidden_parameters(self) -> Any:
        """The parameters of the hidden model at the estimate."""

    @abc.abstractmethod
    def hidden_penalty(self) -> Float[np.ndarray, " Q"]:
        """The second derivative of the penalty on each parameter of the hidden model, per unit of weight."""

    @abc.abstractmethod
    def unit_of_episodes(self) -> Int[np.ndarray, " N"]:
        """The unit that each episode belongs to, over all MDPs: what is independent of the others."""

    @property
    def rewards(self) -> tuple[AbstractReward, ...]:
        """The reward of each group (in the first MDP, if several share their parameters)."""
        return self.all_rewards[0]

    @property
    def plans(self) -> tuple[Plan | TowardsGoals, ...]:
        """The plan of each group, in the first MDP; with goals, what makes a plan for some of them (`plan(goals)`)."""
        return self.all_plans[0]

    @property
    def goals(self) -> Int[np.ndarray, " n"] | None:
        """The distinct goals of the demonstrations, if these name any."""
        named = [demos.goals for demos in self.demos if demos.goals is not None]
        return np.unique(np.concatenate(named)) if named else None

    @property
    def estimates(self) -> Float[np.ndarray, " P"]:
        """The parameters of all groups' rewards, one after the other."""
        return np.concatenate([flat(reward.parameters) for reward in self.rewards])

    @property
    def policies(self) -> Float[np.ndarray, "G *T R A"]:
        """The policy of each group, in the first MDP."""
        if any(isinstance(plan, TowardsGoals) for plan in self.plans):
            raise ValueError("Each goal has a policy of its own: use `fit.plans[k].plan(goals).policy(goal)`.")
        return np.stack([np.asarray(plan.policy) for plan in self.plans if isinstance(plan, Plan)])

    @property
    def mdp(self) -> MDP:
        """The (first) MDP of the fit, with the start distribution that was used."""
        return self.experts[0].mdp

    @property
    def demos(self) -> list[Demonstrations]:
        """The demonstrations in each MDP."""
        return [expert.demos for expert in self.experts if expert.demos is not None]

    @property
    def l2(self) -> float:
        """The weight of the penalty ½·l2·‖θ‖² of each group."""
        given = getattr(self.estimator, "l2", 0.0)
        return float(given) if self.cross_validation is None else self.cross_validation.l2

    @property
    def settings(self) -> tuple[tuple[str, Any], ...]:
        """The settings of the estimator, for the summary; `l2` is the one that was used."""
        return tuple((name, self.l2 if name == "l2" else value) for name, value in self.estimator.settings())

    @property
    def iterations(self) -> int:
        # The history begins with the start.
        return max(len(self.history) - 1, 0)

    @property
    def num_choices(self) -> int | float:
        """The number of choices, each counted by its weight."""
        return whole(sum(demos.choice_weights.sum() for demos in self.demos))

    def baselines(self) -> Table:
        """What equal chances, and counts of choices by state and by previous state, predict beside this fit."""
        hidden = sum(np.size(leaf) for leaf in jax.tree.leaves(self.hidden_parameters()))
        return baselines(self, len(self.estimates) + hidden)

    @property
    def information(self) -> GroupInformation:
        """Curvature and scores of the likelihood at the estimate, computed once."""
        return self._memo.once("information", (self.all_rewards, self.experts), self._information)

    def _information(self) -> GroupInformation:
        with scope():
            groups = self.hidden_problem()
            problem = groups.to_problem()
            scale = np.asarray(problem.scale)
            hidden = groups.vector([], self.hidden_parameters())
            at = problem.evaluate(np.concatenate([self.estimates, hidden]) * scale)
            penalty = self._penalty(len(scale))
            hessian = problem.hessian(at) * np.outer(scale, scale) - np.diag(penalty)
            found = GroupInformation(hessian * groups.total, groups.scores(at))
        corrections = transition_corrections(self)
        if corrections is None:
            return found
        lengths = np.concatenate([demos.lengths for demos in self.demos])
        return found._replace(corrections=corrections, unit=np.repeat(self.unit_of_episodes(), lengths))

    def _penalty(self, size: int) -> Float[np.ndarray, " P"]:
        """The second derivative of the penalty on each parameter, per unit of weight."""
        rewards = np.full(len(self.estimates), self.l2)
        return np.concatenate([rewards, np.broadcast_to(self.hidden_penalty(), size - len(rewards))])

    def stored_fields(self) -> dict[str, Any]:
        """All fields but the plans, which are computed from the rewards."""
        refuse_infinite_parameters(self.rewards)
        return {name: value for name, value in vars(self).items() if name not in ("all_plans", "_memo")}

    @property
    def error_notes(self) -> tuple[str, ...]:
        """How the standard errors of a fit to a panel are computed, with its assumptions; for tables."""
        if self.panel is None:
            return ()
        estimated = self.panel.transitions is not None
        dynamics = "with the sampling error of the estimated transitions" if estimated else "at the given dynamics"
        how = f"Standard errors: {error_method('hessian', None, 'frequency')}, {dynamics}."
        return (*([how] if self.converged else []), *self.panel.notes)

    def covariance_of_rewards_and(
        self, slopes: Float[np.ndarray, "q Q"], kind: Kind, weights: Float[np.ndarray, " N"]
    ) -> Float[np.ndarray, "P P"]:
        """The covariance of θ of all groups, and of functions of the hidden model's parameters, by the delta method.

        `slopes` are the functions' derivatives in these. NaN for what depends on a direction that is not identified: a
        function may be identified although the parameters are not.
        """
        if not self.converged:
            raise ValueError(f"The fit {self.status.value}, so it has no standard errors.")
        hessian, scores, corrections, unit = self.information
        penalty, first_step = self._penalty(len(hessian)) * weights.sum(), None
        if corrections is not None and unit is not None:
            if kind == "sandwich":
                # With their correlations: the same individuals' choices and transitions.
                scores = scores + summed_by(corrections, unit, len(scores))
            else:
                first_step = np.sqrt(weights[unit])[:, None] * corrections
        # A unit of weight w counts as w units, so the sum is Σ w s sᵀ, not Σ w² s sᵀ.
        scores = np.sqrt(weights)[:, None] * scores
        jacobian = np.asarray(block_diag(np.eye(len(self.estimates)), slopes))
        result = jacobian @ identified_covariance(kind, hessian, scores, penalty, first_step) @ jacobian.T
        unknown = not_identified(scores.T @ scores if kind == "opg" else hessian, jacobian)
        result[unknown, :] = result[:, unknown] = np.nan
        return result


def plans_of(
    all_rewards: Sequence[Sequence[AbstractReward]], experts: Sequence[Expert]
) -> tuple[tuple[Plan | TowardsGoals, ...], ...]:
    """The plan of each reward in its MDP."""

    def plan(expert: Expert, reward: AbstractReward) -> Plan | TowardsGoals:
        return TowardsGoals(expert.mdp, reward) if expert.has_goals else plan_of("soft", expert.mdp, reward)

    return tuple(
        tuple(plan(expert, reward) for reward in rewards) for rewards, expert in zip(all_rewards, experts, strict=True)
    )


def restored_fields(cls: Any, name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a stored fit, with rewards bound to their MDPs and plans computed again."""
    check_fields(cls, name, fields | {"all_plans": ()})
    experts, all_rewards = fields["experts"], fields["all_rewards"]
    if not experts or len(all_rewards) != len(experts) or len({len(rewards) for rewards in all_rewards}) != 1:
        raise ValueError(f"There must be rewards of the same groups for each of {len(experts)} MDPs.")
    bound = tuple(
        tuple(reward.bind(expert.mdp) for reward in rewards)
        for rewards, expert in zip(all_rewards, experts, strict=True)
    )
    return fields | {"all_rewards": bound, "all_plans": plans_of(bound, experts)}


def whole(total: Any) -> int | float:
    """A sum of weights, as an int if it is a whole number."""
    return int(total) if total == round(total) else float(total)
