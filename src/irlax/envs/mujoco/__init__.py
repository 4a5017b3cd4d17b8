"""MuJoCo's locomotion tasks as environments in JAX: by MJX, or by MuJoCo on the host."""

from irlax.envs.mujoco.disabled_ant import disabled_ant
from irlax.envs.mujoco.environment import MJX, MuJoCo

__all__ = ["MJX", "MuJoCo", "disabled_ant"]
