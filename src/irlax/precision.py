"""float64 for tabular work, whatever the user's global JAX flag says.

Called from the host, a function marked `exact` computes inside a scoped ``jax.enable_x64(True)`` and its
arrays leave as NumPy, because a float64 JAX array is silently cut to float32 by the next operation on it
once the scope is left. Inside a user's own ``jit``, ``vmap`` or ``grad`` it follows the arrays it is given.
"""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec

Params = ParamSpec("Params")
Result = TypeVar("Result")


class StaysOnDevice(eqx.Module):
    """A module whose arrays `exact` leaves on the device, because further computation uses them."""


def is_traced(*trees: Any) -> bool:
    """Whether any leaf is a tracer, whose value is not known."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


def is_placed(array: Any) -> bool:
    """Whether an array was placed on a mesh of devices: then it stays there, as it is."""
    return isinstance(array, jax.Array) and not is_traced(array) and isinstance(array.sharding, NamedSharding)


def is_spread(array: Any) -> bool:
    """Whether parts of an array are on other processes, so that it can be computed with, but not read."""
    concrete = isinstance(array, jax.Array) and not is_traced(array)
    return concrete and not array.is_fully_addressable and not array.is_fully_replicated


def staged() -> bool:
    """Whether the caller is inside a `jit`, where results are tracers whatever goes in."""
    # Not of `jnp.zeros(())`, for which a program is compiled.
    return isinstance(jax.device_put(0.0), Tracer)


def scope(*trees: Any) -> contextlib.AbstractContextManager:
    """A context with float64 for work on concrete arrays; inside a trace it changes nothing."""
    return contextlib.nullcontext() if is_traced(*trees) or staged() else jax.enable_x64(True)


def to_device(array: Any, dtype: Any = None) -> Any:
    """`jnp.asarray` for arrays that are built on the host, of which it would compile a program for every shape."""
    if not isinstance(array, np.ndarray) or staged():
        return jnp.asarray(array, dtype)
    return jax.device_put(array if dtype is None else array.astype(dtype, copy=False))


def to_device_as(like: Any, table: Any) -> Any:
    """`to_device` for a table whose last axis runs over states, spread over processes if `like`, [S], is."""
    if not is_spread(like) or not isinstance(table, np.ndarray):
        return to_device(table)
    where = NamedSharding(like.sharding.mesh, PartitionSpec(*[None] * (table.ndim - 1), *like.sharding.spec))
    return jax.make_array_from_callback(table.shape, where, lambda index: table[index])


def to_host(array: Any) -> Any:
    """The array in NumPy; where parts of it are on other processes, as it is: no host need have room for the whole."""
    return array if is_spread(array) else np.asarray(array)


def exact(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """Make a function compute in float64 when called from the host; inside a trace the arguments decide."""

    @functools.wraps(function)
    def wrapped(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        if is_traced(args, kwargs) or staged():
            args, kwargs = _at_ambient_precision((args, kwargs))
            return function(*args, **kwargs)
        with scope():
            return _to_host(function(*args, **kwargs))

    return wrapped


def _to_host(tree: Result) -> Result:
    """The tree with NumPy arrays for JAX arrays, but for modules that stay on the device."""

    def to_numpy(leaf: Any) -> Any:
        return to_host(leaf) if isinstance(leaf, jax.Array) else leaf

    return jax.tree.map(to_numpy, tree, is_leaf=lambda node: isinstance(node, StaysOnDevice))


def _at_ambient_precision(tree: Any) -> Any:
    """The tree with float64 constants rounded to float32 in a float32 trace: on purpose, so without JAX's warning."""
    if jax.config.read("jax_enable_x64"):
        return tree

    def to_float32(leaf: Any) -> Any:
        concrete = isinstance(leaf, (np.ndarray, jax.Array)) and not isinstance(leaf, Tracer)
        # As a NumPy array it stays concrete, so that its values are still validated.
        return np.asarray(leaf, np.float32) if concrete and leaf.dtype == np.float64 else leaf

    return jax.tree.map(to_float32, tree)
