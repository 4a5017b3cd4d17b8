"""Maps of networks: segments on a plane, each with a number that sets its colour and its width."""

from typing import Any, NamedTuple

import numpy as np

from irlax.report import plots
from irlax.typing import Bool, Float

_BASE, _INK = "#dde0e6", "#5b6579"
#: The widest and the thinnest line, in points. Lines of dense networks are thinner, so that they do not overlap.
_WIDEST, _THINNEST = 4.5, 0.5
#: With more segments than this a page holds the lines as pixels: as vectors they would be many megabytes.
_MOST_VECTORS = 6000
#: Where the largest value is more than this many times the 99th percentile, the scale ends at the percentile.
_OUTLYING = 1.5
#: Segments below this part of the typical length, such as connectors of zones, do not set the scale.
_SHORT = 0.5


class Scale(NamedTuple):
    """The lowest and highest value that have colours of their own, and the colours between."""

    low: float
    high: float
    colours: Any

    @property
    def size(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))


def scale_of(*arrays: np.ndarray, signed: bool = False) -> Scale:
    """A common scale of these values: from 0 if all have one sign, else (or if `signed`) symmetric about 0."""
    values = np.concatenate([np.ravel(array) for array in arrays])
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    size = _largest(np.abs(values))
    if signed or low < 0 < high:
        return Scale(-size, size, _diverging())
    if low < 0:
        return Scale(-size, 0.0, _dark().reversed())
    return Scale(0.0, size, _dark())


def segment_scale(
    segments: Float[np.ndarray, "n 4"], values: Float[np.ndarray, " n"], *, signed: bool = False
) -> Scale:
    """The scale of the values of segments that are not very short."""
    return scale_of(values[_lengths(segments) >= _SHORT * _typical_length(segments)], signed=signed)


def panels(segments: Float[np.ndarray, "n 4"], count: int) -> tuple[Any, np.ndarray]:
    """A figure with `count` axes for maps, at most three in a row, in the proportions of the map."""
    columns = min(count, 3)
    (left, bottom), (right, top) = _limits(segments)
    width = 6.5 if count == 1 else 4.6 * columns
    tall = 0.82 * width / columns * (top - bottom) / (right - left) + 0.45
    rows = -(-count // columns)
    figure, axes = plots.blank(columns, rows=rows, width=width, height=float(np.clip(tall, 1.8, 8.0)))
    for ax in axes.ravel():
        ax.set_axis_off()
    return figure, axes.ravel()[:count]


def network_map(
    figure: Any,
    ax: Any,
    segments: Float[np.ndarray, "n 4"],
    values: Float[np.ndarray, " n"] | None = None,
    *,
    title: str = "",
    bar: str = "",
    scale: Scale | None = None,
) -> None:
    """Draw segments (x₀, y₀, x₁, y₁), each from its first to its second end.

    Where there is a segment in the other direction too, both are drawn on their right, as traffic drives. Colour and
    width stand for the value; those with the largest magnitude are on top, and those without one (NaN) are pale. No
    line is wider than half its length, and where no scale is given, very short segments do not set it.
    """
    from matplotlib.collections import LineCollection

    _frame(ax, segments, title)
    unit = _units_per_point(figure, ax, segments)
    widest = _widest(segments, unit)
    both = two_way(segments)
    plain = _lines(segments, both * 0.3 * widest * unit)
    raster = len(segments) > _MOST_VECTORS
    if values is None:
        ax.add_collection(LineCollection(plain, colors=_INK, linewidths=0.35 * widest, rasterized=raster))
        return
    values = plots.clip_for_plot(values)
    scale = segment_scale(segments, values) if scale is None else scale
    ax.add_collection(LineCollection(plain, colors=_BASE, linewidths=_THINNEST, rasterized=raster, zorder=1))
    known = np.flatnonzero(np.isfinite(values) & (segments[:, :2] != segments[:, 2:]).any(axis=1))
    order = known[np.argsort(np.abs(values[known]), kind="stable")]
    share = np.clip(np.abs(values[order]) / scale.size, 0, 1)
    widths = np.minimum(_THINNEST + (widest - _THINNEST) * share, np.maximum(_lengths(segments[order]) / unit / 2, 0.5))
    drawn = LineCollection(
        # Half a line and a little to the right: the two directions touch and do not overlap.
        _lines(segments[order], both[order] * (0.5 * widths + 0.2) * unit),
        cmap=scale.colours,
        linewidths=widths,
        capstyle="butt",
        rasterized=raster,
        zorder=2,
    )
    drawn.set_array(values[order])
    drawn.set_clim(scale.low, scale.high)
    ax.add_collection(drawn)
    plots.colour_bar(figure, ax, drawn, bar, extend=_beyond(values[known], scale), aspect=30)


def point_map(
    figure: Any,
    ax: Any,
    points: Float[np.ndarray, "n 2"],
    values: Float[np.ndarray, " n"],
    *,
    segments: Float[np.ndarray, "m 4"],
    title: str = "",
    bar: str = "",
) -> None:
    """Draw points over a plain network, each with the colour of its value."""
    from matplotlib.collections import LineCollection

    _frame(ax, segments, title)
    values = plots.clip_for_plot(values)
    scale, raster = scale_of(values), len(segments) > _MOST_VECTORS
    ax.add_collection(LineCollection(_lines(segments), colors=_BASE, linewidths=0.8, rasterized=raster, zorder=1))
    spacing = _typical_length(segments) / _units_per_point(figure, ax, segments)
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(np.abs(values[known]), kind="stable")]
    drawn = ax.scatter(
        *points[order].T,
        c=values[order],
        s=float(np.clip(0.4 * spacing, 2, 12)) ** 2,
        cmap=scale.colours,
        vmin=scale.low,
        vmax=scale.high,
        linewidth=0,
        zorder=2,
        rasterized=raster,
    )
    plots.colour_bar(figure, ax, drawn, bar, extend=_beyond(values[known], scale), aspect=30)


