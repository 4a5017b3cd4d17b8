"""The input of `irlax fit`: all files are read and validated before anything is computed or written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from irlax import storage
from irlax.cli.methods import ACTING
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
    if not Path(mdp).exists() and _is_environment(mdp):
        raise ValueError(
            f"This method needs an MDP in a file (.npz), but {mdp} is an environment, whose dynamics are not known. "
            f"For an environment use --method {', '.join(ACTING)}."
        )
    reward = reward_of(features, feature_names, over)
    loaded = load_mdp(mdp)
    # Planning keeps the values of all times; a horizon of 10⁹ is a typing error.
    storage.fits_in_memory(Path(mdp), 8 * loaded.num_states * (loaded.horizon or 1), "Is the horizon right?")
    training, scored = (None if path is None else read_demos(path, **names) for path in (demos, held_out))
    assert training is not None
    for path, read in ((demos, training), (held_out, scored)):
        if path is not None and read is not None:
            _check(path, read, loaded)
    return Problem(loaded, training, scored, reward.bind(loaded))


def _is_environment(name: str) -> bool:
    from irlax import envs

    return name in envs.NAMES or ":" in name


def _check(path: Path, demos: Demonstrations, mdp: MDP) -> None:
    try:
        if mdp.ends_at_goal and demos.goals is None:
            raise ValueError(
                "Episodes in this MDP end at goals of their own, so there must be a column `goal`; if it has another "
                "name, say `goal=`."
            )
        demos.check(mdp)
    except (TypeError, ValueError) as error:
        raise storage.in_file(path, error) from None


def reward_of(features: Path | None, feature_names: str | None, over: Any) -> AbstractReward:
    """The reward to learn: linear in the features of a file, or a table over s, sa or sas."""
    if (features is None) == (over is None):
        raise ValueError("Give the reward to learn: --features FILE or --reward s, sa or sas; exactly one of them.")
    if over is not None:
        if feature_names is not None:
            raise ValueError("--feature-names needs --features.")
        return TabularReward(over)
    assert features is not None
    names = None if feature_names is None else [name.strip() for name in feature_names.split(",")]
    if names is not None and ("" in names or len(set(names)) < len(names)):
        raise ValueError(f"--feature-names must be different names, separated by commas, but is {feature_names!r}.")
    try:
        return LinearReward(load_array(features), names=names)
    except (TypeError, ValueError) as error:
        raise storage.in_file(features, error) from None


def load_array(path: Path) -> np.ndarray:
    """The numbers in an .npy file, mapped first, so that a file with a wrong size in its header fills no memory."""
    path = storage.existing_file(path, (".npy",))
    with storage.unreadable(path, "an array (.npy)"):
        mapped = np.lib.format.open_memmap(path, mode="r")
        if mapped.dtype.kind not in "biuf":
            raise TypeError(f"it must hold numbers, but has dtype {mapped.dtype}")
        if mapped.offset + mapped.nbytes != path.stat().st_size:
            raise ValueError("it is longer than it declares")
        return np.array(mapped, np.float64)
