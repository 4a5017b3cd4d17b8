r"""Marginal effects and elasticities: how mean choice probabilities change with parameters and state variables.

$$\bar\pi(a) = \frac1n \sum_i \pi_{\hat\theta}(a|s_i), \quad
  \text{effect of } \theta_k: \frac{\partial\bar\pi(a)}{\partial\theta_k}, \quad
  \text{elasticity}: \frac{\theta_k}{\bar\pi(a)}\,\frac{\partial\bar\pi(a)}{\partial\theta_k}, \quad
  \text{effect of } x: \frac1m \sum_i \pi(a|x_i^+) - \pi(a|x_i)$$

over the observed choices, where x⁺ is the next level of a state variable, the others unchanged. The agent plans anew
for each parameter. Standard errors are by the delta method, through the fixed point, at the observed states.
"""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from irlax.analysis.standard_errors import Kind, confidence_interval, not_identified
from irlax.demos import Demonstrations
from irlax.estimators.tabular.averages import Cells, Estimates, estimates_of
from irlax.estimators.tabular.inference import Cluster, all_demos
from irlax.estimators.tabular.regression import error_method
from irlax.mdp import MDP
from irlax.report.plots import COLOURS, blank, on_axes
from irlax.rewards.reward import flat
from irlax.tables import AbstractTabulated, Table
from irlax.typing import Float, Int

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit


class Effects(AbstractTabulated):
    """Effects on the mean probability of each action."""

    title: str = eqx.field(static=True)
    #: What changes: parameters, or steps of a state variable.
    names: tuple[str, ...] = eqx.field(static=True)
    actions: tuple[str, ...] = eqx.field(static=True)
    effects: Float[np.ndarray, "E A"]
    #: NaN where the effect depends on what is not identified.
    standard_errors: Float[np.ndarray, "E A"]
    interval: Float[np.ndarray, "E A 2"]
    level: float = eqx.field(static=True)
    how: str = eqx.field(static=True)

    def table(self) -> Table:
        """A row for each cause and action."""
        low, high = np.moveaxis(self.interval, -1, 0)
        cells = np.stack([self.effects, self.standard_errors, low, high], axis=-1)
        rows = [
            (name, action, *(None if np.isnan(cell) else float(cell) for cell in cells[e, a]))
            for e, name in enumerate(self.names)
            for a, action in enumerate(self.actions)
        ]
        columns = ("of", "on", "effect", "s.e.", f"{self.level:.0%} from", "to")
        return Table(columns, rows, self.title, [f"Standard errors: {self.how}, by the delta method."])

    def _shown(self) -> Table:
        return self.table()

    def plot(self, *, ax: Any = None) -> Any:
        """Effects as points with their intervals, one colour for each action.

        A matplotlib figure; with `ax` it is drawn on these axes, which are returned.
        """
        return on_axes(ax, self._draw, lambda: blank(width=6.0))

    def _draw(self, _: Any, ax: Any) -> None:
        place = np.arange(len(self.names))
        for a, action in enumerate(self.actions):
            low, high = self.interval[:, a].T
            reach = np.stack([self.effects[:, a] - low, high - self.effects[:, a]])
            at = place + 0.12 * (a - (len(self.actions) - 1) / 2)
            ax.errorbar(self.effects[:, a], at, xerr=reach, fmt="o", color=COLOURS[a % len(COLOURS)], label=action)
        ax.axvline(0, color="0.7", linewidth=1)
        ax.set_yticks(place, self.names)
        ax.invert_yaxis()
        ax.set_xlabel(self.title.lower())
        ax.legend(frameon=False, fontsize=8)


def marginal_effects(fit: "TabularFit", of: str | None, *, kind: Kind, cluster: Cluster, level: float) -> Effects:
    """See `TabularFit.marginal_effects`."""
    options: dict[str, Any] = {"kind": kind, "cluster": cluster, "level": level}
    if of is None:
        found = estimates_of(fit, _mean_cells(fit), derivative=True)
        return _effects(fit, found, "Marginal effects", fit.reward.parameter_names(), **options)
    steps, cells = _step_cells(fit, of)
    return _effects(fit, estimates_of(fit, cells), f"Effects of the next level of {of}", steps, **options)


def elasticities(fit: "TabularFit", *, kind: Kind, cluster: Cluster, level: float) -> Effects:
    """See `TabularFit.elasticities`."""
    cells = _mean_cells(fit)
    mean, slope = estimates_of(fit, cells), estimates_of(fit, cells, derivative=True)
    theta, num = flat(fit.reward.parameters), fit.reward.num_parameters
    by_action = slope.values.reshape(-1, num)
    factor = (theta / mean.values[:, None]).ravel()
    values = factor * slope.values
    # d(θ_k s_ak / m_a) = (θ_k/m_a) ds_ak + (s_ak/m_a) dθ_k − (θ_k s_ak/m_a²) dm_a.
    of_mean = np.repeat(np.eye(len(mean.values)), num, axis=0) * (-values / np.repeat(mean.values, num))[:, None]
    of_theta = np.tile(np.eye(num), (len(mean.values), 1)) * (by_action / mean.values[:, None]).ravel()[:, None]
    slopes = factor[:, None] * slope.slopes + of_theta + of_mean @ mean.slopes
    first = None
    if slope.first_step is not None and mean.first_step is not None:
        first = slope.first_step * factor + mean.first_step @ of_mean.T
    found = Estimates(values, slopes, first)
    return _effects(fit, found, "Elasticities", fit.reward.parameter_names(), kind=kind, cluster=cluster, level=level)


