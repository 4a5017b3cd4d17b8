"""The report on a mixture: its types, their rewards with intervals, and their policies."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from irlax.analysis.standard_errors import confidence_interval
from irlax.estimators.mixed.mixed_page import convergence_section, draw_group, opening, summary_section
from irlax.estimators.mixed.mixture_fit import MixtureFit
from irlax.estimators.tabular.drawings import add_figure
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.tabular_summary import SHOWN_PARAMETERS
from irlax.report import plots
from irlax.report.html import Page
from irlax.tables import format_value

#: At most this many types are drawn.
SHOWN_TYPES = 6


def mixture_page(fit: MixtureFit) -> Page:
    """The report on a mixture as one page."""
    individuals = f"{format_value(fit.num_individuals)} individuals"
    page = opening(fit, "MixtureIRL: unobserved types, each with its own reward", individuals)
    for section in SECTIONS:
        page = section(page, fit)
    return page


def types_section(page: Page, fit: MixtureFit) -> Page:
    """How each type acts."""
    for g in range(min(fit.num_types, SHOWN_TYPES)):
        page = page.heading(f"Type {g + 1}: {fit.shares[g]:.0%} of individuals")
        note = " Each individual is weighted by the probability that it is of this type."
        page = draw_group(page, fit, g, _of_type(fit, g), note)
    return page


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


def _of_type(fit: MixtureFit, g: int) -> Expert:
    """The (first) demonstrator, with each episode weighted by the probability that its individual is of a type."""
    (expert, *_), (demos, *_) = fit.experts, fit.demos
    probability = fit.posterior[fit.person[: demos.num_episodes], g]
    return dataclasses.replace(expert, demos=dataclasses.replace(demos, weights=demos.weights * probability))


#: The page from top to bottom. A section is a function of the page so far and the fit.
SECTIONS: tuple[Callable[[Page, MixtureFit], Page], ...] = (
    summary_section,
    intervals_section,
    certainty_section,
    types_section,
    convergence_section,
)
