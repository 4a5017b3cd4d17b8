"""The result of fitting a mixture of unobserved types."""

from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np

from irlax.analysis.standard_errors import Kind, covariance, rank
from irlax.demos import Demonstrations
from irlax.demos.likelihood import log_policy_of_choices
from irlax.estimators.status import Status
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.fit import Certificate, Extra, History
from irlax.estimators.tabular.mixture_model import individuals_of, weights_of
from irlax.planning import Plan
from irlax.precision import scope
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.tables import Summary, Table, pairs
from irlax.typing import Float, Int, Shaped


class MixtureFit(eqx.Module):
    """Rewards of G unobserved types, the most frequent first, and what the data say of each individual's type."""

    settings: tuple[tuple[str, Any], ...] = eqx.field(static=True)
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
    extras: tuple[Extra, ...] = ()

    @property
    def parameters(self) -> Float[np.ndarray, "G K"]:
        """θ of each type."""
        return np.stack([flat(reward.parameters) for reward in self.rewards])

    @property
    def types(self) -> Int[np.ndarray, " I"]:
        """The likeliest type of each individual."""
        return self.posterior.argmax(axis=1)

    @property
    def converged(self) -> bool:
        """Whether the fit ended in success."""
        return self.status.success

    @property
    def iterations(self) -> int:
        """Steps from the best start on."""
        return max(len(self.history.loss) - 1, 0)

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
        penalty[:size] = float(dict(self.settings)["l2"]) * self.weights.sum()
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
        certainty = np.average(self.posterior.max(axis=1), weights=self.weights)
        facts += [
            ("mean posterior of the likeliest type", float(certainty)),
            *((extra.name, extra.value) for extra in self.extras),
            ("largest gradient", self.certificate.gradient),
            ("steps", self.iterations),
            ("seconds", round(self.seconds, 3)),
        ]
        return pairs("MixtureIRL: fit", facts, [self.reason] if self.reason else [])

    def save(self, path: str | Path) -> Path:
        """Write the fit as a folder that `irlax.load` reads; nothing in it can run code."""
        from irlax.estimators.tabular.mixture_storage import save_mixture

        return save_mixture(self, path)


def _whole(total: Any) -> int | float:
    """A sum of weights, as a whole number where it is one."""
    return int(total) if total == round(total) else float(total)


def _decimals(number: float) -> str:
    return f"{number:.3f}".replace("-", "−")
