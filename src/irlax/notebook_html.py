"""HTML for notebooks. Text and lines have the colours of what is around them, so that it suits light and dark alike."""

import html
from collections.abc import Sequence

import numpy as np

from irlax.typing import Float, Int

#: Boards with more cells than this on a side are not drawn.
MAX_SIDE = 40
#: So many shades stand for values: cells of one shade are one path, which keeps the text short.
_SHADES = 16
#: For values from 0 up, and for those below 0. They show on white and on black.
_ABOVE, _BELOW = "#2b7fb8", "#d9731a"
_STYLE = """
.irlax { font: 13px/1.5 system-ui, sans-serif; color: inherit; max-width: 60rem; }
.irlax p { margin: .2rem 0; }
.irlax .table { overflow-x: auto; margin: .4rem 0; }
.irlax table { border-collapse: collapse; margin: 0; color: inherit; background: none; border: 0;
               font-variant-numeric: tabular-nums; }
.irlax caption { text-align: left; caption-side: top; color: inherit; opacity: .75; padding: .1rem 0; }
.irlax tr { background: none; }
.irlax th, .irlax td { color: inherit; padding: .1rem .9rem .1rem 0; border: 0; text-align: right; white-space: nowrap;
                       border-top: 1px solid rgba(128, 128, 128, .3); }
.irlax th:first-child, .irlax td:first-child { text-align: left; }
.irlax .note { opacity: .75; }
.irlax svg { display: block; margin: .4rem 0; max-width: 100%; height: auto; }
"""


def framed(*parts: str, title: str = "", text: str = "") -> str:
    """Parts, which are HTML, below a title and a line of text, which are escaped."""
    head = f"<b>{html.escape(title)}</b>" if title else ""
    line = f"{head}{': ' if title and text else ''}{html.escape(text)}"
    above = f"<p>{line}</p>" if line else ""
    return f'<div class="irlax"><style>{_STYLE}</style>{above}{"".join(parts)}</div>'


def board_svg(
    marks: Sequence[str],
    cells: Int[np.ndarray, "S 2"],
    values: Float[np.ndarray, " S"] | None = None,
    arrows: Float[np.ndarray, "S 2"] | None = None,
    *,
    what: str,
) -> str:
    """A board as SVG: walls, marks, values over `cells` by colour, arrows (down, right); nothing if it is large.

    `what` describes the picture to screen readers.
    """
    height, width = len(marks), max(map(len, marks), default=0)
    if not 0 < max(height, width) <= MAX_SIDE:
        return ""
    size = int(np.clip(480 / width, 8, 26))
    states = set(map(tuple, cells.tolist()))
    walls = [(row, column) for row in range(height) for column in range(width) if (row, column) not in states]
    parts = [_squares(walls, 'fill="currentColor" fill-opacity=".35"')]
    if values is not None:
        parts += _shades(cells, values)
    lines = "".join(f"M0 {row}H{width}" for row in range(height + 1))
    lines += "".join(f"M{column} 0V{height}" for column in range(width + 1))
    parts.append(f'<path d="{lines}" stroke="currentColor" stroke-opacity=".25" stroke-width=".03"/>')
    letters = [
        (row, column, str(marks[row][column])) for row, column in cells.tolist() if marks[row][column] not in (".", " ")
    ]
    # Beside arrows letters are small, in a corner.
    x, y, font = (0.5, 0.72, 0.6) if arrows is None else (0.15, 0.32, 0.36)
    parts += [
        f'<text x="{column + x:g}" y="{row + y:g}" text-anchor="middle">{html.escape(mark)}</text>'
        for row, column, mark in letters
    ]
    if arrows is not None:
        parts.append(_arrows(cells, arrows))
    return (
        f'<svg role="img" aria-label="{html.escape(what)}" viewBox="-.05 -.05 {width + 0.1} {height + 0.1}" '
        f'width="{size * width}" height="{size * height}" fill="currentColor" font-size="{font}">{"".join(parts)}</svg>'
    )


def _squares(places: Sequence[Sequence[int]], style: str) -> str:
    path = "".join(f"M{column} {row}h1v1h-1z" for row, column in places)
    return f'<path d="{path}" {style}/>' if path else ""


def _shades(cells: Int[np.ndarray, "S 2"], values: Float[np.ndarray, " S"]) -> list[str]:
    """Cells by colour: from the lowest to the highest value, or about 0 where there are values on both sides of it."""
    known = np.isfinite(values)
    if not known.any():
        return []
    low, high = float(values[known].min()), float(values[known].max())
    start, size = (0.0, max(-low, high)) if low < 0 < high else (low, high - low)
    level = np.zeros(len(values), int)
    if size > 0:
        level[known] = np.rint(_SHADES * ((values[known] - start) / size)).astype(int)
    return [
        _squares(
            cells[known & (level == shade)].tolist(),
            f'fill="{_ABOVE if shade > 0 else _BELOW}" fill-opacity="{0.85 * abs(shade) / _SHADES:.2f}"',
        )
        for shade in np.unique(level[known]).tolist()
        if shade
    ]


def _arrows(cells: Int[np.ndarray, "S 2"], arrows: Float[np.ndarray, "S 2"]) -> str:
    path = []
    for (row, column), (down, right) in zip(cells.tolist(), arrows.tolist(), strict=True):
        if down or right:
            x, y = column + 0.5 + 0.28 * right, row + 0.5 + 0.28 * down
            # The shaft, then both sides of the head from its end.
            path.append(f"M{column + 0.5 - 0.28 * right:.2f} {row + 0.5 - 0.28 * down:.2f}L{x:.2f} {y:.2f}")
            for side in (1, -1):
                back, aside = 0.18 * np.array([down, right]), 0.13 * side * np.array([right, -down])
                path.append(f"M{x:.2f} {y:.2f}l{aside[1] - back[1]:.2f} {aside[0] - back[0]:.2f}")
    return f'<path d="{"".join(path)}" fill="none" stroke="currentColor" stroke-width=".07"/>'
