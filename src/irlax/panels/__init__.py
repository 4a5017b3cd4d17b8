"""Panels: data frames and formulae to MDPs, demonstrations and rewards."""

from irlax.panels.models import Chain, Counts, Increments
from irlax.panels.panel import Panel
from irlax.panels.variables import Edges, Levels, Quantiles

__all__ = ["Chain", "Counts", "Edges", "Increments", "Levels", "Panel", "Quantiles"]
