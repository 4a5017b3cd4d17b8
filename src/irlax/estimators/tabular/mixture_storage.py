"""Mixtures on disk: the folder of a fit (see `storage`), with what a mixture has beside it."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from irlax import checks, records, storage
from irlax.demos.read_write import read_demos, write_demos
from irlax.estimators.status import Status
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.fit import Certificate, Extra, History, TabularFit
from irlax.estimators.tabular.mce import planned
from irlax.estimators.tabular.mixture_fit import MixtureFit
from irlax.estimators.tabular.storage import (
    check_target,
    floats,
    load_fit,
    package_versions,
    present,
    replacing_folder,
    stored_mdp,
)
from irlax.mdp.npz import save_mdp
from irlax.records import field
from irlax.rewards.files import array_names, from_parts, to_parts

#: Begins as all formats of fits do, so that an older mixture may be replaced.
FORMAT = "irlax-fit-mixture-2"
#: Its scores were multiplied by the weights.
_WEIGHTED_SCORES = "irlax-fit-mixture-1"
_OWN_ARRAYS = ("shares", "posterior", "individuals", "weights", "hessian", "scores", "loss", "gradient")


def load(path: str | os.PathLike[str]) -> TabularFit | MixtureFit:
    """Read a fit that `save` wrote. A folder from a stranger runs nothing; a damaged one is a ValueError."""
    return load_mixture(path) if is_mixture(path) else load_fit(path)


def load_mixture(path: str | os.PathLike[str]) -> MixtureFit:
    """Read a mixture that `save_mixture` wrote."""
    folder = Path(path)
    try:
        return _read(folder)
    except (TypeError, ValueError) as error:
        raise ValueError(str(storage.in_file(folder, error))) from None
    # A planner or a parser that fails in a way of its own.
    except Exception as error:
        raise ValueError(f"{folder} cannot be read as a mixture: {error or type(error).__name__}.") from None


def save_mixture(fit: MixtureFit, path: str | os.PathLike[str]) -> Path:
    """Write a mixture as the folder `path`, whole or not at all; an older fit there is replaced, nothing else is."""
    target = check_target(path)
    rewards = [to_parts(reward, f"reward{g}") for g, reward in enumerate(fit.rewards)]
    arrays: dict[str, Any] = {name: array for _, parts in rewards for name, array in parts.items()}
    for name, array in arrays.items():
        checks.finite(name, array)
    arrays |= {name: getattr(fit, name) for name in _OWN_ARRAYS if hasattr(fit, name)}
    arrays |= {"loss": fit.history.loss, "gradient": fit.history.gradient}
    record = {
        "format": FORMAT,
        "versions": package_versions(),
        "settings": [[name, records.plain(value)] for name, value in fit.settings],
        "status": fit.status.name,
        "log_likelihood": records.plain(fit.log_likelihood),
        "certificate": {name: records.plain(value) for name, value in vars(fit.certificate).items()},
        "seconds": records.plain(fit.seconds),
        "rewards": [description for description, _ in rewards],
        "reason": fit.reason,
        "held_out_log_likelihood": records.plain(fit.held_out_log_likelihood),
        "extras": [[extra.name, records.plain(extra.value)] for extra in fit.extras],
    }
    assert fit.expert.demos is not None
    with replacing_folder(target) as folder:
        (folder / "fit.json").write_bytes(records.as_json(record))
        storage.save_arrays(folder / "arrays.npz", arrays)
        save_mdp(folder / "mdp.npz", fit.expert.mdp)
        write_demos(folder / "demos.npz", fit.expert.demos)
    return Path(path)


def is_mixture(path: Any) -> bool:
    """Whether a folder calls itself a mixture."""
    try:
        return records.read_json(Path(path) / "fit.json").get("format") in (FORMAT, _WEIGHTED_SCORES)
    except (TypeError, ValueError, OSError, RecursionError, MemoryError):
        return False


def _read(folder: Path) -> MixtureFit:
    record = records.read_json(present(folder, "fit.json"))
    descriptions = field(record, "rewards", list)
    known = [name for g, description in enumerate(descriptions) for name in array_names(description, f"reward{g}")]
    arrays = storage.load_arrays(present(folder, "arrays.npz"), (*_OWN_ARRAYS, *known), "the arrays of a mixture")
    missing = [name for name in _OWN_ARRAYS if name not in arrays]
    if missing or not descriptions:
        raise ValueError(f"It lacks {checks.some(missing or ['rewards'])}.")
    mdp = stored_mdp(folder, "")
    rewards = tuple(from_parts(parts, arrays, f"reward{g}").bind(mdp) for g, parts in enumerate(descriptions))
    status, num = field(record, "status", str), len(rewards)
    if status not in Status.__members__:
        raise ValueError(f"The status is {status!r:.60}, which is not known here.")
    people, total = len(arrays["individuals"]), num * (rewards[0].num_parameters + 1) - 1
    certificate, loss = field(record, "certificate", dict), arrays["loss"]
    decrement = records.number_or_none(certificate, "newton_decrement")
    weights, scores = (
        floats("weights", arrays["weights"], (people,)),
        floats("scores", arrays["scores"], (people, total)),
    )
    if record["format"] == _WEIGHTED_SCORES:
        scores = scores / np.where(weights > 0, weights, 1.0)[:, None]
        record |= {"reason": "", "held_out_log_likelihood": None, "extras": []}
    return MixtureFit(
        settings=tuple(records.pairs(record, "settings")),
        rewards=rewards,
        plans=tuple(planned(mdp, reward) for reward in rewards),
        shares=floats("shares", arrays["shares"], (num,)),
        posterior=floats("posterior", arrays["posterior"], (people, num)),
        individuals=arrays["individuals"],
        weights=weights,
        expert=Expert.of(mdp, read_demos(present(folder, "demos.npz")), None, "mdp"),
        status=Status[status],
        certificate=Certificate(records.number(certificate, "gradient"), None, decrement),
        log_likelihood=records.number(record, "log_likelihood"),
        history=History(
            floats("loss", loss, (len(loss),), finite=False),
            floats("gradient", arrays["gradient"], (len(loss),), finite=False),
        ),
        seconds=records.number(record, "seconds"),
        hessian=floats("hessian", arrays["hessian"], (total, total)),
        scores=scores,
        reason=field(record, "reason", str),
        held_out_log_likelihood=records.number_or_none(record, "held_out_log_likelihood"),
        extras=tuple(Extra(name, value) for name, value in records.pairs(record, "extras")),
    )
