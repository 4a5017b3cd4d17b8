"""Links between states that are spread over devices, which send each other the values that the links cross with.

Each device numbers the states that its links lead to: its own first, then those of the others that it needs. For a
lookup the owners send the values of these; for a sum of incoming flow each device adds up by its own numbers, and sends
what belongs to others to them. Where nearly all states are needed everywhere, as in a random graph, `Links` does it.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from irlax.mdp.links import Links, looked_up
from irlax.precision import StaysOnDevice
from irlax.typing import Array, Float, Int

#: Values are sent one by one if no device needs more than this share of the states of another.
MAX_SHARE = 0.5


class SpreadLinks(StaysOnDevice):
    """`Links` of states on P devices, n = S/P on each, any two of which send each other at most H values."""

    #: Next states by the numbers of the device that holds the link: its own below n, then H of each other device.
    numbers: Int[Array, "B G S"]
    #: For each device, the states of each device that it needs, as numbers there; 0 pads.
    needed: Int[Array, "P P H"]
    #: For each device, the states that each device needs of it: `needed`, transposed.
    sent: Int[Array, "P P H"]
    mesh: Mesh = eqx.field(static=True)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    @property
    def num_states(self) -> int:
        return self.numbers.shape[-1]

    @property
    def successors(self) -> Int[Array, "B G S"]:
        share = self.num_states // self.mesh.size

        def on_each(numbers: Array, needed: Array) -> Array:
            own = share * jax.lax.axis_index(self._axis) + jnp.arange(share)
            others = share * jnp.arange(self.mesh.size)[:, None] + needed[0]
            states = jnp.concatenate([own.astype(numbers.dtype), others.ravel().astype(numbers.dtype)])
            return states[numbers]

        return self._on_each_device(on_each, "bgs", "ppp", to="bgs")(self.numbers, self.needed)

    def of_one_action(self) -> "SpreadLinks":
        one = self.numbers.reshape(-1, 1, self.num_states)
        return eqx.tree_at(lambda links: links.numbers, self, one)

    def next_values(self, value: Float[Array, " S"]) -> Float[Array, "B G S"]:
        def on_each(value: Array, numbers: Array, sent: Array) -> Array:
            received = jax.lax.all_to_all(value[sent[0]], self._axis, 0, 0)
            return looked_up(jnp.concatenate([value, received.ravel()]), numbers)

        return self._on_each_device(on_each, "s", "bgs", "ppp", to="bgs")(value, self.numbers, self.sent)

    def collect(self, flow: Float[Array, "B G S"]) -> Float[Array, " S"]:
        share = self.num_states // self.mesh.size

        def on_each(flow: Array, numbers: Array, sent: Array) -> Array:
            sums = jnp.asarray(_added_up(flow, numbers, share + sent.size))
            received = jax.lax.all_to_all(sums[share:].reshape(sent.shape[1:]), self._axis, 0, 0)
            return sums[:share].at[sent[0]].add(received)

        return self._on_each_device(on_each, "bgs", "bgs", "ppp", to="s")(flow, self.numbers, self.sent)

    @property
    def _axis(self) -> str:
        return self.mesh.axis_names[0]

    def _on_each_device(self, function: Callable[..., Array], *given: str, to: str) -> Callable[..., Array]:
        """A function of the parts on each device, as one of the whole arrays."""
        places = {"s": self._axis, "bgs": (None, None, self._axis), "ppp": self._axis}
        specs = {name: PartitionSpec(*np.atleast_1d(place)) for name, place in places.items()}
        mapped = {"mesh": self.mesh, "in_specs": tuple(specs[name] for name in given), "out_specs": specs[to]}
        return jax.shard_map(function, **mapped, check_vma=False)


def _added_up(flow: Float[Array, "B G n"], numbers: Int[Array, "B G n"], size: int) -> Float[Array, " size"]:
    """The sum of the flow along the links to each number. By rows, because a scattered addition copies its input."""

    def add(sums: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
        number, carried = row
        return jnp.asarray(sums).at[number].add(carried, mode="promise_in_bounds"), None

    rows = numbers.reshape(-1, numbers.shape[-1]), flow.reshape(-1, flow.shape[-1])
    return jax.lax.scan(add, jnp.zeros(size, flow.dtype), rows)[0]


AnyLinks = Links | SpreadLinks


def links_over(mesh: Mesh, successors: list[jax.Array]) -> AnyLinks:
    """The links of states over a mesh with one axis, [B, G, n] of each device of this process, in order.

    All processes call it together. The list is emptied.
    """
    axis, share = mesh.axis_names[0], successors[0].shape[-1]
    by_link, by_device = NamedSharding(mesh, PartitionSpec(None, None, axis)), NamedSharding(mesh, PartitionSpec(axis))
    shape = (*successors[0].shape[:-1], share * mesh.size)
    devices = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]
    firsts = [share * place for place, device in enumerate(mesh.devices.flat) if device in devices]

    def over_devices(tables: list[np.ndarray]) -> Array:
        """A table for each device, where that is."""
        placed = [jax.device_put(table[None], device) for table, device in zip(tables, devices, strict=True)]
        whole = (mesh.size, *tables[0].shape)
        return jax.make_array_from_single_device_arrays(whole, by_device, placed)

    others = [_others(listed, first) for listed, first in zip(successors, firsts, strict=True)]
    counts = over_devices([np.bincount(states // share, minlength=mesh.size) for states in others])
    most = max(1, int(jax.jit(jnp.max, out_shardings=NamedSharding(mesh, PartitionSpec()))(counts)))
    if most > MAX_SHARE * share:
        return Links(jax.make_array_from_single_device_arrays(shape, by_link, successors))
    needed, numbers = [], []
    for first, states in zip(firsts, others, strict=True):
        # Taken from the list, so that no device holds them twice.
        listed = successors.pop(0)
        owner = states // share
        position = np.arange(len(states)) - np.searchsorted(owner, owner)
        table = np.zeros((mesh.size, most), np.int32)
        table[owner, position] = states % share
        needed.append(table)
        renumbered = _numbered(listed, first, states, share + most * owner + position)
        numbers.append(jax.device_put(renumbered, next(iter(listed.devices()))))
    table = over_devices(needed)
    transposed = jax.jit(lambda table: jnp.swapaxes(table, 0, 1), out_shardings=by_device)(table)
    return SpreadLinks(jax.make_array_from_single_device_arrays(shape, by_link, numbers), table, transposed, mesh)


def _others(successors: Int[Array, "B G n"], first: int) -> Int[np.ndarray, " m"]:
    """The next states on other devices than that of the states from `first` on, in order."""
    share = successors.shape[-1]
    rows = np.asarray(successors).reshape(-1, share)
    return np.unique(np.concatenate([np.unique(row[(row < first) | (row >= first + share)]) for row in rows]))


def _numbered(
    successors: Int[Array, "B G n"], first: int, others: Int[np.ndarray, " m"], numbers: Int[np.ndarray, " m"]
) -> Int[np.ndarray, "B G n"]:
    """The number of each next state on its device: its place there, or that of `others`."""
    share, result = successors.shape[-1], np.empty(successors.shape, np.int32)
    for row, number in zip(np.asarray(successors).reshape(-1, share), result.reshape(-1, share), strict=True):
        np.subtract(row, first, out=number)
        away = np.flatnonzero((number < 0) | (number >= share))
        number[away] = numbers[np.searchsorted(others, row[away])]
    return result
