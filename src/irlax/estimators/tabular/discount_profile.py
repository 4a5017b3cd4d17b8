r"""The discount: its profile likelihood, a confidence set, and whether the data say anything about it.

$$\ell_p(\gamma) = \max_\theta \ell(\theta, \gamma), \quad
  \{\gamma : 2(\ell_p(\hat\gamma) - \ell_p(\gamma)) \le \hat\kappa\,\chi^2_1\}, \quad
  \hat\kappa = \hat V_{\text{clustered}}(\hat\gamma) / \hat V_{\text{model}}(\hat\gamma)$$

κ scales the likelihood ratio for dependence within individuals and for estimated transitions (Rotnitzky and Jewell
1990).

Without restrictions a discount cannot be learned from choices: whatever it is, some reward explains them (Magnac and
Thesmar 2002). An exclusion restriction identifies it: a variable that moves the next state, but not today's reward
(Abbring and Daljord 2020). Whether a given reward leaves room for one is a question of rank: γ is identified, near γ̂,
if ∂log π/∂γ is no combination of ∂log π/∂θ over the observed states.
"""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri

from irlax import checks
from irlax.analysis.regression import estimate_rows
from irlax.estimators.tabular.discount_estimate import DiscountEstimate
from irlax.estimators.tabular.discount_information import joint_information
from irlax.estimators.tabular.inference import Information, refuse_unless_likelihood
from irlax.report.plots import COLOURS, blank, on_axes
from irlax.rewards.reward import flat
from irlax.status import UnfinishedWarning
from irlax.tables import AbstractTabulated, Summary, Table, pairs
from irlax.typing import Float

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit

#: Where the profile is computed unless told otherwise; the maximum and the ends of the set are searched for in between.
GRID = (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99, 0.995)
#: γ is not identified if less than this share of its effect on log π is left once that of θ is taken out.
RANK_TOLERANCE = 1e-6
#: What is said of a discount that the data do not bound.
WEAKLY = "weakly: no discount of the range is rejected, so the data do not bound it."
#: How close the estimate and the ends of the confidence set are found.
ACCURACY = 1e-4


class DiscountProfile(AbstractTabulated):
    """The largest log likelihood at each discount, and what follows from it."""

    discounts: Float[np.ndarray, " D"]
    log_likelihoods: Float[np.ndarray, " D"]
    found: DiscountEstimate
    identified: bool = eqx.field(static=True)
    #: Why γ is not identified, or how well it is.
    reason: str = eqx.field(static=True)
    #: By how much clustering and estimated transitions multiply the variance of γ̂.
    adjustment: float
    #: The fit at the estimate; where γ is not identified, the fit that the profile was made from.
    fit: "TabularFit"

    @property
    def estimate(self) -> float:
        """γ̂."""
        return self.found.estimate

    @property
    def weak(self) -> bool:
        """Whether no discount of the range is rejected, so that the estimate says nothing."""
        whole = ((float(self.discounts[0]), float(self.discounts[-1])),)
        return self.identified and self.confidence_set == whole

    @property
    def confidence_set(self) -> tuple[tuple[float, float], ...]:
        """Intervals, one below the other; all of the range where γ is not identified."""
        return self.found.confidence_set

    def contains(self, discount: float) -> bool:
        """Whether a discount lies in the confidence set."""
        return any(low <= discount <= high for low, high in self.confidence_set)

    def summary(self) -> Summary:
        """The profile, the estimate with its set, and what the data cannot tell."""
        fall = self.log_likelihoods.max() - self.log_likelihoods
        rows = [
            (f"{gamma:.4g}", float(value), float(down))
            for gamma, value, down in zip(self.discounts, self.log_likelihoods, fall, strict=True)
        ]
        table = Table(("discount", "log likelihood", "below the maximum"), rows, "Profile likelihood of the discount")
        facts: list[tuple[str, Any]] = [("identified", "weakly" if self.weak else self.identified)]
        if self.identified:
            facts += [("estimate", self.found.text()), ("variance multiplied by", self.adjustment)]
        return Summary([table, pairs("Discount", facts, [self.reason])])

    def _shown(self) -> Summary:
        return self.summary()

    def regression_table(self, *, level: float = 0.95) -> Table:
        """The reward's parameters and the discount, estimated together, with clustered standard errors."""
        if not self.identified:
            raise ValueError(self.reason)
        joint = joint_information(self.fit)
        errors = np.sqrt(np.diag(joint.covariance("sandwich", joint.default_cluster, "frequency")))
        names = [*self.fit.reward.parameter_names(), "discount γ"]
        estimates = np.append(flat(self.fit.reward.parameters), self.estimate)
        return Table(*estimate_rows("parameter", names, estimates, errors, level), "Estimated together", [self.reason])

    def plot(self, *, ax: Any = None) -> Any:
        """The profile, with its confidence set as a band and the value at which the set ends as a line.

        A matplotlib figure; with `ax` it is drawn on these axes, which are returned.
        """
        return on_axes(ax, self._draw, lambda: blank(width=6.0))

    def _draw(self, _: Any, ax: Any) -> None:
        fall = self.log_likelihoods - self.log_likelihoods.max()
        ax.plot(self.discounts, fall, color=COLOURS[0], linewidth=2, marker="o", markersize=3)
        for low, high in self.confidence_set if self.identified else ():
            ax.axvspan(low, high, color=COLOURS[0], alpha=0.15, linewidth=0)
        limit = 0.5 * self.adjustment * _quantile(self.found.level)
        if self.identified:
            ax.axhline(-limit, color="0.6", linewidth=1, linestyle="--")
        ax.set_ylim(max(fall.min() * 1.05, -8 * limit) - 1e-3, 0.3 * limit)
        ax.set_xlabel("discount γ")
        ax.set_ylabel("log likelihood, below the maximum")
        ax.set_title("identified" if self.identified else "not identified: the profile is flat", fontsize=10)


