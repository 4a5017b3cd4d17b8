"""The one result of all tabular estimators."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import numpy as np
from scipy.linalg import null_space

from irlax.analysis.identifiability import Identification, cost_of_identifying, identify
from irlax.analysis.standard_errors import confidence_interval
from irlax.demos import Demonstrations, DemoStatistics
from irlax.demos.likelihood import log_policy_by_time, log_policy_of_choices
from irlax.estimators.status import Status
from irlax.estimators.tabular.expert import Expert
from irlax.mdp import MDP
from irlax.planning import Plan, expected_return, hard_plan, soft_plan
from irlax.precision import scope
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.tables import Summary, Table, pairs
from irlax.typing import Array, Float, PRNGKeyArray

if TYPE_CHECKING:
    from irlax.estimators.tabular.counterfactual import Counterfactual

#: A summary prints at most this many parameters one by one.
SHOWN_PARAMETERS = 40
#: The line about identifiability is worked out for up to this many multiplications: a few seconds.
AFFORDABLE = 5e9


class Certificate(eqx.Module):
    """How far from the optimum the fit can be, at most or to second order."""

    #: The largest entry of the gradient of the penalised objective.
    gradient: float
    #: With l2 > 0 and a convex objective: the objective exceeds its minimum by at most this, ‖∇‖²/(2·l2).
    duality_gap: float | None = None
    #: With l2 = 0: ½ ∇ᵀH⁻¹∇, what one more Newton (or, after L-BFGS, quasi-Newton) step would gain.
    newton_decrement: float | None = None
    #: Of estimators that do not maximise the likelihood: by how much their log likelihood falls short of its maximum.
    below_maximum: float | None = None


class History(eqx.Module):
    """The objective and the size of its gradient, step by step."""

    loss: Float[np.ndarray, " steps"]
    gradient: Float[np.ndarray, " steps"]


class Extra(eqx.Module):
    """A fact of one method that the summary shows: a name and a value."""

    name: str = eqx.field(static=True)
    value: Any


class TabularFit(eqx.Module):
    """A reward learned where the dynamics are known. Everything in it belongs to one and the same θ."""

    method: str = eqx.field(static=True)
    settings: tuple[tuple[str, Any], ...] = eqx.field(static=True)
    rewards: tuple[AbstractReward, ...]
    plans: tuple[Plan, ...]
    experts: tuple[Expert, ...]
    status: Status = eqx.field(static=True)
    #: Expert − model, [K]: zero at the unpenalised optimum; None if episodes are not whole.
    feature_gap: Float[np.ndarray, " K"] | None
    certificate: Certificate | None
    #: Σ log π over all observed choices, each counted once; None when fitted to a policy.
    log_likelihood: float | None
    held_out_log_likelihood: float | None
    history: History
    seconds: float
    #: The share of discounted mass that truncated episodes left unobserved.
    missing_mass: float = 0.0
    extras: tuple[Extra, ...] = ()
    #: Posterior draws of the parameters, [draws, K], from estimators that sample.
    samples: Float[np.ndarray, "draws K"] | None = None
    #: The policy of estimators whose answer is not the plan of one reward: a mixture, for apprenticeship learning.
    given_policy: Float[np.ndarray, "*T R A"] | None = None

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
        """The policy under the learned reward, or the mixture that an apprentice follows."""
        return self.plan.policy if self.given_policy is None else self.given_policy

    @property
    def mdp(self) -> MDP:
        """The MDP of the fit, with the start distribution that was used."""
        return self.experts[0].mdp

    @property
    def converged(self) -> bool:
        """Whether the fit ended in success."""
        return self.status.success

    @property
    def iterations(self) -> int:
        """Steps of the solver."""
        return max(len(self.history.loss) - 1, 0)

    @property
    def num_choices(self) -> int:
        """Observed choices."""
        return sum(data.num_steps for data in self._data())

    @property
    def num_episodes(self) -> int:
        """Observed episodes."""
        return sum(data.num_episodes for data in self._data())

    def _data(self) -> list[Demonstrations | DemoStatistics]:
        """What was observed in each MDP in which anything was."""
        found = [expert.demos if expert.statistics is None else expert.statistics for expert in self.experts]
        return [data for data in found if data is not None]

    def expected_value_difference(self, true_reward: Any, *, policy: Literal["hard", "soft"] = "hard") -> float:
        """What is lost, in true expected return, by planning with the learned reward instead of the true one.

        "hard" compares with the policy that maximises the learned reward's return, "soft" with the fitted
        stochastic one. Levine, Popović and Koltun (2011).
        """
        lost = 0.0
        for expert, plan, reward in zip(self.experts, self.plans, self.rewards, strict=True):
            mdp = expert.mdp
            fitted = plan if self.given_policy is None else self.given_policy
            acting = fitted if policy == "soft" else hard_plan(mdp, reward.table(mdp))
            best = expected_return(mdp, hard_plan(mdp, true_reward), true_reward)
            lost += float(best - expected_return(mdp, acting, true_reward)) / len(self.experts)
        return lost

    def summary(self) -> Summary:
        """The parameters, and how good the fit is: a table for a paper."""
        tables = [self._facts()]
        if self.reward.num_parameters <= SHOWN_PARAMETERS:
            tables.insert(0, self._parameters())
        return Summary(tables)

    def standard_errors(
        self,
        kind: Literal["hessian", "opg", "sandwich"] = "hessian",
        *,
        cluster: Any = None,
        weights: Literal["frequency", "sampling"] = "frequency",
    ) -> Float[np.ndarray, " K"]:
        """Standard errors of the estimates under the likelihood objective; NaN for what is not identified.

        Inverse Hessian, outer product of scores, or sandwich. `cluster` None takes one score per observed
        choice; "episode", or a label for each episode, one per cluster. The weights of episodes are frequencies: an
        episode of weight 2 stands for two that look alike. Where they come from sampling, and stand for one episode
        that had half the chance of being drawn, say `weights="sampling"`, which needs the sandwich.
        """
        from irlax.estimators.tabular.inference import standard_errors

        return standard_errors(self, kind, cluster, weights)

    def confidence_intervals(
        self,
        level: float = 0.95,
        kind: Literal["hessian", "opg", "sandwich"] = "hessian",
        *,
        cluster: Any = None,
        weights: Literal["frequency", "sampling"] = "frequency",
    ) -> Float[np.ndarray, "K 2"]:
        """Estimate ± z·standard error, for each parameter."""
        errors = self.standard_errors(kind, cluster=cluster, weights=weights)
        return confidence_interval(flat(self.reward.parameters), errors, level)

    def regression_table(
        self,
        kind: Literal["hessian", "opg", "sandwich"] = "hessian",
        *,
        cluster: Any = None,
        weights: Literal["frequency", "sampling"] = "frequency",
        level: float = 0.95,
    ) -> Summary:
        """Estimates as economists read them, with z, p, intervals, AIC, BIC and pseudo-R²; `to_latex`, `to_markdown`.

        The errors take the dynamics as given; for those estimated from the same panel see `full_likelihood`.
        """
        from irlax.estimators.tabular.regression import table_of

        return table_of(self, kind, cluster, weights, level)

    def bootstrap(self, *, num: int, key: PRNGKeyArray) -> Float[np.ndarray, "num K"]:
        """Estimates from `num` resamples of the episodes, refitted all at once.

        A resample without a finite estimate is a row of NaN, a parameter that is not identified a column of them.
        """
        from irlax.estimators.tabular.inference import bootstrap

        return bootstrap(self, num=num, key=key)

    def counterfactual(
        self,
        *,
        reward: AbstractReward | None = None,
        mdp: MDP | None = None,
        parameters: Any = None,
        which: int = 0,
    ) -> "Counterfactual":
        """What the demonstrator would do with another reward or in another MDP.

        `parameters` are new values for some, {name: value}, or for all; `reward` is another reward altogether; `mdp`
        has other dynamics, another discount or other available actions. Of a fit to several MDPs, `which` is meant.
        """
        from irlax.estimators.tabular.counterfactual import counterfactual

        return counterfactual(self, reward=reward, mdp=mdp, parameters=parameters, which=which)

    def identification(self, which: int = 0) -> Identification:
        """What the fitted policy and these demonstrations reveal about the parameters, and what they cannot.

        Of a fit to several MDPs, `which` of them is meant: what one cannot reveal another may.
        """
        reward, expert = self.rewards[which], self.experts[which]
        plan = soft_plan(expert.mdp, reward.table(expert.mdp))
        return identify(expert.mdp, reward, plan, demos=expert.recorded)

    def unidentified(self) -> Float[np.ndarray, "n K"]:
        """Directions of the parameters that no choice in these demonstrations reveals, in any of the MDPs; orthonormal.

        Along them another reward explains the demonstrations equally well.
        """
        revealed = []
        for which in range(len(self.experts)):
            found = self.identification(which)
            unseen = np.zeros((0, len(found.names))) if found.unseen_basis is None else found.unseen_basis
            hidden = np.concatenate([found.null_basis, unseen])
            revealed.append(null_space(hidden).T if len(hidden) else np.eye(len(found.names)))
        return null_space(np.concatenate(revealed)).T

    def _identified(self) -> str:
        costs = [cost_of_identifying(expert.mdp, self.reward.num_parameters) for expert in self.experts]
        if sum(costs) > AFFORDABLE:
            return "not computed for a problem this large; `fit.identification()` does"
        if len(self.experts) == 1:
            return self.identification().line()
        revealed = np.concatenate([self.identification(i).contrasts for i in range(len(self.experts))])
        total, rank = self.reward.num_parameters, int(np.linalg.matrix_rank(revealed)) if len(revealed) else 0
        return f"all {total} parameters, together" if rank == total else f"{rank} of {total} dimensions, together"

    def save(self, path: str | Path) -> Path:
        """Write the fit as a folder that `irlax.load` reads; nothing in it can run code."""
        from irlax.estimators.tabular.storage import save_fit

        return save_fit(self, path)

    def _parameters(self) -> Table:
        names, estimates = self.reward.parameter_names(), flat(self.reward.parameters)
        columns, cells = ["parameter", "estimate"], [names, [float(value) for value in estimates]]
        if self.samples is not None:
            columns += ["sd", "2.5%", "97.5%"]
            low, high = np.quantile(self.samples, [0.025, 0.975], axis=0)
            cells += [self.samples.std(axis=0, ddof=1).tolist(), low.tolist(), high.tolist()]
        if self._has_standard_errors:
            columns += ["s.e.", "z"]
            errors = self.standard_errors()
            cells += [errors.tolist(), (estimates / np.where(errors > 0, errors, np.nan)).tolist()]
        if self.feature_gap is not None:
            columns.append("feature gap")
            cells.append([float(gap) for gap in self.feature_gap])
        return Table(columns, list(zip(*cells, strict=True)), title=f"{self.method}: {type(self.reward).__name__}")

    @property
    def _has_standard_errors(self) -> bool:
        likelihood = dict(self.settings).get("objective") == "likelihood"
        return likelihood and self.converged and self.log_likelihood is not None

    def _facts(self) -> Table:
        rows: list[tuple[str, Any]] = [("status", self.status.value), *self.settings]
        rows += [("states", self.mdp.num_states), ("actions", self.mdp.num_actions)]
        if len(self.experts) > 1:
            rows.append(("MDPs", len(self.experts)))
        rows += [("discount", float(self.mdp.discount)), ("horizon", self.mdp.horizon or "infinite")]
        rows.append(("parameters", self.reward.num_parameters))
        if self.num_episodes:
            rows += [("episodes", self.num_episodes), ("choices", self.num_choices)]
        if self.log_likelihood is not None:
            rows.append(("log likelihood", f"{self.log_likelihood:.3f}".replace("-", "−")))
        if self.held_out_log_likelihood is not None:
            rows.append(("log likelihood, held out", f"{self.held_out_log_likelihood:.3f}".replace("-", "−")))
        if self.feature_gap is not None:
            rows.append(("largest feature gap", float(np.abs(self.feature_gap).max())))
        if self.certificate is not None:
            rows.append(("largest gradient", self.certificate.gradient))
            if self.certificate.duality_gap is not None:
                rows.append(("above the minimum by at most", self.certificate.duality_gap))
            if self.certificate.newton_decrement is not None:
                rows.append(("Newton decrement", self.certificate.newton_decrement))
            if self.certificate.below_maximum is not None:
                rows.append(("log likelihood below its maximum by", self.certificate.below_maximum))
        rows.append(("identified", self._identified()))
        if self.missing_mass:
            rows.append(("discounted mass unobserved", f"{self.missing_mass:.2%}"))
        rows += [(extra.name, extra.value) for extra in self.extras]
        rows += [("steps", self.iterations), ("seconds", round(self.seconds, 3))]
        return pairs(f"{self.method}: fit", rows)


def total_log_likelihood(plan: Plan, expert: Expert) -> float:
    """Σ w log π over observed choices, undiscounted."""
    if expert.statistics is not None:
        seen = expert.choices(discounted=False)
        with scope():
            chosen = np.asarray(log_policy_by_time(plan, seen.states, seen.actions))
        return expert.weight * float((seen.weights * np.where(seen.weights > 0, chosen, 0.0)).sum())
    assert expert.demos is not None
    demos = expert.demos
    with scope():
        choices = np.asarray(log_policy_of_choices(plan, demos))
    return weighted_sum(demos, choices)


def weighted_sum(demos: Demonstrations, choices: Float[np.ndarray, " n"]) -> float:
    """Σ w x over observed choices; one that counts nothing may be −inf, though 0 · −inf is NaN."""
    weights = np.repeat(demos.weights, demos.lengths)
    return float(weights @ np.where(weights > 0, choices, 0.0))
