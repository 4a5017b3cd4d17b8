"""MuJoCo's locomotion tasks as environments in JAX."""

from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.envs.mjx.disabled_ant import disabled_ant_xml, gymnasium_model
from irlax.envs.mjx.physics import Motion, Physics
from irlax.envs.mjx.tasks import TASKS, Task
from irlax.envs.timed import AbstractTimedEnvironment
from irlax.spaces import Box
from irlax.typing import Array, Bool, Float, PRNGKeyArray


class Sensed(NamedTuple):
    """A motion, the place whose speed is rewarded, and what else of MuJoCo's data the task needs, by MuJoCo's names."""

    motion: Motion
    x: Float[Array, ""]
    quantities: dict[str, Float[Array, "..."]]


class MJX(AbstractTimedEnvironment):
    """A locomotion task of MuJoCo, simulated inside JAX by MuJoCo's own MJX: `MJX("hopper")`.

    There are "hopper", "walker2d", "halfcheetah", "swimmer", "ant" and "humanoid", which are Gymnasium's environments
    of version 5: models, observations, rewards, ends and first states; and "ant-disabled" (see `disabled_ant`).
    `options` are Gymnasium's own arguments, such as `terminate_when_unhealthy=False` or `ctrl_cost_weight=0.1`;
    `xml_file` is a file that Gymnasium ships, or the path of your own model. Actions outside their box are clipped.

    `iterations` and `ls_iterations` limit the constraint solver's steps and those of its line search; None takes the
    model's own limits (100 and 50). Inside `vmap` a line search always takes all its steps, which is why the default is
    lower; the page on MuJoCo says what that changes.

    Computed in double precision if it is made inside `jax.enable_x64(True)`.
    """

    physics: Physics
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
        if name not in TASKS:
            raise ValueError(f"There is no task {name!r} of MuJoCo's here. There are {', '.join(TASKS)}.")
        for limit, steps in (("iterations", iterations), ("ls_iterations", ls_iterations)):
            if steps is not None:
                checks.count(limit, steps)
        self.task = TASKS[name].changed(name, **options)
        checks.count("frame_skip", self.task.frame_skip)
        own_model = name == "ant-disabled" and "xml_file" not in options
        xml = disabled_ant_xml() if own_model else _text_of(self.task.xml_file)
        self.physics = Physics(xml, iterations=iterations, ls_iterations=ls_iterations)
        self.horizon, self.fixed_horizon = horizon, not self.task.terminates

    @property
    def observation_size(self) -> int:
        task, model = self.task, self.physics.model
        hidden = task.horizontal if task.exclude_current_positions_from_observation else 0
        of_each_body = {"cinert": 10, "cvel": 6, "cfrc_ext": 6}
        more = (of_each_body.get(name, 0) * (model.nbody - 1) or model.nv - 6 for name in task.observed)
        return model.nq - hidden + model.nv + sum(more)

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
        data = self.physics.data_of(motion)
        # As in Gymnasium, where contact forces are those of the last step, and there has been none.
        return self._sensed(motion, data, jnp.zeros_like(data.cvel))

    def move(self, inner: Sensed, action: Float[Array, " nu"], *, key: PRNGKeyArray) -> Sensed:
        motion, data = self.physics.advance(inner.motion, self._clipped(action), self.task.frame_skip)
        return self._sensed(motion, data, self.physics.contact_forces(data))

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
            # Without the world, which is the first body; without the root's six degrees of freedom.
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

    def _sensed(self, motion: Motion, data: Any, cfrc_ext: Float[Array, "nbody 6"]) -> Sensed:
        known = {
            "cinert": data._impl.cinert,
            "cvel": data.cvel,
            "qfrc_actuator": data.qfrc_actuator,
            "cfrc_ext": cfrc_ext,
        }
        place = {"root": motion.qpos, "torso": data.xpos[1], "mass": self.physics.centre_of_mass(data)}
        seen = place[self.task.forward_of][0], {name: known[name] for name in self.task.needed}
        # A simulation that diverged starts again, at 0; what it had computed is no number.
        x, quantities = jax.tree.map(lambda array: jnp.nan_to_num(array, posinf=0.0, neginf=0.0), seen)
        return Sensed(motion, x, quantities)


def _text_of(xml_file: str) -> str:
    shipped, own = gymnasium_model(xml_file), Path(xml_file)
    if not (shipped if shipped.exists() else own).exists():
        raise ValueError(f"`xml_file` must be the path of a model or one that Gymnasium ships, but is {xml_file!r}.")
    return (shipped if shipped.exists() else own).read_text()
