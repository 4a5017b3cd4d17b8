"""The small files of expert demonstrations that ship with the package."""

import difflib
from pathlib import Path

import jax.random as jr

from irlax.demos import Demonstrations, npz
from irlax.envs.absorbing import Absorbing, cut_where_still
from irlax.envs.make import make

_FOLDER = Path(__file__).parents[1] / "data" / "experts"


def expert_demos(name: str, *, after_end: str = "fixed-horizon") -> Demonstrations:
    """Demonstrations of an expert in the environment `envs.make(name, after_end=after_end)`.

    They have observations and true rewards; `returns` says how good the expert is.
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
    demos = npz.load(_FOLDER / f"{name}.npz")
    env = make(name, after_end=after_end)
    return env.pad(cut_where_still(demos), key=jr.key(0)) if isinstance(env, Absorbing) else demos
