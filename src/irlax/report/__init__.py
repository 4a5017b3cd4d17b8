"""Reports: figures and pages."""

from irlax.report.html import Page

__all__ = ["Page"]
