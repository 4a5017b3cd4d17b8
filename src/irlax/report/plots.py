"""Plots on matplotlib axes. Figures are made without pyplot, which would keep them in a global list."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from irlax.typing import Float

#: Colours that colour-blind readers can distinguish (Okabe and Ito 2008).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Colour maps for amounts from 0 up, and for quantities with a sign. Both are legible without colour vision.
AMOUNTS, SIGNED = "YlGnBu", "PuOr_r"
_WALL, _ABSENT, _INK, _FAINT = "#c3c8d1", "#eceef2", "#1d2433", "#888888"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: A heat map of at most this many cells shows its numbers.
_MAX_NUMBERS = 120


def blank(columns: int = 1, *, rows: int = 1, width: float = 9.0, height: float = 3.4) -> tuple[Any, np.ndarray]:
    """A new figure, and its axes as an array [rows, columns]."""
    from irlax.report.figure import ShownFigure

    figure = ShownFigure(figsize=(width, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.ravel():
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=9)
    return figure, axes


def on_axes(ax: Any, draw: Callable[[Any, Any], None], new: Callable[[], tuple[Any, np.ndarray]] = blank) -> Any:
    """Call `draw(figure, axes)`: with the given axes, which are returned, or with those of a new figure, which is.

    So a notebook shows the new figure, and where the axes are the user's, nothing a second time.
    """
    if ax is None:
        figure, axes = new()
        draw(figure, axes.ravel()[0])
        return figure
    if not hasattr(ax, "get_subplotspec"):
        raise TypeError(
            f"`ax` must be the axes of a matplotlib figure, but is a {type(ax).__name__}. Of several axes, pass one: "
            f"`ax=axes[0]`."
        )
    draw(ax.figure, ax)
    return ax


def lines(
    ax: Any, x: np.ndarray, curves: Mapping[str, Sequence[float] | np.ndarray], *, xlabel: str, ylabel: str
) -> None:
    """Draw named curves over a common x."""
    for colour, (name, y) in zip(COLOURS, curves.items(), strict=False):
        ax.plot(x, y, label=name, color=colour, linewidth=2)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.legend(frameon=False, fontsize=9)


def logarithmic(ax: Any) -> None:
    """A logarithmic vertical axis, with powers of ten as plain text: formulae take matplotlib long to set."""
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(_power_of_ten)


def _power_of_ten(value: float, _: int) -> str:
    return "10" + f"{round(np.log10(value))}".translate(_RAISED) if value > 0 else ""


def label(text: str, longest: int = 22) -> str:
    """Text from data as a label: on one line, shortened, and with $ escaped so that it is not read as a formula."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    shown = shown if len(shown) <= longest else shown[: longest - 1] + "…"
    return shown.replace("$", r"\$")


def clip_for_plot(values: np.ndarray) -> np.ndarray:
    """Values clipped to ±1e100: the axes of a plot overflow long before float64 does."""
    return np.clip(np.asarray(values, np.float64), -1e100, 1e100)


def limits(*arrays: np.ndarray, from_zero: bool = True) -> tuple[float, float, str]:
    """The lowest and highest value of a common scale for these arrays, and its colour map.

    Symmetric about 0 if any value is negative, else from 0; without `from_zero`, from the lowest to the highest.
    """
    values = np.concatenate([np.ravel(array) for array in arrays])
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    if not from_zero:
        return low, high if high > low else low + 1.0, AMOUNTS
    if low < 0:
        size = max(-low, high)
        return -size, size, SIGNED
    return 0.0, high or 1.0, AMOUNTS


