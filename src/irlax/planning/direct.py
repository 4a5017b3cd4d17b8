"""Sparse LU factorisation of I − γP_π, on the host, for problems whose graph has small separators.

At γ near 1, and at γ = 1 on road networks and grids, what is earned far away matters, and an iterative solver takes as
many products as there are steps to it. Eliminating one state after another takes none, and its cost hardly depends on
γ. What decides is the graph of the chain: where paths through eliminated states leave few new links, as on grids,
strips and road networks, the factors stay small; in a random graph they fill up.

SuperLU orders the states by minimum degree on Aᵀ + A and takes its pivots from the diagonal, which is stable because
I − γP_π is an M-matrix. On a grid of 316×316 with slips that takes .39 s and 5.6·10⁶ stored numbers, at γ = .9999 and
at γ = 1 alike, against .55 s and 1.1·10⁷ with SciPy's default (column ordering of AᵀA, partial pivoting); residuals
are 6e-16 of the solution either way.
"""

import hashlib
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from irlax.typing import Array, Bool, Float, Int

if TYPE_CHECKING:
    from scipy.sparse.linalg import SuperLU

#: The widest level of a breadth-first search with which a chain is factorised. Elimination ends with a dense block of
#: about this many states: on a cube of 30³ states (width 675) it takes 1.2 s, on a grid of 10⁶ (width 1,000) 8.5 s.
MAX_WIDTH = 2000
#: With fewer levels than this an iterative solver is as fast at any discount, because everything is near: a random
#: graph of 4,000 states with 5 successors has 6 levels and takes 1.2 s to factorise, one of 6,000 takes 3.6 s, and so
#: on with the cube: for 20,000 states (7 levels) it would be two minutes.
MIN_DEPTH = 20
#: A state with this many times √S neighbours is a hub, such as a goal that can be entered from everywhere. It is
#: eliminated last and costs one row, so levels are counted without it.
HUB = 10
MAX_HUBS = 50
#: How many factorisations are kept for further right-hand sides, and how many numbers they may hold together.
MAX_KEPT = 4
MAX_NUMBERS = 10**8


class System(NamedTuple):
    """I − γP_π as a list of transitions, [B, R]: from the state that a row belongs to, to `successors`."""

    weights: Float[Array, "B R"]
    successors: Int[Array, "B R"]
    owners: Int[Array, " R"]


def solve(
    system: System, rhs: Float[Array, " S"], wanted: Bool[Array, ""], *, transpose: bool
) -> tuple[Float[Array, " S"], Bool[Array, ""]]:
    """(I − γP_π)⁻¹ rhs, or that of the transpose, and whether it was solved: if not, it is 0.

    It is not solved where it is not `wanted` or `is_affordable` says no, nor on accelerators, nor where arrays are
    spread over several devices.
    """
    x, solved = _solve.bind(rhs, wanted, *system, transpose=transpose)
    return jax.lax.bitcast_convert_type(x, rhs.dtype), solved


def is_affordable(pattern: sp.csr_array) -> bool:
    """Whether factors of a matrix with this pattern stay small: the graph is long and narrow, but for a few hubs.

    The levels of a breadth-first search separate what is before from what is after, so elimination in their order
    fills no more than the blocks between neighbouring levels; minimum degree does better. A wrong "no" costs only time.
    """
    size = len(pattern.indptr) - 1
    graph = sp.csr_array(pattern + pattern.T)
    hubs = np.diff(graph.indptr) > HUB * np.sqrt(size)
    if hubs.sum() > MAX_HUBS:
        return False
    if hubs.any():
        rest = np.flatnonzero(~hubs)
        graph = sp.csr_array(graph[rest][:, rest])
    from scipy.sparse.csgraph import connected_components  # takes long to import

    _, part = connected_components(graph, directed=False)
    # From any state of each part, and again from one that is farthest from it: then levels are narrowest.
    _, starts = np.unique(part, return_index=True)
    order, _ = _levels(graph, starts)
    _, last = np.unique(part[order][::-1], return_index=True)
    order, level = _levels(graph, order[::-1][last])
    widths = np.unique(part[order] * np.int64(len(order)) + level, return_counts=True)[1]
    # Parts as small as this are cheap, whatever their shape.
    small = np.bincount(part).max() <= MAX_WIDTH
    return bool(widths.max() <= MAX_WIDTH and (small or level.max() >= MIN_DEPTH))


