r"""Standard errors of what a counterfactual reports: values at the start, and the shares of actions.

$$q(\hat\theta, \hat p): \quad \mathbb{E} V_0, \quad \textstyle\sum_s \mu(s)\,\pi(a|s), \qquad
  \operatorname{se}^2 = \nabla q^\top\, \hat\Sigma\, \nabla q$$

by the delta method, through the fixed points of the values and of μ: the long run, the choices before lives end, or
those within the horizon. Where transitions were estimated, q depends on them through θ̂ and directly. A difference to
the behaviour as fitted has its own gradient, so that what is common to both cancels. Parameters that are set, a reward
that is given, and other dynamics than the estimated ones are known. The start distribution is given.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit, logit, ndtri

from irlax.analysis.standard_errors import confidence_interval, not_identified
from irlax.estimators.tabular.known_dynamics import KnownDynamics
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.regression import error_method
from irlax.mdp import MDP, AbstractDynamics
from irlax.planning.backup import SoftBackup
from irlax.planning.chain import Chain
from irlax.planning.fixed_point import chain_at, fixed_point
from irlax.planning.long_run import refuse_several_classes
from irlax.planning.plan import policies_backward
from irlax.planning.soft import TOLERANCE
from irlax.precision import StaysOnDevice, scope
from irlax.report.plots import COLOURS, blank, on_axes
from irlax.rewards import AbstractReward
from irlax.rewards.reward import flat
from irlax.status import NotIdentifiedWarning
from irlax.tables import AbstractTabulated, Table
from irlax.typing import Array, Bool, Float
from irlax.user_warnings import warn_user

if TYPE_CHECKING:
    from irlax.estimators.tabular.counterfactual import Counterfactual
    from irlax.estimators.tabular.tabular_fit import TabularFit

#: The columns of what is reported.
COLUMNS = ("as fitted", "changed", "difference")
#: With more parameters than this there are no standard errors.
MAX_PARAMETERS = 2000


class Changes(AbstractTabulated):
    """The value at the start and the share of each action: as fitted, changed, and the difference."""

    title: str = eqx.field(static=True)
    #: "value at the start", then the actions.
    names: tuple[str, ...] = eqx.field(static=True)
    values: Float[np.ndarray, "Q 3"]
    #: NaN where something depends on what is not identified; all NaN if the fit has no standard errors.
    standard_errors: Float[np.ndarray, "Q 3"]
    #: Those of shares are on the scale of log-odds, except for differences.
    interval: Float[np.ndarray, "Q 3 2"]
    level: float = eqx.field(static=True)
    #: How the standard errors were computed; empty if there are none.
    how: str = eqx.field(static=True)

    def table(self) -> Table:
        """A row for each value or action, as fitted, changed, and their difference."""
        cells = np.concatenate([np.stack([self.values, self.standard_errors], axis=-1), self.interval], axis=-1)
        rows = [
            (name, column, *(None if np.isnan(cell) else float(cell) for cell in cells[q, c]))
            for q, name in enumerate(self.names)
            for c, column in enumerate(COLUMNS)
        ]
        return Table(("of", "", "estimate", "s.e.", f"{self.level:.0%} from", "to"), rows, self.title, self.notes())

    def shares(self) -> Table:
        """A row for each action, with the standard errors of what changed and of the difference."""
        rows = []
        for q, name in enumerate(self.names[1:], 1):
            errors = (*self.standard_errors[q, 1:].tolist(), *self.interval[q, 2].tolist())
            cells = (None if np.isnan(cell) else cell for cell in errors)
            rows.append((name, *self.values[q].tolist(), *(cells if self.how else ())))
        columns = ("action", *COLUMNS)
        if self.how:
            columns = (*columns, "s.e. of changed", "s.e. of difference", f"{self.level:.0%} from", "to")
        return Table(columns, rows, self.title, self.notes())

    def notes(self) -> list[str]:
        """How errors were computed, and why some are missing."""
        if not self.how:
            return []
        lines = [f"Standard errors: {self.how}, by the delta method; what is set or given is known."]
        if np.isnan(self.standard_errors).any():
            lines.append("Empty: depends on directions that the data do not identify.")
        return lines

    def _shown(self) -> Table:
        return self.table()

    def plot(self, *, ax: Any = None) -> Any:
        """The share of each action as fitted and changed, as points with their intervals.

        A matplotlib figure; with `ax` it is drawn on these axes, which are returned.
        """
        return on_axes(ax, self._draw, lambda: blank(width=6.0))

    def _draw(self, _: Any, ax: Any) -> None:
        place = np.arange(len(self.names) - 1)
        for c, column in enumerate(COLUMNS[:2]):
            low, high = self.interval[1:, c].T
            reach = np.nan_to_num(np.stack([self.values[1:, c] - low, high - self.values[1:, c]]))
            at = place + 0.12 * (c - 0.5)
            ax.errorbar(self.values[1:, c], at, xerr=reach, fmt="o", color=COLOURS[c], label=column)
        ax.set_yticks(place, self.names[1:])
        ax.invert_yaxis()
        ax.set_xlabel(self.title.lower())
        ax.legend(frameon=False, fontsize=8)


class Behaviour(StaysOnDevice):
    """(θ, p) as one vector ↦ the value at the start and the share of each action."""

    mdp: MDP
    reward: AbstractReward
    dynamics: Callable[[Any], AbstractDynamics]
    #: States whose choices are not counted, because lives have ended; None in the long run.
    ended: Bool[Array, " S"] | None

    def __call__(self, both: Float[Array, " D"]) -> Float[Array, " Q"]:
        theta, shares = both[: self.reward.num_parameters], both[self.reward.num_parameters :]
        mdp = eqx.tree_at(lambda mdp: mdp.dynamics, self.mdp, self.dynamics(shares))
        parameters = Flattening.of(self.reward.parameters).unflatten(theta)
        backup = SoftBackup(mdp, mdp.as_narrow(self.reward.fold(mdp)(parameters)))
        initial = jnp.asarray(mdp.initial)
        if mdp.horizon is not None:
            value, mass = self._within_horizon(backup, initial)
        else:
            value = fixed_point(backup, TOLERANCE, "auto").value
            policy = chain_at(backup, value).policy
            chain = Chain(policy, mdp.dynamics, jnp.ones(()), self.ended, mdp.rows)
            mass = (
                chain.occupancy(initial)
                if self.ended is not None
                else policy * mdp.rows.repeat(chain.long_run(initial))
            )
        by_action = mass.sum(axis=1)
        return jnp.concatenate([jnp.atleast_1d(initial @ value), by_action / by_action.sum()])

    def _within_horizon(self, backup: SoftBackup, initial: Float[Array, " S"]) -> tuple[Any, Float[Array, "A R"]]:
        """V₀, and the expected number of choices of each kind."""
        value, policies = policies_backward(backup)
        rows = backup.mdp.rows

        def step(mass: Float[Array, " S"], policy: Float[Array, "A R"]) -> tuple[Any, Float[Array, "A R"]]:
            joint = policy * rows.repeat(mass)
            counted = joint if self.ended is None else jnp.where(rows.repeat(self.ended), 0, joint)
            return backup.mdp.dynamics.forward(joint), counted

        return value, jax.lax.scan(step, initial, policies)[1].sum(axis=0)


class Expansion(NamedTuple):
    """Values with their derivatives in θ and in the probabilities of the transitions."""

    values: Float[np.ndarray, " Q"]
    of_theta: Float[np.ndarray, "Q K"]
    of_shares: Float[np.ndarray, "Q J"]


def changes_of(found: "Counterfactual") -> Changes:
    """What a counterfactual reports, with errors if its fit has some."""
    fit, made_from = found.fit, found.made_from
    both_mdps = (found.factual.mdp, found.mdp)
    ends = all(mdp.absorbing.any() and mdp.rows.one_per_state for mdp in both_mdps)
    kept = fit.has_standard_errors and found.reward.num_parameters <= MAX_PARAMETERS
    before = _expansion(fit, fit.rewards[made_from.which], both_mdps[0], ends=ends, derivatives=kept)
    after = _expansion(fit, found.reward, both_mdps[1], ends=ends, derivatives=kept)
    values = np.stack([before.values, after.values, after.values - before.values], axis=1)
    names = ("value at the start", *(found.mdp.labels.actions or map(str, range(found.mdp.num_actions))))
    horizon = found.mdp.horizon is not None
    title = "Shares of choices before the end" if ends else "Shares of choices" if horizon else "Long-run rates"
    level = made_from.level
    if not kept:
        nothing = np.full(values.shape, np.nan)
        return Changes(title, names, values, nothing, np.full((*values.shape, 2), np.nan), level, "")
    slopes = np.stack([before.of_theta, after.of_theta * made_from.estimated], axis=1)
    slopes = np.concatenate([slopes, slopes[:, 1:] - slopes[:, :1]], axis=1).reshape(values.size, -1)
    kind, cluster = fit.chosen_errors(made_from.kind, made_from.cluster)
    variance = np.diag(fit.information.covariance_of(slopes, _first_step(fit, before, after), kind, cluster))
    errors = np.sqrt(np.maximum(variance, 0))
    errors[not_identified(fit.information.hessian, slopes)] = np.nan
    errors = errors.reshape(values.shape)
    if np.isnan(errors[1:, 1:]).any() and not found.depends_on:
        warn_user(
            "Shares of this counterfactual depend on parameters that the data do not identify, so they have no "
            "standard errors. Set combinations that are identified; the regression table names them.",
            NotIdentifiedWarning,
        )
    interval = confidence_interval(values.ravel(), errors.ravel(), level).reshape(*values.shape, 2)
    interval[1:, :2] = _on_odds(values[1:, :2], errors[1:, :2], level)
    how = error_method(kind, cluster, "frequency")
    if fit.panel is not None and fit.panel.transitions is not None:
        how += ", with the sampling error of the estimated transitions"
    return Changes(title, names, values, errors, interval, level, how)


def _expansion(fit: "TabularFit", reward: AbstractReward, mdp: MDP, *, ends: bool, derivatives: bool) -> Expansion:
    """The behaviour in an MDP, which depends on the estimated transitions if it has them."""
    transitions = None if fit.panel is None else fit.panel.transitions
    estimated = transitions is not None and _has_transitions(fit, mdp)
    if mdp.horizon is None:
        available = np.asarray(mdp.available)
        refuse_several_classes(mdp, available / available.sum(axis=1, keepdims=True))
    with scope():
        dynamics = transitions.dynamics if estimated and transitions is not None else KnownDynamics(mdp.dynamics)
        shares = transitions.shares if estimated and transitions is not None else np.zeros(0)
        behaviour = Behaviour(mdp, reward, dynamics, jnp.asarray(mdp.absorbing) if ends else None)
        both = jnp.asarray(np.concatenate([flat(reward.parameters), shares]))
        if not derivatives:
            nothing = np.zeros((mdp.num_actions + 1, 0))
            return Expansion(np.asarray(_values(behaviour, both)), nothing, nothing)
        values, slopes = (np.asarray(part) for part in _with_slopes(behaviour, both))
    number = reward.num_parameters
    return Expansion(values, slopes[:, :number], slopes[:, number:])


def _first_step(fit: "TabularFit", before: Expansion, after: Expansion) -> Float[np.ndarray, "n R"] | None:
    """What each choice adds to all columns through the estimated transitions directly."""
    transitions = None if fit.panel is None else fit.panel.transitions
    if transitions is None:
        return None
    # Where dynamics are others, no probability has an effect.
    parts = [
        part.of_shares if part.of_shares.size else np.zeros((len(part.values), len(transitions.counts)))
        for part in (before, after)
    ]
    slopes = np.stack([*parts, parts[1] - parts[0]], axis=1).reshape(3 * len(before.values), -1)
    return np.concatenate(transitions.influence(np.ascontiguousarray(slopes.T)))


def _has_transitions(fit: "TabularFit", mdp: MDP) -> bool:
    """Whether an MDP has the dynamics of the fit."""
    own = fit.mdp
    if mdp.dynamics is own.dynamics:
        return True
    if (mdp.num_states, mdp.num_actions) != (own.num_states, own.num_actions) or not mdp.rows.one_per_state:
        return False
    pairs = zip(mdp.dynamics.to_scipy(), own.dynamics.to_scipy(), strict=True)
    return all(abs(one - other).max() < 1e-12 for one, other in pairs)


def _on_odds(
    shares: Float[np.ndarray, "A 2"], errors: Float[np.ndarray, "A 2"], level: float
) -> Float[np.ndarray, "A 2 2"]:
    """Intervals that stay between 0 and 1."""
    reach = ndtri(0.5 + level / 2) * errors / np.maximum(shares * (1 - shares), 1e-300)
    middle = logit(np.clip(shares, 0.0, 1.0))
    return expit(np.stack([middle - reach, middle + reach], axis=-1))


@eqx.filter_jit
def _values(behaviour: Behaviour, both: Float[Array, " D"]) -> Float[Array, " Q"]:
    return behaviour(both)


@eqx.filter_jit
def _with_slopes(behaviour: Behaviour, both: Float[Array, " D"]) -> tuple[Float[Array, " Q"], Float[Array, "Q D"]]:
    # Backward, because probabilities of transitions are many.
    return behaviour(both), jax.jacrev(behaviour)(both)
