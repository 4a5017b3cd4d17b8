"""The result of fitting a mixture of unobserved types."""

from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np

from irlax.analysis.standard_errors import Kind, covariance
from irlax.estimators.base import Status
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.fit import Certificate, History
from irlax.planning import Plan
from irlax.rewards import AbstractReward
from irlax.rewards.base import flat
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
    #: Derivatives of each individual's log likelihood, times its weight, in the same.
    scores: Float[np.ndarray, "I P"]

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
    def bic(self) -> float:
        """P·log(number of individuals) − 2·log likelihood, by which numbers of types are compared: less is better."""
        return len(self.hessian) * float(np.log(len(self.posterior))) - 2 * self.log_likelihood

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
        inner = covariance(kind, self.hessian, self.scores, penalty)
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
        errors = self.standard_errors() if self.converged else np.full(self.parameters.shape, np.nan)
        share_errors = self.share_errors() if self.converged else np.full(self.num_types, np.nan)
        columns = ["", *(name for g in range(self.num_types) for name in (f"type {g + 1}", "s.e."))]
        names = ["share", *self.rewards[0].parameter_names()]
        estimates = np.concatenate([self.shares[:, None], self.parameters], axis=1)
        both = np.stack([estimates, np.concatenate([share_errors[:, None], errors], axis=1)], axis=-1)
        rows = [(name, *both[:, k].ravel().tolist()) for k, name in enumerate(names)]
        assert self.expert.demos is not None
        facts = [
            ("status", self.status.value),
            *self.settings,
            ("discount", float(self.expert.mdp.discount)),
            ("individuals", len(self.posterior)),
            ("choices", self.expert.demos.num_steps),
            ("log likelihood", f"{self.log_likelihood:.3f}".replace("-", "−")),
            ("BIC", f"{self.bic:.3f}".replace("-", "−")),
            ("mean posterior of the likeliest type", float(self.posterior.max(axis=1).mean())),
            ("largest gradient", self.certificate.gradient),
            ("steps", self.iterations),
            ("seconds", round(self.seconds, 3)),
        ]
        return Summary([Table(columns, rows, title="MixtureIRL: types"), pairs("MixtureIRL: fit", facts)])

    def save(self, path: str | Path) -> Path:
        """Write the fit as a folder that `irlax.load` reads; nothing in it can run code."""
        from irlax.estimators.tabular.mixture_storage import save_mixture

        return save_mixture(self, path)
