"""Policies and checkpoints on disk: a line of JSON, then the arrays. Reading one never runs code."""

import json
import os
from pathlib import Path
from typing import Any, BinaryIO

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import storage
from irlax.records import field
from irlax.rl.policies import AbstractPolicy, init_policy
from irlax.spaces import Box, Discrete

POLICY_FORMAT = "irlax-policy-1"
POLICY_FILE = "policy.eqx"
#: A header is a few settings; a longer first line is not one of ours.
_LONGEST_HEADER = 2**16


def write_leaves(path: Path, header: dict[str, Any], tree: Any) -> None:
    """Write a header and the arrays of a tree, whole or not at all."""
    line = json.dumps(header, ensure_ascii=True, allow_nan=False).encode()
    with storage.replacing(path) as file:
        file.write(line + b"\n")
        eqx.tree_serialise_leaves(file, _without_keys(tree))


def read_header(file: BinaryIO, path: Path, kind: str) -> dict[str, Any]:
    """The record in the first line; the file is left at the arrays."""
    with storage.unreadable(path, kind):
        line = file.readline(_LONGEST_HEADER)
        record = json.loads(line.decode("ascii"))
        if not isinstance(record, dict):
            raise ValueError("its first line is no record")
    return record


def read_leaves(file: BinaryIO, like: Any) -> Any:
    """The arrays after the header, of the shapes and types that `like` has."""
    plain = eqx.tree_deserialise_leaves(file, _without_keys(like))
    if file.read(1):
        raise ValueError("it is longer than it should be")
    return jax.tree.map(
        lambda wanted, found: jr.wrap_key_data(found) if _is_key(wanted) else jnp.asarray(found), like, plain
    )


def save_policy(path: str | os.PathLike[str], policy: AbstractPolicy, **about: Any) -> None:
    """Write one policy, with plain values about it (what environment, what return)."""
    path = storage.known_suffix(path, (".eqx",))
    discrete = isinstance(policy.actions, Discrete)
    network = policy.network
    header = {
        "format": POLICY_FORMAT,
        "observation_size": int(network.weights[0].shape[-1]),
        "actions": policy.actions.num if discrete else None,
        "action_size": None if discrete else int(policy.actions.low.shape[-1]),
        "width": int(network.weights[0].shape[0]) if len(network.weights) > 1 else 1,
        "depth": len(network.weights) - 1,
        "activation": network.activation,
        "about": about,
    }
    write_leaves(path, header, policy)


def load_policy(path: str | os.PathLike[str]) -> AbstractPolicy:
    """Read a policy: a file that `save_policy` wrote, or a folder that `train` did."""
    return read_policy(path)[0]


def read_policy(path: str | os.PathLike[str]) -> tuple[AbstractPolicy, dict[str, Any]]:
    """A policy, and the plain values that were saved with it."""
    path = Path(path) / POLICY_FILE if Path(path).is_dir() else Path(path)
    path = storage.existing_file(path, (".eqx",))
    kind = "a policy (.eqx)"
    with path.open("rb") as file:
        header = read_header(file, path, kind)
        try:
            like = _skeleton(header, path)
            about = field(header, "about", dict)
        except (TypeError, ValueError) as error:
            raise storage.in_file(path, error) from None
        with storage.unreadable(path, kind):
            return read_leaves(file, like), about


def _skeleton(header: dict[str, Any], path: Path) -> Any:
    """The shapes and types of a policy's arrays, from its header."""
    if header.get("format") != POLICY_FORMAT:
        raise ValueError(f"It must have the format {POLICY_FORMAT!r}, but says {str(header.get('format'))!r:.60}.")
    sizes = {name: field(header, name, int) for name in ("observation_size", "width", "depth")}
    num = field(header, "actions", int, type(None))
    size = num if num is not None else field(header, "action_size", int)
    # The arrays of the file cannot be larger than the file.
    if min(*sizes.values(), size) < 0 or sizes["width"] ** 2 * sizes["depth"] + size > path.stat().st_size:
        raise ValueError("Its header does not fit its size.")
    activation = field(header, "activation", str)
    if activation not in ("tanh", "relu"):
        raise ValueError(f"Its activation must be 'tanh' or 'relu', but is {activation!r:.60}.")

    def build() -> Any:
        actions = Discrete(num) if num is not None else Box(-jnp.ones(size), jnp.ones(size))
        shape: Any = {"width": sizes["width"], "depth": sizes["depth"], "activation": activation}
        return init_policy(actions, sizes["observation_size"], **shape, key=jr.key(0))

    return eqx.filter_eval_shape(build)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _without_keys(tree: Any) -> Any:
    """Random keys as the numbers that they are made of."""

    def plain(leaf: Any) -> Any:
        if not _is_key(leaf):
            return leaf
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return jax.eval_shape(jr.key_data, leaf)
        return np.asarray(jr.key_data(leaf))

    return jax.tree.map(plain, tree)
