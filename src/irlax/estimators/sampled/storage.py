"""Dynamics-free fits on disk: a folder of a record, arrays, the demonstrations, the policy and the reward."""

import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks, records, storage
from irlax.demos.read_write import read_demos, write_demos
from irlax.estimators.sampled.fit import SampledFit
from irlax.estimators.status import Status
from irlax.estimators.tabular.storage import check_target, package_versions, present, replacing_folder
from irlax.networks import Normaliser
from irlax.records import field
from irlax.rewards import ObservedReward, RewardNet, ShapedObservedReward
from irlax.rewards.observed import unshaped
from irlax.rl.policy_file import POLICY_FILE, load_policy, read_header, read_leaves, save_policy, write_leaves
from irlax.spaces import Box, Discrete

#: Begins as all formats of fits do, so that an older fit may be replaced.
FORMAT = "irlax-fit-sampled-1"
REWARD_FILE = "reward.eqx"
_REWARD_KIND = "a reward (.eqx)"
DEMOS_FILE = "demos.npz"


def save_sampled(fit: SampledFit, path: str | os.PathLike[str]) -> Path:
    """Write a fit as the folder `path`, whole or not at all; an older fit there is replaced, nothing else is."""
    target = check_target(path)
    header = None if fit.learned is None else _header(fit.learned)
    record = {
        "format": FORMAT,
        "versions": package_versions(),
        "method": fit.method,
        "settings": [[name, records.plain(value)] for name, value in fit.settings],
        "status": fit.status.name,
        "environment": fit.environment,
        "log_likelihood": records.plain(fit.log_likelihood),
        "seconds": records.plain(fit.seconds),
        "history": list(fit.history),
        "reward": header is not None,
    }
    arrays = {f"history_{name}": column for name, column in fit.history.items()}
    arrays |= {"feature_gap": fit.feature_gap, "returns": fit.returns}
    with replacing_folder(target) as folder:
        (folder / "fit.json").write_bytes(records.as_json(record))
        storage.save_arrays(folder / "arrays.npz", arrays)
        write_demos(folder / DEMOS_FILE, fit.demos)
        save_policy(folder / POLICY_FILE, fit.policy, learner=fit.method, environment=fit.environment)
        if header is not None:
            write_leaves(folder / REWARD_FILE, header, fit.learned)
    return Path(path)


def is_sampled(path: Any) -> bool:
    """Whether the folder is a fit of a dynamics-free estimator."""
    try:
        return records.read_json(Path(path) / "fit.json").get("format") == FORMAT
    except (TypeError, ValueError, OSError, RecursionError, MemoryError):
        return False


def load_sampled(path: str | os.PathLike[str]) -> SampledFit:
    """Read a fit. A folder from a stranger runs nothing; a damaged one is a ValueError."""
    folder = Path(path)
    try:
        return _read(folder)
    except (TypeError, ValueError) as error:
        raise ValueError(str(storage.in_file(folder, error))) from None


def _read(folder: Path) -> SampledFit:
    record = records.read_json(present(folder, "fit.json"))
    names = [str(name) for name in field(record, "history", list)]
    known = [*(f"history_{name}" for name in names), "feature_gap", "returns"]
    arrays = storage.load_arrays(present(folder, "arrays.npz"), known, "the arrays of a fit")
    missing = [name for name in known if name not in arrays]
    if missing or "steps" not in names:
        raise ValueError(f"It lacks {checks.some(missing or ['steps'])}.")
    status = field(record, "status", str)
    if status not in Status.__members__:
        raise ValueError(f"The status is {status!r:.60}, which is not known here.")
    return SampledFit(
        method=field(record, "method", str),
        settings=tuple(records.pairs(record, "settings")),
        learned=load_reward(present(folder, REWARD_FILE)) if field(record, "reward", bool) else None,
        policy=load_policy(present(folder, POLICY_FILE)),
        status=Status[status],
        history={name: np.asarray(arrays[f"history_{name}"], np.float64) for name in names},
        log_likelihood=records.number(record, "log_likelihood"),
        feature_gap=np.asarray(arrays["feature_gap"], np.float64),
        returns=np.asarray(arrays["returns"], np.float64),
        demos=read_demos(present(folder, DEMOS_FILE)),
        environment=field(record, "environment", str),
        seconds=records.number(record, "seconds"),
    )


def load_reward(path: Path) -> ObservedReward | ShapedObservedReward:
    """Read the reward of a fit."""
    with path.open("rb") as file:
        header = read_header(file, path, _REWARD_KIND)
        try:
            like = eqx.filter_eval_shape(lambda: _skeleton(header, path))
        except (TypeError, ValueError) as error:
            raise storage.in_file(path, error) from None
        with storage.unreadable(path, _REWARD_KIND):
            return read_leaves(file, like)


def _header(reward: Any) -> dict[str, Any]:
    """What it takes to build a reward of the same shape."""
    base = unshaped(reward)
    potential = reward.potential if isinstance(reward, ShapedObservedReward) else base
    for part in (base, potential):
        if not isinstance(part, ObservedReward):
            raise TypeError(
                f"Only rewards that irlax makes can be saved, but this is a {type(part).__name__}. Keep its parameters "
                f"yourself: nothing that runs code is ever read from a file."
            )
    assert isinstance(base, ObservedReward)
    actions = base.actions
    return {
        "format": FORMAT,
        "observation_size": len(base.normaliser.mean),
        "actions": actions.num if isinstance(actions, Discrete) else None,
        "action_size": None if isinstance(actions, Discrete) else int(actions.low.shape[-1]),
        "over": base.over,
        **_shape(base),
        **{f"potential_{name}": value for name, value in _shape(potential).items()},
        "discount": reward.discount if isinstance(reward, ShapedObservedReward) else None,
    }


def _shape(reward: Any) -> dict[str, Any]:
    weights = reward.network.weights
    width = len(weights[0])
    if len(weights) == 1 and reward.over != "s" and isinstance(reward.actions, Discrete):
        width //= reward.actions.num
    return {"quadratic": reward.quadratic, "width": max(width, 1), "depth": len(weights) - 1}


def _skeleton(header: dict[str, Any], path: Path) -> Any:
    observation_size = field(header, "observation_size", int)
    shape, potential_shape = (
        {name: field(header, part + name, int) for name in ("width", "depth")} for part in ("", "potential_")
    )
    num = field(header, "actions", int, type(None))
    size = num if num is not None else field(header, "action_size", int)
    # The arrays of the file cannot be larger than the file.
    most = max(some["width"] ** 2 * max(some["depth"] - 1, 0) for some in (shape, potential_shape))
    least = min(observation_size, size, *shape.values(), *potential_shape.values())
    if least < 0 or most > path.stat().st_size:
        raise ValueError("Its header does not fit its size.")
    over = checks.one_of("over", field(header, "over", str), ("s", "sa", "sas"))
    discount = records.number_or_none(header, "discount")
    actions = Discrete(num) if num is not None else Box(jnp.zeros(size), jnp.ones(size))
    statistics = Normaliser.init(observation_size)
    quadratic = field(header, "quadratic", bool)
    base = RewardNet(over, **shape, quadratic=quadratic).init(statistics, actions, key=jr.key(0))
    if discount is None:
        return base
    # Older files have no such entry: their potentials are not quadratic.
    quadratic = field({"potential_quadratic": False} | header, "potential_quadratic", bool)
    net = RewardNet("s", **potential_shape, quadratic=quadratic)
    return ShapedObservedReward(base, net.init(statistics, actions, key=jr.key(0)), discount)
