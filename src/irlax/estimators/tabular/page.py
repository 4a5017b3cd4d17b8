"""The report on a tabular fit, section by section."""

from collections.abc import Callable
from typing import Any

import numpy as np

from irlax.analysis.diagnosis import MAX_PARAMETERS, hidden_part
from irlax.analysis.identifiability import Identification
from irlax.estimators.tabular.drawings import (
    add_figure,
    draw_convergence,
    draw_policy,
    draw_reward,
    draw_steps,
    draw_visits,
)
from irlax.estimators.tabular.inference import identified_errors
from irlax.estimators.tabular.plan_of_reward import model_of
from irlax.estimators.tabular.scene import Scene
from irlax.estimators.tabular.tabular_fit import TabularFit
from irlax.estimators.tabular.tabular_summary import SHOWN_PARAMETERS
from irlax.iteration import History
from irlax.mdp.drawing import grid_panels
from irlax.mdp.grid import Grid
from irlax.report import plots
from irlax.report.html import Page
from irlax.rewards import TabularReward
from irlax.rewards.reward import flat
from irlax.tables import format_value

#: Up to this many parameters are listed at the top of the page.
SHORT_LIST = 12
#: At most this many MDPs are shown.
SHOWN_MDPS = 4


def fit_page(fit: TabularFit) -> Page:
    """The report on a fit as one page."""
    page = Page(f"{fit.method}: a reward from demonstrations", _lead(fit))
    if not fit.converged:
        page = page.text(f"This fit {fit.status.value}. What is shown below is its best iterate.", alert=True)
    for section in SECTIONS:
        page = section(page, fit)
    return page


def _lead(fit: TabularFit) -> str:
    horizon = "an infinite horizon" if fit.mdp.horizon is None else f"horizon {fit.mdp.horizon}"
    observed = (
        f"{format_value(fit.num_episodes)} episodes, {format_value(fit.num_choices)} choices"
        if fit.num_episodes
        else "a policy"
    )
    size = f"{format_value(fit.mdp.num_states)} states and {format_value(fit.mdp.num_actions)} actions"
    return f"Learned from {observed}, in an MDP of {size} with discount {float(fit.mdp.discount):g} and {horizon}."


def summary_section(page: Page, fit: TabularFit) -> Page:
    """The facts, with the parameters above them if they are few."""
    tables = fit.summary().tables
    # After a long list the figures would be far down the page.
    for table in tables if fit.reward.num_parameters <= SHORT_LIST else tables[-1:]:
        page = page.table(table)
    return page


def posterior_section(page: Page, fit: TabularFit) -> Page:
    """The posterior of each parameter, if the estimator samples."""
    if fit.samples is None or fit.reward.num_parameters > SHOWN_PARAMETERS:
        return page
    names, samples = fit.reward.parameter_names(), plots.clip_for_plot(fit.samples)
    figure, axes = plots.blank(height=1.2 + 0.27 * len(names))
    low, high = np.quantile(samples, [0.025, 0.975], axis=0)
    plots.intervals(axes[0, 0], names, samples.mean(axis=0), low, high, xlabel="parameter")
    page = page.heading("Posterior")
    return add_figure(page, figure, "The posterior of each parameter: its mean and central 95% interval.")


def behaviour_section(page: Page, fit: TabularFit) -> Page:
    """The reward, the policy, and the visits of expert and model, in each MDP."""
    for i in range(min(len(fit.experts), SHOWN_MDPS)):
        scene = Scene.of(fit, i)
        suffix = f", MDP {i + 1} of {len(fit.experts)}" if len(fit.experts) > 1 else ""
        page = draw_reward(page.heading(f"Reward{suffix}"), scene)
        page = draw_policy(page.heading(f"Policy{suffix}"), scene)
        note = ""
        if model_of(fit.plans[i]) == "path":
            note = " These are visits under the true dynamics; the Maximum Entropy model believes in others."
        page = draw_visits(page.heading(f"Where expert and model go{suffix}"), scene, note)
    return page


