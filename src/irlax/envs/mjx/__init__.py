"""MuJoCo's locomotion tasks inside JAX, by MJX."""

from irlax.envs.mjx.disabled_ant import disabled_ant
from irlax.envs.mjx.environment import MJX

__all__ = ["MJX", "disabled_ant"]
