"""The result of fitting a mixture of unobserved types."""

from typing import Any

import equinox as eqx
import numpy as np
from scipy.special import softmax

from irlax.analysis.regression import decimals
from irlax.analysis.standard_errors import Kind, rank
from irlax.demos import Demonstrations
from irlax.estimators.fit import ending
from irlax.estimators.mixed.cells import AbstractCells
from irlax.estimators.mixed.cells_of_experts import cells_of
from irlax.estimators.mixed.hidden_problem import HiddenProblem
from irlax.estimators.mixed.mixed_fit import AbstractMixedFit, restored_fields, whole
from irlax.estimators.mixed.towards_goals import TowardsGoals, log_policy_under
from irlax.estimators.mixed.types import Types, individuals_of
from irlax.estimators.tabular.components import Certificate, CrossValidation
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.memo import Memo
from irlax.estimators.tabular.panel_model import PanelModel
from irlax.iteration import History
from irlax.planning import Plan
from irlax.precision import scope
from irlax.records import plain
from irlax.registry import stored
from irlax.report.html import Page
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.status import Status
from irlax.tables import Summary, Table, pairs
from irlax.typing import Float, Int, Shaped


@stored("mixture-fit")
class MixtureFit(AbstractMixedFit):
    """Rewards of G unobserved types, the most frequent first, and the posterior of each individual's type."""

    estimator: AbstractTabularIRL = eqx.field(static=True)
    all_rewards: tuple[tuple[AbstractReward, ...], ...]
    all_plans: tuple[tuple[Plan | TowardsGoals, ...], ...]
    shares: Float[np.ndarray, " G"]
    #: The individual of each episode, over all MDPs.
    person: Int[np.ndarray, " N"]
    #: The labels of individuals.
    individuals: Shaped[np.ndarray, " I"]
    #: The weight of each individual.
    weights: Float[np.ndarray, " I"]
    experts: tuple[Expert, ...]
    status: Status = eqx.field(static=True)
    certificate: Certificate
    log_likelihood: float
    #: Minus the mean log likelihood of an individual, along the best of the runs, and the size of its gradient.
    history: History
    seconds: float
    #: What is wrong and what to do, if the status is not a success.
    reason: str = eqx.field(static=True, default="")
    held_out_log_likelihood: float | None = None
    cross_validation: CrossValidation | None = None
    panel: PanelModel | None = None
    _memo: Memo = eqx.field(init=False, repr=False, static=True, default_factory=Memo)

    @property
    def parameters(self) -> Float[np.ndarray, "G K"]:
        """θ of each type."""
        return np.stack([flat(reward.parameters) for reward in self.rewards])

    @property
    def posterior(self) -> Float[np.ndarray, "I G"]:
        """The probability that an individual is of each type, given its choices."""
        return softmax(self._memo.once("joint", (self.all_plans, self.experts), self._joint), axis=1)

    def _joint(self) -> Float[np.ndarray, "I G"]:
        parts = [self.joint(demos, plans) for demos, plans in zip(self.demos, self.all_plans, strict=True)]
        joint = np.zeros((len(self.individuals), self.num_types))
        np.add.at(joint, self.person, np.concatenate(parts))
        return joint + self._log_shares

    @property
    def _log_shares(self) -> Float[np.ndarray, " G"]:
        return np.log(np.maximum(self.shares, 1e-300))

    def joint(self, demos: Demonstrations, plans: tuple[Plan | TowardsGoals, ...]) -> Float[np.ndarray, "N G"]:
        """The log likelihood of each episode under each type."""
        joint = np.zeros((demos.num_episodes, len(plans)))
        counts = 1.0 if demos.row_weights is None else demos.row_weights
        with scope():
            for g, plan in enumerate(plans):
                np.add.at(joint[:, g], demos.episode, counts * log_policy_under(plan, demos))
        return joint

    @property
    def types(self) -> Int[np.ndarray, " I"]:
        """The likeliest type of each individual."""
        return self.posterior.argmax(axis=1)

    @property
    def num_types(self) -> int:
        """The number of types, G."""
        return len(self.rewards)

    @property
    def num_individuals(self) -> int | float:
        """The number of individuals, each counted by its weight."""
        return whole(self.weights.sum())

    @property
    def certainty(self) -> float:
        """The mean posterior probability of the likeliest type."""
        return float(np.average(self.posterior.max(axis=1), weights=self.weights))

    @property
    def bic(self) -> float:
        """P·log(number of individuals) − 2·log likelihood, by which numbers of types are compared: less is better.

        P is the number of identified parameters. NaN unless the fit ended in success.
        """
        if not self.converged:
            return np.nan
        identified = rank(self.information.hessian)
        return identified * float(np.log(self.num_individuals)) - 2 * self.log_likelihood

    def hidden_problem(self) -> HiddenProblem:
        by_class = [tuple(rewards[0] for rewards in self.all_rewards)]
        cells = cells_of(by_class, self.experts, num_groups=self.num_types)
        return mixture_problem(cells, self.demos, self.person, self.weights, num_types=self.num_types, l2=self.l2)

    def unit_of_episodes(self) -> Int[np.ndarray, " N"]:
        return self.person

    def hidden_parameters(self) -> Float[np.ndarray, " odds"]:
        return self._log_shares[1:] - self._log_shares[0]

    def hidden_penalty(self) -> Float[np.ndarray, " 1"]:
        return np.zeros(1)

    def score(self, demos: Demonstrations, *, individual: Any = None) -> float:
        """The mean log likelihood of a choice in other demonstrations in the (first) MDP, with types summed out.

        `individual` labels the individual of each episode, if some have several.
        """
        total, choices = self.held_out(demos, individual=individual)
        return total / choices

    def held_out(self, demos: Demonstrations, *, individual: Any = None) -> tuple[float, float]:
        """The log likelihood of individuals with their types summed out, and the number of their choices, by weight."""
        if not isinstance(demos, Demonstrations):
            raise TypeError(f"`demos` must be Demonstrations, but is a {type(demos).__name__}.")
        demos.check(self.mdp)
        names, person, weights = individuals_of([demos], individual)
        joint = np.tile(self._log_shares, (len(names), 1))
        np.add.at(joint, person, self.joint(demos, self.plans))
        return float(weights @ np.logaddexp.reduce(joint, axis=1)), float(demos.choice_weights.sum())

    def covariance(self, kind: Kind = "hessian") -> Float[np.ndarray, "Q Q"]:
        """The joint covariance of (θ₁, …, θ_G, s₁, …, s_G); NaN for parameters that are not identified.

        By the inverse Hessian, the outer product of individuals' scores, or the sandwich of both; for the shares by the
        delta method from their log-odds. Where a panel's transitions were estimated,
        their sampling error is included (Newey and McFadden 1994).
        """
        # ∂s_g/∂odds_h = s_g(1[g = h] − s_h); the first type's odds are fixed.
        slopes = (np.diag(self.shares) - np.outer(self.shares, self.shares))[:, 1:]
        return self.covariance_of_rewards_and(slopes, kind, self.weights)

    def standard_errors(self, kind: Kind = "hessian") -> Float[np.ndarray, "G K"]:
        """Standard errors of each type's parameters, including the uncertainty about the types of individuals."""
        size = self.parameters.size
        return np.sqrt(np.diag(self.covariance(kind))[:size]).reshape(self.parameters.shape)

    def share_errors(self, kind: Kind = "hessian") -> Float[np.ndarray, " G"]:
        """Standard errors of the shares."""
        return np.sqrt(np.diag(self.covariance(kind))[self.parameters.size :])

    def summary(self) -> Summary:
        """Parameters and shares by type, and how good the fit is."""
        return Summary([self._types(), self._facts()])

    def _types(self) -> Table:
        """Estimates with standard errors; for a fit that is not a success, the last iterate without errors."""
        values = np.concatenate([self.shares[:, None], self.parameters], axis=1)[..., None]
        columns, title = ["type {}"], "MixtureIRL: the last iterate; these are no estimates"
        if self.converged:
            errors = np.concatenate([self.share_errors()[:, None], self.standard_errors()], axis=1)
            values = np.concatenate([values, errors[..., None]], axis=-1)
            columns, title = [*columns, "s.e."], "MixtureIRL: types"
        names = ["share", *self.rewards[0].parameter_names()]
        heads = ["", *(column.format(g + 1) for g in range(self.num_types) for column in columns)]
        rows = [(name, *values[:, k].ravel().tolist()) for k, name in enumerate(names)]
        return Table(heads, rows, title=title, notes=self.error_notes)

    def _facts(self) -> Table:
        facts = [
            ("status", self.status.value),
            *self.settings,
            ("discount", float(self.mdp.discount)),
            *([] if self.goals is None else [("goals", len(self.goals))]),
            ("individuals", self.num_individuals),
            ("choices", self.num_choices),
            ("log likelihood", decimals(self.log_likelihood)),
        ]
        if self.held_out_log_likelihood is not None:
            facts.append(("log likelihood, held out", decimals(self.held_out_log_likelihood)))
        if self.converged:
            facts.append(("BIC", decimals(self.bic)))
        facts += [
            ("mean posterior of the likeliest type", self.certainty),
            *([] if self.cross_validation is None else self.cross_validation.facts()),
            ("largest gradient", self.certificate.gradient),
            ("steps", self.iterations),
            ("seconds", round(self.seconds, 3)),
        ]
        return pairs("MixtureIRL: fit", facts, [self.reason] if self.reason else [])

    def describe(self) -> dict[str, Any]:
        names = self.rewards[0].parameter_names()
        errors = self.standard_errors() if self.converged else [[None] * len(names)] * self.num_types
        share_errors = self.share_errors() if self.converged else [None] * self.num_types
        types = [
            {
                "share": plain(self.shares[g]),
                "share_error": plain(share_errors[g]),
                "parameters": [
                    {"name": name, "estimate": plain(self.parameters[g, k]), "standard_error": plain(errors[g][k])}
                    for k, name in enumerate(names)
                ],
            }
            for g in range(self.num_types)
        ]
        chosen = self.cross_validation
        return {
            **ending(self),
            "settings": {name: plain(value) for name, value in self.settings},
            "reward": type(self.rewards[0]).__name__,
            "types": types,
            "num_states": self.mdp.num_states,
            "num_actions": self.mdp.num_actions,
            "discount": float(self.mdp.discount),
            "horizon": self.mdp.horizon,
            "goals": None if self.goals is None else len(self.goals),
            "reason": self.reason,
            "individuals": plain(self.num_individuals),
            "choices": plain(self.num_choices),
            "log_likelihood": plain(self.log_likelihood),
            "held_out_log_likelihood": plain(self.held_out_log_likelihood),
            "bic": plain(self.bic) if self.converged else None,
            "certainty": plain(self.certainty),
            "cross_validation": None
            if chosen is None
            else {name: plain(value) for name, value in vars(chosen).items()},
            "certificate": {name: plain(value) for name, value in vars(self.certificate).items()},
            "steps": self.iterations,
            "seconds": plain(self.seconds),
        }

    def page(self) -> Page:
        from irlax.estimators.mixed.mixture_page import mixture_page

        return mixture_page(self)

    def plot(self) -> Any:
        """The parameters of all types with their intervals, as a matplotlib figure."""
        from irlax.estimators.mixed.mixture_page import types_figure

        return types_figure(self)

    @classmethod
    def from_stored_fields(cls, fields: dict[str, Any]) -> "MixtureFit":
        """The fit, with its plans computed again; also from the fields of a fit to one MDP in earlier versions."""
        if "expert" in fields:
            fields = _from_one_expert(fields)
        fields = restored_fields(cls, "mixture-fit", fields)
        if len(fields["all_rewards"][0]) != len(fields["shares"]):
            raise ValueError(f"There are {len(fields['all_rewards'][0])} rewards for {len(fields['shares'])} types.")
        return cls(**fields)