def identification_section(page: Page, fit: TabularFit) -> Page:
    """Directions that are not identified, and on a grid the two parts of the reward with standard errors."""
    if fit.reward.num_parameters > MAX_PARAMETERS or fit.mdp.num_states > MAX_PARAMETERS:
        return page
    found, grid = fit.identification(), Grid.of(fit.mdp)
    page = page.heading("What the data cannot tell")
    for table in found.summary().tables:
        page = page.table(table)
    if grid is None or not isinstance(fit.reward, TabularReward) or fit.reward.over != "s":
        return page
    return draw_unidentified(page, fit, found, grid)


def draw_unidentified(page: Page, fit: TabularFit, found: Identification, grid: Grid) -> Page:
    """The page with the reward of each cell, split into its identified and hidden parts, with standard errors."""
    estimate = flat(fit.reward.parameters)
    hidden = hidden_part(found, estimate)
    pictures = {"identified part of the reward": estimate - hidden, "part that no policy reveals": hidden}
    caption = "The learned reward, split into what the policy reveals and what it cannot."
    if fit.has_standard_errors:
        pictures["standard error of the identified part"] = identified_errors(fit)
        caption += " Standard errors are those of the identified part."
    figure, axes = grid_panels(grid, len(pictures))
    for ax, (title, values) in zip(axes, pictures.items(), strict=True):
        plots.grid_heatmap(figure, ax, grid.picture(plots.clip_for_plot(values)), title=title, bar="", marks=grid.board)
    return add_figure(page, figure, caption)


def convergence_section(page: Page, fit: TabularFit) -> Page:
    """The convergence of the solver, or the trace of the chains."""
    if fit.mixture is not None:
        curves = ("distance to the demonstrator", "distance above its lower bound")
        num = format_value(len(fit.history))
        text = f"The distance of the mixture to the demonstrator, with each of {num} policies found."
        return draw_convergence(page, fit.history, curves=curves, text=text, from_lowest=False)
    return draw_convergence(page, fit.history) if fit.samples is None else _trace(page, fit.history)


def _trace(page: Page, history: History) -> Page:
    figure, axes = plots.blank(2)
    curves = {"minus log posterior density": history.loss, "length of its gradient": history.gradient}
    for ax, (name, curve) in zip(axes[0], curves.items(), strict=True):
        draw_steps(ax, plots.clip_for_plot(curve), np.isfinite(curve), name, "draw", thin=True)
    text = "The trace of the chains, mean over them: it should vary about a constant level from the first draw on."
    return add_figure(page.heading("Sampling"), figure, text)


def parameters_section(page: Page, fit: TabularFit) -> Page:
    """All parameters, if they are too many for the top of the page but few enough for a table."""
    if not SHORT_LIST < fit.reward.num_parameters <= SHOWN_PARAMETERS:
        return page
    return page.heading("Parameters").table(fit.summary().tables[0])


#: The page from top to bottom. A section is a function of the page so far and the fit.
SECTIONS: tuple[Callable[[Page, TabularFit], Page], ...] = (
    summary_section,
    posterior_section,
    behaviour_section,
    identification_section,
    convergence_section,
    parameters_section,
)


def fit_figure(fit: TabularFit) -> Any:
    """A figure of the reward, the policy, and the visits of expert and model, in the first MDP."""
    scene = Scene.of(fit, 0)
    expert, model = scene.expert.sum(axis=1), scene.model.sum(axis=1)
    by_state = np.nanmax(scene.reward, axis=1)
    if scene.grid is not None:
        figure, axes = grid_panels(scene.grid, 3)
        options = {"bar": "", "marks": scene.grid.board}
        plots.grid_heatmap(figure, axes[0], scene.grid.picture(by_state), title="reward", **options)
        scene.draw_policy(figure, axes[1], scene.first_policy, title="policy")
        plots.grid_heatmap(figure, axes[2], scene.grid.picture(expert - model), title="expert − model", **options)
        return figure
    states = scene.shown
    names = scene.names(states)
    figure, axes = plots.blank(3, width=12.0, height=1.2 + 0.27 * len(states))
    plots.bars(axes[0, 0], {"reward": by_state[states]}, names, xlabel="reward")
    options = {"rows": names, "columns": scene.action_names, "scale": (0, 1, plots.AMOUNTS)}
    plots.heat_table(figure, axes[0, 1], scene.first_policy[states], title="policy", bar="probability", **options)
    plots.bars(axes[0, 2], {"expert": expert[states], "model": model[states]}, names, xlabel="discounted visits")
    return figure
