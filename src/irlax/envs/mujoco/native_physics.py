"""MuJoCo's own simulation on the host's processors, called from within compiled programs."""

import functools
import importlib
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.envs.mujoco.physics import AbstractPhysics, Motion, Quantities, Sizes, control_range_of
from irlax.typing import Array, Float

#: A simulation with a speed beyond this (metres or radians a second) has diverged. MuJoCo itself goes on to 10¹⁰.
FASTEST = 1e4
#: MuJoCo's number for a joint with all six degrees of freedom.
FREE_JOINT = 0


class NativePhysics(AbstractPhysics):
    """A MuJoCo model that MuJoCo simulates, all copies of a `vmap` in one call, on all processors.

    Between two actions a motion is an array of JAX like any other, so that a step is a pure function: rounded to single
    precision, unless the environment was made inside `jax.enable_x64(True)`.

    Where a simulation diverges, MuJoCo's next step is one from the model's own position, at the origin. Here it starts
    again from that position at once, where it is: one number of 10³⁰ among the observations would end all learning.
    """

    first: Motion
    xml: str = eqx.field(static=True)
    sizes: Sizes = eqx.field(static=True)
    seconds: float = eqx.field(static=True)
    control_range: tuple[tuple[float, float], ...] = eqx.field(static=True)
    #: Whether the first body floats: then its place is the first three positions.
    floats: bool = eqx.field(static=True)

    def __init__(self, xml: str):
        model = _simulator(xml).model
        if model.na:
            raise ValueError("Actuators must have no activations: they would be a part of the state that is not kept.")
        still = jnp.zeros(model.nv)
        self.first = Motion(jnp.asarray(model.qpos0), still, still)
        self.xml = xml
        self.sizes = Sizes(model.nq, model.nv, model.nbody)
        self.seconds = float(model.opt.timestep)
        self.control_range = control_range_of(model)
        first_joint = int(model.body_jntadr[1])
        self.floats = first_joint >= 0 and int(model.jnt_type[first_joint]) == FREE_JOINT

    def at(self, motion: Motion, names: tuple[str, ...]) -> Quantities:
        if self.floats and set(names) <= {"torso", "cfrc_ext"}:
            # All copies are asked for first states at every step, most for nothing: what needs no call makes none.
            no_forces = jnp.zeros(self.sizes.shape_of("cfrc_ext"), motion.qpos.dtype)
            return {name: motion.qpos[:3] if name == "torso" else no_forces for name in names}
        return self._call(motion, jnp.zeros(len(self.control_range)), 0, names)[1] if names else {}

    def advance(
        self, motion: Motion, control: Float[Array, " nu"], num: int, names: tuple[str, ...]
    ) -> tuple[Motion, Quantities]:
        return self._call(motion, control, num, names)

    def _call(self, motion: Motion, control: Any, num: int, names: tuple[str, ...]) -> tuple[Motion, Quantities]:
        shapes = [(self.sizes.nq,), (self.sizes.nv,), (self.sizes.nv,), *map(self.sizes.shape_of, names)]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        row = jnp.concatenate([*motion, jnp.asarray(control, motion.qpos.dtype)])
        # As words of 32 bits: a thread in which single precision is the default would round numbers on their way.
        words = jax.lax.bitcast_convert_type(row, jnp.uint32)
        called = jax.pure_callback(
            functools.partial(_simulated, self.xml, num, names, row.dtype),
            jax.ShapeDtypeStruct((int(ends[-1]), *words.shape[1:]), jnp.uint32),
            words,
            vmap_method="broadcast_all",
        )
        result = jax.lax.bitcast_convert_type(called, row.dtype)
        parts = [part.reshape(shape) for part, shape in zip(jnp.split(result, ends[:-1]), shapes, strict=True)]
        return Motion(*parts[:3]), dict(zip(names, parts[3:], strict=True))