def _levels(graph: sp.csr_array, starts: Int[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
    """All states in the order of a breadth-first search from one state of each part, and how far each of them is."""
    size = len(graph.indptr) - 1
    # One more state, from which the search begins, leads to all starts.
    indices = np.concatenate([graph.indices, starts])
    indptr = np.append(graph.indptr, len(indices))
    joined = sp.csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=(size + 1, size + 1))
    from scipy.sparse.csgraph import breadth_first_order

    order, parents = breadth_first_order(joined, size, directed=True)
    position = np.empty(size + 1, np.int64)
    position[order] = np.arange(size + 1)
    parent = position[parents[order[1:]]]
    ends = [0, 1]
    while ends[-1] <= size:
        ends.append(1 + int(np.searchsorted(parent, ends[-1])))
    return order[1:], np.repeat(np.arange(len(ends) - 2), np.diff(ends[1:]))


class _Factors:
    """The last factorisations, by a digest of what was factorised; None where that was not affordable."""

    def __init__(self) -> None:
        self.kept: "OrderedDict[bytes, SuperLU | None]" = OrderedDict()
        self.lock = threading.Lock()
        #: Factorisations so far, for tests and benchmarks.
        self.count = 0

    def of(self, weights: np.ndarray, successors: np.ndarray, owners: np.ndarray, size: int) -> "SuperLU | None":
        digest = hashlib.blake2b(digest_size=16)
        for array in (weights, successors, owners):
            digest.update(np.ascontiguousarray(array).data)
        key = digest.digest()
        # One at a time: two threads that ask for the same factors would both compute them, and memory is bounded.
        with self.lock:
            if key not in self.kept:
                self.kept[key] = self._factorised(weights, successors, owners, size)
                self._limit()
            self.kept.move_to_end(key)
            return self.kept[key]

    def _factorised(
        self, weights: np.ndarray, successors: np.ndarray, owners: np.ndarray, size: int
    ) -> "SuperLU | None":
        from scipy.sparse.linalg import splu  # takes long to import

        # Padding and actions that are never taken must not fill the factors.
        link, row = np.nonzero(weights)
        entries = (weights[link, row].astype(np.float64), (owners[row], successors[link, row]))
        chain = sp.csr_array(sp.coo_array(entries, shape=(size, size)))
        if not np.isfinite(chain.data).all() or not is_affordable(chain):
            return None
        self.count += 1
        try:
            return splu(
                sp.csc_array(sp.eye_array(size, format="csr") - chain),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except (RuntimeError, MemoryError):
            # Singular, or too large after all: the iterative solver does what it can.
            return None

    def _limit(self) -> None:
        def numbers() -> int:
            return sum(factors.nnz for factors in self.kept.values() if factors is not None)

        while len(self.kept) > 1 and (len(self.kept) > MAX_KEPT or numbers() > MAX_NUMBERS):
            self.kept.popitem(last=False)


FACTORS = _Factors()


def _on_host(
    rhs: np.ndarray,
    wanted: np.ndarray,
    weights: np.ndarray,
    successors: np.ndarray,
    owners: np.ndarray,
    *,
    transpose: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """What `_solve` computes, by SciPy; the right-hand side may have leading axes."""
    size = rhs.shape[-1]
    factors = FACTORS.of(weights, successors, owners, size) if wanted else None
    if factors is None:
        return _as_bytes(np.zeros_like(rhs)), np.asarray(False)
    columns = np.ascontiguousarray(rhs.reshape(-1, size).T, np.float64)
    solution = factors.solve(columns, "T" if transpose else "N")
    return _as_bytes(np.ascontiguousarray(solution.T.reshape(rhs.shape), rhs.dtype)), np.asarray(True)


def _as_bytes(array: np.ndarray) -> np.ndarray:
    return array.view(np.uint8).reshape(*array.shape, array.itemsize)


# A primitive of our own, because `jax.pure_callback` copies its arguments by the threads that wait for the callback: on
# one core it never returns. It also lets a program that is compiled for several devices, or for an accelerator, know.
# Numbers return as bytes: JAX would round them to float32, because callbacks run in threads where x64 is not enabled.
_solve = Primitive("sparse_direct_solve")
_solve.multiple_results = True
_solve.def_impl(jax.jit(_solve.bind, static_argnames="transpose"))


@_solve.def_abstract_eval
def _shapes(rhs, wanted, weights, successors, owners, *, transpose):
    return ShapedArray((*rhs.shape, rhs.dtype.itemsize), jnp.dtype(jnp.uint8)), ShapedArray((), jnp.dtype(bool))


def _unsolved(rhs, wanted, weights, successors, owners, *, transpose):
    return jnp.zeros((*rhs.shape, rhs.dtype.itemsize), jnp.uint8), jnp.zeros((), bool)


def _lowered_on_cpu(ctx: Any, *operands: Any, transpose: bool) -> Any:
    context = ctx.module_context.axis_context
    if isinstance(context, mlir.SPMDAxisContext) or getattr(context, "num_devices", 1) > 1:
        return mlir.lower_fun(_unsolved, multiple_results=True)(ctx, *operands, transpose=transpose)

    def callback(*arrays: Any) -> tuple[np.ndarray, np.ndarray]:
        return _on_host(*map(np.asarray, arrays), transpose=transpose)

    results, _, _ = mlir.emit_python_callback(
        ctx, callback, None, list(operands), ctx.avals_in, ctx.avals_out, has_side_effect=False, returns_token=False
    )
    return results


mlir.register_lowering(_solve, mlir.lower_fun(_unsolved, multiple_results=True))
mlir.register_lowering(_solve, _lowered_on_cpu, platform="cpu")


def _batched(inputs: Any, axes: Any, *, transpose: bool) -> tuple[Any, Any]:
    """Several right-hand sides are solved at once, several chains one after the other."""
    inputs = [x if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(inputs, axes, strict=True)]
    if all(axis is None for axis in axes[1:]):
        return _solve.bind(*inputs, transpose=transpose), (0, None)
    mapped = [axis is not None for axis in axes]

    def one(given: Any) -> Any:
        given = iter(given)
        args = [next(given) if own else x for x, own in zip(inputs, mapped, strict=True)]
        return _solve.bind(*args, transpose=transpose)

    return jax.lax.map(one, [x for x, own in zip(inputs, mapped, strict=True) if own]), (0, 0)


batching.primitive_batchers[_solve] = _batched
