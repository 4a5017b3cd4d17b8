"""What a locomotion task asks of the simulation of its model, whoever simulates."""

import abc
from typing import NamedTuple

import equinox as eqx
import numpy as np

from irlax.typing import Array, Float

#: Arrays by their names: MuJoCo's own, and "torso" and "mass", the places of the first body and of the centre of mass.
Quantities = dict[str, Float[Array, "..."]]


class Motion(NamedTuple):
    """Positions and velocities of the joints, and the accelerations that the solver starts from."""

    qpos: Float[Array, "*n nq"]
    qvel: Float[Array, "*n nv"]
    warmstart: Float[Array, "*n nv"]


class Sizes(NamedTuple):
    """How many positions, velocities and bodies a model has, the world among them."""

    nq: int
    nv: int
    nbody: int

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of a quantity."""
        return {
            "torso": (3,),
            "mass": (3,),
            "cinert": (self.nbody, 10),
            "cvel": (self.nbody, 6),
            "cfrc_ext": (self.nbody, 6),
            "qfrc_actuator": (self.nv,),
        }[name]


class AbstractPhysics(eqx.Module):
    """A model of MuJoCo's, and steps of it as pure functions."""

    #: The model's own position, at rest.
    first: eqx.AbstractVar[Motion]
    sizes: eqx.AbstractVar[Sizes]
    #: The length of a step.
    seconds: eqx.AbstractVar[float]
    #: The bounds of each control.
    control_range: eqx.AbstractVar[tuple[tuple[float, float], ...]]

    @abc.abstractmethod
    def at(self, motion: Motion, names: tuple[str, ...]) -> Quantities:
        """Quantities of a motion on which no control acts.

        Contact forces are 0, as Gymnasium observes them before the first step.
        """

    @abc.abstractmethod
    def advance(
        self, motion: Motion, control: Float[Array, " nu"], num: int, names: tuple[str, ...]
    ) -> tuple[Motion, Quantities]:
        """The motion after `num` steps with the same control, and quantities at the end of the last of them.

        As in MuJoCo, positions and velocities are those of the end, and all that depends on them is that of the last
        stage at which forces were computed. A simulation that diverges starts again from the model's own position.
        """


def control_range_of(model: object) -> tuple[tuple[float, float], ...]:
    """The bounds of each control of a compiled model."""
    bounds = np.asarray(getattr(model, "actuator_ctrlrange"))  # noqa: B009
    return tuple((float(low), float(high)) for low, high in bounds)