def _from_one_expert(fields: dict[str, Any]) -> dict[str, Any]:
    """The present fields of a fit that was stored with one expert, its curvature and its scores."""
    kept = {
        name: fields[name] for name in fields if name not in ("expert", "rewards", "hessian", "scores", "posterior")
    }
    demos = fields["expert"].demos
    own = len(fields["individuals"]) == demos.num_episodes
    if not own:
        raise ValueError("This fit of an earlier version has individuals with several episodes: fit it again.")
    return kept | {
        "all_rewards": (fields["rewards"],),
        "experts": (fields["expert"],),
        "person": np.arange(demos.num_episodes),
    }


def mixture_problem(
    cells: AbstractCells,
    demos: list[Demonstrations],
    person: Int[np.ndarray, " N"],
    weights: Float[np.ndarray, " I"],
    *,
    num_types: int,
    l2: float,
) -> HiddenProblem:
    """The likelihood of a mixture; `person` is the individual of each episode of all demonstrations."""
    lengths = np.concatenate([each.lengths for each in demos])
    counts = [np.ones(each.num_steps) if each.row_weights is None else each.row_weights for each in demos]
    types = Types.of(
        cells.cell,
        np.repeat(person, lengths),
        np.concatenate(counts),
        num_cells=cells.num_cells,
        num_types=num_types,
    )
    return HiddenProblem.of(cells, types, weights, l2)
