"""Reports: figures and HTML pages."""

from typing import TYPE_CHECKING

from irlax.lazy import lazy_names

if TYPE_CHECKING:
    from irlax.report.html import Page

__all__ = ["Page"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "html": "Page",
    },
)