def grid_heatmap(
    figure: Any,
    ax: Any,
    board: Float[np.ndarray, "height width"],
    *,
    title: str,
    scale: tuple[float, float, str] | None = None,
    bar: str | None = None,
    marks: np.ndarray | None = None,
) -> None:
    """Draw a grid of cells, NaN for walls; `marks` are letters in the cells, `bar` is the label of the colour bar."""
    low, high, colours = limits(board) if scale is None else scale
    image = _picture(ax, board, low, high, colours)
    _cells(ax, board)
    ax.set_title(title, fontsize=10)
    if marks is not None and board.size <= 40 * 40:
        size = float(np.clip(150 / max(board.shape), 4, 10))
        for (row, column), mark in np.ndenumerate(marks):
            if mark not in ".#":
                ink = _text_colour_on(image, board.item(row, column))
                ax.text(
                    column, row, label(str(mark)), ha="center", va="center", fontsize=size, color=ink, weight="bold"
                )
    if bar is not None:
        colour_bar(figure, ax, image, bar)


def plane(
    figure: Any,
    ax: Any,
    values: Float[np.ndarray, "height width"],
    *,
    extent: tuple[float, float, float, float],
    bar: str,
) -> None:
    """Draw a function of two coordinates over `extent` (left, right, bottom, top); the first row is at the bottom."""
    low, high, colours = limits(values, from_zero=False)
    image = ax.imshow(
        values,
        cmap=colours,
        vmin=low,
        vmax=high,
        extent=extent,
        origin="lower",
        aspect="auto",
        interpolation="bilinear",
    )
    colour_bar(figure, ax, image, bar)


def policy_arrows(
    figure: Any,
    ax: Any,
    policy: Float[np.ndarray, "S A"],
    *,
    cells: np.ndarray,
    shape: tuple[int, int],
    moves: np.ndarray,
    title: str,
    shade: Float[np.ndarray, " S"],
    bar: str,
    low: float = 0.0,
) -> None:
    """Draw an arrow for each action in each cell, of a length relative to the likeliest action; a dot for staying.

    `cells` are (row, column) of each state, `moves` (down, right) of each action. `low` is the value of the palest
    shade.
    """
    board = np.full(shape, np.nan)
    board[tuple(cells.T)] = shade
    high = float(np.nanmax(board))
    image = _picture(ax, board, low, high if high > low else low + 1.0, _pale())
    _cells(ax, board)
    ax.set_title(title, fontsize=10)
    best = np.maximum(policy.max(axis=1), 1e-300)
    for (down, right), probability in zip(moves, policy.T, strict=True):
        likely = probability > 0.04
        rows, columns = cells[likely].T
        length = 0.46 * (probability / best)[likely]
        if not down and not right:
            ax.scatter(columns, rows, s=6000 / max(shape) ** 2 * length**2, color=COLOURS[1], linewidth=0)
            continue
        ax.quiver(
            columns,
            rows,
            right * length,
            -down * length,
            angles="uv",
            scale_units="xy",
            scale=1,
            width=0.05,
            units="xy",
            headwidth=3.6,
            headlength=3.6,
            headaxislength=3.4,
            minlength=0,
            color=COLOURS[0],
        )
    colour_bar(figure, ax, image, bar)


