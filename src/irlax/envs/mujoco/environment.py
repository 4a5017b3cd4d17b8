"""MuJoCo's locomotion tasks as environments in JAX."""

from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.envs.mujoco.disabled_ant import disabled_ant_xml, gymnasium_model
from irlax.envs.mujoco.mjx_physics import MJXPhysics
from irlax.envs.mujoco.native_physics import NativePhysics
from irlax.envs.mujoco.physics import AbstractPhysics, Motion, Quantities
from irlax.envs.mujoco.tasks import TASKS, Task
from irlax.envs.timed import AbstractTimedEnvironment
from irlax.spaces import Box
from irlax.typing import Array, Bool, Float, PRNGKeyArray


class Sensed(NamedTuple):
    """A motion, the place whose speed is rewarded, and what else of MuJoCo's data the task needs, by MuJoCo's names."""

    motion: Motion
    x: Float[Array, ""]
    quantities: dict[str, Float[Array, "..."]]


class AbstractLocomotion(AbstractTimedEnvironment):
    """A locomotion task of MuJoCo, whoever simulates its model."""

    physics: eqx.AbstractVar[AbstractPhysics]
    task: eqx.AbstractVar[Task]

    @property
    def observation_size(self) -> int:
        task, sizes = self.task, self.physics.sizes
        hidden = task.horizontal if task.exclude_current_positions_from_observation else 0
        # Without the world, which is the first body; without the root's six degrees of freedom.
        more = (
            sizes.nv - 6 if name == "qfrc_actuator" else (sizes.nbody - 1) * sizes.shape_of(name)[1]
            for name in task.observed
        )
        return sizes.nq - hidden + sizes.nv + sum(more)

    @property
    def actions(self) -> Box:
        low, high = np.asarray(self.physics.control_range, np.float32).T
        return Box(low, high)

    @property
    def seconds(self) -> float:
        """The time between two actions."""
        return self.physics.seconds * self.task.frame_skip

    def start(self, *, key: PRNGKeyArray) -> Sensed:
        position_key, velocity_key = jr.split(key)
        noise, first = self.task.reset_noise_scale, self.physics.first
        dtype = first.qpos.dtype
        shift = jr.uniform(position_key, first.qpos.shape, dtype, minval=-noise, maxval=noise)
        if self.task.velocity_noise == "normal":
            push = noise * jr.normal(velocity_key, first.qvel.shape, dtype)
        else:
            push = jr.uniform(velocity_key, first.qvel.shape, dtype, minval=-noise, maxval=noise)
        return self.at(first._replace(qpos=first.qpos + shift, qvel=first.qvel + push))

    def at(self, motion: Motion) -> Sensed:
        """An inner state with a given motion, before any action: Gymnasium's `set_state`."""
        return self._sensed(motion, self.physics.at(motion, self._names))

    def move(self, inner: Sensed, action: Float[Array, " nu"], *, key: PRNGKeyArray) -> Sensed:
        control = self._clipped(action)
        return self._sensed(*self.physics.advance(inner.motion, control, self.task.frame_skip, self._names))

    def observe(self, inner: Sensed) -> Float[Array, " obs"]:
        task, (qpos, qvel, _) = self.task, inner.motion
        hidden = task.horizontal if task.exclude_current_positions_from_observation else 0
        if task.largest_velocity is not None:
            qvel = jnp.clip(qvel, -task.largest_velocity, task.largest_velocity)
        parts = [qpos[hidden:], qvel]
        for name in task.observed:
            quantity = inner.quantities[name]
            if name == "cfrc_ext":
                quantity = self._limited(quantity)
            # As `observation_size` counts them.
            parts.append(quantity[6:] if name == "qfrc_actuator" else quantity[1:].reshape(-1))
        return jnp.concatenate(parts)

    def reward_of(self, inner: Sensed, action: Float[Array, " nu"], after: Sensed) -> Float[Array, ""]:
        task = self.task
        reward = task.forward_reward_weight * (after.x - inner.x) / self.seconds
        reward -= task.ctrl_cost_weight * jnp.sum(self._clipped(action) ** 2)
        if task.healthy_reward is not None:
            reward += task.healthy_reward * self._healthy(after.motion)
        if task.contact_cost_weight:
            cost = task.contact_cost_weight * jnp.sum(self._limited(after.quantities["cfrc_ext"]) ** 2)
            reward -= cost if task.contact_cost_range is None else jnp.clip(cost, *task.contact_cost_range)
        return reward

    def ended(self, inner: Sensed) -> Bool[Array, ""]:
        return ~self._healthy(inner.motion) if self.task.terminates else jnp.zeros((), bool)

    def _healthy(self, motion: Motion) -> Bool[Array, ""]:
        """Whether height, angle and all numbers of the state lie in the task's ranges."""
        qpos, qvel, _ = motion
        height = self.task.horizontal
        numbers = {
            "healthy_z_range": qpos[height],
            "healthy_angle_range": qpos[height + 1],
            "healthy_state_range": jnp.concatenate([qpos, qvel])[2:],
        }
        healthy = jnp.ones((), bool)
        for name, number in numbers.items():
            bounds = getattr(self.task, name)
            if bounds is not None:
                healthy &= jnp.all((bounds[0] < number) & (number < bounds[1]))
        return healthy

    def _limited(self, forces: Float[Array, "nbody 6"]) -> Float[Array, "nbody 6"]:
        bounds = self.task.contact_force_range
        return forces if bounds is None else jnp.clip(forces, *bounds)

    def _clipped(self, action: Float[Array, " nu"]) -> Float[Array, " nu"]:
        return jnp.clip(action, self.actions.low, self.actions.high)

    @property
    def _names(self) -> tuple[str, ...]:
        """The quantities that the task needs."""
        place = () if self.task.forward_of == "root" else (self.task.forward_of,)
        return (*place, *self.task.needed)

    def _sensed(self, motion: Motion, quantities: Quantities) -> Sensed:
        place = quantities.pop(self.task.forward_of, motion.qpos)
        return Sensed(motion, place[0], quantities)


