"""Graphs of states on matplotlib axes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from irlax.report.plots import COLOURS, label
from irlax.typing import Bool, Int


def link_graph(ax: Any, links: np.ndarray, component: np.ndarray, names: Sequence[str]) -> None:
    """Draw states on a circle, grouped by component, with a line between those that are linked in one step."""
    order = np.argsort(component, kind="stable")
    angle = np.empty(len(order))
    angle[order] = 2 * np.pi * np.arange(len(order)) / len(order)
    x, y = np.cos(angle), np.sin(angle)
    for u, v in np.argwhere(np.triu(links, 1)):
        ax.plot(x[[u, v]], y[[u, v]], color="#bbbbbb", linewidth=0.8, zorder=1)
    colours = [COLOURS[int(c) % len(COLOURS)] for c in component]
    ax.scatter(x, y, s=120, c=colours, zorder=2)
    for s, name in enumerate(names):
        ax.annotate(label(name), (1.1 * x[s], 1.1 * y[s]), ha="center", va="center", fontsize=8)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.margins(0.15)


def arrow_graph(ax: Any, arcs: Int[np.ndarray, "n 2"], names: Sequence[str], squares: Bool[np.ndarray, " S"]) -> None:
    """Draw states on a circle, the first at the top, and an arrow for each arc to another; some states as squares."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / len(names)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    # The arrows end where the circle of a state begins.
    near = 0.06
    ends = points[arcs[arcs[:, 0] != arcs[:, 1]]]
    steps = ends[:, 1] - ends[:, 0]
    length = np.hypot(*steps.T)[:, None]
    start, shaft = ends[:, 0] + near * steps / length, steps * (1 - 2 * near / length)
    style = {"angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.004, "headwidth": 7, "color": "#8b93a3"}
    ax.quiver(*start.T, *shaft.T, zorder=1, **style)
    for marker, chosen in (("o", ~squares), ("s", squares)):
        ax.scatter(*points[chosen].T, s=120, marker=marker, color=COLOURS[0], zorder=2)
    for (x, y), name in zip(points, names, strict=True):
        side = "center" if abs(x) < 0.1 else "left" if x > 0 else "right"
        ax.annotate(label(name), (1.1 * x, 1.14 * y), ha=side, va="center", fontsize=8)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.margins(0.15)
