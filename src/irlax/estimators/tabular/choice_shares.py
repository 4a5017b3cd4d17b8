r"""Predicted against observed choice shares, and a test of the model by their differences.

For group g and action a let $m_{ga} = \sum_{i \in g} (1[a_i = a] - \pi_{\hat\theta}(a|s_i))$. Under the model its mean
is 0. Its variance has three sources, all estimated from what each individual adds: the choices themselves, θ̂, and
estimated transitions. $\chi^2 = m^\top \hat V^{+} m$ is Pearson's statistic for estimated parameters: Andrews (1988),
"Chi-square diagnostic tests for econometric models".
"""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.estimators.tabular.averages import Cells, estimates_of
from irlax.estimators.tabular.inference import all_demos
from irlax.estimators.tabular.linear_tests import chi_squared
from irlax.report.plots import COLOURS, blank, on_axes
from irlax.tables import AbstractTabulated, Summary, Table
from irlax.typing import Float, Int

if TYPE_CHECKING:
    from irlax.estimators.tabular.tabular_fit import TabularFit

#: Groups of fewer choices than this are not tested: their shares are far from normal.
LEAST = 5


class ChoiceShares(AbstractTabulated):
    """Shares of actions in groups of observed choices: as observed, and as the fit predicts."""

    by: str = eqx.field(static=True)
    groups: tuple[str, ...] = eqx.field(static=True)
    actions: tuple[str, ...] = eqx.field(static=True)
    #: Observed choices of each group, by weight.
    sizes: Float[np.ndarray, " G"]
    observed: Float[np.ndarray, "G A"]
    predicted: Float[np.ndarray, "G A"]
    #: Of observed − predicted.
    standard_errors: Float[np.ndarray, "G A"]
    statistic: float
    degrees: int
    p: float

    def table(self) -> Summary:
        """A row for each group and action, and the test."""
        shares = np.stack([self.observed, self.predicted], axis=-1)
        rows = [
            (group, action, float(self.sizes[g]), *shares[g, a].tolist(), *self._test(g, a))
            for g, group in enumerate(self.groups)
            for a, action in enumerate(self.actions)
        ]
        columns = (self.by, "action", "choices", "observed", "predicted", "s.e. of difference", "z")
        test = Table(("χ²", "restrictions", "p"), [(self.statistic, self.degrees, self.p)], "Pearson test of the model")
        return Summary([Table(columns, rows, f"Choice shares by {self.by}"), test])

    def _shown(self) -> Summary:
        return self.table()

    def _test(self, g: int, a: int) -> tuple[float | None, float | None]:
        error = self.standard_errors[g, a]
        return (float(error), float((self.observed - self.predicted)[g, a] / error)) if error > 0 else (None, None)

    def plot(self, *, ax: Any = None) -> Any:
        """Predicted shares as lines, observed ones as points with 95% intervals around the prediction.

        A matplotlib figure; with `ax` it is drawn on these axes, which are returned.
        """
        return on_axes(ax, self._draw, lambda: blank(width=6.5))

    def _draw(self, _: Any, ax: Any) -> None:
        place = np.arange(len(self.groups))
        for a, action in enumerate(self.actions):
            colour = COLOURS[a % len(COLOURS)]
            ax.plot(place, self.predicted[:, a], color=colour, linewidth=2, label=f"{action}, predicted")
            reach = 1.96 * self.standard_errors[:, a]
            style = {"fmt": "o", "color": colour, "markersize": 4, "label": f"{action}, observed"}
            ax.errorbar(place, self.observed[:, a], reach, **style)
        few = place[:: max(1, len(place) // 12)]
        ax.set_xticks(few, [self.groups[k] for k in few])
        ax.set_xlabel(self.by)
        ax.set_ylabel("share of choices")
        ax.legend(frameon=False, fontsize=8)


def choice_shares(fit: "TabularFit", by: Any, demos: Demonstrations | None) -> ChoiceShares:
    """See `TabularFit.choice_shares`."""
    information = fit.information
    if demos is not None and len(fit.experts) > 1:
        raise ValueError("Held-out demonstrations are compared with fits to one MDP: leave `demos` out.")
    if demos is not None:
        demos.check(fit.mdp)
    observed = all_demos(fit.experts) if demos is None else [demos]
    name, labels, groups = _grouped(fit, by, observed)
    actions = fit.mdp.labels.actions or tuple(str(a) for a in range(fit.mdp.num_actions))
    num, wide = len(labels), len(actions)
    weight = [part.choice_weights for part in observed]
    sizes = sum(np.bincount(g, weights=w, minlength=num) for g, w in zip(groups, weight, strict=True))
    sizes = np.maximum(np.asarray(sizes, float), 1e-300)
    cells = [_cells(fit, e, part, g, num=num) for e, (part, g) in enumerate(zip(observed, groups, strict=True))]
    found = estimates_of(fit, [part for part, _ in cells])
    gaps = np.concatenate([gap for _, gap in cells])
    difference = np.zeros(num * wide)
    for (_, gap), w in zip(cells, weight, strict=True):
        difference += w @ gap
    if demos is not None:
        own = np.sqrt(demos.weights)[:, None] * np.add.reduceat(gaps, demos.offsets[:-1], axis=0)
        variance = own.T @ own + found.covariance(fit, "sandwich", information.default_cluster)
    else:
        rows = gaps - (information.scores + (0 if information.corrections is None else information.corrections)) @ (
            information.inverse @ found.slopes.T
        )
        rows = rows if found.first_step is None else rows - found.first_step
        summed = information.summed(rows, information.default_cluster, "frequency")
        variance = summed.T @ summed
    scale = np.repeat(sizes, wide)
    tested = np.repeat(sizes >= LEAST, wide) & (np.tile(np.arange(wide), num) < wide - 1) & (np.diag(variance) > 0)
    statistic, degrees, p = chi_squared(difference[tested], variance[np.ix_(tested, tested)])
    predicted = (found.values / scale).reshape(num, wide)
    return ChoiceShares(
        by=name,
        groups=labels,
        actions=tuple(actions),
        sizes=sizes,
        observed=_counted(observed, groups, weight, shape=(num, wide)) / sizes[:, None],
        predicted=predicted,
        standard_errors=(np.sqrt(np.maximum(np.diag(variance), 0)) / scale).reshape(num, wide),
        statistic=statistic,
        degrees=degrees,
        p=p,
    )


def _counted(
    observed: list[Demonstrations], groups: list[Any], weight: list[Any], *, shape: tuple[int, int]
) -> Float[np.ndarray, "G A"]:
    """The choices of each action in each group, by weight."""
    found = np.zeros(shape)
    for demos, group, w in zip(observed, groups, weight, strict=True):
        np.add.at(found, (group, demos.actions), w)
    return found


def _cells(
    fit: "TabularFit", which: int, demos: Demonstrations, group: Int[np.ndarray, " n"], *, num: int
) -> tuple[Cells, Float[np.ndarray, "n Q"]]:
    """Cells whose probabilities, by weight, are the predicted numbers of choices; and 1[a_i = a] − π of each row."""
    mdp = fit.experts[which].mdp
    wide, periods = mdp.num_actions, 1 if mdp.horizon is None else mdp.horizon
    time = np.zeros(demos.num_steps, int) if mdp.horizon is None else demos.times
    place = time * mdp.num_states + demos.tabular_states
    visited, inverse = np.unique(place, return_inverse=True)
    inverse = inverse.ravel()
    when, state = np.divmod(visited, mdp.num_states)
    exists = np.asarray(mdp.available)[state]
    cell, action = np.nonzero(exists)
    mass = np.zeros((num, len(visited)))
    np.add.at(mass, (group, inverse), demos.choice_weights)
    weights = np.zeros((num, wide, len(cell)))
    weights[:, action, np.arange(len(cell))] = mass[:, cell]
    policy = np.asarray(fit.plans[which].policy).reshape(periods, mdp.num_states, wide)[when, state]
    gap = np.zeros((demos.num_steps, num, wide))
    gap[np.arange(demos.num_steps), group] = -policy[inverse]
    gap[np.arange(demos.num_steps), group, demos.actions] += 1
    found = Cells(when[cell], state[cell], action, weights.reshape(num * wide, -1))
    return found, gap.reshape(demos.num_steps, -1)


def _grouped(
    fit: "TabularFit", by: Any, observed: list[Demonstrations]
) -> tuple[str, tuple[str, ...], list[Int[np.ndarray, " n"]]]:
    """The name of what groups choices, the labels of the groups, and the group of each choice."""
    if by is None:
        return "all choices", ("all",), [np.zeros(part.num_steps, int) for part in observed]
    if isinstance(by, str):
        if fit.panel is None:
            raise TypeError("`by` names a state variable of a panel; for other fits pass a label for each choice.")
        level, labels = fit.panel.level_of_states(by)
        return by, labels, [level[part.tabular_states] for part in observed]
    given = np.asarray(by)
    total = sum(part.num_steps for part in observed)
    checks.has_shape("by", given, (total,), "a label for each observed choice, in the order of the demonstrations")
    names, group = np.unique(given, return_inverse=True)
    offsets = np.cumsum([part.num_steps for part in observed])[:-1]
    return "group", tuple(map(str, names)), np.split(group.ravel(), offsets)
