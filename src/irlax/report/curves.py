"""Curves: of counterfactuals, and of learning."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from irlax.estimators.sampled.fit import SUMMARISED
from irlax.estimators.tabular.counterfactual import DemandCurve
from irlax.report.plots import COLOURS, blank, label, tame
from irlax.typing import Float


def demand_figure(curve: DemandCurve) -> Any:
    """A matplotlib Figure of a demand curve, with its interval as a band; `.savefig(path)` writes it."""
    figure, axes = blank(width=6.0)
    ax = axes[0, 0]
    low, high = curve.interval.T
    ax.fill_between(curve.values, low, high, color=COLOURS[0], alpha=0.2, linewidth=0, label=f"{curve.level:.0%}")
    ax.plot(curve.values, curve.rate, color=COLOURS[0], linewidth=2)
    ax.set_xlabel(label(curve.parameter))
    ax.set_ylabel(f"long-run rate of action {curve.action}")
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, fontsize=9)
    return figure


def learning_figure(history: Mapping[str, Float[np.ndarray, " rounds"]], demonstrated: float | None) -> Any:
    """A panel for each number of the summary, over environment steps, or over gradient steps where none were taken.

    `demonstrated` is the mean return of the demonstrations, for a dotted line.
    """
    names = [name for name in SUMMARISED if name in history]
    columns = 2 if len(names) == 4 else min(3, len(names))
    figure, axes = blank(columns, rows=-(-len(names) // columns), height=2.5)
    acting = bool(np.ptp(history["steps"])) or len(history["steps"]) == 1
    steps = history["steps"] if acting else np.arange(len(history["steps"]))
    few = {"marker": "o", "markersize": 4} if len(steps) < 20 else {}
    for ax, name in zip(axes.ravel(), names, strict=False):
        ax.plot(steps, tame(history[name]), color=COLOURS[0], linewidth=1.2, **few)
        level = {"return": demonstrated, "gap": 0.0}.get(name)
        if level is not None:
            ax.axhline(level, color=COLOURS[1], linestyle=":", linewidth=1.5)
        ax.set_title(name.replace("_", " "), fontsize=10)
        ax.set_xlabel("environment steps" if acting else "gradient steps", fontsize=9)
        ax.ticklabel_format(axis="x", style="sci", scilimits=(0, 4))
    for ax in axes.ravel()[len(names) :]:
        ax.set_visible(False)
    return figure
