"""What `irlax fit` reads: everything is read and checked before anything is computed or written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from irlax import envs, storage
from irlax.demos import Demonstrations, read_demos
from irlax.mdp import MDP
from irlax.mdp.npz import load_mdp
from irlax.rewards import AbstractReward, LinearReward, TabularReward


class Problem(NamedTuple):
    """An MDP, demonstrations in it, and a reward to learn."""

    mdp: MDP
    demos: Demonstrations
    held_out: Demonstrations | None
    reward: AbstractReward


def read(
    mdp: str,
    demos: Path,
    held_out: Path | None,
    *,
    names: Mapping[str, Any],
    features: Path | None,
    feature_names: str | None,
    over: Any,
) -> Problem:
    """Read the files; `names` are those of the columns of a table."""
    if not Path(mdp).exists() and (mdp in envs.NAMES or ":" in mdp):
        raise ValueError(
            f"{mdp} is an environment, whose dynamics are not known here: this method needs an MDP in a file (.npz). "
            f"In an environment say --method airl, sampled-mce, gcl, gan-gcl, gail or cloning."
        )
    reward = reward_of(features, feature_names, over)
    world = load_mdp(mdp)
    # The values of all times are kept while planning; a horizon of 10⁹ is a slip of the pen.
    storage.fits_in_memory(Path(mdp), 8 * world.num_states * (world.horizon or 1), "Is the horizon right?")
    seen, unseen = (None if path is None else read_demos(path, **names) for path in (demos, held_out))
    assert seen is not None
    for path, read in ((demos, seen), (held_out, unseen)):
        if path is not None and read is not None:
            _check(path, read, world)
    return Problem(world, seen, unseen, reward.bind(world))


def _check(path: Path, demos: Demonstrations, mdp: MDP) -> None:
    try:
        demos.check(mdp)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None


def reward_of(features: Path | None, feature_names: str | None, over: Any) -> AbstractReward:
    """The reward to learn, from a file of features or over a table; exactly one of them."""
    if (features is None) == (over is None):
        raise ValueError("Say what reward to learn: --features FILE or --reward s, sa or sas; exactly one of them.")
    if over is not None:
        if feature_names is not None:
            raise ValueError("--feature-names needs --features.")
        return TabularReward(over)
    assert features is not None
    names = None if feature_names is None else [name.strip() for name in feature_names.split(",")]
    if names is not None and ("" in names or len(set(names)) < len(names)):
        raise ValueError(f"--feature-names must be names with commas between, no two alike, but is {feature_names!r}.")
    try:
        return LinearReward(load_array(features), names=names)
    except (TypeError, ValueError) as error:
        raise storage.in_file(features, error) from None


def load_array(path: Path) -> np.ndarray:
    """The numbers in an .npy file, which are mapped first: a file that lies about its size fills no memory."""
    path = storage.existing_file(path, (".npy",))
    with storage.unreadable(path, "an array (.npy)"):
        mapped = np.lib.format.open_memmap(path, mode="r")
        if mapped.dtype.kind not in "biuf":
            raise TypeError(f"it must hold numbers, but has dtype {mapped.dtype}")
        if mapped.offset + mapped.nbytes != path.stat().st_size:
            raise ValueError("it is longer than it declares")
        return np.array(mapped, np.float64)