def _simulated(xml: str, num: int, names: tuple[str, ...], dtype: Any, words: Any) -> np.ndarray:
    """Motions and quantities after `num` steps of any number of copies; a row has the numbers of one, side by side."""
    words = np.ascontiguousarray(words)
    # Numbers in double precision have an axis of two words each.
    lead = words.shape[: words.ndim - np.dtype(dtype).itemsize // 4]
    rows = words.view(dtype).reshape(math.prod(lead), -1).astype(np.float64)
    result = _simulator(xml).simulate(rows, num, names).astype(dtype)
    return result.view(np.uint32).reshape(*lead, result.shape[1], *words.shape[len(lead) + 1 :])


class Simulator:
    """A compiled model, and threads with a state of it each. MuJoCo lets Python go while it computes."""

    def __init__(self, xml: str):
        try:
            mujoco: Any = importlib.import_module("mujoco")
        except ImportError as error:
            raise ImportError(f"MuJoCo cannot be imported ({error}). Install it: `pip install irlax[mjx]`.") from None
        self._mujoco = mujoco
        self.model = mujoco.MjModel.from_xml_string(xml)
        num = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._copies = [Copy(mujoco, self.model) for _ in range(num)]
        self._threads = ThreadPoolExecutor(num, thread_name_prefix="mujoco")

    def simulate(self, rows: np.ndarray, num: int, names: tuple[str, ...]) -> np.ndarray:
        """A row of results for each row."""
        nq, nv = self.model.nq, self.model.nv
        size = nq + 2 * nv + sum(math.prod(Sizes(nq, nv, self.model.nbody).shape_of(name)) for name in names)
        result = np.zeros((len(rows), size))
        parts = [part for part in np.array_split(np.arange(len(rows)), len(self._copies)) if len(part)]
        finished = self._threads.map(
            lambda copy, part: copy.simulate(rows[part[0] : part[-1] + 1], result[part[0] :], num, names),
            self._copies,
            parts,
        )
        for _ in finished:
            pass
        return result


class Copy:
    """The state of a model in one thread. Only one thread at a time runs Python, so each does as little as it can.

    Numbers are copied to and from MuJoCo's arrays, not by its functions, each call of which lets Python go and has to
    wait for it again.
    """

    def __init__(self, mujoco: Any, model: Any):
        self._mujoco, self._model = mujoco, model
        self._data = data = mujoco.MjData(model)
        ends = np.cumsum([model.nq, model.nv, model.nv, model.nu]).tolist()
        arrays = data.qpos, data.qvel, data.qacc_warmstart, data.ctrl
        #: MuJoCo's arrays, and where the numbers of each are in a row.
        self._parts = [
            (array, slice(start, end)) for array, start, end in zip(arrays, [0, *ends[:-1]], ends, strict=True)
        ]
        # How often MuJoCo itself started again, for positions, velocities or accelerations.
        bad = mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQACC
        self._warnings = data.warning.number[int(bad[0]) : int(bad[1]) + 1]

    def simulate(self, rows: np.ndarray, result: np.ndarray, num: int, names: tuple[str, ...]) -> None:
        """Simulate rows one after the other."""
        mujoco, model, data = self._mujoco, self._model, self._data
        quantities = [self._reader(name) for name in names]
        *motion, _ = self._parts
        for row, out in zip(rows, result, strict=False):
            for array, place in self._parts:
                array[:] = row[place]
            if num:
                mujoco.mj_step(model, data, nstep=num)
                if self._warnings.any() or not np.abs(data.qvel).max() < FASTEST:
                    mujoco.mj_resetData(model, data)
                    data.qpos[0] = row[0]
                    mujoco.mj_forward(model, data)
            else:
                mujoco.mj_forward(model, data)
            if "cfrc_ext" in names:
                # Contact forces, which a step itself leaves out. There are none before the first step.
                mujoco.mj_rnePostConstraint(model, data) if num else data.cfrc_ext.fill(0.0)
            for array, place in motion:
                out[place] = array
            start = motion[-1][1].stop
            for read in quantities:
                numbers = read()
                out[start : start + numbers.size] = numbers.ravel()
                start += numbers.size

    def _reader(self, name: str) -> Callable[[], np.ndarray]:
        data = self._data
        if name == "mass":
            masses, places = self._model.body_mass, data.xipos
            return lambda: masses @ places / masses.sum()
        array = data.xpos[1] if name == "torso" else getattr(data, name)
        return lambda: array


@functools.cache
def _simulator(xml: str) -> Simulator:
    """One for each model and process, however many environments and programs use it."""
    return Simulator(xml)
