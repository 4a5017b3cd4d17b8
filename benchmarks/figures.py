"""Pictures of what benchmarks found. Their data are in `results/`; the pictures themselves are not kept."""

from pathlib import Path
from typing import Any

from irlax.report.plots import COLOURS, blank

#: A curve: "steps" and "mean", with an interval from "low" to "high".
Curve = dict[str, list[float]]


def curves(panels: dict[str, dict[str, Curve]], bars: dict[str, float], *, ylabel: str, xscale: str = "log") -> Any:
    """A panel for each problem, a curve for each method, a dotted line at its bar; legend where most curves are."""
    columns = min(3, len(panels))
    figure, axes = blank(columns, rows=-(-len(panels) // columns), width=3.4 * columns, height=2.7)
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    for ax in axes.ravel()[len(panels) :]:
        ax.set_axis_off()
    for ax, (title, panel) in zip(axes.ravel(), panels.items(), strict=False):
        for name, points in panel.items():
            colour = COLOURS[names.index(name) % len(COLOURS)]
            ax.fill_between(points["steps"], points["low"], points["high"], color=colour, alpha=0.2, linewidth=0)
            ax.plot(points["steps"], points["mean"], color=colour, linewidth=2, label=name)
        ax.axhline(bars[title], color="grey", linestyle=":")
        ax.set(title=title, xlabel="environment steps", ylabel=ylabel, xscale=xscale)
        if xscale == "linear":
            ax.locator_params(axis="x", nbins=4)
    fullest = max(range(len(panels)), key=[len(panel) for panel in panels.values()].__getitem__)
    axes.ravel()[fullest].legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def save(figure: Any, path: Path) -> None:
    """As PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
