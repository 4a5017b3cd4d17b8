"""The result of the tabular estimators: a reward that was learned where the dynamics are known."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import numpy as np

from irlax.analysis.identifiability import Identification, identify
from irlax.analysis.standard_errors import Kind, confidence_interval
from irlax.demos import Demonstrations, DemoStatistics
from irlax.estimators.fit import RewardFit
from irlax.estimators.tabular.components import Certificate, Component, CrossValidation, PolicyMixture, Posterior
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.log_likelihood import total_log_likelihood
from irlax.estimators.tabular.memo import Memo
from irlax.estimators.tabular.panel_model import PanelModel
from irlax.estimators.tabular.plan_of_reward import model_of, plan_of, refuse_infinite_parameters
from irlax.iteration import History
from irlax.mdp import MDP, Nature
from irlax.planning import Plan, expected_return, hard_plan, soft_plan
from irlax.planning.occupancy import checked_policy
from irlax.registry import check_fields, stored
from irlax.report.html import Page
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.status import Status
from irlax.tables import Summary, Table
from irlax.typing import Array, Float, PRNGKeyArray

if TYPE_CHECKING:
    from irlax.engine import AbstractEngine
    from irlax.estimators.tabular.choice_shares import ChoiceShares
    from irlax.estimators.tabular.counterfactual import Counterfactual
    from irlax.estimators.tabular.demand_curve import DemandCurve
    from irlax.estimators.tabular.discount_profile import DiscountProfile
    from irlax.estimators.tabular.effects import Effects
    from irlax.estimators.tabular.full_likelihood import FullLikelihood
    from irlax.estimators.tabular.inference import Information


@stored("tabular-fit")
class TabularFit(RewardFit):
    """A reward learned where the dynamics are known. All fields belong to the same θ."""

    estimator: AbstractTabularIRL = eqx.field(static=True)
    rewards: tuple[AbstractReward, ...]
    plans: tuple[Plan, ...]
    experts: tuple[Expert, ...]
    status: Status = eqx.field(static=True)
    #: Expert − model, [K]: zero at the unpenalised optimum; None if episodes are not whole.
    feature_gap: Float[np.ndarray, " K"] | None
    #: Σ log π over all observed choices, each counted once; None when fitted to a policy.
    log_likelihood: float | None
    held_out_log_likelihood: float | None
    history: History
    seconds: float
    #: The share of discounted mass that truncated episodes left unobserved.
    missing_mass: float = 0.0
    certificate: Certificate | None = None
    cross_validation: CrossValidation | None = None
    posterior: Posterior | None = None
    mixture: PolicyMixture | None = None
    #: Where the MDP was made from a panel (`irlax.Panel`): its variables, and how transitions were estimated.
    panel: PanelModel | None = None
    _memo: Memo = eqx.field(init=False, repr=False, static=True, default_factory=Memo)

    @property
    def reward(self) -> AbstractReward:
        """The learned reward (of the first MDP, if several share its parameters)."""
        return self.rewards[0]

    @property
    def plan(self) -> Plan:
        """The plan under the learned reward; with several MDPs see `plans`."""
        return self.plans[0]

    @property
    def policy(self) -> Float[Array, "*T R A"]:
        """The policy under the learned reward; of apprenticeship learning, the policy of the mixture."""
        return self.plan.policy if self.mixture is None else self.mixture.policy

    @property
    def mdp(self) -> MDP:
        """The MDP of the fit, with the start distribution that was used."""
        return self.experts[0].mdp

    @property
    def samples(self) -> Float[np.ndarray, "draws K"] | None:
        """Posterior draws of the parameters, if the estimator samples."""
        return None if self.posterior is None else self.posterior.samples

    @property
    def l2(self) -> float:
        """The weight of the penalty ½·l2·‖θ‖² that the fit was made with."""
        given = getattr(self.estimator, "l2", 0.0)
        return float(given) if self.cross_validation is None else self.cross_validation.l2

    @property
    def settings(self) -> tuple[tuple[str, Any], ...]:
        """The settings of the estimator, for the summary; `l2` is the one that was used."""
        return tuple((name, self.l2 if name == "l2" else value) for name, value in self.estimator.settings())

    @property
    def has_standard_errors(self) -> bool:
        """Whether this is a maximum of the likelihood of observed choices."""
        return self.estimator.maximises_likelihood and self.converged and self.log_likelihood is not None

    @property
    def iterations(self) -> int:
        # The history begins with the start.
        return max(len(self.history) - 1, 0)

    @property
    def num_choices(self) -> int:
        """The number of observed choices."""
        return sum(data.num_steps for data in self._data())

    @property
    def num_episodes(self) -> int:
        """The number of observed episodes."""
        return sum(data.num_episodes for data in self._data())

    def _data(self) -> list[Demonstrations | DemoStatistics]:
        """The demonstrations, or their statistics, of each MDP that has any."""
        found = [expert.demos if expert.statistics is None else expert.statistics for expert in self.experts]
        return [data for data in found if data is not None]

    def expected_value_difference(self, true_reward: Any, *, policy: Literal["hard", "soft"] = "hard") -> float:
        """The true expected return that is lost by planning with the learned reward instead of the true one.

        "hard" compares with the policy that maximises the learned reward's return, "soft" with the fitted
        stochastic one. Levine, Popović and Koltun (2011).
        """
        lost = 0.0
        for expert, plan, reward in zip(self.experts, self.plans, self.rewards, strict=True):
            mdp = expert.mdp
            fitted = plan if self.mixture is None else self.mixture.policy
            acting = fitted if policy == "soft" else hard_plan(mdp, reward.table(mdp))
            best = expected_return(mdp, hard_plan(mdp, true_reward), true_reward)
            lost += float(best - expected_return(mdp, acting, true_reward)) / len(self.experts)
        return lost

    def summary(self) -> Summary:
        """The parameters, and how good the fit is: a table for a paper."""
        from irlax.estimators.tabular.tabular_summary import summary

        return summary(self)

    def describe(self) -> dict[str, Any]:
        from irlax.estimators.tabular.tabular_summary import description

        return description(self)

    def page(self) -> Page:
        from irlax.estimators.tabular.page import fit_page

        return fit_page(self)

    def plot(self) -> Any:
        """The reward, the policy, and where expert and model go, as one matplotlib figure (of the first MDP)."""
        from irlax.estimators.tabular.page import fit_figure

        return fit_figure(self)

    def score(self, demos: Demonstrations) -> float:
        """The log likelihood of other demonstrations in the (first) MDP, mean over their choices by weight."""
        if not isinstance(demos, Demonstrations):
            raise TypeError(f"`demos` must be Demonstrations, but is a {type(demos).__name__}.")
        held_out = Expert.of(self.mdp, demos, None, "mdp")
        model = self.plan if self.mixture is None else self.mixture.policy
        return total_log_likelihood(model, held_out) / float(demos.choice_weights.sum())

    def standard_errors(
        self,
        kind: Literal["hessian", "opg", "sandwich"] | None = None,
        *,
        cluster: Any = None,
        weights: Literal["frequency", "sampling"] = "frequency",
    ) -> Float[np.ndarray, " K"]:
        """Standard errors of the estimates under the likelihood objective; NaN for what is not identified.

        Inverse Hessian, outer product of scores, or sandwich; without `kind` the inverse Hessian, or for a fit to a
        panel the sandwich, clustered by individual. `cluster` None takes one score per observed choice; "episode", or
        a label for each episode, one per cluster. By default the weights of episodes are frequencies: an episode of
        weight 2 stands for two equal ones. If they are sampling weights (an episode of weight 2 had half the
        probability of being drawn), pass `weights="sampling"`, which needs the sandwich. Where a panel's transitions
        were estimated, their sampling error is included.
        """
        from irlax.estimators.tabular.inference import standard_errors

        return standard_errors(self, *self.chosen_errors(kind, cluster), weights)

    def chosen_errors(self, kind: Kind | None, cluster: Any) -> tuple[Kind, Any]:
        """The standard errors that were asked for; without a kind the inverse Hessian, or what `cluster` needs.

        A fit to a panel has the sandwich, clustered by individual: the transitions are estimated from the same
        individuals, whose choices may depend on each other. If they are too few for that, choices are taken to be
        independent given the state.
        """
        if kind is not None:
            return kind, cluster
        if self.panel is not None:
            return "sandwich", self.information.default_cluster if cluster is None else cluster
        return ("hessian", None) if cluster is None else ("sandwich", cluster)

    def confidence_intervals(
        self,
        level: float = 0.95,
        kind: Literal["hessian", "opg", "sandwich"] | None = None,
        *,
        cluster: Any = None,
        weights: Literal["frequency", "sampling"] = "frequency",
    ) -> Float[np.ndarray, "K 2"]:
        """Estimate ± z·standard error, for each parameter."""
        errors = self.standard_errors(kind, cluster=cluster, weights=weights)
        return confidence_interval(flat(self.reward.parameters), errors, level)

    def regression_table(
        self,
        kind: Literal["hessian", "opg", "sandwich"] | None = None,
        *,
        cluster: Any = None,
        weights: Literal["frequency", "sampling"] = "frequency",
        level: float = 0.95,
    ) -> Summary:
        """Estimates with standard errors, z, p, intervals, AIC, BIC and pseudo-R²; see `to_latex` and `to_markdown`.

        The errors take the dynamics as known, unless the fit is to a panel, whose estimated transitions they include;
        for parametric dynamics see `full_likelihood`.
        """
        from irlax.estimators.tabular.regression import regression_table_of_fit

        return regression_table_of_fit(self, *self.chosen_errors(kind, cluster), weights, level)

    def combinations(
        self, *expressions: str, kind: Kind | None = None, cluster: Any = None, level: float = 0.95
    ) -> Table:
        """Estimates and standard errors of linear combinations of named parameters: "replace - mileage:keep"."""
        from irlax.estimators.tabular.linear_tests import combinations

        kind, cluster = self.chosen_errors(kind, cluster)
        return combinations(self, expressions, kind=kind, cluster=cluster, level=level)

    def wald(self, *restrictions: str, kind: Kind | None = None, cluster: Any = None) -> Table:
        r"""The Wald test of linear restrictions that hold together: "replace = 2*keep"; without "=", that they are 0.

        $$W = (R\hat\theta - r)^\top (R\hat\Sigma R^\top)^{-1} (R\hat\theta - r)$$
        """
        from irlax.estimators.tabular.linear_tests import wald

        kind, cluster = self.chosen_errors(kind, cluster)
        return wald(self, restrictions, kind=kind, cluster=cluster)

    def compare_estimates(self, other: "TabularFit") -> Table:
        """Whether two estimates of the same parameters differ, by the χ² of their differences.

        As Hausman's (1978) test, but with the covariance of the difference itself, from what each individual adds to
        both estimates: it needs neither to be efficient. Fits to different individuals are taken to be independent.
        """
        from irlax.estimators.tabular.linear_tests import compare_estimates

        return compare_estimates(self, other)

    def baselines(self) -> Table:
        """What equal chances, and counts of choices by state and by previous state, predict beside this fit."""
        from irlax.estimators.tabular.baselines import baselines

        return baselines(self, self.reward.num_parameters)

    def choice_shares(self, by: Any = None, *, demos: Demonstrations | None = None) -> "ChoiceShares":
        """Predicted against observed choice shares in groups of choices, with a χ² test of the model.

        `by` is a state variable of a panel, or a label for each observed choice; without it all choices are one group.
        `demos` are held-out demonstrations to compare with instead of those of the fit.
        """
        from irlax.estimators.tabular.choice_shares import choice_shares

        return choice_shares(self, by, demos)

    def marginal_effects(
        self, of: str | None = None, *, kind: Kind | None = None, cluster: Any = None, level: float = 0.95
    ) -> "Effects":
        """The effect of each parameter on the mean probability of each action, over the observed choices.

        With `of`, a state variable of a panel: of the step from each of its levels to the next.
        """
        from irlax.estimators.tabular.effects import marginal_effects

        kind, cluster = self.chosen_errors(kind, cluster)
        return marginal_effects(self, of, kind=kind, cluster=cluster, level=level)

    def elasticities(self, *, kind: Kind | None = None, cluster: Any = None, level: float = 0.95) -> "Effects":
        """The elasticity of the mean probability of each action with respect to each parameter."""
        from irlax.estimators.tabular.effects import elasticities

        kind, cluster = self.chosen_errors(kind, cluster)
        return elasticities(self, kind=kind, cluster=cluster, level=level)

    def discount_profile(self, discounts: Any = None, *, level: float = 0.95) -> "DiscountProfile":
        """The profile likelihood of the discount, with a confidence set, or the reason why it is not identified.

        The reward is fitted again at each of the `discounts`, and at those in between where the profile has its maximum
        and the set its ends.
        """
        from irlax.estimators.tabular.discount_profile import discount_profile

        return discount_profile(self, discounts, level)

    def bootstrap(
        self,
        *,
        num: int,
        key: PRNGKeyArray,
        engine: "AbstractEngine | None" = None,
        out: str | os.PathLike[str] | None = None,
    ) -> Float[np.ndarray, "num K"]:
        """Estimates from `num` resamples of the episodes, refitted in one batch.

        A resample without a finite estimate is a row of NaN, a parameter that is not identified a column of them. With
        an `engine` (of `irlax.engine`) batches of 64 resamples are the tasks of a sweep, whose folder is `out`: in
        worker processes, on Ray or as a job array.
        """
        from irlax.estimators.tabular.bootstrap import bootstrap

        return bootstrap(self, num=num, key=key, engine=engine, out=out)

    def counterfactual(
        self,
        *,
        reward: AbstractReward | None = None,
        mdp: MDP | None = None,
        parameters: Any = None,
        which: int = 0,
        kind: Kind | None = None,
        cluster: Any = None,
        level: float = 0.95,
    ) -> "Counterfactual":
        """The behaviour of the demonstrator with another reward or in another MDP.

        `parameters` are new values for some, {name: value}, or for all; `reward` is a new reward; `mdp` has other
        dynamics, another discount or other available actions. `which` is the index of the MDP, for fits to several.

        The result's `changes`, its summary and its plot have the value at the start and the shares of all actions, as
        fitted and changed, with standard errors by the delta method, as `kind` and `cluster` say. What is set or given
        is known: it has no part in them. NaN for what depends on parameters that are not identified.
        """
        from irlax.estimators.tabular.counterfactual import counterfactual

        return counterfactual(
            self,
            reward=reward,
            mdp=mdp,
            parameters=parameters,
            which=which,
            kind=kind,
            cluster=cluster,
            level=level,
        )

    def demand_curve(
        self,
        *,
        action: int | str,
        parameter: str | int,
        values: Any,
        level: float = 0.95,
        method: Literal["delta", "draws", "bootstrap"] = "delta",
        num: int = 500,
        key: PRNGKeyArray | None = None,
        mdp: MDP | Sequence[MDP] | None = None,
        kind: Kind | None = None,
        cluster: Any = None,
    ) -> "DemandCurve":
        r"""The expected long-run rate of `action` as one `parameter` of the reward runs over `values`.

        `parameter` may also be a combination, "replace - keep", of which the first one named is moved: the way to a
        curve where single parameters are not identified, but the combination is.

        $$\rho(\theta) = \textstyle\sum_s \mu_\theta(s)\,\pi_\theta(a|s), \quad
          \operatorname{se}^2 = \nabla\rho^\top\,\hat\Sigma\,\nabla\rho$$

        with μ_θ the stationary distribution (see `long_run`). The parameter that varies is set, not estimated: only the
        uncertainty of the others enters. Rust (1987), figure 7, is such a curve: the demand for
        engines against their price.

        `method` is how the intervals are computed. "delta": the gradient by implicit differentiation of both fixed
        points, on the scale of log-odds, so that rates stay between 0 and 1. "draws": quantiles over `num` parameters
        drawn from their asymptotic normal distribution. "bootstrap": quantiles over refits to `num` resamples of the
        episodes (fits to one MDP). The last two need a `key`. `kind` and `cluster` choose the covariance of the first
        two, as in `standard_errors`.

        `mdp` replaces the MDP of the fit (or its MDPs, a list). With several the rate is their mean, by episodes.
        """
        from irlax.estimators.tabular.demand_curve import demand_curve

        options: dict[str, Any] = {"action": action, "parameter": parameter, "values": values, "level": level}
        kind, cluster = self.chosen_errors(kind, cluster)
        options |= {"method": method, "num": num, "key": key, "mdp": mdp, "kind": kind, "cluster": cluster}
        return demand_curve(self, **options)

    def full_likelihood(self, nature: Nature | None = None, *, maximise: bool = False) -> "FullLikelihood":
        """The joint likelihood of choices and transitions, at the estimates of θ (reward) and ψ (nature).

        The fit must be of the likelihood objective, in the MDP with the dynamics of `nature.parameters`; a fit to a
        panel has a nature of its own. Estimates in two steps, nature first, are consistent; with `maximise` they are
        moved to the joint maximum, which is efficient.
        """
        from irlax.estimators.tabular.full_likelihood import full_likelihood

        if nature is None:
            if len(self.experts) > 1:
                raise ValueError(
                    "The joint likelihood is of one type of individuals, but this fit has several, by covariates. "
                    "Its standard errors include the sampling error of the transitions already."
                )
            if self.panel is None or self.panel.transitions is None:
                raise TypeError(
                    "Pass the `nature` whose parameters were estimated: this fit has no estimated transitions."
                )
            nature = self.panel.transitions.nature()
        return full_likelihood(self, nature, maximise=maximise)

    def compare_nested(self, smaller: "TabularFit") -> Table:
        """The likelihood-ratio test of a smaller reward, nested in this one and fitted to the same demonstrations.

        Both fits must be at the maximum of the likelihood, without a penalty. There are as many restrictions as this
        reward has identified directions more than the smaller.
        """
        from irlax.estimators.tabular.inference import compare_nested

        return compare_nested(smaller, self)

    def predictive_policy(self, *, max_draws: int = 200) -> Float[np.ndarray, "*T R A"]:
        r"""The probability of the next choice with the reward unknown, $\mathbb{E}[\pi_{\theta,t}(a|s) | D]$.

        The policy is averaged over at most `max_draws` of the posterior draws, spread evenly over all of them.
        """
        from irlax.estimators.tabular.bayesian import predictive_policy

        return predictive_policy(self, max_draws=max_draws)

    def identification(self, which: int = 0) -> Identification:
        """Which directions of the parameters the fitted policy and these demonstrations identify, and which not.

        `which` is the index of the MDP, for fits to several: a direction may be identified in one and not in another.
        """
        reward, expert = self.rewards[which], self.experts[which]
        plan = soft_plan(expert.mdp, reward.table(expert.mdp))
        return identify(expert.mdp, reward, plan, demos=expert.recorded)

    def unidentified(self) -> Float[np.ndarray, "n K"]:
        """Orthonormal directions of the parameters that these demonstrations identify in none of the MDPs.

        Along them the likelihood of the demonstrations is constant.
        """
        from scipy.linalg import null_space  # takes long to import

        revealed = []
        for which in range(len(self.experts)):
            found = self.identification(which)
            unseen = np.zeros((0, len(found.names))) if found.unseen_basis is None else found.unseen_basis
            hidden = np.concatenate([found.null_basis, unseen])
            revealed.append(null_space(hidden).T if len(hidden) else np.eye(len(found.names)))
        return null_space(np.concatenate(revealed)).T

    @property
    def information(self) -> "Information":
        """Curvature and scores of the likelihood at the estimate, computed once."""
        from irlax.estimators.tabular.inference import information_of

        return self._memo.once("information", (self.rewards, self.experts), lambda: information_of(self))

    def components(self) -> list[Component]:
        """The optional parts that this fit has, without its certificate."""
        parts = (self.cross_validation, self.mixture, self.posterior)
        return [part for part in parts if part is not None]

    def stored_fields(self) -> dict[str, Any]:
        """All fields but the plans, which are computed from the rewards and the model of the decision maker."""
        fields = {name: value for name, value in vars(self).items() if name not in ("plans", "_memo")}
        refuse_infinite_parameters(self.rewards)
        return fields | {"model": model_of(self.plan)}

    @classmethod
    def from_stored_fields(cls, fields: dict[str, Any]) -> "TabularFit":
        """The fit, with its plans computed again."""
        model = fields.pop("model", None)
        check_fields(cls, "tabular-fit", fields | {"plans": ()})
        rewards, experts, gap = fields["rewards"], fields["experts"], fields["feature_gap"]
        if not rewards or len(rewards) != len(experts):
            raise ValueError(f"There are {len(rewards)} rewards for {len(experts)} demonstrators.")
        bound = tuple(reward.bind(expert.mdp) for reward, expert in zip(rewards, experts, strict=True))
        posterior = fields.get("posterior")
        sizes = {reward.num_parameters for reward in bound}
        sizes |= set() if gap is None else {len(gap)}
        sizes |= set() if posterior is None else {posterior.samples.shape[1]}
        if len(sizes) > 1:
            raise ValueError(f"Rewards, feature gap and draws differ in the number of parameters: {sorted(sizes)}.")
        if (gap is not None and not np.isfinite(gap).all()) or fields["log_likelihood"] != fields["log_likelihood"]:
            raise ValueError("The feature gap must be finite, and the log likelihood a number.")
        if fields.get("mixture") is not None:
            checked_policy(experts[0].mdp, fields["mixture"].policy)
        plans = tuple(plan_of(model, expert.mdp, reward) for expert, reward in zip(experts, bound, strict=True))
        return cls(**fields | {"rewards": bound, "plans": plans})
