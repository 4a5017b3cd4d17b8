"""Many fits by one call: in this process, in several, on a Ray cluster, or by the jobs of a job array."""

from irlax.engine.engines import AbstractEngine, Here, Processes, Shard
from irlax.engine.on_ray import OnRay
from irlax.engine.sweep import Sweep, map_fits

__all__ = ["AbstractEngine", "Here", "OnRay", "Processes", "Shard", "Sweep", "map_fits"]
