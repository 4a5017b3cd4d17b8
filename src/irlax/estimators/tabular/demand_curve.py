"""Demand curves: the long-run rate of an action as one parameter of the reward varies, with intervals."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.special import expit, logit, ndtri

from irlax import checks
from irlax.analysis.identifiability import direction_text
from irlax.analysis.standard_errors import Kind, null_directions
from irlax.estimators.tabular.bootstrap import refit_resamples
from irlax.estimators.tabular.counterfactual import action_index, parameter_index, refuse_unless_soft
from irlax.estimators.tabular.inference import Information
from irlax.estimators.tabular.linear_tests import linear_form
from irlax.estimators.tabular.problem import Flattening
from irlax.mdp import MDP
from irlax.planning.backup import SoftBackup
from irlax.planning.fixed_point import chain_at, fixed_point
from irlax.planning.long_run import refuse_several_classes
from irlax.planning.soft import TOLERANCE
from irlax.precision import StaysOnDevice, scope
from irlax.report.plots import COLOURS, blank, label, on_axes
from irlax.rewards import AbstractReward
from irlax.rewards.reward import AbstractFolded, flat
from irlax.tables import AbstractTabulated, Table
from irlax.typing import Array, Float, PRNGKeyArray

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit

METHODS = ("delta", "draws", "bootstrap")
#: If more than this share of resamples has no finite estimate, the bootstrap gives no intervals.
MAX_LOST = 0.05


class DemandCurve(AbstractTabulated):
    """The long-run rate of an action, per individual and period, as one parameter of the reward varies."""

    #: The parameter that varies, or the combination of parameters.
    parameter: str = eqx.field(static=True)
    action: int | str = eqx.field(static=True)
    values: Float[np.ndarray, " V"]
    rate: Float[np.ndarray, " V"]
    standard_error: Float[np.ndarray, " V"]
    interval: Float[np.ndarray, "V 2"]
    level: float = eqx.field(static=True)
    method: str = eqx.field(static=True)

    def table(self) -> Table:
        """A row for each value of the parameter."""
        low, high = self.interval.T
        rows = list(zip(*(x.tolist() for x in (self.values, self.rate, self.standard_error, low, high)), strict=True))
        columns = (self.parameter, f"rate of action {self.action}", "s.e.", f"{self.level:.0%} from", "to")
        return Table(columns, [(f"{row[0]:g}".replace("-", "−"), *row[1:]) for row in rows], title="Demand curve")

    def _shown(self) -> Table:
        return self.table()

    def plot(self, *, ax: Any = None) -> Any:
        """The curve with its interval as a band, as a matplotlib figure; with `ax`, on these axes, which it returns."""
        return on_axes(ax, self._draw, lambda: blank(width=6.0))

    def _draw(self, _: Any, ax: Any) -> None:
        low, high = self.interval.T
        ax.fill_between(self.values, low, high, color=COLOURS[0], alpha=0.2, linewidth=0, label=f"{self.level:.0%}")
        ax.plot(self.values, self.rate, color=COLOURS[0], linewidth=2)
        ax.set_xlabel(label(self.parameter))
        ax.set_ylabel(f"long-run rate of action {self.action}")
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False, fontsize=9)


def demand_curve(
    fit: "TabularFit",
    *,
    action: int | str,
    parameter: str | int,
    values: Any,
    level: float,
    method: str,
    num: int,
    key: PRNGKeyArray | None,
    mdp: MDP | Sequence[MDP] | None,
    kind: Kind,
    cluster: Any,
) -> DemandCurve:
    """See `TabularFit.demand_curve`."""
    varied, grid = _checked_request(fit, parameter, values, level)
    checks.one_of("method", method, METHODS)
    mdps = _checked_mdps(fit, mdp)
    number = action_index(action, mdps[0])
    theta = flat(fit.reward.parameters)
    at = varied.set_to(theta[None], grid)[:, 0]
    with scope():
        rate = LongRunRate(
            tuple(mdps),
            tuple(reward.bind(mdp).fold(mdp) for reward, mdp in zip(fit.rewards, mdps, strict=True)),
            jnp.asarray(_shares(fit)),
            Flattening.of(fit.reward.parameters),
        )
        rates = np.asarray(_rates(rate, jnp.asarray(number), jnp.asarray(at)))
        information = fit.information
        # What varies is set, not estimated: it has no part in the uncertainty.
        slopes = np.array(_slopes(rate, jnp.asarray(number), jnp.asarray(at))) @ varied.others
        _refuse_unidentified(fit, information, slopes)
        covariance = None if method == "bootstrap" else information.identified_covariance(kind, cluster)
        if method == "delta":
            variance = np.diag(slopes @ np.asarray(covariance) @ slopes.T)
            transitions = None if fit.panel is None or mdp is not None else fit.panel.transitions
            if transitions is not None:
                # The rate also depends on the estimated transitions directly, not only through the estimates.
                moved = OfTransitions(rate, fit.rewards, transitions.dynamics)
                by_share = np.asarray(_share_slopes(moved, number, jnp.asarray(at), jnp.asarray(transitions.shares)))
                first = np.concatenate(transitions.influence(np.ascontiguousarray(by_share.T)))
                variance = np.diag(information.covariance_of(slopes, first, kind, cluster))
            error, interval = _delta_intervals(rates, np.sqrt(variance), level)
        else:
            draws = _parameter_draws(fit, covariance, num=num, key=key)
            many = varied.set_to(draws, grid)
            found = _rates(rate, jnp.asarray(number), jnp.asarray(many.reshape(-1, len(theta))))
            found = np.asarray(found).reshape(len(grid), -1)
            error = found.std(axis=1, ddof=1)
            interval = np.quantile(found, [0.5 - level / 2, 0.5 + level / 2], axis=1).T
    return DemandCurve(varied.name, action, grid, rates, error, interval, level, method)


class Varied(NamedTuple):
    """A linear combination of the parameters that is set to given values by moving one of them."""

    name: str
    combination: Float[np.ndarray, " K"]
    moved: int

    @property
    def others(self) -> Float[np.ndarray, "K K"]:
        """How the parameters change with their estimates, if the combination is set."""
        change = np.eye(len(self.combination))
        change[self.moved] -= self.combination / self.combination[self.moved]
        return change

    def set_to(self, theta: Float[np.ndarray, "n K"], values: Float[np.ndarray, " V"]) -> Float[np.ndarray, "V n K"]:
        """The parameters with the combination at each of the values."""
        found = np.repeat(theta[None], len(values), axis=0)
        gap = values[:, None] - theta @ self.combination
        found[..., self.moved] += gap / self.combination[self.moved]
        return found


class LongRunRate(StaysOnDevice):
    """Parameters ↦ the long-run probability of an action per period, averaged over several MDPs by their shares."""

    mdps: tuple[MDP, ...]
    folded: tuple[AbstractFolded, ...]
    shares: Float[Array, " M"]
    flattening: Flattening

    def __call__(self, theta: Float[Array, " K"], action: Any) -> Float[Array, ""]:
        parameters = self.flattening.unflatten(theta)
        total = jnp.zeros(())
        for mdp, folded, share in zip(self.mdps, self.folded, self.shares, strict=True):
            backup = SoftBackup(mdp, folded(parameters))
            chain = chain_at(backup, fixed_point(backup, TOLERANCE, "auto").value)
            total = total + share * (chain.policy[action] @ chain.long_run(jnp.asarray(mdp.initial)))
        return total


@eqx.filter_jit
def _rates(rate: LongRunRate, action: Any, thetas: Float[Array, "n K"]) -> Float[Array, " n"]:
    batch = min(len(thetas), 64)
    # Padded to whole batches: a remainder of another size would be compiled separately.
    whole = jnp.pad(thetas, ((0, -len(thetas) % batch), (0, 0)), mode="edge")
    return jax.lax.map(lambda theta: rate(theta, action), whole, batch_size=batch)[: len(thetas)]


@eqx.filter_jit
def _slopes(rate: LongRunRate, action: Any, thetas: Float[Array, "n K"]) -> Float[Array, "n K"]:
    return jax.lax.map(lambda theta: jax.jacfwd(rate)(theta, action), thetas)


class OfTransitions(StaysOnDevice):
    """Parameters and the probabilities of estimated transitions ↦ the long-run probability of an action."""

    rate: LongRunRate
    rewards: tuple[AbstractReward, ...]
    dynamics: Any

    def __call__(self, theta: Float[Array, " K"], action: Any, shares: Float[Array, " J"]) -> Float[Array, ""]:
        moved = self.dynamics(shares)
        mdps = tuple(eqx.tree_at(lambda mdp: mdp.dynamics, mdp, moved) for mdp in self.rate.mdps)
        folded = tuple(reward.fold(mdp) for reward, mdp in zip(self.rewards, mdps, strict=True))
        return dataclasses.replace(self.rate, mdps=mdps, folded=folded)(theta, action)


@eqx.filter_jit
def _share_slopes(
    rate: OfTransitions, action: Any, thetas: Float[Array, "V K"], shares: Float[Array, " J"]
) -> Float[Array, "V J"]:
    return jax.lax.map(lambda theta: jax.grad(rate, argnums=2)(theta, action, shares), thetas)


def _delta_intervals(
    rates: Float[np.ndarray, " V"], error: Float[np.ndarray, " V"], level: float
) -> tuple[Float[np.ndarray, " V"], Float[np.ndarray, "V 2"]]:
    """Standard errors, and intervals on the scale of log-odds."""
    odds_error = error / np.maximum(rates * (1 - rates), 1e-300)
    reach = ndtri(0.5 + level / 2) * odds_error
    middle = logit(np.clip(rates, 0.0, 1.0))
    return error, expit(np.stack([middle - reach, middle + reach], axis=1))


def _parameter_draws(
    fit: "TabularFit", covariance: Float[np.ndarray, "K K"] | None, *, num: int, key: PRNGKeyArray | None
) -> Float[np.ndarray, "draws K"]:
    """Parameters from their asymptotic distribution, or, without a covariance, from refits to resampled episodes."""
    checks.count("num", num, 2)
    if key is None:
        raise TypeError(
            "The methods 'draws' and 'bootstrap' need a random key: pass `key=jax.random.key(0)`, for instance."
        )
    if covariance is None:
        draws = refit_resamples(fit, num=num, key=key)
        kept = np.isfinite(draws).all(axis=1)
        if (~kept).mean() > MAX_LOST:
            raise ValueError(
                f"{(~kept).sum()} of {num} resamples have no finite estimate, so the bootstrap has no intervals. Use "
                f"method='delta', or a penalty `l2=` in the fit."
            )
        return draws[kept]
    sizes, axes = np.linalg.eigh(covariance)
    normal = np.asarray(jr.normal(key, (num, len(sizes))))
    return flat(fit.reward.parameters) + normal @ (axes * np.sqrt(np.maximum(sizes, 0))).T


def _refuse_unidentified(fit: "TabularFit", information: Information, slopes: Float[np.ndarray, "V K"]) -> None:
    """Raise a ValueError that names the unidentified directions on which the curve depends, if there are any."""
    hidden = null_directions(information.hessian)
    if not len(hidden):
        return
    scale = np.max([reward.scales(expert.mdp) for reward, expert in zip(fit.rewards, fit.experts, strict=True)], axis=0)
    hidden = hidden / np.abs(hidden * scale).max(axis=1, keepdims=True)
    has_effect = np.abs(slopes @ hidden.T).max(axis=0) > 1e-7
    if has_effect.any():
        names = fit.reward.parameter_names()
        directions = [direction_text(direction, names) for direction in hidden[has_effect]]
        raise ValueError(
            f"The curve depends on directions that the data do not identify: {checks.some(directions)}. Vary a "
            f"combination that is identified (`parameter='{names[0]} - ...'`; the regression table names them), or "
            f"leave features out."
        )


def _checked_request(fit: "TabularFit", parameter: Any, values: Any, level: float) -> tuple[Varied, np.ndarray]:
    refuse_unless_soft(fit)
    varied = _varied(fit, parameter)
    grid = np.atleast_1d(checks.as_floats("values", values))
    checks.has_shape("values", grid, (None,), "values of the parameter")
    checks.finite("values", grid)
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1, but is {level}.")
    return varied, grid


def _varied(fit: "TabularFit", parameter: Any) -> Varied:
    """A parameter by its name or index, or a combination of them, of which the first one named is moved."""
    names = fit.reward.parameter_names()
    if not isinstance(parameter, str) or parameter in names:
        index = parameter_index(fit.reward, parameter)
        return Varied(names[index], np.eye(len(names))[index], index)
    combination, constant = linear_form(parameter, names)
    if constant or not combination.any():
        raise ValueError(f"`parameter` must combine parameters, {checks.some(names)}, but is {parameter!r}.")
    first = min(np.flatnonzero(combination), key=lambda k: parameter.find(names[k]))
    return Varied(parameter, combination, int(first))


def _checked_mdps(fit: "TabularFit", mdp: MDP | Sequence[MDP] | None) -> list[MDP]:
    given = [expert.mdp for expert in fit.experts] if mdp is None else [mdp] if isinstance(mdp, MDP) else list(mdp)
    if len(given) != len(fit.experts):
        raise TypeError(f"`mdp` must be a list of {len(fit.experts)} MDPs, as the fit has, but lists {len(given)}.")
    for each in given:
        if each.horizon is not None:
            raise ValueError(
                f"A demand curve needs an infinite horizon, because rates are long-run, but the MDP has {each.horizon}."
            )
        # A soft policy has all available actions in its support, whatever the reward.
        available = np.asarray(each.available)
        refuse_several_classes(each, available / available.sum(axis=1, keepdims=True))
        if each.absorbing.any():
            raise ValueError(
                "A demand curve is of the long run, in which everybody is in the absorbing state that lives end in. "
                "Use `counterfactual(parameters={...})`: its rates are then those before the end."
            )
    return given


def _shares(fit: "TabularFit") -> Float[np.ndarray, " M"]:
    weights = np.array([expert.weight for expert in fit.experts])
    return weights / weights.sum()
