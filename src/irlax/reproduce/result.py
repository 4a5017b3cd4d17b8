"""A published result: what was printed, what comes out here, and whether the two agree."""

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
    #: What counts as agreement.
    tolerance: str
    holds: bool

    @classmethod
    def printed(cls, what: str, published: str, ours: float, *, units: float = 2) -> "Line":
        """A figure as a table prints it, "9.7558": ours may differ by so many units of its last digit."""
        digits = len(published.partition(".")[2])
        within = units * 10.0**-digits
        # A hair beyond, because a difference of decimal fractions is not one itself.
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
        """A claim that some number is (all but) none, or at most a bound."""
        return cls(what, published, format_value(float(ours)), f"≤ {format_value(float(bound))}", bool(ours <= bound))

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {name: getattr(self, name) for name in ("what", "published", "ours", "tolerance", "holds")}


class Result(eqx.Module):
    """A result that can be made again: where it was published, what that takes, and the code that does it."""

    name: str
    title: str
    #: The citation.
    source: str
    #: Roughly how long it takes on two cores.
    takes: str
    #: Yields the lines as they are found. It is given the folder below which data lie, or None, and raises an OSError
    #: or ImportError that says what to do where data that it needs are absent.
    lines: Callable[[Path | None], Iterable[Line]]
    #: The data that it needs, and where they are from.
    data: str = "none"
    #: Where the text has a slip, or we differ from it on purpose.
    notes: tuple[str, ...] = ()

    def run(self, data: Path | None = None, tell: Callable[[Line], None] = lambda line: None) -> "Outcome":
        """Make the result again; `tell` hears of each line as it is found."""
        began, found = time.perf_counter(), []
        for line in self.lines(data):
            tell(line)
            found.append(line)
        return Outcome(self, tuple(found), time.perf_counter() - began)


class Outcome(eqx.Module):
    """What came of a result."""

    result: Result
    lines: tuple[Line, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether every line does."""
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
        """For machines."""
        return {
            "name": self.result.name,
            "title": self.result.title,
            "source": self.result.source,
            "holds": self.holds,
            "lines": [line.record() for line in self.lines],
            "notes": list(self.result.notes),
            "seconds": round(self.seconds, 3),
        }
