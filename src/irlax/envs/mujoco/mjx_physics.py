"""MuJoCo's MJX: a model from a file, and steps of it as a pure function. MuJoCo is imported when a model is made."""

import contextlib
import importlib
import io
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.envs.mujoco.physics import AbstractPhysics, Motion, Quantities, Sizes, control_range_of
from irlax.typing import Array, Float

#: Where MuJoCo gives up: it starts again if a number is beyond this, or not a number.
_DIVERGED = 1e10
#: The stages of the classical Runge-Kutta method: the share of the step to the next stage, and the weight of this one.
_STAGES = np.array([[1 / 2, 1 / 6], [1 / 2, 1 / 3], [1, 1 / 3], [0, 1 / 6]])


class MJXPhysics(AbstractPhysics):
    """A MuJoCo model in MJX. Its numbers are arguments of compiled programs, not constants in them."""

    model: Any
    first: Motion
    sizes: Sizes = eqx.field(static=True)
    seconds: float = eqx.field(static=True)
    control_range: tuple[tuple[float, float], ...] = eqx.field(static=True)

    def __init__(self, xml: str, *, iterations: int | None, ls_iterations: int | None):
        mujoco, mjx = import_mujoco()
        compiled = mujoco.MjModel.from_xml_string(xml)
        _check(compiled, mujoco.mjtJoint)
        if compiled.opt.solver == mujoco.mjtSolver.mjSOL_PGS:
            # MJX has no such solver. Newton's method solves the same convex problem.
            compiled.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
        compiled.opt.iterations = compiled.opt.iterations if iterations is None else iterations
        compiled.opt.ls_iterations = compiled.opt.ls_iterations if ls_iterations is None else ls_iterations
        # Not committed to a device, as MJX has them: a program would be compiled again for what it returned itself.
        self.model = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), mjx.put_model(compiled, impl="jax"))
        still = jnp.zeros(compiled.nv)
        self.first = Motion(jnp.asarray(compiled.qpos0), still, still)
        self.sizes = Sizes(compiled.nq, compiled.nv, compiled.nbody)
        self.seconds = float(compiled.opt.timestep)
        self.control_range = control_range_of(compiled)

    def at(self, motion: Motion, names: tuple[str, ...]) -> Quantities:
        _, mjx = import_mujoco()
        with _full_precision():
            data = mjx.forward(self.model, self._data(motion, jnp.zeros(self.model.nu)))
        return self._quantities(data, jnp.zeros_like(data.cvel), names)

    def advance(
        self, motion: Motion, control: Float[Array, " nu"], num: int, names: tuple[str, ...]
    ) -> tuple[Motion, Quantities]:
        _, mjx = import_mujoco()

        def step(data: Any, _: None) -> tuple[Any, None]:
            return self._step(data), None

        with _full_precision():
            data, _ = jax.lax.scan(step, self._data(motion, control), length=num)
        after = Motion(data.qpos, data.qvel, data.qacc_warmstart)
        numbers = jnp.concatenate(after)
        sound = jnp.all(jnp.abs(numbers) < _DIVERGED)
        after = jax.tree.map(lambda new, first: jnp.where(sound, new, first), after, self.first)
        return after, self._quantities(data, mjx.rne_postconstraint(self.model, data)._impl.cfrc_ext, names)

    def _quantities(self, data: Any, contact_forces: Float[Array, "nbody 6"], names: tuple[str, ...]) -> Quantities:
        known = {
            "torso": data.xpos[1],
            "mass": self.model.body_mass @ data.xipos / self.model.body_mass.sum(),
            "cinert": data._impl.cinert,
            "cvel": data.cvel,
            "qfrc_actuator": data.qfrc_actuator,
            "cfrc_ext": contact_forces,
        }
        # A simulation that diverged starts again, at 0; what it had computed is no number.
        return {name: jnp.nan_to_num(known[name], posinf=0.0, neginf=0.0) for name in names}

    def _data(self, motion: Motion, control: Float[Array, " nu"]) -> Any:
        _, mjx = import_mujoco()
        data = mjx.make_data(self.model, impl="jax")
        return data.replace(
            qpos=motion.qpos, qvel=motion.qvel, qacc_warmstart=motion.warmstart, ctrl=jnp.asarray(control)
        )

    def _step(self, data: Any) -> Any:
        mujoco, mjx = import_mujoco()
        if self.model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4:
            return self._runge_kutta(data)
        return _typed_as(mjx.step(self.model, data), data)

    def _runge_kutta(self, start: Any) -> Any:
        """A step of the fourth order.

        As `mjx.step`, which computes forces at four places of its program; this one loops over the four stages, and
        so compiles in a fraction of the time.
        """
        _, mjx = import_mujoco()
        seconds = self.seconds

        def stage(carried: tuple[Any, Any], numbers: Float[Array, " 2"]) -> tuple[tuple[Any, Any], None]:
            data, mean = carried
            ahead, weight = numbers
            data = _typed_as(mjx.forward(self.model, data), data)
            slopes = data.qvel, data.qacc
            mean = jax.tree.map(lambda total, slope: total + weight * slope, mean, slopes)
            qpos = self._moved(start.qpos, ahead * seconds * data.qvel)
            return (data.replace(qpos=qpos, qvel=start.qvel + ahead * seconds * data.qacc), mean), None

        zero = jax.tree.map(jnp.zeros_like, (start.qvel, start.qacc))
        stages = jnp.asarray(_STAGES, start.qpos.dtype)
        (data, (velocity, acceleration)), _ = jax.lax.scan(stage, (start, zero), stages)
        return data.replace(
            qpos=self._moved(start.qpos, seconds * velocity),
            qvel=start.qvel + seconds * acceleration,
            qacc_warmstart=data.qacc,
        )

    def _moved(self, qpos: Float[Array, " nq"], change: Float[Array, " nv"]) -> Float[Array, " nq"]:
        """Positions after a change in the coordinates of velocities: those of a free joint turn a quaternion."""
        mujoco, _ = import_mujoco()
        free = self.model.jnt_type == mujoco.mjtJoint.mjJNT_FREE
        if not free.any():
            return qpos + change
        place, turned = qpos[:3] + change[:3], _turned(qpos[3:7], change[3:6])
        return jnp.concatenate([place, turned, qpos[7:] + change[6:]])


