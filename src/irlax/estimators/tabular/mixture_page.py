"""The report on a mixture: its types, their rewards with intervals, and their policies."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from irlax.analysis.standard_errors import confidence_interval
from irlax.estimators.tabular.drawings import add_figure, draw_convergence, draw_policy, draw_reward, draw_visits
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.mixture_fit import MixtureFit
from irlax.estimators.tabular.scene import Scene
from irlax.estimators.tabular.tabular_summary import SHOWN_PARAMETERS
from irlax.report import plots
from irlax.report.html import Page
from irlax.tables import format_value

#: At most this many types are drawn.
SHOWN_TYPES = 6


def mixture_page(fit: MixtureFit) -> Page:
    """The report on a mixture as one page."""
    mdp = fit.expert.mdp
    observed = f"{format_value(fit.num_individuals)} individuals, {format_value(fit.num_choices)} choices"
    size = f"{format_value(mdp.num_states)} states and {format_value(mdp.num_actions)} actions"
    lead = f"Learned from {observed}, in an MDP of {size}."
    page = Page("MixtureIRL: unobserved types, each with its own reward", lead)
    if not fit.converged:
        page = page.text(f"This fit {fit.status.value}. {fit.reason}", alert=True)
        page = page.text("Below is its last iterate: these are no estimates.")
    for section in SECTIONS:
        page = section(page, fit)
    return page


def summary_section(page: Page, fit: MixtureFit) -> Page:
    """The types, and how good the fit is."""
    for table in fit.summary().tables:
        page = page.table(table)
    return page


def types_section(page: Page, fit: MixtureFit) -> Page:
    """How each type acts."""
    for g in range(min(fit.num_types, SHOWN_TYPES)):
        page = _type(page.heading(f"Type {g + 1}: {fit.shares[g]:.0%} of individuals"), fit, g)
    return page


def convergence_section(page: Page, fit: MixtureFit) -> Page:
    """How the solver got there."""
    return draw_convergence(page, fit.history)


def _type(page: Page, fit: MixtureFit, g: int) -> Page:
    """The reward, policy and visits of one type."""
    weighted = _of_type(fit, g)
    scene = Scene.between(weighted or fit.expert, fit.plans[g], fit.rewards[g])
    page = draw_policy(draw_reward(page, scene), scene)
    if weighted is None:
        return page
    return draw_visits(page, scene, " Each individual is weighted by the probability that it is of this type.")


def intervals_section(page: Page, fit: MixtureFit) -> Page:
    """The page with the parameters of all types and their intervals."""
    if not fit.converged or fit.rewards[0].num_parameters > SHOWN_PARAMETERS:
        return page
    return add_figure(
        page.heading("How sure the rewards are"),
        types_figure(fit),
        "Estimates and 95% intervals, which include the uncertainty about the types of individuals. No interval: not "
        "identified.",
    )


def types_figure(fit: MixtureFit) -> Any:
    """The parameters of each type, with 95% intervals if the fit is a success."""
    names = fit.rewards[0].parameter_names()[:SHOWN_PARAMETERS]
    columns = min(fit.num_types, SHOWN_TYPES)
    figure, axes = plots.blank(columns, height=1.2 + 0.27 * len(names))
    errors = fit.standard_errors() if fit.converged else np.full(fit.parameters.shape, np.nan)
    for g, ax in enumerate(axes[0]):
        estimates = fit.parameters[g, : len(names)]
        low, high = confidence_interval(estimates, errors[g, : len(names)], 0.95).T
        plots.intervals(ax, names, estimates, low, high, xlabel=f"type {g + 1}: {fit.shares[g]:.0%}")
    return figure


def certainty_section(page: Page, fit: MixtureFit) -> Page:
    """The page with a histogram of how certain the types of individuals are."""
    figure, axes = plots.blank(height=2.4)
    ax = axes[0, 0]
    certainty, bins = fit.posterior.max(axis=1), np.linspace(0, 1, 21).tolist()
    ax.hist(certainty, bins=bins, weights=fit.weights, color=plots.COLOURS[0])
    ax.set_xlim(0, 1)
    ax.set_xlabel("probability of the likeliest type")
    ax.set_ylabel("individuals")
    page = page.heading("Who is of which type")
    return add_figure(
        page, figure, "The probability of each individual's likeliest type, given its choices: 1 is certain."
    )


def _of_type(fit: MixtureFit, g: int) -> Expert | None:
    """The demonstrator, with each individual weighted by the probability that it is of a type.

    None if individuals have several episodes: which episodes belong to one individual is not stored with the fit.
    """
    demos = fit.expert.demos
    assert demos is not None
    labels = np.arange(demos.num_episodes) if demos.labels is None else demos.labels
    if not np.array_equal(labels, fit.individuals):
        return None
    return dataclasses.replace(
        fit.expert, demos=dataclasses.replace(demos, weights=demos.weights * fit.posterior[:, g])
    )


#: The page from top to bottom. A section is a function of the page so far and the fit.
SECTIONS: tuple[Callable[[Page, MixtureFit], Page], ...] = (
    summary_section,
    intervals_section,
    certainty_section,
    types_section,
    convergence_section,
)
