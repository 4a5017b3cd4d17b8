"""MDPs whose transitions are built or loaded in parts, each on the process whose devices hold it: nobody holds all.

A part is some consecutive states: their next states, probabilities, and shares of the start distribution. Processes
exchange the values of the states that their links lead to, and nothing else. On one device lists of predecessors are
made as well. On several they are not: mass is pushed forward by scattered additions.
"""

import functools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from irlax import checks, storage
from irlax.mdp.links import Links, Predecessors
from irlax.mdp.sparse import Successors
from irlax.mdp.spread_links import links_over
from irlax.precision import is_spread, scope, to_device
from irlax.typing import Array, Float, Int, Shaped

#: How many numbers of the transitions are loaded at once: few into the memory of the host, many into that of a card,
#: where each piece takes a few milliseconds however small it is.
AT_ONCE, AT_ONCE_ON_A_CARD = 2**19, 2**26
#: How far sums of probabilities may be from 1.
TOLERANCE = 1e-6


def at_once(device: Any) -> int:
    """How many numbers are loaded at once onto a device."""
    return AT_ONCE if device.platform == "cpu" else AT_ONCE_ON_A_CARD


class Part(NamedTuple):
    """Consecutive states: `successors` and `probs` as in `MDP.from_successors`, and their `initial` mass.

    Where all actions share the next states, `successors` may be [n, 1, B].
    """

    successors: Int[Array, "n G B"]
    probs: Float[Array, "n A B"]
    initial: Float[Array, " n"]


#: (first, last) ↦ the states first, …, last − 1.
Source = Callable[[int, int], Part | tuple[Any, Any, Any]]


def sharded_dynamics(
    source: Source, num_states: int, mesh: Mesh, dtype: Any = np.float64
) -> tuple[Successors, Float[Array, " S"]]:
    """The dynamics and the start distribution, each device's states loaded by its own process, a few at a time."""
    if len(mesh.axis_names) != 1:
        raise ValueError(f"`mesh` must have one axis, but has {mesh.axis_names}.")
    if num_states % mesh.size:
        raise ValueError(
            f"{num_states} states do not divide evenly over {mesh.size} devices. Add states that nothing leads to."
        )
    axis = mesh.axis_names[0]
    mesh = Mesh(mesh.devices, mesh.axis_names)
    first = Part(*source(0, 1))
    _, num_actions, width = np.shape(first.probs)
    groups = 1 if np.shape(first.successors)[1:2] == (1,) else num_actions
    share = num_states // mesh.size
    loading = Loading(source, num_states, share, num_actions, width, groups, dtype)
    loaded = [
        loading.on(device, place * share)
        for place, device in enumerate(mesh.devices.flat)
        if device.process_index == jax.process_index()
    ]
    by_state = NamedSharding(mesh, PartitionSpec(axis))
    by_link = NamedSharding(mesh, PartitionSpec(None, None, axis))
    successors, probs, initial = map(list, zip(*loaded, strict=True))
    # No second reference to next states, which are numbered anew.
    del loaded
    weights = jax.make_array_from_single_device_arrays((width, num_actions, num_states), by_link, probs)
    start = jax.make_array_from_single_device_arrays((num_states,), by_state, initial)
    # In float64, because a hundred million small numbers in float32 need not add up to 1.
    add_up = jax.jit(functools.partial(jnp.sum, dtype=np.float64), out_shardings=NamedSharding(mesh, PartitionSpec()))
    total = float(add_up(start))
    if abs(total - 1) > TOLERANCE:
        raise ValueError(f"`initial` must sum to 1 over all parts, but sums to {total:.6g}.")
    if mesh.size > 1:
        return Successors(links_over(mesh, successors), weights), start
    (device,) = mesh.devices.flat
    listed = jax.make_array_from_single_device_arrays((width, groups, num_states), by_link, successors)
    return Successors(Links(listed, _predecessors(listed, weights, device)), weights), start


def _predecessors(links: jax.Array, probs: jax.Array, device: Any) -> Predecessors:
    """The links that enter each state: links [B, G, S], with probabilities [B, A, S]."""

    def possible(probs: Any) -> Any:
        return probs > 0 if links.shape == probs.shape else (probs > 0).any(axis=1, keepdims=True)

    if device.platform != "cpu":
        return Predecessors.on_device(links, possible(probs))
    # A host takes a fifth of the time and half of the memory if it puts a few links in order at a time.
    return Predecessors.of(np.asarray(links), possible(np.asarray(probs)), links.shape[-1])


