"""A policy on disk: one .npz archive of its record and its arrays, from which nothing is ever run."""

import json
import os
from pathlib import Path
from typing import Any

from irlax import records, registry, storage
from irlax.records import field
from irlax.rl.policies import AbstractPolicy

POLICY_FORMAT = "irlax-policy-2"
POLICY_FILE = "policy.npz"
_KIND = "a policy (.npz)"


def save_policy(path: str | os.PathLike[str], policy: AbstractPolicy, **about: Any) -> None:
    """Write one policy, with plain values about it (what environment, what return)."""
    path = storage.known_suffix(path, (".npz",))
    parts = registry.to_parts(policy)
    header = {"format": POLICY_FORMAT, "about": records.plain_map(about), "policy": parts.record}
    storage.save_arrays(path, {"header": records.as_json(header).decode(), **parts.arrays})


def load_policy(path: str | os.PathLike[str]) -> AbstractPolicy:
    """Read a policy: a file that `save_policy` wrote, or a folder that `train` did."""
    return read_policy(path)[0]


def read_policy(path: str | os.PathLike[str]) -> tuple[AbstractPolicy, dict[str, Any]]:
    """A policy, and the plain values that were saved with it."""
    path = Path(path) / POLICY_FILE if Path(path).is_dir() else Path(path)
    path = storage.existing_file(path, (".npz",))
    arrays = storage.load_arrays(path, None, _KIND)
    with storage.unreadable(path, _KIND):
        header = json.loads(str(arrays.pop("header")))
        if field(header, "format", str) != POLICY_FORMAT:
            raise ValueError(f"it must have the format {POLICY_FORMAT!r}, but says {header['format']!r:.60}")
        policy = registry.from_parts(field(header, "policy", dict), arrays, _no_files)
        if not isinstance(policy, AbstractPolicy):
            raise TypeError(f"it holds a {type(policy).__name__}, not a policy")
        if len(policy.normaliser.mean) != policy.network.weights[0].shape[1]:
            raise ValueError("the network of a policy must take what its normaliser gives")
        return policy, records.from_plain_map(field(header, "about", dict))


def _no_files(name: str, form: Any) -> Any:
    raise ValueError(f"a policy has no file {name!r:.60}")
