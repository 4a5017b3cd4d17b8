"""A published result: the printed figures, those of irlax, and whether the two agree."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import equinox as eqx

from irlax.tables import Table, format_value


class Line(eqx.Module):
    """One published figure or claim beside ours."""

    what: str
    published: str
    ours: str
    #: The criterion of agreement, as text.
    tolerance: str
    holds: bool

    @classmethod
    def printed(cls, what: str, published: str, ours: float, *, units: float = 2) -> "Line":
        """A figure as it is printed, such as "9.7558"; ours may differ by `units` of its last digit."""
        digits = len(published.partition(".")[2])
        within = units * 10.0**-digits
        # A little more, because decimal fractions are rounded in binary.
        holds = abs(ours - float(published)) <= within + 1e-9
        shown = f"{ours:.{digits}f}".replace("-", "−")
        return cls(what, published.replace("-", "−"), shown, f"±{within:g}", holds)

    @classmethod
    def closed_form(cls, what: str, exact: float, ours: float, within: float) -> "Line":
        """A number that follows from the published text by algebra."""
        published, found = (f"{value:.8g}".replace("-", "−") for value in (exact, ours))
        return cls(what, published, found, f"±{within:g}", bool(abs(ours - exact) <= within))

    @classmethod
    def below(cls, what: str, published: str, ours: float, bound: float) -> "Line":
        """A claim that a number is at most a bound."""
        return cls(what, published, format_value(float(ours)), f"≤ {format_value(float(bound))}", bool(ours <= bound))

    def record(self) -> dict[str, Any]:
        """The record, for JSON."""
        return {name: getattr(self, name) for name in ("what", "published", "ours", "tolerance", "holds")}


class Result(eqx.Module):
    """A published result that can be reproduced: its source, the time it takes, and the code."""

    name: str
    title: str
    #: The citation.
    source: str
    #: Roughly how long it takes on two cores.
    takes: str
    #: Yields the lines as they are computed. Its argument is the folder that contains the data, or None. It raises an
    #: OSError or ImportError that says what to do if data are missing.
    lines: Callable[[Path | None], Iterable[Line]]
    #: The data that it needs, and where to get them.
    data: str = "none"
    #: Errors in the published text, and intended differences from it.
    notes: tuple[str, ...] = ()

    def run(self, data: Path | None = None, report: Callable[[Line], None] = lambda line: None) -> "Outcome":
        """Reproduce the result; `report` is called with each line as it is computed."""
        started, found = time.perf_counter(), []
        for line in self.lines(data):
            report(line)
            found.append(line)
        return Outcome(self, tuple(found), time.perf_counter() - started)


class Outcome(eqx.Module):
    """A reproduced result."""

    result: Result
    lines: tuple[Line, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether every line holds."""
        return all(line.holds for line in self.lines)

    def table(self) -> Table:
        """The published figures beside ours."""
        rows = [
            (line.what, line.published, line.ours, line.tolerance, "holds" if line.holds else "FAILS")
            for line in self.lines
        ]
        failed = sum(not line.holds for line in self.lines)
        verdict = f"All {len(rows)} lines hold." if not failed else f"{failed} of {len(rows)} lines fail."
        return Table(
            ("", "published", "irlax", "tolerance", "verdict"),
            rows,
            title=f"{self.result.name}: {self.result.title}",
            notes=(self.result.source, *self.result.notes, f"{verdict} {self.seconds:.1f} s."),
        )

    def record(self) -> dict[str, Any]:
        """The record, for JSON."""
        return {
            "name": self.result.name,
            "title": self.result.title,
            "source": self.result.source,
            "holds": self.holds,
            "lines": [line.record() for line in self.lines],
            "notes": list(self.result.notes),
            "seconds": round(self.seconds, 3),
        }
