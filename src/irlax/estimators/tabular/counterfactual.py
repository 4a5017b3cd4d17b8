"""Counterfactuals: what the demonstrator of a fit would do with another reward, or in another world."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from scipy.special import expit, logit, ndtri

from irlax import checks
from irlax.analysis.identifiability import spelt
from irlax.analysis.standard_errors import Kind, identified_covariance, null_directions
from irlax.estimators.tabular.inference import Information, refitted
from irlax.estimators.tabular.problem import Flattening
from irlax.mdp import MDP
from irlax.planning import Plan, long_run, soft_plan, visits
from irlax.planning.backup import SoftBackup
from irlax.planning.fixed_point import chain_at, fixed_point
from irlax.planning.long_run import refuse_several_classes
from irlax.planning.soft import TOLERANCE
from irlax.precision import StaysOnDevice, scope
from irlax.report.plots import COLOURS, blank, label
from irlax.rewards import AbstractReward
from irlax.rewards.reward import AbstractFolded, flat
from irlax.status import NotIdentifiedWarning
from irlax.tables import Summary, Table, pairs
from irlax.typing import Array, Float, PRNGKeyArray
from irlax.user_warnings import warn_user

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit

METHODS = ("delta", "draws", "bootstrap")
#: With more parameters than this it is not asked whether an answer depends on what is not identified.
MANY_PARAMETERS = 2000
#: At most so many directions that are not identified are named.
MOST_NAMED = 5
#: A larger share of resamples without a finite estimate leaves the bootstrap without intervals.
MOST_LOST = 0.05


class Counterfactual(eqx.Module):
    """The soft-optimal behaviour under a changed reward or MDP, beside that of the fit."""

    mdp: MDP
    reward: AbstractReward
    plan: Plan
    #: The plan of the fit, with which this one is compared.
    factual: Plan
    #: Directions of the parameters that the data leave open and that change what is done here, in words.
    depends_on: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def policy(self) -> Float[Array, "*T R A"]:
        """The new policy."""
        return self.plan.policy

    @property
    def long_run(self) -> Float[Array, "R A"]:
        """The share of time in each state and action in the long run, undiscounted; see `irlax.long_run`."""
        return long_run(self.mdp, self.plan)

    def rate(self, action: int) -> float:
        """How often `action` is taken in a period, in the long run."""
        _checked_action(action, self.mdp)
        return float(self.long_run[:, action].sum())

    def summary(self) -> Summary:
        """Values at the start, and on an infinite horizon long-run rates of all actions: as fitted, and changed."""
        facts: list[tuple[str, Any]] = [("value as fitted", _worth(self.factual)), ("value", _worth(self.plan))]
        facts += [("not identified, and matters here", direction) for direction in self.depends_on]
        tables = [pairs("Counterfactual", facts)]
        if self.mdp.horizon is None:
            before, after = (long_run(plan.mdp, plan).sum(axis=0) for plan in (self.factual, self.plan))
            both = zip(before.tolist(), after.tolist(), strict=True)
            rows = [(str(a), old, new, new - old) for a, (old, new) in enumerate(both)]
            tables.append(Table(("action", "as fitted", "changed", "difference"), rows, title="Long-run rates"))
        return Summary(tables)


def counterfactual(
    fit: "TabularFit", *, reward: AbstractReward | None, mdp: MDP | None, parameters: Any, which: int
) -> Counterfactual:
    """See `TabularFit.counterfactual`."""
    _refuse_unless_soft(fit)
    checks.count("which", which, 0)
    if which >= len(fit.plans):
        raise ValueError(f"`which` must be below the fit's number of MDPs, {len(fit.plans)}, but is {which}.")
    if reward is not None and parameters is not None:
        raise TypeError("Pass a `reward`, or `parameters` for the fitted one, not both.")
    if reward is None and parameters is None and mdp is None:
        raise TypeError("Nothing is changed: pass `parameters`, a `reward` or an `mdp`.")
    for name, given, kind in (("reward", reward, AbstractReward), ("mdp", mdp, MDP)):
        if given is not None and not isinstance(given, kind):
            raise TypeError(f"`{name}` must be an {kind.__name__}, but is a {type(given).__name__}.")
    world = fit.experts[which].mdp if mdp is None else mdp
    changed = fit.rewards[which] if reward is None else reward
    if parameters is not None:
        with scope():
            theta = jnp.asarray(_changed(changed, parameters))
            changed = changed.with_parameters(
                jax.tree.map(np.asarray, Flattening.of(changed.parameters).unflatten(theta))
            )
    bound = changed.bind(world)
    plan = soft_plan(world, bound.table(world))
    depends_on = () if reward is not None else _open_questions(fit, bound, plan)
    if depends_on:
        warn_user(
            f"What is done here depends on what the data do not identify: {'; '.join(depends_on)}. Other rewards "
            f"explain the demonstrations as well, and give other answers. Leave features out, or set their weights.",
            NotIdentifiedWarning,
        )
    return Counterfactual(world, bound, plan, fit.plans[which], depends_on)


def _open_questions(fit: "TabularFit", reward: AbstractReward, plan: Plan) -> tuple[str, ...]:
    """The directions that the data leave open and along which visits in the MDP of this plan change, in words."""
    if reward.num_parameters > MANY_PARAMETERS:
        return ()
    world, before = plan.mdp, np.asarray(visits(plan.mdp, plan))
    theta, scale = flat(reward.parameters), reward.scales(world)

    def matters(direction: Float[np.ndarray, " K"]) -> bool:
        # Along it the reward changes by at most 1 a step.
        moved = theta + direction / np.abs(direction * scale).max()
        with scope():
            tree = Flattening.of(reward.parameters).unflatten(jnp.asarray(moved))
            table = np.asarray(reward.fold(world)(tree)).T
        after = np.asarray(visits(world, soft_plan(world, table)))
        return bool(np.abs(after - before).max() > 1e-6 * before.sum())

    hidden = fit.unidentified()
    if not len(hidden) or not matters(np.random.default_rng(0).normal(size=len(hidden)) @ hidden):
        return ()
    names = reward.parameter_names()
    return tuple(spelt(direction, names) for direction in hidden[:MOST_NAMED] if matters(direction))


class DemandCurve(eqx.Module):
    """The long-run rate of an action, per individual and period, as one parameter of the reward varies."""

    parameter: str = eqx.field(static=True)
    action: int = eqx.field(static=True)
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

    def __str__(self) -> str:
        return str(self.table())

    def plot(self) -> Any:
        """The curve as a matplotlib figure, with its interval as a band; `.savefig(path)` writes it."""
        figure, axes = blank(width=6.0)
        ax = axes[0, 0]
        low, high = self.interval.T
        ax.fill_between(self.values, low, high, color=COLOURS[0], alpha=0.2, linewidth=0, label=f"{self.level:.0%}")
        ax.plot(self.values, self.rate, color=COLOURS[0], linewidth=2)
        ax.set_xlabel(label(self.parameter))
        ax.set_ylabel(f"long-run rate of action {self.action}")
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False, fontsize=9)
        return figure


def demand_curve(
    fit: "TabularFit",
    *,
    action: int,
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
    index, grid = _checked_request(fit, parameter, values, level)
    checks.one_of("method", method, METHODS)
    worlds = _worlds(fit, mdp)
    _checked_action(action, worlds[0])
    theta = flat(fit.reward.parameters)
    at = np.tile(theta, (len(grid), 1))
    at[:, index] = grid
    with scope():
        rate = LongRunRate(
            tuple(worlds),
            tuple(reward.bind(world).fold(world) for reward, world in zip(fit.rewards, worlds, strict=True)),
            jnp.asarray(_shares(fit)),
            Flattening.of(fit.reward.parameters),
        )
        rates = np.asarray(_rates(rate, jnp.asarray(action), jnp.asarray(at)))
        information = fit.information
        slopes = np.array(_slopes(rate, jnp.asarray(action), jnp.asarray(at)))
        # The parameter that varies is set, not estimated: it has no part in the uncertainty.
        slopes[:, index] = 0.0
        _refuse_unidentified(fit, information, slopes)
        covariance = None if method == "bootstrap" else _covariance(information, kind, cluster, index)
        if method == "delta":
            error, interval = _by_delta(rates, slopes, covariance, level)
        else:
            draws = _drawn(fit, covariance, num=num, key=key)
            many = np.repeat(draws[None], len(grid), axis=0)
            many[..., index] = grid[:, None]
            found = _rates(rate, jnp.asarray(action), jnp.asarray(many.reshape(-1, len(theta))))
            found = np.asarray(found).reshape(len(grid), -1)
            error = found.std(axis=1, ddof=1)
            interval = np.quantile(found, [0.5 - level / 2, 0.5 + level / 2], axis=1).T
    return DemandCurve(fit.reward.parameter_names()[index], action, grid, rates, error, interval, level, method)


class LongRunRate(StaysOnDevice):
    """Parameters ↦ how often an action is taken in a period, in the long run, over several MDPs by their shares."""

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
    # Whole batches only: a remainder would be compiled a second time.
    whole = jnp.pad(thetas, ((0, -len(thetas) % batch), (0, 0)), mode="edge")
    return jax.lax.map(lambda theta: rate(theta, action), whole, batch_size=batch)[: len(thetas)]


@eqx.filter_jit
def _slopes(rate: LongRunRate, action: Any, thetas: Float[Array, "n K"]) -> Float[Array, "n K"]:
    return jax.lax.map(lambda theta: jax.jacfwd(rate)(theta, action), thetas)


def _by_delta(
    rates: Float[np.ndarray, " V"], slopes: Float[np.ndarray, "V K"], covariance: Any, level: float
) -> tuple[Float[np.ndarray, " V"], Float[np.ndarray, "V 2"]]:
    error = np.sqrt(np.einsum("vk,kl,vl->v", slopes, covariance, slopes))
    odds_error = error / np.maximum(rates * (1 - rates), 1e-300)
    reach = ndtri(0.5 + level / 2) * odds_error
    middle = logit(np.clip(rates, 0.0, 1.0))
    return error, expit(np.stack([middle - reach, middle + reach], axis=1))


def _drawn(
    fit: "TabularFit", covariance: Float[np.ndarray, "K K"] | None, *, num: int, key: PRNGKeyArray | None
) -> Float[np.ndarray, "draws K"]:
    """Parameters from their asymptotic distribution, or, without a covariance, from refits to resampled episodes."""
    checks.count("num", num, 2)
    if key is None:
        raise TypeError("This method draws at random: pass `key=jax.random.key(0)`, say.")
    if covariance is None:
        draws = refitted(fit, num=num, key=key)
        kept = np.isfinite(draws).all(axis=1)
        if (~kept).mean() > MOST_LOST:
            raise ValueError(
                f"{(~kept).sum()} of {num} resamples have no finite estimate, so the bootstrap has no intervals. Use "
                f"method='delta', or a penalty `l2=` in the fit."
            )
        return draws[kept]
    sizes, axes = np.linalg.eigh(covariance)
    normal = np.asarray(jr.normal(key, (num, len(sizes))))
    return flat(fit.reward.parameters) + normal @ (axes * np.sqrt(np.maximum(sizes, 0))).T


def _refuse_unidentified(fit: "TabularFit", information: Information, slopes: Float[np.ndarray, "V K"]) -> None:
    """Whatever depends on identified combinations alone has its interval; else the others are named."""
    hidden = null_directions(information.hessian)
    if not len(hidden):
        return
    scale = np.max([reward.scales(expert.mdp) for reward, expert in zip(fit.rewards, fit.experts, strict=True)], axis=0)
    hidden = hidden / np.abs(hidden * scale).max(axis=1, keepdims=True)
    matters = np.abs(slopes @ hidden.T).max(axis=0) > 1e-7
    if matters.any():
        names = fit.reward.parameter_names()
        raise ValueError(
            f"The curve depends on what the data do not identify: "
            f"{checks.some([spelt(direction, names) for direction in hidden[matters]])}. Leave features out, or see "
            f"`fit.identification()`."
        )


def _covariance(information: Information, kind: Kind, cluster: Any, index: int) -> Float[np.ndarray, "K K"]:
    """Of the estimates but for the parameter that is set."""
    scores = information.clustered(kind, cluster, "frequency")
    covariance = identified_covariance(kind, information.hessian, scores, information.penalty)
    covariance[index, :] = covariance[:, index] = 0.0
    return covariance


def _checked_request(fit: "TabularFit", parameter: Any, values: Any, level: float) -> tuple[int, np.ndarray]:
    _refuse_unless_soft(fit)
    index = _index(fit.reward, parameter)
    grid = np.atleast_1d(checks.as_floats("values", values))
    checks.has_shape("values", grid, (None,), "values of the parameter")
    checks.finite("values", grid)
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1, but is {level}.")
    return index, grid


def _worlds(fit: "TabularFit", mdp: MDP | Sequence[MDP] | None) -> list[MDP]:
    given = [expert.mdp for expert in fit.experts] if mdp is None else [mdp] if isinstance(mdp, MDP) else list(mdp)
    if len(given) != len(fit.experts):
        raise TypeError(f"The fit is to {len(fit.experts)} MDPs: `mdp` must be a list of as many.")
    for world in given:
        if world.horizon is not None:
            raise ValueError("A demand curve is about the long run: it needs an infinite horizon.")
        # A soft policy has all available actions in its support, whatever the reward.
        available = np.asarray(world.available)
        refuse_several_classes(world, available / available.sum(axis=1, keepdims=True))
    return given


def _shares(fit: "TabularFit") -> Float[np.ndarray, " M"]:
    weights = np.array([expert.weight for expert in fit.experts])
    return weights / weights.sum()


def _refuse_unless_soft(fit: "TabularFit") -> None:
    if fit.mixture is not None or not isinstance(fit.plan.backup, SoftBackup):
        raise ValueError(
            f"Counterfactuals are about a soft-optimal demonstrator, but {fit.method} fits another model. Use MCEIRL."
        )


def _checked_action(action: Any, mdp: MDP) -> None:
    checks.in_range("action", np.array([checks.count("action", action, 0)]), mdp.num_actions, "actions")


def _index(reward: AbstractReward, parameter: Any) -> int:
    names = reward.parameter_names()
    if isinstance(parameter, str):
        if names.count(parameter) != 1:
            raise ValueError(f"`parameter` must be one of {checks.some(names)}, but is {parameter!r}.")
        return names.index(parameter)
    checks.in_range("parameter", np.array([checks.count("parameter", parameter, 0)]), len(names), "parameters")
    return int(parameter)


def _changed(reward: AbstractReward, parameters: Any) -> Float[np.ndarray, " K"]:
    theta = flat(reward.parameters)
    if isinstance(parameters, Mapping):
        for name, value in parameters.items():
            theta[_index(reward, name)] = checks.as_floats(f"parameters[{name!r}]", value)
    else:
        theta = checks.as_floats("parameters", parameters)
        checks.has_shape("parameters", theta, (reward.num_parameters,), "(K,), or a mapping of names to values")
    checks.finite("parameters", theta)
    return theta


def _worth(plan: Plan) -> float:
    return float(np.asarray(plan.mdp.initial) @ np.asarray(plan.first_value))
