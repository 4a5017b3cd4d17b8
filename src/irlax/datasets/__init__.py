"""Data sets: public ones, fetched once and checked, and simulated ones with known parameters."""

from irlax.datasets.bus import rust_bus, simulated_bus

__all__ = ["rust_bus", "simulated_bus"]
