"""MuJoCo's tasks as data: the numbers by which Gymnasium's version 5 environments differ, under Gymnasium's names."""

import dataclasses
from typing import Any, Literal

Range = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Task:
    """A task. The upper fields have the names and the meaning of Gymnasium's arguments; None: the task has no such."""

    xml_file: str
    frame_skip: int
    ctrl_cost_weight: float
    reset_noise_scale: float
    forward_reward_weight: float = 1.0
    healthy_reward: float | None = None
    terminate_when_unhealthy: bool | None = None
    healthy_z_range: Range | None = None
    healthy_angle_range: Range | None = None
    healthy_state_range: Range | None = None
    contact_cost_weight: float | None = None
    contact_force_range: Range | None = None
    contact_cost_range: Range | None = None
    exclude_current_positions_from_observation: bool = True
    include_cinert_in_observation: bool | None = None
    include_cvel_in_observation: bool | None = None
    include_qfrc_actuator_in_observation: bool | None = None
    include_cfrc_ext_in_observation: bool | None = None

    #: How many positions of the root are horizontal, and left out of observations; the next one is its height.
    horizontal: Literal[1, 2] = 2
    #: What the forward velocity is of: the first position, the torso's frame, or the centre of mass.
    forward_of: Literal["root", "torso", "mass"] = "root"
    #: The distribution of the noise of first velocities; that of positions is uniform.
    velocity_noise: Literal["uniform", "normal"] = "uniform"
    #: Velocities are clipped to ± this in observations.
    largest_velocity: float | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """The names that can be changed."""
        own = ("horizontal", "forward_of", "velocity_noise", "largest_velocity")
        return tuple(name for name, value in vars(self).items() if value is not None and name not in own)

    @property
    def terminates(self) -> bool:
        """Whether episodes can end before the horizon."""
        return bool(self.terminate_when_unhealthy)

    @property
    def observed(self) -> tuple[str, ...]:
        """The quantities of bodies and joints that are observed beside positions and velocities, in their order."""
        names = ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")
        return tuple(name for name in names if getattr(self, f"include_{name}_in_observation"))

    @property
    def needed(self) -> tuple[str, ...]:
        """Those that are observed, and contact forces where they cost something."""
        return tuple(dict.fromkeys([*self.observed, *(("cfrc_ext",) if self.contact_cost_weight else ())]))

    def changed(self, name: str, **options: Any) -> "Task":
        """The task with other options; a TypeError for those that it does not have."""
        unknown = sorted(set(options) - set(self.options))
        if unknown:
            raise TypeError(f"{name} has no option {unknown[0]!r}. It has {', '.join(self.options)}.")
        return dataclasses.replace(self, **options)


_ANT = Task(
    xml_file="ant.xml",
    frame_skip=5,
    ctrl_cost_weight=0.5,
    reset_noise_scale=0.1,
    healthy_reward=1.0,
    terminate_when_unhealthy=True,
    healthy_z_range=(0.2, 1.0),
    contact_cost_weight=5e-4,
    contact_force_range=(-1.0, 1.0),
    include_cfrc_ext_in_observation=True,
    forward_of="torso",
    velocity_noise="normal",
)
TASKS: dict[str, Task] = {
    "hopper": Task(
        xml_file="hopper.xml",
        frame_skip=4,
        ctrl_cost_weight=1e-3,
        reset_noise_scale=5e-3,
        healthy_reward=1.0,
        terminate_when_unhealthy=True,
        healthy_z_range=(0.7, float("inf")),
        healthy_angle_range=(-0.2, 0.2),
        healthy_state_range=(-100.0, 100.0),
        horizontal=1,
        largest_velocity=10.0,
    ),
    "walker2d": Task(
        xml_file="walker2d_v5.xml",
        frame_skip=4,
        ctrl_cost_weight=1e-3,
        reset_noise_scale=5e-3,
        healthy_reward=1.0,
        terminate_when_unhealthy=True,
        healthy_z_range=(0.8, 2.0),
        healthy_angle_range=(-1.0, 1.0),
        horizontal=1,
        largest_velocity=10.0,
    ),
    "halfcheetah": Task(
        xml_file="half_cheetah.xml",
        frame_skip=5,
        ctrl_cost_weight=0.1,
        reset_noise_scale=0.1,
        horizontal=1,
        velocity_noise="normal",
    ),
    "swimmer": Task(xml_file="swimmer.xml", frame_skip=4, ctrl_cost_weight=1e-4, reset_noise_scale=0.1),
    "ant": _ANT,
    "ant-disabled": _ANT,
    "humanoid": Task(
        xml_file="humanoid.xml",
        frame_skip=5,
        ctrl_cost_weight=0.1,
        reset_noise_scale=1e-2,
        forward_reward_weight=1.25,
        healthy_reward=5.0,
        terminate_when_unhealthy=True,
        healthy_z_range=(1.0, 2.0),
        contact_cost_weight=5e-7,
        contact_cost_range=(-float("inf"), 10.0),
        include_cinert_in_observation=True,
        include_cvel_in_observation=True,
        include_qfrc_actuator_in_observation=True,
        include_cfrc_ext_in_observation=True,
        forward_of="mass",
    ),
}