class _Refit(NamedTuple):
    fit: "TabularFit"
    log_likelihood: float


def discount_profile(fit: "TabularFit", discounts: Any, level: float) -> DiscountProfile:
    """See `TabularFit.discount_profile`."""
    refuse_unless_likelihood(fit)
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1, but is {level}.")
    grid = np.unique(checks.as_floats("discounts", GRID if discounts is None else discounts))
    if len(grid) < 3 or grid[0] < 0 or grid[-1] >= 1:
        raise ValueError(f"`discounts` must be at least three numbers from 0 to below 1, but are {grid}.")
    refit = _refitting(fit)
    values = np.array([refit(gamma).log_likelihood for gamma in grid])
    identified, why = _is_identified(fit)
    whole = ((float(grid[0]), float(grid[-1])),)
    if not identified:
        nothing = DiscountEstimate(float(fit.mdp.discount), float("nan"), whole, level)
        return DiscountProfile(grid, values, nothing, False, why, 1.0, fit)
    best = _maximum(grid, values, refit)
    at_best = refit(best)
    inner = grid[0] + ACCURACY < best < grid[-1] - ACCURACY
    error, adjustment = _error(joint_information(at_best.fit))
    limit = 0.5 * adjustment * _quantile(level)
    parts = _set_above(np.append(grid, best), lambda g: refit(g).log_likelihood - at_best.log_likelihood + limit)
    found = DiscountEstimate(float(best), error if inner else float("nan"), parts, level)
    reason = why
    if parts == whole:
        reason = f"Identified, but {WEAKLY}"
    every, first = np.unique(np.append(grid, best), return_index=True)
    profile = np.append(values, at_best.log_likelihood)[first]
    return DiscountProfile(every, profile, found, True, reason, adjustment, at_best.fit)


def _refitting(fit: "TabularFit") -> Callable[[float], _Refit]:
    """γ ↦ the fit at this discount, started at the parameters of the nearest one before."""
    done: dict[float, _Refit] = {float(fit.mdp.discount): _Refit(fit, float(fit.log_likelihood or 0.0))}

    def refit(gamma: float) -> _Refit:
        gamma = float(gamma)
        if gamma not in done:
            near = done[min(done, key=lambda other: abs(other - gamma))].fit
            # As an array, because programs are compiled anew for each number that is none.
            mdps = [eqx.tree_at(lambda mdp: mdp.discount, expert.mdp, np.asarray(gamma)) for expert in fit.experts]
            demos = [expert.demos for expert in fit.experts]
            several = len(mdps) > 1
            arguments = (mdps, list(near.rewards), demos) if several else (mdps[0], near.reward, demos[0])
            method: Any = fit.estimator
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnfinishedWarning)
                new = method.fit(*arguments)
            new = eqx.tree_at(lambda fit: fit.panel, new, fit.panel, is_leaf=lambda leaf: leaf is None)
            done[gamma] = _Refit(new, float(new.log_likelihood))
        return done[gamma]

    return refit


def _is_identified(fit: "TabularFit") -> tuple[bool, str]:
    """Whether ∂log π/∂γ is no combination of ∂log π/∂θ over the observed choices; and why, or why not."""
    scores = joint_information(fit).scores
    by_theta, by_discount = scores[:, :-1], scores[:, -1]
    units = np.maximum(np.abs(by_theta).max(axis=0), 1e-300)
    found, *_ = np.linalg.lstsq(by_theta / units, by_discount, rcond=1e-10)
    left = np.linalg.norm(by_discount - by_theta / units @ found) / max(np.linalg.norm(by_discount), 1e-300)
    if left > RANK_TOLERANCE:
        return True, (
            "Identified by what the reward leaves out: terms that would explain choices as well as another discount "
            "does (an exclusion restriction; Abbring and Daljord 2020)."
        )
    return False, (
        "Not identified: at every discount there are parameters with the same choice probabilities, because the terms "
        "of the reward can take up what another discount changes (Magnac and Thesmar 2002). An exclusion restriction "
        "would identify it: a variable that moves the next state, but is left out of the reward."
    )


def _maximum(grid: np.ndarray, values: np.ndarray, refit: Callable[[float], _Refit]) -> float:
    top = int(np.argmax(values))
    low, high = grid[max(top - 1, 0)], grid[min(top + 1, len(grid) - 1)]
    found = minimize_scalar(
        lambda gamma: -refit(gamma).log_likelihood, bounds=(low, high), method="bounded", options={"xatol": ACCURACY}
    )
    return float(found.x) if -found.fun > values[top] else float(grid[top])


def _set_above(points: np.ndarray, height: Callable[[float], float]) -> tuple[tuple[float, float], ...]:
    """Where a function is not negative, as intervals between the first and the last point."""
    points = np.sort(points)
    inside = np.array([height(point) >= 0 for point in points])
    ends: list[float] = [float(points[0])] if inside[0] else []
    for k in np.flatnonzero(np.diff(inside)):
        root: Any = brentq(height, points[k], points[k + 1], xtol=ACCURACY)
        ends.append(float(root))
    ends += [float(points[-1])] if inside[-1] else []
    return tuple(zip(ends[::2], ends[1::2], strict=True))


def _error(joint: Information) -> tuple[float, float]:
    """The clustered standard error of γ̂, and its square in units of the variance that the model implies."""
    robust = joint.identified_covariance("sandwich", joint.default_cluster)[-1, -1]
    return float(np.sqrt(robust)), float(robust / joint.inverse[-1, -1])


def _quantile(level: float) -> float:
    """The quantile of χ² with one degree of freedom."""
    return float(ndtri(0.5 + level / 2) ** 2)
