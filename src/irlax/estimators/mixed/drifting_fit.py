"""The result of fitting a drifting reward."""

from math import comb
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import chdtrc, ndtri

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.fit import Fit
from irlax.estimators.mixed.drifting_periods import Clock
from irlax.estimators.mixed.mixed_fit import whole
from irlax.estimators.tabular.components import Certificate
from irlax.estimators.tabular.estimator import AbstractTabularIRL
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.problem import Flattening
from irlax.iteration import History
from irlax.mdp import MDP
from irlax.planning import Plan, soft_plan
from irlax.precision import scope
from irlax.registry import check_fields, stored
from irlax.report.html import Page
from irlax.rewards import AbstractReward
from irlax.status import Status
from irlax.tables import Summary
from irlax.typing import Float, PRNGKeyArray, Shaped


@stored("drifting-fit")
class DriftingFit(Fit):
    """The path of a reward's parameters over B periods: one for all, or one for each of U individuals."""

    estimator: AbstractTabularIRL = eqx.field(static=True)
    #: The reward at the constant estimate; `reward_at` has those of periods.
    reward: AbstractReward
    expert: Expert
    #: The label of each path's individual; 0 if all share one path.
    individuals: Shaped[np.ndarray, " U"]
    #: θ in each period: the mode of its posterior.
    paths: Float[np.ndarray, "U B K"]
    #: Posterior variances of θ at the estimated size of drift; NaN for parameters that are not identified.
    variances: Float[np.ndarray, "U B K"]
    #: What the uncertainty about the size adds to them.
    size_variances: Float[np.ndarray, "U B K"]
    #: σ: the standard deviation of the change of each parameter from one period to the next.
    drift: Float[np.ndarray, " K"]
    #: Standard errors of log σ; NaN where σ is 0 or was given.
    drift_log_errors: Float[np.ndarray, " K"]
    #: The parameters of each path if nothing drifts.
    constant: Float[np.ndarray, "U K"]
    log_evidence: float
    constant_log_evidence: float
    #: Σ log π over all observed choices at the mode, and at the constant parameters.
    log_likelihood: float
    constant_log_likelihood: float
    status: Status = eqx.field(static=True)
    certificate: Certificate
    #: Minus the log evidence along the search for σ, and the largest derivative in log σ.
    history: History
    seconds: float
    #: What is wrong and what to do, if the status is not a success.
    reason: str = eqx.field(static=True, default="")
    held_out_log_likelihood: float | None = None

    @property
    def mdp(self) -> MDP:
        """The MDP of the fit, with the start distribution that was used."""
        return self.expert.mdp

    @property
    def clock(self) -> Clock:
        """What a period is."""
        return self._settings.clock

    @property
    def _settings(self) -> Any:
        """The estimator, which is a `DriftingIRL`: its module imports this one."""
        return self.estimator

    @property
    def demos(self) -> Demonstrations:
        """The demonstrations."""
        assert self.expert.demos is not None
        return self.expert.demos

    @property
    def num_periods(self) -> int:
        """B."""
        return self.paths.shape[1]

    @property
    def iterations(self) -> int:
        # The history begins with the start.
        return max(len(self.history) - 1, 0)

    @property
    def num_choices(self) -> int | float:
        """The number of choices, each counted by its weight."""
        return whole(self.demos.choice_weights.sum())

    @property
    def log_evidence_ratio(self) -> float:
        """The log evidence of the drift minus that of no drift: above 0 if the choices are more probable with it."""
        return self.log_evidence - self.constant_log_evidence

    @property
    def p_value(self) -> float:
        r"""How often an evidence ratio as large would be found if nothing drifted.

        Of twice the log ratio, against the mixture $\sum_j \binom{G}{j} 2^{-G} \chi^2_j$ of G sizes at the edge of
        their range (Self and Liang 1987). It is conservative: without a drift the estimated size is 0 more often than
        half of the time (Shephard and Harvey 1990). NaN if the size was given.
        """
        if not isinstance(self._settings.drift, str):
            return np.nan
        groups = 1 if self._settings.drift == "common" else int(np.isfinite(self.drift).sum())
        found = 2 * self.log_evidence_ratio
        if found <= 0:
            return 1.0
        return float(sum(comb(groups, j) * chdtrc(j, found) for j in range(1, groups + 1)) / 2.0**groups)

    def reward_at(self, period: int, path: int = 0) -> AbstractReward:
        """The reward in a period, counted from 0; the last one's after the end."""
        unflatten = Flattening.of(self.reward.parameters).unflatten
        with scope():
            tree = unflatten(jnp.asarray(self.paths[path, min(period, self.num_periods - 1)]))
            return self.reward.with_parameters(jax.tree.map(np.asarray, tree))

    @property
    def rewards(self) -> tuple[AbstractReward, ...]:
        """The rewards of all periods, path by path."""
        numbers = np.ndindex(self.paths.shape[:2])
        return tuple(self.reward_at(period, path) for path, period in numbers)

    def plan_at(self, period: int, path: int = 0) -> Plan:
        """The plan for the reward of a period, as if it would stay."""
        return soft_plan(self.mdp, self.reward_at(period, path).table(self.mdp))

    def standard_errors(self, *, size_uncertainty: bool = True) -> Float[np.ndarray, "U B K"]:
        """Posterior standard deviations of θ; NaN for parameters that are not identified.

        They include the uncertainty about σ, each σ_k in turn integrated over with a flat prior, unless
        `size_uncertainty` is False: then they are for the estimated σ.
        """
        return np.sqrt(self.variances + (self.size_variances if size_uncertainty else 0.0))

    def bands(self, level: float = 0.95, *, size_uncertainty: bool = True) -> Float[np.ndarray, "U B K 2"]:
        """Pointwise bands: in the mean over periods, the share `level` of them holds the truth."""
        if not 0 < level < 1:
            raise ValueError(f"`level` must lie between 0 and 1, but is {level}.")
        reach = ndtri(0.5 + level / 2) * self.standard_errors(size_uncertainty=size_uncertainty)
        return np.stack([self.paths - reach, self.paths + reach], axis=-1)

    def score(self, demos: Demonstrations, *, individual: Any = None, period: Any = None) -> float:
        """The mean log likelihood of a choice in other demonstrations, under the estimated path.

        Over steps, a choice belongs to the period of its time. Over episodes, they are taken to come after the fitted
        ones, so that the last reward predicts them, unless `period` says to which period (from 0) each belongs. Where
        individuals have paths of their own, `individual` labels each episode.
        """
        from irlax.estimators.mixed.drifting_prediction import mean_log_likelihood

        return mean_log_likelihood(self, demos, individual, period)

    def simulate(self, num: int, *, key: PRNGKeyArray, path: int = 0, length: int | None = None) -> Demonstrations:
        """Episodes under the estimated path: `num` of them over steps, `num` in each period over episodes.

        `length` is that of an episode on an infinite horizon; over steps it is by default that of the path.
        """
        from irlax.estimators.mixed.drifting_prediction import simulate

        return simulate(self, num, key=key, path=path, length=length)

    def summary(self) -> Summary:
        """Where the parameters start and end, how fast they drift, and how good the fit is."""
        from irlax.estimators.mixed.drifting_summary import summarised

        return summarised(self)

    @property
    def uniform_log_likelihood(self) -> float:
        """Σ log 1/(number of actions) over all observed choices: the baseline of no reward."""
        actions = self.mdp.num_available[self.demos.tabular_states]
        return -float(self.demos.choice_weights @ np.log(actions))

    @property
    def verdict(self) -> str:
        """Whether the choices speak for a drift."""
        if not self.converged:
            return "none: the fit is unfinished"
        if not np.nan_to_num(self.drift).any():
            return "no evidence of drift: a constant reward explains the choices as well"
        if np.isnan(self.p_value):
            return "the size of the drift was given"
        if self.p_value > 0.05:
            return f"weak evidence of drift (p = {self.p_value:.2g})"
        return f"drift (p = {self.p_value:.2g})"

    def describe(self) -> dict[str, Any]:
        from irlax.estimators.mixed.drifting_summary import described

        return described(self)

    def page(self) -> Page:
        from irlax.estimators.mixed.drifting_page import drifting_page

        return drifting_page(self)

    def plot(self) -> Any:
        """The path of each parameter with its 95% band, as a matplotlib figure."""
        from irlax.estimators.mixed.drifting_page import paths_figure

        return paths_figure(self)

    @classmethod
    def from_stored_fields(cls, fields: dict[str, Any]) -> "DriftingFit":
        """The fit of a file, with its reward bound to its MDP."""
        check_fields(cls, "drifting-fit", fields)
        bound = fields["reward"].bind(fields["expert"].mdp)
        checks.has_shape("drift", fields["drift"], (bound.num_parameters,), "(K,), one for each parameter")
        return cls(**fields | {"reward": bound})
