"""The report on motives that switch: when each was present, their rewards with intervals, and their policies."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from irlax.analysis.standard_errors import confidence_interval
from irlax.estimators.mixed.mixed_page import convergence_section, draw_group, opening, summary_section
from irlax.estimators.mixed.switching_fit import SwitchingFit
from irlax.estimators.tabular.drawings import add_figure
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.tabular_summary import SHOWN_PARAMETERS
from irlax.report import plots
from irlax.report.html import Page
from irlax.tables import format_value

#: At most this many motives, episodes and steps of an episode are drawn.
SHOWN_MOTIVES, SHOWN_EPISODES, SHOWN_STEPS = 6, 6, 400


def switching_page(fit: SwitchingFit) -> Page:
    """The report as one page."""
    episodes = sum(demos.num_episodes for demos in fit.demos)
    page = opening(fit, "SwitchingIRL: motives that switch", f"{format_value(episodes)} episodes")
    for section in SECTIONS:
        page = section(page, fit)
    return page


def time_section(page: Page, fit: SwitchingFit) -> Page:
    """When each motive was present."""
    return add_figure(
        page.heading("Motives over time"),
        motives_figure(fit),
        "The probability of each motive at each observed step, given all choices of its episode; each strip is an "
        "episode.",
    )


def motives_figure(fit: SwitchingFit) -> Any:
    """The probability of each motive over the steps of the first episodes of the (first) demonstrations."""
    demos = fit.demos[0]
    shown = range(min(demos.num_episodes, SHOWN_EPISODES))
    figure, axes = plots.blank(1, rows=len(shown), height=0.75)
    probabilities = fit.motive_probabilities(demos.select(list(shown)))
    offsets = demos.offsets
    for k, ax in zip(shown, axes[:, 0], strict=True):
        rows = slice(offsets[k], min(offsets[k + 1], offsets[k] + SHOWN_STEPS))
        times, bands = demos.times[rows], probabilities[rows].T
        # Steps, not lines between them: a motive is present for whole steps, and gaps are left blank.
        edges = np.stack([times, times + 1], axis=1).ravel()
        edges, bands = _with_gaps(edges, np.repeat(bands, 2, axis=1))
        colours = [plots.COLOURS[i % len(plots.COLOURS)] for i in range(len(bands))]
        ax.stackplot(edges, bands, colors=colours, labels=[f"motive {i + 1}" for i in range(len(bands))], linewidth=0)
        ax.set_xlim(times[0], times[-1] + 1)
        ax.set_ylim(0, 1)
        ax.set_yticks([])
        label = k if demos.labels is None else demos.labels[k]
        ax.set_ylabel(str(label), rotation=0, ha="right", va="center")
        if k < len(shown) - 1:
            ax.set_xticklabels([])
    axes[-1, 0].set_xlabel("step")
    axes[0, 0].legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=fit.num_motives, frameon=False, borderaxespad=0)
    return figure


def _with_gaps(edges: np.ndarray, bands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The edges of steps with a pair of empty ones around each gap in time."""
    gaps = np.flatnonzero(np.diff(edges) > 1) + 1
    places = np.repeat(gaps, 2)
    borders = np.stack([edges[gaps - 1], edges[gaps]], axis=1).ravel() if len(gaps) else edges[:0]
    return np.insert(edges, places, borders), np.insert(bands, places, 0.0, axis=1)


def intervals_section(page: Page, fit: SwitchingFit) -> Page:
    """The parameters of all motives and their intervals."""
    if not fit.converged or max(map(len, fit.parameters)) > SHOWN_PARAMETERS:
        return page
    columns = min(fit.num_motives, SHOWN_MOTIVES)
    longest = max(map(len, fit.parameters))
    figure, axes = plots.blank(columns, height=1.2 + 0.27 * longest)
    errors = fit.standard_errors()
    for k, ax in enumerate(axes[0]):
        low, high = confidence_interval(fit.parameters[k], errors[k], 0.95).T
        names = fit.rewards[k].parameter_names()
        plots.intervals(ax, names, fit.parameters[k], low, high, xlabel=f"motive {k + 1}: {fit.shares[k]:.0%}")
    return add_figure(
        page.heading("How sure the rewards are"),
        figure,
        "Estimates and 95% intervals, which include the uncertainty about motives. No interval: not identified.",
    )


def motives_section(page: Page, fit: SwitchingFit) -> Page:
    """The reward, policy and visits of each motive."""
    probabilities = fit.motive_probabilities(fit.demos[0])
    for k in range(min(fit.num_motives, SHOWN_MOTIVES)):
        page = page.heading(f"Motive {k + 1}: {fit.shares[k]:.0%} of choices")
        note = " Each choice is weighted by the probability that this motive made it."
        page = draw_group(page, fit, k, _of_motive(fit, probabilities[:, k]), note)
    return page


def _of_motive(fit: SwitchingFit, probability: np.ndarray) -> Expert:
    """The (first) demonstrator, with each row weighted by the probability of a motive."""
    demos = fit.demos[0]
    weights = probability if demos.row_weights is None else demos.row_weights * probability
    return dataclasses.replace(fit.experts[0], demos=demos.with_row_weights(weights))


#: The page from top to bottom. A section is a function of the page so far and the fit.
SECTIONS: tuple[Callable[[Page, SwitchingFit], Page], ...] = (
    summary_section,
    time_section,
    intervals_section,
    motives_section,
    convergence_section,
)
