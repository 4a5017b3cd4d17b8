"""Learning curves."""

from typing import Any

import numpy as np

from irlax.estimators.sampled.sampled_fit import SUMMARISED
from irlax.iteration import History
from irlax.report.plots import COLOURS, blank, clip_for_plot


def learning_figure(history: History, demonstrated: float | None) -> Any:
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
        # In some rounds no episode ends, and the return is not known.
        known = ~np.isnan(history[name])
        ax.plot(steps[known], clip_for_plot(history[name][known]), color=COLOURS[0], linewidth=1.2, **few)
        level = {"return": demonstrated, "gap": 0.0}.get(name)
        if level is not None:
            ax.axhline(level, color=COLOURS[1], linestyle=":", linewidth=1.5)
        ax.set_title(name.replace("_", " "), fontsize=10)
        ax.set_xlabel("environment steps" if acting else "gradient steps", fontsize=9)
        ax.ticklabel_format(axis="x", style="sci", scilimits=(0, 4))
    for ax in axes.ravel()[len(names) :]:
        ax.set_visible(False)
    return figure
