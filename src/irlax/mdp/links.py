"""Which state can follow which: the pattern of sparse dynamics, read in both directions at memory bandwidth.

Backward, each state looks up the values of its successors. Forward, each state collects what flows into it. The
textbook way to do the second is a scatter-add, which is several times slower than a lookup on CPUs and serialises
on GPUs, so incoming links are listed too: both directions are lookups, and each is the other's transpose.

The two are primitives of our own, because JAX would transpose a lookup into the scatter-add that is avoided.
"""

import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from irlax.mdp.unrolled import LONG, UNROLL, unrolled_sum
from irlax.precision import StaysOnDevice, to_device
from irlax.typing import Array, Bool, Float, Int, Shaped

#: How many links a host puts in order at once, at least: the numbers that this takes are larger than the links.
AT_ONCE = 2**20


class Predecessors(StaysOnDevice):
    """For each state, the links that enter it, at most W to a row.

    A state that more links enter (a goal that everything enters) owns further rows, so that one of them does
    not widen the table for all.
    """

    #: Positions in the flattened [B, G, R] table of links; −1 pads.
    entries: Int[Array, "W S_and_extra"]
    #: The state that each row beyond the S-th belongs to.
    owners: Int[Array, " extra"]

    @classmethod
    def of(
        cls, successors: Int[np.ndarray, "B G R"], present: Bool[np.ndarray, "B G R"], num_states: int
    ) -> "Predecessors":
        """The incoming side of the links that are `present`."""
        degree = np.zeros(num_states, np.int64)
        for _, into in _listed(successors, present, num_states):
            degree += np.bincount(into, minlength=num_states)
        width = row_width(degree)
        extra = np.maximum(-(-degree // width) - 1, 0)
        first_extra = num_states + np.cumsum(extra) - extra
        index = np.int32 if successors.size < 2**31 else np.int64
        entries = np.full((width, num_states + extra.sum()), -1, index)
        filled = np.zeros(num_states, np.int64)
        for links, into in _listed(successors, present, num_states):
            order, new = np.argsort(into, kind="stable"), np.bincount(into, minlength=num_states)
            target = into[order]
            position = np.arange(len(target)) + np.repeat(filled + new - np.cumsum(new), new)
            block = position // width
            row = np.where(block == 0, target, first_extra[target] + block - 1)
            entries[position % width, row] = links[order]
            filled += new
        return cls(to_device(entries), to_device(np.repeat(np.arange(num_states), extra), np.int32))

    @classmethod
    def on_device(cls, successors: Int[Array, "B G S"], present: Bool[Array, "B G S"]) -> "Predecessors":
        """As `of`, computed where the arrays are: a GPU lists 5·10⁸ links in the time that a host lists 10⁷."""
        links, starts = _by_target(successors, present)
        counted = np.asarray(starts)
        degree = counted[1:] - counted[:-1]
        width = row_width(degree)
        crowded = np.flatnonzero(degree > width)
        extra = -(-degree[crowded] // width) - 1
        owners = np.repeat(crowded, extra)
        ends = jnp.take(starts, to_device(owners) + 1)
        # A state's first row holds its first links; the rows that follow stand in order.
        number = np.arange(len(owners)) - np.repeat(np.cumsum(extra) - extra, extra) + 1
        further = jnp.take(starts, to_device(owners)) + to_device(width * number, starts.dtype)
        firsts, ends = jnp.concatenate([starts[:-1], further]), jnp.concatenate([starts[1:], ends])
        return cls(_rows(links, firsts, ends, width), to_device(owners, np.int32))

    def padded(self, width: int, extra: int) -> "Predecessors":
        """The same lists in a table of this width, with this many rows beyond the first S."""
        missing = (width - self.entries.shape[0], extra - len(self.owners))
        if missing == (0, 0):
            return self
        entries = jnp.pad(self.entries, [(0, missing[0]), (0, missing[1])], constant_values=-1)
        return Predecessors(entries, jnp.pad(self.owners, (0, missing[1])))


def _listed(
    successors: Int[np.ndarray, "B G R"], present: Bool[np.ndarray, "B G R"], num_states: int
) -> Iterator[tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]]:
    """The positions of links that are present, and the states that they enter: as many at a time as there is room."""
    into, present, step = successors.ravel(), present.ravel(), max(num_states, AT_ONCE)
    for first in range(0, into.size, step):
        links = np.flatnonzero(present[first : first + step])
        yield first + links, into[first : first + step][links]


@jax.jit
def _by_target(successors: Int[Array, "B G S"], present: Bool[Array, "B G S"]) -> tuple[Array, Array]:
    """The positions of links, ordered by the state that they enter, and where those of each state start."""
    num_states = successors.shape[-1]
    index = np.int32 if successors.size < 2**31 else np.int64
    # Links that are absent come last, after those of all states.
    target = jnp.where(present, successors, num_states).ravel()
    target, links = jax.lax.sort((target, jax.lax.iota(index, target.size)), num_keys=1)
    return links, jnp.searchsorted(target, jax.lax.iota(target.dtype, num_states + 1)).astype(index)


@functools.partial(jax.jit, static_argnums=3)
def _rows(links: Array, firsts: Array, ends: Array, width: int) -> Int[Array, "W S_and_extra"]:
    """links[first], ..., at most `width` of them, in a column for each row; −1 after the end."""
    places = firsts + jax.lax.iota(firsts.dtype, width)[:, None]
    return jnp.where(places < ends, jnp.take(links, places, mode="clip"), -1)


def row_width(degree: Int[np.ndarray, " S"]) -> int:
    """The width at which a table is smallest whose long lists take several rows, given how long each of them is."""
    count = np.bincount(degree)
    degrees = np.arange(len(count))
    widths = np.unique(np.clip(degrees[count > 0], 1, UNROLL))
    # An extra row costs its cells and a scattered addition, which takes about as long as eight of them.
    cost = [(count * (width + (width + 8) * np.maximum(-(-degrees // width) - 1, 0))).sum() for width in widths]
    return int(widths[int(np.argmin(cost))])


class Links(StaysOnDevice):
    """At most B next states for each state; for each action apart (G = A), or the same for all of them (G = 1)."""

    #: A column for each row of a table over states and actions: R = S, unless some states take several rows.
    successors: Int[Array, "B G R"]
    #: None where the pattern was not known when the dynamics were built (inside a trace).
    predecessors: Predecessors | None = None

    @classmethod
    def of(
        cls,
        successors: Int[np.ndarray, "B G R"],
        present: Bool[np.ndarray, "B G R"],
        num_states: int | None = None,
    ) -> "Links":
        """Both directions of a pattern that is known, with as many states as columns unless `num_states` is given."""
        size = successors.shape[-1] if num_states is None else num_states
        return cls(to_device(successors, np.int32), Predecessors.of(successors, present, size))

    @property
    def shape(self) -> tuple[int, ...]:
        """That of `successors`."""
        return self.successors.shape

    @property
    def num_states(self) -> int:
        """S."""
        if self.predecessors is None:
            return self.successors.shape[-1]
        return self.predecessors.entries.shape[-1] - self.predecessors.owners.shape[-1]

    def of_one_action(self) -> "Links":
        """The links of all actions as those of one: the order in which they are listed stays the same."""
        return Links(self.successors.reshape(-1, 1, self.successors.shape[-1]), self.predecessors)

    def next_values(self, value: Float[Array, " S"]) -> Float[Array, "B G R"]:
        """value(s') for each link."""
        if self.predecessors is None:
            return value[self.successors]
        return _next_values.bind(value, self.successors, self.predecessors.entries, self.predecessors.owners)

    def collect(self, flow: Float[Array, "B G R"]) -> Float[Array, " S"]:
        """What flows into each state; the transpose of `next_values`."""
        if self.predecessors is None:
            return jnp.zeros(self.num_states, flow.dtype).at[self.successors].add(flow)
        return _collect.bind(flow, self.successors, self.predecessors.entries, self.predecessors.owners)


def looked_up(value: Shaped[Array, " n"], successors: Int[Array, "B G R"]) -> Shaped[Array, "B G R"]:
    """value[successors]."""
    width, groups, num_rows = successors.shape
    if width * groups > UNROLL**2 or num_rows < LONG:
        return jnp.take(value, successors, mode="clip")
    # One lookup for each row: XLA compiles a lookup with several axes into a far slower loop.
    values = [jnp.take(value, row, mode="clip") for row in successors.reshape(width * groups, -1)]
    return jnp.stack(values).reshape(successors.shape)


def _look_up(value: Array, successors: Array, entries: Array, owners: Array) -> Array:
    return looked_up(value, successors)


def _sum_incoming(flow: Array, successors: Array, entries: Array, owners: Array) -> Array:
    flow, num_states = flow.ravel(), entries.shape[-1] - owners.shape[-1]
    rows = unrolled_sum(lambda entry: jnp.where(entry < 0, 0, jnp.take(flow, entry, mode="clip")), entries)
    return jnp.asarray(rows)[:num_states].at[owners].add(rows[num_states:])


def _linear(name: str, compute: Callable[..., Array]) -> Primitive:
    """A primitive that is linear in its first argument; `_transposed` says what its transpose is."""
    primitive = Primitive(name)
    primitive.def_impl(jax.jit(compute))

    @primitive.def_abstract_eval
    def _(*inputs):
        output = jax.eval_shape(compute, *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs))
        return ShapedArray(output.shape, output.dtype)

    mlir.register_lowering(primitive, mlir.lower_fun(compute, multiple_results=False))
    ad.defjvp(primitive, lambda tangent, _, *pattern: primitive.bind(tangent, *pattern), None, None, None)
    batching.primitive_batchers[primitive] = lambda inputs, axes: (jax.vmap(compute, axes)(*inputs), 0)
    return primitive


def _transposed(primitive: Primitive, other: Primitive) -> None:
    def rule(cotangent, _, *pattern):
        return [None if type(cotangent) is ad.Zero else other.bind(cotangent, *pattern), None, None, None]

    ad.primitive_transposes[primitive] = rule


_next_values = _linear("next_values", _look_up)
_collect = _linear("collect", _sum_incoming)
_transposed(_next_values, _collect)
_transposed(_collect, _next_values)
