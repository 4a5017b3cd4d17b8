"""Figures of counterfactuals."""

from typing import Any

from irlax.estimators.tabular.counterfactual import DemandCurve
from irlax.report.plots import COLOURS, blank, label


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
