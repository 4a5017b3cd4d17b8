"""The report on a fit with goals, section by section."""

from collections.abc import Callable
from typing import Any

from irlax.estimators.goals.goal_fit import GoalFit
from irlax.estimators.goals.goal_map import FitMap, fit_map
from irlax.estimators.tabular.drawings import add_figure, draw_convergence, draw_steps
from irlax.estimators.tabular.tabular_summary import SHOWN_PARAMETERS
from irlax.report import maps, plots
from irlax.report.html import Page
from irlax.rewards.reward import flat
from irlax.tables import format_value


def goal_page(fit: GoalFit) -> Page:
    """The report on a fit as one page."""
    lead = (
        f"Learned from {format_value(fit.num_episodes)} episodes to {format_value(len(fit.goals))} goals, "
        f"{format_value(fit.num_choices)} choices, in an MDP of {format_value(fit.mdp.num_states)} states with "
        f"discount {float(fit.mdp.discount):g}."
    )
    page = Page(f"{fit.method}: a reward from episodes with goals", lead)
    if not fit.converged:
        page = page.text(f"This fit {fit.status.value}. What is shown below is its best iterate.", alert=True)
    for section in SECTIONS:
        page = section(page, fit)
    return page


def summary_section(page: Page, fit: GoalFit) -> Page:
    """The parameters and the facts; with standard errors, the regression table."""
    tables = fit.regression_table().tables if _has_short_table(fit) else []
    for table in [*tables, *fit.summary().tables[-1:]]:
        page = page.table(table)
    return page


def estimates_section(page: Page, fit: GoalFit) -> Page:
    """The parameters with their intervals, if they are few and have some."""
    if not _has_short_table(fit):
        return page
    figure, axes = plots.blank(height=1.2 + 0.27 * fit.reward.num_parameters)
    _draw_estimates(axes[0, 0], fit)
    return add_figure(page.heading("Estimates"), figure, "Each parameter with its 95% interval.")


def map_section(page: Page, fit: GoalFit) -> Page:
    """Maps of the reward, of flows, and of their differences, if states have places."""
    found = fit_map(fit)
    if found is None:
        return page
    figure, (ax,) = maps.panels(found.segments, 1)
    maps.network_map(
        figure, ax, found.segments, found.reward, bar=f"reward of {'an' if found.kind == 'arc' else 'a'} {found.kind}"
    )
    text = f"The learned reward of each {found.kind}.{reward_note(found.kind)}"
    page = add_figure(page.heading("The reward on the map"), figure, text)
    figure, axes = maps.panels(found.segments, 2)
    _draw_flows(figure, axes, found)
    text = (
        f"How many episodes use each {found.kind}: expected by the model for the observed starts and goals, and "
        f"observed minus expected."
    )
    if float(fit.mdp.discount) < 1:
        text += " Uses are discounted."
    if not fit.demos.terminated.all():
        text += " Some episodes were not observed up to their goals; the model's are counted to the end."
    return add_figure(page.heading("Flows on the map"), figure, text)


def reward_note(kind: str) -> str:
    """What the reward of a segment of a map is, where that needs a sentence."""
    return "" if kind == "arc" else " Of the ways into a link, the one with the highest reward counts."


def _draw_flows(figure: Any, axes: Any, found: FitMap) -> None:
    predicted, difference = found.predicted, found.observed - found.predicted
    maps.network_map(figure, axes[0], found.segments, predicted, title="expected by the model", bar="episodes")
    maps.network_map(
        figure,
        axes[1],
        found.segments,
        difference,
        title="observed − expected",
        bar="episodes",
        scale=maps.segment_scale(found.segments, difference, signed=True),
    )


def convergence_section(page: Page, fit: GoalFit) -> Page:
    """The convergence of the solver."""
    return draw_convergence(page, fit.history)


#: The page from top to bottom. A section is a function of the page so far and the fit.
SECTIONS: tuple[Callable[[Page, GoalFit], Page], ...] = (
    summary_section,
    estimates_section,
    map_section,
    convergence_section,
)


def _has_short_table(fit: GoalFit) -> bool:
    return fit.has_standard_errors and fit.reward.num_parameters <= SHOWN_PARAMETERS


def _draw_estimates(ax: Any, fit: GoalFit) -> None:
    low, high = plots.clip_for_plot(fit.confidence_intervals()).T
    plots.intervals(ax, fit.parameter_names, fit.estimates, low, high, xlabel="parameter")


def goal_figure(fit: GoalFit) -> Any:
    """Maps of reward and flows if states have places; else the estimates with their intervals, and the convergence."""
    found = fit_map(fit)
    if found is not None:
        figure, axes = maps.panels(found.segments, 3)
        maps.network_map(
            figure, axes[0], found.segments, found.reward, title=f"reward of each {found.kind}", bar="reward"
        )
        _draw_flows(figure, axes[1:], found)
        return figure
    figure, axes = plots.blank(2, height=max(3.0, 1.2 + 0.27 * min(fit.reward.num_parameters, SHOWN_PARAMETERS)))
    if _has_short_table(fit):
        _draw_estimates(axes[0, 0], fit)
    else:
        axes[0, 0].hist(flat(fit.reward.parameters), bins=40, color=plots.COLOURS[0])
        axes[0, 0].set_xlabel("parameter")
    loss = plots.clip_for_plot(fit.history.loss)
    draw_steps(axes[0, 1], loss, loss < 1e99, "loss", "step")
    return figure
