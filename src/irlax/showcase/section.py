"""A section of the demo."""

from collections.abc import Callable
from typing import Any, NamedTuple

from irlax.report import Page
from irlax.tables import Summary


class Section(NamedTuple):
    """The results of one part of the demo: tables to print, a record for JSON, and a part of the report."""

    title: str
    summary: Summary
    record: dict[str, Any]
    #: Adds texts and figures to the report, below the section's heading.
    draw: Callable[[Page], Page]