def two_way(segments: Float[np.ndarray, "n 4"]) -> Bool[np.ndarray, " n"]:
    """Whether there is a segment back, from the second end to the first."""
    num = len(segments)
    _, place = np.unique(np.concatenate([segments[:, :2], segments[:, 2:]]), axis=0, return_inverse=True)
    place = place.ravel()
    first, second = place[:num], place[num:]
    return np.isin(first * 2 * num + second, second * 2 * num + first) & (first != second)


def _lines(segments: Float[np.ndarray, "n 4"], aside: Float[np.ndarray, " n"] | None = None) -> Any:
    """Segments [n, 2, 2] as matplotlib takes them, moved to the right of their direction by so much."""
    ends = segments.reshape(-1, 2, 2)
    if aside is None:
        return ends
    step = ends[:, 1] - ends[:, 0]
    length = np.hypot(*step.T)
    right = np.stack([step[:, 1], -step[:, 0]], axis=1) / np.where(length > 0, length, 1)[:, None]
    return ends + (aside[:, None] * right)[:, None, :]


def _frame(ax: Any, segments: Float[np.ndarray, "n 4"], title: str) -> None:
    (left, bottom), (right, top) = _limits(segments)
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_title(title, fontsize=10)


def _limits(segments: Float[np.ndarray, "n 4"]) -> tuple[Float[np.ndarray, " 2"], Float[np.ndarray, " 2"]]:
    """The lower left and the upper right corner of a map, with a margin; no map is narrower than a quarter."""
    points = segments.reshape(-1, 2)
    low, high = points.min(axis=0), points.max(axis=0)
    middle, size = (low + high) / 2, high - low
    size = np.maximum(size, 0.25 * size.max() or 1.0)
    return middle - 0.53 * size, middle + 0.53 * size


def _units_per_point(figure: Any, ax: Any, segments: Float[np.ndarray, "n 4"]) -> float:
    """How long a point of the figure is on the map, about: the layout is not computed yet."""
    spec = ax.get_subplotspec()
    rows, columns = (1, 1) if spec is None else spec.get_gridspec().get_geometry()
    room = 72 * figure.get_size_inches() / (columns, rows) * (0.8, 0.9)
    low, high = _limits(segments)
    return float(((high - low) / room).max())


def _lengths(segments: Float[np.ndarray, "n 4"]) -> Float[np.ndarray, " n"]:
    return np.hypot(segments[:, 2] - segments[:, 0], segments[:, 3] - segments[:, 1])


def _typical_length(segments: Float[np.ndarray, "n 4"]) -> float:
    lengths = _lengths(segments)
    return float(np.median(lengths[lengths > 0])) if (lengths > 0).any() else 1.0


def _widest(segments: Float[np.ndarray, "n 4"], unit: float) -> float:
    """A quarter of the length of a typical link, within limits."""
    return float(np.clip(_typical_length(segments) / unit / 4, 1.5, _WIDEST))


def _largest(sizes: Float[np.ndarray, " n"]) -> float:
    if not len(sizes) or not sizes.max():
        return 1.0
    most = float(np.quantile(sizes[sizes > 0], 0.99))
    return most if sizes.max() > _OUTLYING * most else float(sizes.max())


def _beyond(values: Float[np.ndarray, " n"], scale: Scale) -> str:
    if not len(values):
        return "neither"
    under, over = values.min() < scale.low * (1 + 1e-9) - 1e-300, values.max() > scale.high * (1 + 1e-9)
    return {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}[
        bool(under), bool(over)
    ]


def _dark() -> Any:
    """The colours for amounts, with grey in place of the palest ones, which a line on white would not show."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap

    colours = matplotlib.colormaps[plots.AMOUNTS](np.linspace(0.45, 1.0, 6))
    return LinearSegmentedColormap.from_list("amounts of lines", ["#cfd6dd", *colours])


def _diverging() -> Any:
    """The colours for quantities with a sign, with grey in place of white at 0."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap

    ends = matplotlib.colormaps[plots.SIGNED]([0.05, 0.2, 0.8, 0.95])
    return LinearSegmentedColormap.from_list("signed lines", [ends[0], ends[1], "#c9ced8", ends[2], ends[3]])
