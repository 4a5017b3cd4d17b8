"""MCE IRL on a small grid: estimates with standard errors, and the policy of the model."""

from typing import Any

import numpy as np

from irlax.analysis.standard_errors import confidence_interval
from irlax.estimators.tabular import MCEIRL
from irlax.estimators.tabular.drawings import add_figure, draw_policy, draw_reward, draw_visits
from irlax.estimators.tabular.scene import Scene
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.report import Page, plots
from irlax.rewards import LinearReward
from irlax.rewards.reward import flat
from irlax.showcase import walks
from irlax.showcase.section import Section
from irlax.tables import Summary, Table


def section() -> Section:
    """Learn three weights from walks."""
    reward = LinearReward(walks.features(), names=walks.NAMES)
    fit = MCEIRL(objective="likelihood", progress=False).fit(walks.world().mdp, reward, walks.demonstrations())
    assert isinstance(fit, TabularFit)
    table = _table(fit)
    columns = ("name", "truth", "estimate", "standard_error", "low", "high")
    record = {
        "parameters": [dict(zip(columns, row, strict=True)) for row in table.rows],
        "status": fit.status.name.lower(),
        "log_likelihood": fit.log_likelihood,
    }
    return Section("A reward from walks", Summary([table]), record, lambda page: _draw(page, fit, table))


def _table(fit: TabularFit) -> Table:
    estimate, errors = flat(fit.reward.parameters), fit.standard_errors()
    low, high = confidence_interval(estimate, errors, 0.95).T
    rows = zip(walks.NAMES, *(column.tolist() for column in (walks.TRUTH, estimate, errors, low, high)), strict=True)
    certificate = fit.certificate
    assert certificate is not None
    return Table(
        ("reward for", "truth", "estimate", "s.e.", "2.5%", "97.5%"),
        list(rows),
        title=f"A reward from {walks.WALKS} walks of {walks.STEPS} steps in a gridworld",
        notes=(f"The fit {fit.status.value}: no entry of the gradient is larger than {certificate.gradient:.0e}.",),
    )


def _draw(page: Page, fit: TabularFit, table: Table) -> Page:
    scene = Scene.of(fit, 0)
    page = (
        page.text(
            f"A walker starts at S on a small grid, can step to a neighbouring cell or stay, and one move in ten is "
            f"random. It likes the goal G, dislikes the hazards X, and is indifferent to its home S; but we do not "
            f"know that. We observe {walks.WALKS} walks of {walks.STEPS} steps, and assume only that the reward may "
            f"depend on three features: being at G, at X, or at home."
        )
        .text(
            "Under the causal model every choice has a probability that depends on the three weights, through its "
            "expected consequences. The weights below maximise the likelihood of the observed walks. The problem is "
            "small and its dynamics are known, so nothing here is approximate, and the estimates have standard errors, "
            "as in any regression."
        )
        .table(table)
    )
    page = add_figure(
        page,
        _intervals(table),
        "Each weight with its 95% interval; diamonds are the truth, which the estimator does not know. The weight of "
        "home, which is 0, is not significantly different from 0.",
    )
    page = page.heading("The learned reward", level=3)
    page = draw_reward(page, scene)
    page = page.heading("The policy", level=3).text(
        "A reward is more than a copy of behaviour: it predicts the policy in every cell, also in those that were "
        "hardly visited, and under other dynamics. Darker cells are visited more."
    )
    page = draw_policy(page, scene)
    page = page.heading("Visits of the model and of the walker", level=3)
    return draw_visits(page, scene)


def _intervals(table: Table) -> Any:
    names, truth, estimate, _, low, high = zip(*table.rows, strict=True)
    figure, axes = plots.blank(height=1.2 + 0.35 * len(names))
    plots.intervals(axes[0, 0], names, *(np.array(values) for values in (estimate, low, high)), xlabel="weight")
    axes[0, 0].plot(truth, range(len(names)), "D", color=plots.COLOURS[1], markersize=5, label="truth")
    axes[0, 0].legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
