"""The small files of expert demonstrations that ship with the package."""

import difflib
from pathlib import Path

from irlax.demos import npz
from irlax.demos.demonstrations import Demonstrations

_FOLDER = Path(__file__).parents[1] / "data" / "experts"


def expert_demos(name: str) -> Demonstrations:
    """Demonstrations of an expert in the environment `envs.make(name)`, with observations and true rewards.

    `returns` says how good it is.
    """
    if not isinstance(name, str):
        raise TypeError(f"`name` must be the name of an environment, but is a {type(name).__name__}.")
    there = sorted(path.stem for path in _FOLDER.glob("*.npz"))
    if name not in there:
        close = difflib.get_close_matches(name.lower().replace("_", "-"), there, cutoff=0.5)
        hint = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
        raise ValueError(
            f"No expert demonstrations ship for {name!r}. {hint}There are {', '.join(there) or 'none at all'}. Make "
            f"your own: `envs.collect(env, policy, num=..., key=key)`."
        )
    return npz.load(_FOLDER / f"{name}.npz")
