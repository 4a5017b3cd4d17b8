"""Demonstrations from and to objects shaped like the `Trajectory` of the imitation library."""

from collections.abc import Iterable
from typing import Any

import equinox as eqx
import numpy as np

from irlax import checks
from irlax.demos.demonstrations import Demonstrations, from_rows
from irlax.typing import Float, Shaped

_ATTRIBUTES = ("obs", "acts", "terminal")


class Trajectory(eqx.Module):
    """One episode with the attributes that imitation's own class has."""

    acts: Shaped[np.ndarray, "L ..."]
    obs: Shaped[np.ndarray, "L+1 ..."]
    terminal: bool
    infos: None = None
    rews: Float[np.ndarray, " L"] | None = None

    def __len__(self) -> int:
        return len(self.acts)


def from_trajectories(trajectories: Iterable[Any]) -> Demonstrations:
    """Integer observations become states, floats become observations; everything is checked first."""
    parts = [_checked(k, trajectory) for k, trajectory in enumerate(trajectories)]
    if not parts:
        raise ValueError("There are no trajectories.")
    _alike("obs", [part.obs for part in parts])
    _alike("acts", [part.acts for part in parts])
    before = np.concatenate([part.obs[:-1] for part in parts])
    after = np.concatenate([part.obs[1:] for part in parts])
    tabular = before.dtype.kind in "iu"
    actions = np.concatenate([part.acts for part in parts])
    if tabular and actions.dtype.kind == "f":
        raise TypeError("Trajectories with integer `obs` are tabular, so their `acts` must be integers too.")
    rewards = [part.rews for part in parts if part.rews is not None]
    return from_rows(
        before if tabular else None,
        actions,
        np.array([len(part.acts) for part in parts]),
        next_states=after if tabular else None,
        terminated=np.array([part.terminal for part in parts]),
        observations=None if tabular else before,
        next_observations=None if tabular else after,
        rewards=np.concatenate(rewards) if len(rewards) == len(parts) else None,
    )


def to_trajectories(demos: Demonstrations) -> list[Trajectory]:
    """One trajectory for each episode. It cannot hold weights and labels; they are left out."""
    tabular = demos.states is not None
    before = demos.states if tabular else demos.observations
    after = demos.next_states if tabular else demos.next_observations
    if before is None or after is None:
        raise ValueError(
            "A trajectory ends with the state after its last action, which these demonstrations do not hold. Give "
            "`next_states` when you make them."
        )
    clock = np.arange(demos.num_steps) - np.repeat(demos.offsets[:-1], demos.lengths)
    _refuse(demos, demos.times != clock, "A trajectory has no gaps and starts at t = 0, but {} does not fit.")
    broken = np.zeros(demos.num_steps, bool)
    broken[1:] = (clock[1:] > 0) & (before[1:] != after[:-1]).reshape(demos.num_steps - 1, -1).any(axis=1)
    _refuse(demos, broken, "In a trajectory each step starts where the last one led, but {} does not.")
    return [
        Trajectory(
            obs=np.concatenate([before[rows], after[rows][-1:]]),
            acts=demos.actions[rows],
            terminal=bool(demos.terminated[k]),
            rews=None if demos.rewards is None else demos.rewards[rows],
        )
        for k, rows in enumerate(map(slice, demos.offsets[:-1].tolist(), demos.offsets[1:].tolist()))
    ]


def _refuse(demos: Demonstrations, wrong: np.ndarray, message: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(message.format(f"row {row} ({demos.where(row)})"))


def _checked(k: int, trajectory: Any) -> Trajectory:
    absent = [name for name in _ATTRIBUTES if not hasattr(trajectory, name)]
    if absent:
        raise TypeError(
            f"Trajectory {k} must have the attributes obs, acts and terminal, but is a {type(trajectory).__name__} "
            f"without {', '.join(absent)}."
        )
    obs = _numbers(f"obs of trajectory {k}", trajectory.obs)
    acts = _numbers(f"acts of trajectory {k}", trajectory.acts)
    if not obs.ndim or not acts.ndim or len(obs) != len(acts) + 1:
        raise ValueError(
            f"Trajectory {k} must have one more of `obs` than of `acts`, but they have shapes {obs.shape} and "
            f"{acts.shape}."
        )
    if not len(acts):
        raise ValueError(f"Trajectory {k} has no steps. Leave it out.")
    for name, array in (("obs", obs), ("acts", acts)):
        if array.dtype.kind in "iu" and array.ndim != 1:
            raise ValueError(
                f"The `{name}` of trajectory {k} are integers of shape {array.shape}, but a state or discrete action "
                f"is one integer. If they are vectors or images, convert them: `.astype(numpy.float32)`."
            )
    if not isinstance(trajectory.terminal, (bool, np.bool_)):
        raise TypeError(f"`terminal` of trajectory {k} must be True or False, but is {trajectory.terminal!r}.")
    rews = getattr(trajectory, "rews", None)
    if rews is not None:
        rews = checks.as_floats(f"rews of trajectory {k}", rews)
        checks.has_shape(f"rews of trajectory {k}", rews, (len(acts),), "one for each of `acts`")
        checks.finite(f"rews of trajectory {k}", rews)
    return Trajectory(acts, obs, bool(trajectory.terminal), None, rews)


def _numbers(name: str, values: Any) -> Shaped[np.ndarray, "..."]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"`{name}` must be one array, but {error}") from None
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise TypeError(f"`{name}` must be integers or floats, but has dtype {array.dtype}.")
    checks.finite(name, array)
    # Mixed with int64, unsigned integers would turn into floats.
    return array if array.dtype.kind == "f" else array.astype(np.int64)


def _alike(name: str, arrays: list[np.ndarray]) -> None:
    """All trajectories have the same kind and shape of step, so that they can be concatenated."""
    first = arrays[0]
    for k, array in enumerate(arrays):
        if array.shape[1:] != first.shape[1:] or (array.dtype.kind == "f") != (first.dtype.kind == "f"):
            raise ValueError(
                f"All trajectories must have `{name}` of one kind and shape, but trajectory 0 has {first.dtype} of "
                f"{first.shape[1:]} a step and trajectory {k} has {array.dtype} of {array.shape[1:]}."
            )
