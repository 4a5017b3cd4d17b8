"""Reports: figures and HTML pages."""

from irlax.report.html import Page
from irlax.report.strips import save_strip, strip

__all__ = ["Page", "save_strip", "strip"]
