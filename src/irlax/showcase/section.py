"""A section of the demo."""

from collections.abc import Callable
from typing import Any, NamedTuple

from irlax.report import Page
from irlax.tables import Summary


class Section(NamedTuple):
    """What one part of the demo found: for the terminal, for machines, and for the report."""

    title: str
    summary: Summary
    record: dict[str, Any]
    #: Adds texts and figures to the report, below the section's heading.
    draw: Callable[[Page], Page]