def _check(compiled: Any, joints: Any) -> None:
    turning = np.isin(compiled.jnt_type, (joints.mjJNT_FREE, joints.mjJNT_BALL))
    if turning[1:].any() or compiled.jnt_type[0] == joints.mjJNT_BALL or compiled.na:
        raise ValueError(
            "A model may have a free joint at its root; all others must be hinges or slides, and actuators without "
            "activations. For other models write an environment of your own around MJX (`AbstractEnvironment`)."
        )


def _typed_as(new: Any, old: Any) -> Any:
    """So that a loop can carry it: in double precision MJX returns some integers as longer ones."""
    return jax.tree.map(lambda one, other: one.astype(other.dtype), new, old)


def _full_precision() -> Any:
    """Accelerators multiply matrices of float32 with fewer digits by default, too few for contacts."""
    return jax.default_matmul_precision("highest")


def _turned(quaternion: Float[Array, " 4"], angle: Float[Array, " 3"]) -> Float[Array, " 4"]:
    """The quaternion times that of a rotation in the body's own frame."""
    half = jnp.linalg.norm(angle) / 2
    w, v = jnp.cos(half), jnp.sinc(half / jnp.pi) * angle / 2
    first, rest = quaternion[0], quaternion[1:]
    product = jnp.concatenate([(first * w - rest @ v)[None], first * v + w * rest + jnp.cross(rest, v)])
    return product / jnp.linalg.norm(product)


def import_mujoco() -> tuple[Any, Any]:
    """MuJoCo and MJX, which says on import what it can do without."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return importlib.import_module("mujoco"), importlib.import_module("mujoco.mjx")
    except ImportError as error:
        raise ImportError(f"MuJoCo's MJX cannot be imported ({error}). Install it: `pip install irlax[mjx]`.") from None
