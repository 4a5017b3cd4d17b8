"""Tables, printed as text, Markdown, LaTeX or HTML."""

import abc
import html
import re
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from irlax.notebook_html import framed
from irlax.precision import is_traced

_LATEX = str.maketrans(
    {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}"}
    | {"^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "−": "$-$", "²": "$^2$"}
    | {"θ": r"$\theta$", "γ": r"$\gamma$", "ψ": r"$\psi$", "χ": r"$\chi$", "σ": r"$\sigma$", "ℓ": r"$\ell$"}
    | {"→": r"$\to$", "∪": r"$\cup$", "∞": r"$\infty$", "·": r"$\cdot$", "×": r"$\times$", "±": r"$\pm$"}
    | {digit: f"$_{k}$" for k, digit in enumerate("₀₁₂₃₄₅₆₇₈₉")}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
)


class Table(eqx.Module):
    """Rows of cells under column heads; the first column is text, the others are aligned as numbers.

    `notes` stand below the table, a line each.
    """

    columns: tuple[str, ...] = eqx.field(converter=tuple)
    rows: tuple[tuple[Any, ...], ...] = eqx.field(converter=lambda rows: tuple(tuple(row) for row in rows))
    title: str = ""
    notes: tuple[str, ...] = eqx.field(converter=tuple, default=())

    def __check_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"A row has {len(row)} cells, but the table has {len(self.columns)} columns: {row}.")

    def __str__(self) -> str:
        cells = [list(self.columns), *self._cells()]
        widths = [max(len(row[j]) for row in cells) for j in range(len(self.columns))]
        lines = ["  ".join(_aligned(cell, j, widths[j]) for j, cell in enumerate(row)).rstrip() for row in cells]
        rule = "─" * max([len(line) for line in lines] + [len(self.title)])
        above = [self.title, rule] if self.title else []
        heading = [lines[0], rule] if any(self.columns) else []
        return "\n".join([*above, *heading, *lines[1:], *([rule] if self.notes else []), *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return framed(self.to_html())

    def to_markdown(self) -> str:
        """A GitHub-flavoured table."""
        columns = " | ".join(_markdown(column) for column in self.columns)
        rules = " | ".join("---" if j == 0 else "---:" for j in range(len(self.columns)))
        rows = [" | ".join(_markdown(cell) for cell in row) for row in self._cells()]
        table = "\n".join(f"| {line} |" for line in (columns, rules, *rows))
        above = f"**{_markdown(self.title)}**\n\n" if self.title else ""
        below = "".join(f"\n\n{_markdown(note)}" for note in self.notes)
        return above + table + below

    def to_latex(self) -> str:
        """A tabular for the booktabs package."""
        lines = [rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}", r"\toprule"]
        if any(self.columns):
            lines += [" & ".join(_latex(column) for column in self.columns) + r" \\", r"\midrule"]
        lines += [" & ".join(_latex(cell) for cell in row) + r" \\" for row in self._cells()]
        lines += [r"\bottomrule", r"\end{tabular}"]
        if self.notes:
            # Below the tabular, where long ones are broken into lines.
            notes = [rf"{_latex(note)}\par" for note in self.notes]
            lines += ["", r"\begin{minipage}{\linewidth}\footnotesize", *notes, r"\end{minipage}"]
        return "\n".join(lines)

    def to_html(self) -> str:
        """A table element; every cell is escaped."""
        heads = "".join(f"<th>{html.escape(column)}</th>" for column in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._cells()
        )
        caption = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        head = f"<thead><tr>{heads}</tr></thead>" if any(self.columns) else ""
        notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in self.notes)
        # The tab key reaches it (tabindex), so that a wide table can be scrolled with the arrow keys.
        box = f'<div class="table" role="group" aria-label="{html.escape(self.title or "table")}" tabindex="0">'
        return f"{box}<table>{caption}{head}<tbody>{body}</tbody></table></div>{notes}"

    def _cells(self) -> list[list[str]]:
        return [[format_value(cell) for cell in row] for row in self.rows]


def format_value(value: Any) -> str:
    """A value as text for a table: four significant digits, the minus sign −, an empty text for None."""
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}".replace("-", "−")
    if isinstance(value, (float, np.floating)):
        if value == 0 or not np.isfinite(value):
            return f"{value:g}".replace("-", "−")
        plain = 1e-3 <= abs(value) < 1e6
        text = f"{value:.4g}" if not plain else np.format_float_positional(value, precision=4, fractional=False)
        return text.rstrip(".").replace("-", "−")
    return str(value)


def counted(number: int, noun: str) -> str:
    """A number of things: "1 state", "1,024 states"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _aligned(cell: str, column: int, width: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def _latex(text: str) -> str:
    """Escaped, with names in `backticks` as code, and a bracket at the start kept from being read as an option."""
    escaped = re.sub(r"`([^`]*)`", r"\\texttt{\1}", text.translate(_LATEX))
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped


def _markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def pairs(title: str, items: Sequence[tuple[str, Any]], notes: Sequence[str] = ()) -> Table:
    """A table of names and values, without column heads."""
    return Table(("", ""), items, title, notes)


class Summary(eqx.Module):
    """Several tables; `str` is their text, one below the other."""

    tables: tuple[Table, ...] = eqx.field(converter=tuple)

    def __str__(self) -> str:
        return "\n\n".join(str(table) for table in self.tables)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return framed(self.to_html())

    def to_markdown(self) -> str:
        """All tables as Markdown."""
        return "\n\n".join(table.to_markdown() for table in self.tables)

    def to_latex(self) -> str:
        """All tables as LaTeX tabulars."""
        return "\n\n".join(table.to_latex() for table in self.tables)

    def to_html(self) -> str:
        """All tables as HTML."""
        return "\n".join(table.to_html() for table in self.tables)


class AbstractTabulated(eqx.Module):
    """A result that shows itself by its tables: as text, and in notebooks as HTML."""

    @abc.abstractmethod
    def _shown(self) -> Table | Summary:
        """The tables."""

    def __str__(self) -> str:
        return str(self._shown())

    def __repr__(self) -> str:
        # Inside `jit` there are no numbers to print.
        return type(self).__name__ if is_traced(self) else str(self)

    def _repr_html_(self) -> str:
        return framed(self._shown().to_html())