def _effects(
    fit: "TabularFit", found: Estimates, title: str, names: Any, *, kind: Kind, cluster: Cluster, level: float
) -> Effects:
    """Values in the order action by cause, as effects by cause and action."""
    errors = np.sqrt(np.maximum(np.diag(found.covariance(fit, kind, cluster)), 0))
    errors[not_identified(fit.information.hessian, found.slopes)] = np.nan
    actions = fit.mdp.labels.actions or tuple(str(a) for a in range(fit.mdp.num_actions))
    shape = (len(actions), len(names))
    values, spread = found.values.reshape(shape).T, errors.reshape(shape).T
    interval = confidence_interval(values.ravel(), spread.ravel(), level).reshape(*values.shape, 2)
    how = error_method(kind, cluster, "frequency")
    return Effects(title, tuple(names), tuple(actions), values, spread, interval, level, how)


def _times(mdp: MDP, demos: Demonstrations) -> Int[np.ndarray, " n"]:
    return np.zeros(demos.num_steps, int) if mdp.horizon is None else demos.times


def _mean_cells(fit: "TabularFit") -> list[Cells]:
    """Cells whose averages are the mean probability of each action over the observed choices."""
    observed = all_demos(fit.experts)
    total = sum(float(demos.choice_weights.sum()) for demos in observed)
    cells = []
    for expert, demos in zip(fit.experts, observed, strict=True):
        weight = demos.choice_weights / total
        cells.append(_spread(expert.mdp, _times(expert.mdp, demos), demos.tabular_states, weight[None]))
    return cells


def _step_cells(fit: "TabularFit", variable: str) -> tuple[list[str], list[Cells]]:
    """Cells whose averages are the change of probabilities from each level of a variable to the next, and its steps."""
    if fit.panel is None:
        raise TypeError("Effects of state variables need a panel's fit, which knows them. Leave `of` out.")
    level, labels = fit.panel.level_of_states(variable)
    which = fit.panel.variables.index(variable)
    codes = fit.panel.codes
    raised = codes + (np.arange(codes.shape[1]) == which)
    place = {tuple(row): s for s, row in enumerate(codes.tolist())}
    after = np.array([place.get(tuple(row), -1) if level[s] >= 0 else -1 for s, row in enumerate(raised.tolist())])
    observed = all_demos(fit.experts)
    known = [(after[demos.tabular_states] >= 0) for demos in observed]
    starts = [level[demos.tabular_states] for demos in observed]
    weight = [demos.choice_weights * seen for demos, seen in zip(observed, known, strict=True)]
    total = sum(np.bincount(start, weights=w, minlength=len(labels)) for start, w in zip(starts, weight, strict=True))
    steps = np.flatnonzero(np.asarray(total) > 0)
    if not len(steps):
        raise ValueError(f"No observed state has a next level of `{variable}` with the other variables unchanged.")
    cells = []
    for e, demos in enumerate(observed):
        mdp = fit.experts[e].mdp
        share = weight[e] / np.maximum(np.asarray(total)[starts[e]], 1e-300)
        rows = np.where(starts[e] == steps[:, None], share, 0.0)
        states = demos.tabular_states
        moved = np.where(known[e], after[states], states)
        here, there = (_spread(mdp, _times(mdp, demos), s, sign * rows) for s, sign in ((states, -1), (moved, 1)))
        cells.append(Cells(*(np.concatenate([a, b], axis=-1) for a, b in zip(here, there, strict=True))))
    return [f"{labels[k]} → {labels[k + 1]}" for k in steps], cells


def _spread(
    mdp: MDP, times: Int[np.ndarray, " n"], states: Int[np.ndarray, " n"], weights: Float[np.ndarray, "Q n"]
) -> Cells:
    """Weights of states as weights of all of their actions, a row for each action and each of Q rows of weights."""
    visited, inverse = np.unique(times * mdp.num_states + states, return_inverse=True)
    when, state = np.divmod(visited, mdp.num_states)
    mass = np.stack([np.bincount(inverse.ravel(), weights=row, minlength=len(visited)) for row in weights])
    cell, action = np.nonzero(np.asarray(mdp.available)[state])
    spread = np.zeros((mdp.num_actions, len(weights), len(cell)))
    spread[action, :, np.arange(len(cell))] = mass[:, cell].T
    return Cells(when[cell], state[cell], action, spread.reshape(-1, len(cell)))
