"""The result of fitting a mixture of unobserved types."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from irlax.analysis.standard_errors import Kind, covariance, rank
from irlax.demos import Demonstrations
from irlax.demos.likelihood import log_policy_of_choices
from irlax.estimators.fit import Fit, ending
from irlax.estimators.tabular.components import Certificate, CrossValidation
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.mixture_model import individuals_of, weights_of
from irlax.estimators.tabular.tabular_fit import plan_of
from irlax.iteration import History
from irlax.mdp import MDP
from irlax.planning import Plan
from irlax.precision import scope
from irlax.records import plain
from irlax.registry import check_fields, stored
from irlax.report.html import Page
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.status import Status
from irlax.tables import Summary, Table, pairs
from irlax.typing import Float, Int, Shaped


@stored("mixture-fit")
class MixtureFit(Fit):
    """Rewards of G unobserved types, the most frequent first, and what the data say of each individual's type."""

    estimator: AbstractTabularIRL = eqx.field(static=True)
    rewards: tuple[AbstractReward, ...]
    plans: tuple[Plan, ...]
    shares: Float[np.ndarray, " G"]
    #: The probability that an individual is of each type, given its choices.
    posterior: Float[np.ndarray, "I G"]
    #: Their labels, in the order of `posterior`.
    individuals: Shaped[np.ndarray, " I"]
    #: As how many each of them counts.
    weights: Float[np.ndarray, " I"]
    expert: Expert
    status: Status = eqx.field(static=True)
    certificate: Certificate
    log_likelihood: float
    #: Minus the mean log likelihood of an individual, from the best start on, and the size of its gradient.
    history: History
    seconds: float
    #: Of minus the log likelihood, in (θ₁, …, θ_G, log-odds of shares against the first).
    hessian: Float[np.ndarray, "P P"]
    #: Derivatives of each individual's log likelihood in the same; an individual of weight 2 is not two rows.
    scores: Float[np.ndarray, "I P"]
    #: What is wrong and what to do, where the status is not a success.
    reason: str = eqx.field(static=True, default="")
    held_out_log_likelihood: float | None = None
    cross_validation: CrossValidation | None = None

    @property
    def parameters(self) -> Float[np.ndarray, "G K"]:
        """θ of each type."""
        return np.stack([flat(reward.parameters) for reward in self.rewards])

    @property
    def types(self) -> Int[np.ndarray, " I"]:
        """The likeliest type of each individual."""
        return self.posterior.argmax(axis=1)

    @property
    def policies(self) -> Float[np.ndarray, "G *T R A"]:
        """The policy of each type."""
        return np.stack([np.asarray(plan.policy) for plan in self.plans])

    @property
    def mdp(self) -> MDP:
        """The MDP of the fit, with the start distribution that was used."""
        return self.expert.mdp

    @property
    def l2(self) -> float:
        """The weight of the penalty ½·l2·‖θ‖² of each type."""
        given = getattr(self.estimator, "l2", 0.0)
        return float(given) if self.cross_validation is None else self.cross_validation.l2

    @property
    def settings(self) -> tuple[tuple[str, Any], ...]:
        """What the summary says of the estimator; a penalty that was chosen by cross-validation as it was chosen."""
        return tuple((name, self.l2 if name == "l2" else value) for name, value in self.estimator.settings())

    @property
    def iterations(self) -> int:
        # The history begins with the start.
        return max(len(self.history) - 1, 0)

    @property
    def num_types(self) -> int:
        """G."""
        return len(self.rewards)

    @property
    def num_individuals(self) -> int | float:
        """Individuals that were learned from, each as often as its weight says."""
        return _whole(self.weights.sum())

    @property
    def num_choices(self) -> int | float:
        """Choices that were learned from, each as often as its individual's weight says."""
        demos = self.expert.demos
        assert demos is not None
        return _whole(demos.weights @ demos.lengths)

    @property
    def certainty(self) -> float:
        """The mean posterior probability of the likeliest type."""
        return float(np.average(self.posterior.max(axis=1), weights=self.weights))

    @property
    def bic(self) -> float:
        """P·log(number of individuals) − 2·log likelihood, by which numbers of types are compared: less is better.

        P counts what the data identify: a column that repeats others is no parameter more. NaN unless the fit ended
        in success.
        """
        if not self.converged:
            return np.nan
        return rank(self.hessian) * float(np.log(self.num_individuals)) - 2 * self.log_likelihood

    def score(self, demos: Demonstrations, *, individual: Any = None) -> float:
        """The mean log likelihood of a choice in other demonstrations, with their types summed out.

        `individual` labels the individual of each episode, if some have several.
        """
        total, choices = self.held_out(demos, individual=individual)
        return total / choices

    def held_out(self, demos: Demonstrations, *, individual: Any = None) -> tuple[float, float]:
        """The log likelihood of individuals with their types summed out, and the number of their choices, by weight."""
        if not isinstance(demos, Demonstrations):
            raise TypeError(f"Individuals are scored by their Demonstrations, but a {type(demos).__name__} came.")
        demos.check(self.expert.mdp)
        _, person = individuals_of(demos, individual)
        joint = np.tile(np.log(np.maximum(self.shares, 1e-300)), (person.max() + 1, 1))
        with scope():
            for g, plan in enumerate(self.plans):
                np.add.at(joint[:, g], person[demos.episode], np.asarray(log_policy_of_choices(plan, demos)))
        total = weights_of(demos, person) @ np.logaddexp.reduce(joint, axis=1)
        return float(total), float(demos.weights @ demos.lengths)

    def covariance(self, kind: Kind = "hessian") -> Float[np.ndarray, "Q Q"]:
        """Of (θ₁, …, θ_G, s₁, …, s_G), of all of them together; NaN where they are not identified.

        By the inverse Hessian, the outer product of individuals' scores, or the sandwich of both. Shares by the delta
        method from their log-odds.
        """
        if not self.converged:
            raise ValueError(f"The fit {self.status.value}, so it has no standard errors.")
        size = self.parameters.size
        penalty = np.zeros(len(self.hessian))
        penalty[:size] = self.l2 * self.weights.sum()
        # A weight counts an individual as often, so its score enters Σ w s sᵀ that often, not w² times.
        inner = covariance(kind, self.hessian, np.sqrt(self.weights)[:, None] * self.scores, penalty)
        jacobian = np.zeros((size + self.num_types, len(inner)))
        jacobian[:size, :size] = np.eye(size)
        # ∂s_g/∂odds_h = s_g(1[g = h] − s_h); the first type's odds are fixed.
        jacobian[size:, size:] = (np.diag(self.shares) - np.outer(self.shares, self.shares))[:, 1:]
        known = np.nan_to_num(inner)
        result = jacobian @ known @ jacobian.T
        hidden = np.abs(jacobian[:, np.isnan(np.diag(inner))]).max(axis=1, initial=0.0) > 0
        result[hidden, :] = result[:, hidden] = np.nan
        return result

    def standard_errors(self, kind: Kind = "hessian") -> Float[np.ndarray, "G K"]:
        """Of each type's parameters, with the uncertainty about who is of which type in them."""
        size = self.parameters.size
        return np.sqrt(np.diag(self.covariance(kind))[:size]).reshape(self.parameters.shape)

    def share_errors(self, kind: Kind = "hessian") -> Float[np.ndarray, " G"]:
        """Standard errors of the shares."""
        return np.sqrt(np.diag(self.covariance(kind))[self.parameters.size :])

    def summary(self) -> Summary:
        """Parameters and shares by type, and how good the fit is."""
        return Summary([self._types(), self._facts()])

    def _types(self) -> Table:
        """Estimates with their errors; of a fit that is not a success, what it came to, and no errors."""
        values = np.concatenate([self.shares[:, None], self.parameters], axis=1)[..., None]
        columns, title = ["type {}"], "MixtureIRL: where the fit ended; these are no estimates"
        if self.converged:
            errors = np.concatenate([self.share_errors()[:, None], self.standard_errors()], axis=1)
            values = np.concatenate([values, errors[..., None]], axis=-1)
            columns, title = [*columns, "s.e."], "MixtureIRL: types"
        names = ["share", *self.rewards[0].parameter_names()]
        heads = ["", *(column.format(g + 1) for g in range(self.num_types) for column in columns)]
        return Table(heads, [(name, *values[:, k].ravel().tolist()) for k, name in enumerate(names)], title=title)

    def _facts(self) -> Table:
        facts = [
            ("status", self.status.value),
            *self.settings,
            ("discount", float(self.expert.mdp.discount)),
            ("individuals", self.num_individuals),
            ("choices", self.num_choices),
            ("log likelihood", _decimals(self.log_likelihood)),
        ]
        if self.held_out_log_likelihood is not None:
            facts.append(("log likelihood, held out", _decimals(self.held_out_log_likelihood)))
        if self.converged:
            facts.append(("BIC", _decimals(self.bic)))
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
        from irlax.estimators.tabular.mixture_page import mixture_page

        return mixture_page(self)

    def plot(self) -> Any:
        """The parameters of all types with their intervals, as a matplotlib figure."""
        from irlax.estimators.tabular.mixture_page import types_figure

        return types_figure(self)

    def stored_fields(self) -> dict[str, Any]:
        """All fields but the plans, which follow from the rewards."""
        for reward in self.rewards:
            if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(reward.parameters)):
                raise ValueError("The parameters of a reward must be finite to be saved.")
        return {name: value for name, value in vars(self).items() if name != "plans"}

    @classmethod
    def from_stored_fields(cls, fields: dict[str, Any]) -> "MixtureFit":
        """The fit, with its plans made again."""
        check_fields(cls, "mixture-fit", fields | {"plans": ()})
        mdp, rewards = fields["expert"].mdp, fields["rewards"]
        if not rewards or len(rewards) != len(fields["shares"]):
            raise ValueError(f"There are {len(rewards)} rewards for {len(fields['shares'])} types.")
        bound = tuple(reward.bind(mdp) for reward in rewards)
        plans = tuple(plan_of("soft", mdp, reward) for reward in bound)
        return cls(**fields | {"rewards": bound, "plans": plans})


def _whole(total: Any) -> int | float:
    """A sum of weights, as a whole number where it is one."""
    return int(total) if total == round(total) else float(total)


def _decimals(number: float) -> str:
    return f"{number:.3f}".replace("-", "−")
