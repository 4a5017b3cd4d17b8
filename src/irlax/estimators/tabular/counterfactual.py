"""Counterfactuals: the behaviour of a fit's demonstrator with another reward, or in another MDP."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.analysis.identifiability import direction_text
from irlax.analysis.standard_errors import Kind
from irlax.estimators.tabular.counterfactual_errors import Changes, changes_of
from irlax.estimators.tabular.memo import Memo
from irlax.estimators.tabular.problem import Flattening
from irlax.mdp import MDP
from irlax.planning import Plan, long_run, soft_plan, visits
from irlax.planning.backup import SoftBackup
from irlax.precision import scope
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat, reward_at
from irlax.status import NotIdentifiedWarning
from irlax.tables import AbstractTabulated, Summary, pairs
from irlax.typing import Array, Bool, Float
from irlax.user_warnings import warn_user

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit

#: With more parameters than this, dependence on unidentified directions is not tested.
MAX_PARAMETERS = 2000
#: At most this many unidentified directions are named.
MAX_NAMED = 5


class MadeFrom(NamedTuple):
    """What a counterfactual was asked for."""

    which: int
    #: Which parameters are those of the fit: the others were set.
    estimated: Bool[np.ndarray, " K"]
    kind: Kind | None
    cluster: Any
    level: float


class Counterfactual(AbstractTabulated):
    """The soft-optimal behaviour under a changed reward or MDP, beside that of the fit."""

    mdp: MDP
    reward: AbstractReward
    plan: Plan
    #: The plan of the fit, with which this one is compared.
    factual: Plan
    fit: "TabularFit" = eqx.field(repr=False)
    made_from: MadeFrom = eqx.field(repr=False)
    #: Directions of the parameters that are not identified but change the behaviour here, as text.
    depends_on: tuple[str, ...] = eqx.field(static=True, default=())
    _memo: Memo = eqx.field(init=False, repr=False, static=True, default_factory=Memo)

    @property
    def policy(self) -> Float[Array, "*T R A"]:
        """The new policy."""
        return self.plan.policy

    @property
    def long_run(self) -> Float[Array, "R A"]:
        """The share of time in each state and action in the long run, undiscounted; see `irlax.long_run`."""
        return long_run(self.mdp, self.plan)

    def rate(self, action: int | str) -> float:
        """The long-run probability of `action` (its index or label) per period."""
        return float(self.long_run[:, action_index(action, self.mdp)].sum())

    @property
    def changes(self) -> Changes:
        """The value at the start and the share of each action, as fitted and changed, with intervals.

        Shares are long-run rates; where lives end in an absorbing state, shares of the choices before that; and on a
        finite horizon shares of the choices within it. Errors are by the delta method, and need a maximum likelihood
        fit.
        """
        return self._memo.once("changes", (self.plan,), lambda: changes_of(self))

    def summary(self) -> Summary:
        """Values at the start and shares of all actions: of the fit, and changed; see `changes`."""
        facts: list[tuple[str, Any]] = [("value as fitted", _start_value(self.factual))]
        facts.append(("value", _start_value(self.plan)))
        facts += [("not identified, and matters here", direction) for direction in self.depends_on]
        return Summary([pairs("Counterfactual", facts), self.changes.shares()])

    def plot(self, *, ax: Any = None) -> Any:
        """The share of each action as fitted and changed, with intervals.

        A matplotlib figure; with `ax` it is drawn on these axes, which are returned.
        """
        return self.changes.plot(ax=ax)

    def _shown(self) -> Summary:
        return self.summary()


def counterfactual(
    fit: "TabularFit",
    *,
    reward: AbstractReward | None,
    mdp: MDP | None,
    parameters: Any,
    which: int,
    kind: Kind | None,
    cluster: Any,
    level: float,
) -> Counterfactual:
    """See `TabularFit.counterfactual`."""
    refuse_unless_soft(fit)
    checks.count("which", which, 0)
    if which >= len(fit.plans):
        raise ValueError(f"`which` must be below the fit's number of MDPs, {len(fit.plans)}, but is {which}.")
    if reward is not None and parameters is not None:
        raise TypeError("Pass a `reward`, or `parameters` for the fitted one, not both.")
    if reward is None and parameters is None and mdp is None:
        raise TypeError("A counterfactual needs a change: pass `parameters`, a `reward` or an `mdp`.")
    for name, given, wanted in (("reward", reward, AbstractReward), ("mdp", mdp, MDP)):
        if given is not None and not isinstance(given, wanted):
            raise TypeError(f"`{name}` must be an {wanted.__name__}, but is a {type(given).__name__}.")
    if not 0 < level < 1:
        raise ValueError(f"`level` must lie between 0 and 1, but is {level}.")
    new_mdp = fit.experts[which].mdp if mdp is None else mdp
    changed = fit.rewards[which] if reward is None else reward
    estimated = _still_estimated(changed, parameters) & (reward is None)
    if parameters is not None:
        with scope():
            theta = jnp.asarray(_changed_parameters(changed, parameters))
            changed = changed.with_parameters(
                jax.tree.map(np.asarray, Flattening.of(changed.parameters).unflatten(theta))
            )
    bound = changed.bind(new_mdp)
    plan = soft_plan(new_mdp, bound.table(new_mdp))
    depends_on = () if reward is not None else _unidentified_effects(fit, bound, plan, estimated)
    if depends_on:
        warn_user(
            f"This counterfactual depends on directions that the data do not identify: {'; '.join(depends_on)}. Other "
            f"rewards explain the demonstrations equally well and give other answers. Leave features out, or set their "
            f"weights.",
            NotIdentifiedWarning,
        )
    made_from = MadeFrom(which, estimated, kind, cluster, level)
    return Counterfactual(new_mdp, bound, plan, fit.plans[which], fit, made_from, depends_on)


def _unidentified_effects(
    fit: "TabularFit", reward: AbstractReward, plan: Plan, estimated: Bool[np.ndarray, " K"]
) -> tuple[str, ...]:
    """The unidentified directions along which the visits in the MDP of this plan change, as text."""
    if reward.num_parameters > MAX_PARAMETERS:
        return ()
    mdp, before = plan.mdp, np.asarray(visits(plan.mdp, plan))
    theta, scale = flat(reward.parameters), reward.scales(mdp)

    def changes_visits(direction: Float[np.ndarray, " K"]) -> bool:
        # The direction is scaled so that the reward of a step changes by at most 1.
        moved = theta + direction / np.abs(direction * scale).max()
        with scope():
            tree = Flattening.of(reward.parameters).unflatten(moved)
            table = np.asarray(reward_at(reward.fold(mdp), tree)).T
        after = np.asarray(visits(mdp, soft_plan(mdp, table)))
        return bool(np.abs(after - before).max() > 1e-6 * before.sum())

    hidden = fit.unidentified()
    if estimated.any():
        # What is set stays as it is, whatever the estimates could be instead.
        hidden = hidden * estimated
        hidden = hidden[np.abs(hidden).max(axis=1, initial=0.0) > 1e-8]
    if not len(hidden) or not changes_visits(np.random.default_rng(0).normal(size=len(hidden)) @ hidden):
        return ()
    names = reward.parameter_names()
    return tuple(direction_text(direction, names) for direction in hidden[:MAX_NAMED] if changes_visits(direction))


def refuse_unless_soft(fit: "TabularFit") -> None:
    """Raise a ValueError unless the fit is of the soft (causal) model."""
    if fit.mixture is not None or not isinstance(fit.plan.backup, SoftBackup):
        raise ValueError(
            f"Counterfactuals need a fit of the soft (causal) model, but {fit.method} fits another one. Use MCEIRL."
        )


def action_index(action: Any, mdp: MDP) -> int:
    """The index of an action that is given by its label or index; else an error."""
    if isinstance(action, str):
        labels = mdp.labels.actions or ()
        return labels.index(checks.one_of("action", action, labels))
    checks.in_range("action", np.array([checks.count("action", action, 0)]), mdp.num_actions, "actions")
    return int(action)


def parameter_index(reward: AbstractReward, parameter: Any) -> int:
    """The index of a parameter that is given by its name or index; else an error."""
    names = reward.parameter_names()
    if isinstance(parameter, str):
        if names.count(parameter) != 1:
            raise ValueError(f"`parameter` must be one of {checks.some(names)}, but is {parameter!r}.")
        return names.index(parameter)
    checks.in_range("parameter", np.array([checks.count("parameter", parameter, 0)]), len(names), "parameters")
    return int(parameter)


def _changed_parameters(reward: AbstractReward, parameters: Any) -> Float[np.ndarray, " K"]:
    """The parameters of a reward with new values for some, or for all."""
    theta = flat(reward.parameters)
    if isinstance(parameters, Mapping):
        for name, value in parameters.items():
            theta[parameter_index(reward, name)] = checks.as_floats(f"parameters[{name!r}]", value)
    else:
        theta = checks.as_floats("parameters", parameters)
        checks.has_shape("parameters", theta, (reward.num_parameters,), "(K,), or a mapping of names to values")
    checks.finite("parameters", theta)
    return theta


def _still_estimated(reward: AbstractReward, parameters: Any) -> Bool[np.ndarray, " K"]:
    """Which parameters are not set."""
    estimated = np.ones(reward.num_parameters, bool)
    if isinstance(parameters, Mapping):
        estimated[[parameter_index(reward, name) for name in parameters]] = False
    return estimated if parameters is None or isinstance(parameters, Mapping) else ~estimated


def _start_value(plan: Plan) -> float:
    """E V₀ over the start distribution."""
    return float(np.asarray(plan.mdp.initial) @ np.asarray(plan.first_value))