class Loading(NamedTuple):
    """How the states of one device are loaded: all devices have equally many."""

    source: Source
    num_states: int
    share: int
    num_actions: int
    width: int
    #: For how many actions next states are listed: one where all share them.
    groups: int
    dtype: Any

    def on(self, device: Any, first: int) -> tuple[Array, Array, Array]:
        """The arrays of a device, [B, A, n] and [n]: filled there, so that the host holds a few states at a time."""
        with jax.default_device(device), scope():
            successors = jnp.zeros((self.width, self.groups, self.share), jnp.int32)
            probs = jnp.zeros((self.width, self.num_actions, self.share), self.dtype)
            initial = jnp.zeros(self.share, self.dtype)
            step = max(1, min(self.share, at_once(device) // (self.num_actions * self.width)))
            for start in range(0, self.share, step):
                # The last piece begins earlier rather than being shorter, so that one program serves for all.
                at = min(start, self.share - step)
                part = self.checked(first + at, first + at + step)
                successors = _filled(successors, to_device(part.successors.T, np.int32), at)
                probs, initial = _filled(probs, to_device(part.probs.T), at), _filled(initial, part.initial, at)
        return successors, probs, initial

    def checked(self, first: int, last: int) -> Part:
        """Some states, validated; what was made on a device is reduced to a few numbers there."""
        part = Part(*self.source(first, last))
        states, shape = f"of the states {first} to {last - 1}", (last - first, self.num_actions, self.width)
        checks.has_shape(f"probs {states}", part.probs, shape, "(n, A, B)")
        listed = (last - first, self.groups, self.width)
        checks.has_shape(f"successors {states}", part.successors, listed, "(n, A, B), or (n, 1, B) in every part")
        checks.has_shape(f"initial {states}", part.initial, shape[:1], "(n,)")
        low, high = int(part.successors.min()), int(part.successors.max())
        if low < 0 or high >= self.num_states:
            raise ValueError(
                f"`successors` {states} must lie in 0..{self.num_states - 1}, but reach from {low} to {high}."
            )
        worst = float(abs(part.probs.sum(axis=-1) - 1).max())
        if not (float(part.probs.min()) >= 0 and worst <= TOLERANCE and float(part.initial.min()) >= 0):
            raise ValueError(f"`probs` {states} must be at least 0 and sum to 1, but are off by {worst:.3g}.")
        return part


@functools.partial(jax.jit, donate_argnums=0, static_argnums=3)
def _filled(whole: Array, part: Array, at: Int[Array, ""] | int, axis: int = -1) -> Array:
    """`whole` with a part of an axis replaced, in its own memory."""
    return jax.lax.dynamic_update_slice_in_dim(whole, jnp.asarray(part, whole.dtype), at, axis=axis % whole.ndim)


def loaded_table(source: Callable[[int, int], Any], like: jax.Array) -> Float[Array, "S *rest"]:
    """A table with a row for each state, each device's rows loaded by its own process, a few at a time.

    Its rows are placed and stored as the entries of `like` are, [S].
    """
    assert isinstance(like.sharding, NamedSharding) and isinstance(like.sharding.mesh, Mesh)
    mesh, num_states, rest = like.sharding.mesh, len(like), np.shape(source(0, 1))[1:]
    share, numbers = num_states // mesh.size, max(1, math.prod(rest))

    def on(device: Any, first: int) -> Any:
        with jax.default_device(device), scope():
            table = jnp.zeros((share, *rest), like.dtype)
            step = max(1, min(share, at_once(device) // numbers))
            for start in range(0, share, step):
                at = min(start, share - step)
                part = source(first + at, first + at + step)
                states = f"of the states {first + at} to {first + at + step - 1}"
                checks.has_shape(f"source {states}", part, (step, *rest), f"(n, {', '.join(map(str, rest))})")
                if not bool(abs(part).max() < np.inf):
                    raise ValueError(f"`source` {states} must be finite, but has NaN or infinite entries.")
                table = _filled(table, part, at, 0)
        return table

    loaded = [
        on(device, place * share)
        for place, device in enumerate(mesh.devices.flat)
        if device.process_index == jax.process_index()
    ]
    placed = NamedSharding(mesh, PartitionSpec(*like.sharding.spec))
    return jax.make_array_from_single_device_arrays((num_states, *rest), placed, loaded)


def gathered(table: Any) -> Shaped[np.ndarray, "..."]:
    """The whole of a table that is spread over processes, on the host of each of them; any other one as it is.

    Plans and visits of an MDP that several processes hold are spread as its states are. All processes call this
    together, and need room for the table.
    """
    if not is_spread(table):
        return np.asarray(table)
    with scope():
        return np.asarray(multihost_utils.process_allgather(table, tiled=True))


def save_part(folder: str | os.PathLike[str], first: int, successors: Any, probs: Any, initial: Any) -> Path:
    """Write the states from `first` on as a part of an MDP; processes may write the parts of a folder together."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / f"part-{first:012d}.npz"
    arrays = {"successors": successors, "probs": probs, "initial": initial}
    storage.save_arrays(path, arrays, compressed=False)
    return path


def folder_source(folder: str | os.PathLike[str]) -> tuple[Source, int]:
    """The states in a folder of parts, and how many there are."""
    parts = sorted(Path(folder).glob("part-*.npz"))
    if not parts:
        raise FileNotFoundError(f"There are no parts (part-*.npz) in {folder}. Write them with `save_part`.")
    firsts = [int(path.stem.removeprefix("part-")) for path in parts]
    num_states = firsts[-1] + len(_read(parts[-1]).initial)

    def source(first: int, last: int) -> Part:
        found = []
        for path, start, end in zip(parts, firsts, [*firsts[1:], num_states], strict=True):
            if start < last and first < end:
                part = _read(path)
                if len(part.initial) != end - start:
                    raise ValueError(f"{path} must hold {end - start} states, but holds {len(part.initial)}.")
                found.append(Part(*(array[max(first - start, 0) : last - start] for array in part)))
        return found[0] if len(found) == 1 else Part(*map(np.concatenate, zip(*found, strict=True)))

    return source, num_states


@functools.lru_cache(maxsize=1)
def _read(path: Path) -> Part:
    arrays = storage.load_arrays(path, Part._fields, "a part of an MDP (.npz)")
    missing = [name for name in Part._fields if name not in arrays]
    if missing:
        raise ValueError(f"{path} must hold {', '.join(Part._fields)}, but lacks {missing[0]}.")
    return Part(**arrays)
