"""Figures. They are made without pyplot, so that drawing leaves no global state behind."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: Colours that the colour-blind can tell apart (Okabe and Ito 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def blank(columns: int = 1, *, rows: int = 1, width: float = 9.0, height: float = 3.4) -> tuple[Any, np.ndarray]:
    """A figure with a grid of axes in our style: [rows, columns] of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.ravel():
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=9)
    return figure, axes


def lines(
    ax: Any, x: np.ndarray, curves: Mapping[str, Sequence[float] | np.ndarray], *, xlabel: str, ylabel: str
) -> None:
    """Named curves over a common x."""
    for colour, (name, y) in zip(COLOURS, curves.items(), strict=False):
        ax.plot(x, y, label=name, color=colour, linewidth=2)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.legend(frameon=False, fontsize=9)