def chosen_actions(
    ax: Any, board: Float[np.ndarray, "height width"], action_names: Sequence[str], *, title: str
) -> None:
    """Draw a grid in which each cell has the colour of its likeliest action."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    colours = [COLOURS[a % len(COLOURS)] for a in range(len(action_names))]
    _picture(ax, board, -0.5, len(colours) - 0.5, ListedColormap(colours))
    _cells(ax, board)
    ax.set_title(title, fontsize=10)
    keys = [Patch(color=colour, label=label(name)) for colour, name in zip(colours, action_names, strict=True)]
    ax.legend(handles=keys, frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def heat_table(
    figure: Any,
    ax: Any,
    table: Float[np.ndarray, "rows columns"],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    bar: str,
    scale: tuple[float, float, str] | None = None,
) -> None:
    """Draw a table as colours, with the numbers if there are few cells; NaN cells are empty."""
    low, high, colours = limits(table) if scale is None else scale
    image = _picture(ax, table, low, high, colours, aspect="auto")
    ax.set_xticks(range(len(columns)), [label(name) for name in columns], fontsize=9)
    ax.set_yticks(range(len(rows)), [label(name) for name in rows], fontsize=9)
    if sum(map(len, columns)) > 45:
        # Horizontal names would overlap.
        ax.tick_params(axis="x", rotation=90)
        ax.tick_params(axis="x", labelbottom=len(columns) <= 40)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title, fontsize=10)
    if table.size <= _MAX_NUMBERS:
        for (row, column), value in np.ndenumerate(table):
            if np.isfinite(value):
                text = f"{value:.3g}".replace("-", "−")
                ax.text(column, row, text, ha="center", va="center", fontsize=8, color=_text_colour_on(image, value))
    colour_bar(figure, ax, image, bar)


def bars(ax: Any, values: Mapping[str, Float[np.ndarray, " n"]], names: Sequence[str], *, xlabel: str) -> None:
    """Draw horizontal bars, one group for each name, the first at the top."""
    places = np.arange(len(names))
    thick = 0.8 / len(values)
    for i, (colour, (series, sizes)) in enumerate(zip(COLOURS, values.items(), strict=False)):
        ax.barh(places + (i - (len(values) - 1) / 2) * thick, sizes, thick, color=colour, label=series)
    ax.set_yticks(places, [label(name) for name in names], fontsize=9)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.axvline(0, color=_FAINT, linewidth=0.8)
    ax.set_xlabel(xlabel)
    if len(values) > 1:
        ax.legend(frameon=False, fontsize=9)


def intervals(
    ax: Any,
    names: Sequence[str],
    middle: Float[np.ndarray, " K"],
    low: Float[np.ndarray, " K"],
    high: Float[np.ndarray, " K"],
    *,
    xlabel: str,
) -> None:
    """Draw a point and an interval for each name, the first at the top."""
    places = np.arange(len(names))
    ax.hlines(places, low, high, color=COLOURS[0], linewidth=3, alpha=0.5)
    ax.plot(middle, places, "o", color=COLOURS[0])
    ax.axvline(0, color=_FAINT, linewidth=0.8)
    ax.set_yticks(places, [label(name) for name in names], fontsize=9)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.set_xlabel(xlabel)


def _pale() -> Any:
    """A pale colour map, on which arrows are legible."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    return ListedColormap(matplotlib.colormaps["Greys"](np.linspace(0.0, 0.45, 128)))


def _picture(ax: Any, board: np.ndarray, low: float, high: float, colours: Any, *, aspect: str = "equal") -> Any:
    import matplotlib

    colours = matplotlib.colormaps[colours] if isinstance(colours, str) else colours
    wall = colours.with_extremes(bad=_WALL if aspect == "equal" else _ABSENT)
    return ax.imshow(np.ma.masked_invalid(board), cmap=wall, vmin=low, vmax=high, interpolation="none", aspect=aspect)


def _cells(ax: Any, board: Float[np.ndarray, "height width"]) -> None:
    """Remove the ticks; draw lines between cells and hatching on walls, unless the cells are too small."""
    from matplotlib.patches import Rectangle

    ax.set_xticks([])
    ax.set_yticks([])
    if max(board.shape) <= 40:
        for row, column in np.argwhere(~np.isfinite(board)):
            ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, hatch="////", linewidth=0, ec=_FAINT))
        ax.set_xticks(np.arange(-0.5, board.shape[1]), minor=True)
        ax.set_yticks(np.arange(-0.5, board.shape[0]), minor=True)
        ax.grid(which="minor", color="#d5d9e0", linewidth=0.8)
        ax.tick_params(which="minor", length=0)
    ax.spines[:].set_visible(False)


def colour_bar(figure: Any, ax: Any, image: Any, name: str, **options: Any) -> None:
    """Draw the colours of an image with their values, and the name of the quantity."""
    bar = figure.colorbar(image, ax=ax, shrink=0.85, pad=0.02, **options)
    bar.set_label(name, fontsize=9)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)


def _text_colour_on(image: Any, value: float) -> str:
    """Black or white, whichever is legible on the colour of this value."""
    red, green, blue, _ = image.cmap(image.norm(value)) if np.isfinite(value) else (0.0, 0.0, 0.0, 1.0)
    return _INK if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"
