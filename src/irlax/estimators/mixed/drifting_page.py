"""The report on a drifting reward: its paths with their bands, and the rewards at the start and at the end."""

from collections.abc import Callable
from typing import Any

import numpy as np

from irlax.estimators.mixed.drifting_fit import DriftingFit
from irlax.estimators.tabular.drawings import add_figure, draw_convergence, draw_policy, draw_reward
from irlax.estimators.tabular.scene import Scene
from irlax.estimators.tabular.tabular_summary import SHOWN_PARAMETERS
from irlax.report import plots
from irlax.report.html import Page
from irlax.tables import format_value

#: At most this many parameters, and paths of individuals, are drawn.
SHOWN_PANELS, SHOWN_PATHS = 12, 7


def drifting_page(fit: DriftingFit) -> Page:
    """The report as one page."""
    mdp, demos = fit.mdp, fit.demos
    observed = f"{format_value(demos.num_episodes)} episodes, {format_value(demos.num_steps)} choices"
    size = f"{format_value(mdp.num_states)} states and {format_value(mdp.num_actions)} actions"
    page = Page(f"{fit.method}: a reward that drifts", f"Learned from {observed}, in an MDP of {size}.")
    if not fit.converged:
        page = page.text(f"This fit {fit.status.value}. {fit.reason}", alert=True)
        page = page.text("Below is its last iterate: these are no estimates.")
    for section in SECTIONS:
        page = section(page, fit)
    return page


def summary_section(page: Page, fit: DriftingFit) -> Page:
    """The parameters, how fast they drift, and how good the fit is."""
    page = page.text(f"Is there a drift? {fit.verdict[0].upper()}{fit.verdict[1:]}.")
    for table in fit.summary().tables:
        page = page.table(table)
    return page


def paths_section(page: Page, fit: DriftingFit) -> Page:
    """The paths with their bands."""
    shown, of = min(SHOWN_PANELS, fit.paths.shape[-1]), fit.paths.shape[-1]
    left_out = "" if shown == of else f" Shown are the first {shown} of {of} parameters."
    return add_figure(
        page.heading("How the parameters change"),
        paths_figure(fit),
        "The mode of the posterior with pointwise 95% bands, and the constant estimate (dashed). The bands include the "
        f"uncertainty about the size of the drift. No band: not identified.{left_out}",
    )


def ends_section(page: Page, fit: DriftingFit) -> Page:
    """The reward and the policy at the start and at the end, of the first path."""
    if fit.reward.num_parameters > SHOWN_PARAMETERS and fit.mdp.labels.layout is None:
        return page
    for name, period in (("first", 0), ("last", fit.num_periods - 1)):
        scene = Scene.between(fit.expert, fit.plan_at(period), fit.reward_at(period))
        page = draw_policy(draw_reward(page.heading(f"In the {name} period"), scene), scene)
    return page


def convergence_section(page: Page, fit: DriftingFit) -> Page:
    """How the search for the size of the drift went."""
    return draw_convergence(page, fit.history) if len(fit.history) > 1 else page


def paths_figure(fit: DriftingFit) -> Any:
    """A panel for each parameter: its path, or some of its paths, with 95% bands."""
    names = fit.reward.parameter_names()[:SHOWN_PANELS]
    columns = min(len(names), 3)
    figure, axes = plots.blank(columns, rows=-(-len(names) // columns), height=2.8)
    time, bands = np.arange(fit.num_periods) * fit.clock.every, plots.clip_for_plot(fit.bands())
    several = len(fit.paths) > 1
    for ax in axes.ravel()[len(names) :]:
        ax.set_visible(False)
    for k, (ax, name) in enumerate(zip(axes.ravel(), names, strict=False)):
        for path in range(min(len(fit.paths), SHOWN_PATHS)):
            colour = plots.COLOURS[path]
            label = plots.label(str(fit.individuals[path])) if several else None
            ax.plot(time, plots.clip_for_plot(fit.paths[path, :, k]), color=colour, linewidth=2, label=label)
            low, high = bands[path, :, k].T
            if fit.converged and np.isfinite(low).all():
                ax.fill_between(time, low, high, color=colour, alpha=0.2, linewidth=0)
            ax.axhline(fit.constant[path, k], color=colour, linewidth=1, linestyle="--")
        ax.set_title(plots.label(name), fontsize=10)
        ax.set_xlabel(_time_name(fit))
    if several:
        axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _time_name(fit: DriftingFit) -> str:
    unit = fit.mdp.labels.time_unit
    return "episode" if fit.clock.over == "episodes" else plots.label(unit) if unit else "step"


#: The page from top to bottom. A section is a function of the page so far and the fit.
SECTIONS: tuple[Callable[[Page, DriftingFit], Page], ...] = (
    summary_section,
    paths_section,
    ends_section,
    convergence_section,
)