class MJX(AbstractLocomotion):
    """A locomotion task of MuJoCo, simulated inside JAX by MuJoCo's own MJX: `MJX("hopper")`.

    The tasks and their options are those of `MuJoCo`. `iterations` and `ls_iterations` limit the constraint solver's
    steps and those of its line search; None takes the model's own limits (100 and 50). Inside `vmap` a line search
    always takes all its steps, which is why the default is lower; the page on MuJoCo says what that changes.

    Computed in double precision if it is made inside `jax.enable_x64(True)`.
    """

    physics: AbstractPhysics
    task: Task = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    fixed_horizon: bool = eqx.field(static=True)

    def __init__(
        self,
        name: str,
        *,
        horizon: int = 1000,
        iterations: int | None = None,
        ls_iterations: int | None = 8,
        **options: Any,
    ):
        for limit, steps in (("iterations", iterations), ("ls_iterations", ls_iterations)):
            if steps is not None:
                checks.count(limit, steps)
        self.task, xml = _task_and_model("mjx", name, **options)
        self.physics = MJXPhysics(xml, iterations=iterations, ls_iterations=ls_iterations)
        self.horizon, self.fixed_horizon = horizon, not self.task.terminates


class MuJoCo(AbstractLocomotion):
    """A locomotion task of MuJoCo, simulated by MuJoCo itself on the host's processors: `MuJoCo("hopper")`.

    There are "hopper", "walker2d", "halfcheetah", "swimmer", "ant" and "humanoid", which are Gymnasium's environments
    of version 5: models, observations, rewards, ends and first states; and "ant-disabled" (see `disabled_ant`).
    `options` are Gymnasium's own arguments, such as `terminate_when_unhealthy=False` or `ctrl_cost_weight=0.1`;
    `xml_file` is a file that Gymnasium ships, or the path of your own model. Actions outside their box are clipped.

    An environment in JAX like the others: compiled programs call the simulation for all copies at a time, which all
    processors share. States are rounded to single precision between two actions, unless it is made inside
    `jax.enable_x64(True)`: then they are Gymnasium's own to the last digit.
    """

    physics: AbstractPhysics
    task: Task = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    fixed_horizon: bool = eqx.field(static=True)

    def __init__(self, name: str, *, horizon: int = 1000, **options: Any):
        self.task, xml = _task_and_model("mujoco", name, **options)
        self.physics = NativePhysics(xml)
        self.horizon, self.fixed_horizon = horizon, not self.task.terminates


def _task_and_model(library: str, name: str, **options: Any) -> tuple[Task, str]:
    if name not in TASKS:
        raise ValueError(f"There is no task {name!r} of MuJoCo's here. There are {', '.join(TASKS)}.")
    task = TASKS[name].changed(f"{library}:{name}", **options)
    checks.count("frame_skip", task.frame_skip)
    own_model = name == "ant-disabled" and "xml_file" not in options
    return task, disabled_ant_xml() if own_model else _text_of(task.xml_file)


def _text_of(xml_file: str) -> str:
    shipped, own = gymnasium_model(xml_file), Path(xml_file)
    if not (shipped if shipped.exists() else own).exists():
        raise ValueError(f"`xml_file` must be the path of a model or one that Gymnasium ships, but is {xml_file!r}.")
    return (shipped if shipped.exists() else own).read_text()
