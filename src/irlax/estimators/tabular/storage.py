"""Fits on disk: a folder of JSON and arrays, from which nothing is ever run.

==============  =====================================================================================
``fit.json``    what was fitted, how, with which versions, how it ended, what was asked, the rewards
``arrays.npz``  the rewards' arrays, the history, the feature gap, posterior draws, given occupancies
``mdp.npz``     the MDP with the start distribution that was used (several: ``mdp0.npz``, ``mdp1.npz``, …)
``demos.npz``   the demonstrations, if the demonstrator was not a policy or an occupancy
==============  =====================================================================================

Plans are not kept: they follow from the rewards.
"""

import contextlib
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import scipy

from irlax import checks, records, storage
from irlax.demos import DemoStatistics
from irlax.demos.read_write import read_demos, write_demos
from irlax.estimators.status import Status
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.fit import Certificate, Extra, History, TabularFit
from irlax.mdp import MDP
from irlax.mdp.npz import load_mdp, save_mdp
from irlax.planning import Plan, hard_plan, path_plan, soft_plan
from irlax.planning.backup import PathBackup, SoftBackup
from irlax.planning.occupancy import checked_policy
from irlax.precision import scope
from irlax.records import field
from irlax.rewards import AbstractReward
from irlax.rewards.files import array_names, from_parts, to_parts
from irlax.version import __version__

FORMAT = "irlax-fit-1"
#: Whatever else lies in a folder is not irlax's to remove.
_OURS = re.compile(r"fit\.json|arrays\.npz|(mdp|demos|statistics)\d*\.npz|(policy|reward)\.eqx|report\.html")
_KIND = "the arrays of a fit (.npz)"
_LARGEST_JSON = 2**28
_OWN_ARRAYS = ("feature_gap", "loss", "gradient", "samples", "policy")


class Run(eqx.Module):
    """A fit with what its folder says beside it: the versions that made it, and what was asked."""

    fit: TabularFit
    versions: tuple[tuple[str, str], ...] = eqx.field(static=True)
    #: The settings that the command line was given or took by default; none, if the fit was saved in Python.
    asked: tuple[tuple[str, Any], ...] = eqx.field(static=True, default=())


def save_fit(
    fit: TabularFit,
    path: str | os.PathLike[str],
    *,
    asked: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fit as the folder `path`, whole or not at all; an older fit there is replaced, nothing else is.

    `asked` are the settings of the command that made it, for `--resume`.
    """
    target = check_target(path)
    rewards = [to_parts(reward, f"reward{i}") for i, reward in enumerate(fit.rewards)]
    arrays = {name: array for _, parts in rewards for name, array in parts.items()}
    for name, array in arrays.items():
        checks.finite(name, array)
    arrays |= {f"occupancy{i}": expert.given_occupancy for i, expert in enumerate(fit.experts)}
    arrays |= {"feature_gap": fit.feature_gap, "samples": fit.samples, "policy": fit.given_policy}
    arrays |= {"loss": fit.history.loss, "gradient": fit.history.gradient}
    settings = {} if asked is None else {"asked": [[name, records.plain(value)] for name, value in asked.items()]}
    record = records.as_json(_record(fit, [description for description, _ in rewards]) | settings)
    with replacing_folder(target) as folder:
        (folder / "fit.json").write_bytes(record)
        storage.save_arrays(folder / "arrays.npz", arrays)
        for expert, number in zip(fit.experts, _numbers(len(fit.experts)), strict=True):
            save_mdp(folder / f"mdp{number}.npz", expert.mdp)
            if expert.demos is not None:
                write_demos(folder / f"demos{number}.npz", expert.demos)
            if expert.statistics is not None:
                expert.statistics.save(folder / f"statistics{number}.npz")
    return Path(path)


def load_fit(path: str | os.PathLike[str]) -> TabularFit:
    """Read a fit that `save` wrote. A folder from a stranger runs nothing; a damaged one is a ValueError."""
    return load_run(path).fit


def load_run(path: str | os.PathLike[str]) -> Run:
    """What `load_fit` reads, with versions beside it."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"`path` must be the name of a folder, but is a {type(path).__name__}.")
    folder = Path(path)
    if not folder.is_dir():
        what = "is a file, not the folder of a fit" if folder.exists() else "does not exist"
        raise ValueError(f"{folder} {what}. Give the very path that the fit was saved to.")
    try:
        return _read(folder)
    except (TypeError, ValueError) as error:
        raise ValueError(str(storage.in_file(folder, error))) from None
    # A planner or a parser that fails in a way of its own (RecursionError, MemoryError, XlaRuntimeError, OSError).
    except Exception as error:
        raise ValueError(f"{folder} cannot be read as a fit: {error or type(error).__name__}.") from None


def is_run(path: Path) -> bool:
    """Whether a folder calls itself a fit of irlax, of whatever format number."""
    try:
        return str(records.read_json(path / "fit.json").get("format")).startswith("irlax-fit-")
    except (ValueError, OSError, RecursionError, MemoryError):
        return False


def check_target(path: str | os.PathLike[str]) -> Path:
    """Where a fit may be written: nothing is there, an empty folder, or a fit of irlax and nothing else."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"`path` must be the name of a folder, but is a {type(path).__name__}.")
    target = Path(path).resolve()
    above = next((parent for parent in target.parents if parent.exists()), target)
    if not target.name or not above.is_dir() or not os.access(above, os.W_OK):
        raise ValueError(f"A fit cannot be written at {path}: {above} is not a folder that can be written to.")
    if not target.exists():
        return target
    if not target.is_dir():
        raise ValueError(f"{path} is a file. A fit is a folder; choose a name that is free.")
    names = sorted(entry.name for entry in target.iterdir())
    strange = [name for name in names if not _OURS.fullmatch(name)]
    if names and (strange or not is_run(target)):
        raise ValueError(
            f"{path} is not a fit of irlax that may be replaced: it holds {checks.some(strange or names)}. Choose "
            f"another folder, or move what is there."
        )
    return target


def _numbers(count: int) -> list[str]:
    return [""] if count == 1 else [str(i) for i in range(count)]


@contextlib.contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """A folder to fill, which takes the place of `target` at the end, or vanishes if anything goes wrong."""
    target.parent.mkdir(parents=True, exist_ok=True)
    mark = secrets.token_hex(4)
    temporary, old = (target.with_name(f".{target.name}.{mark}.{kind}") for kind in ("tmp", "old"))
    temporary.mkdir()
    try:
        yield temporary
        if target.exists():
            target.rename(old)
        temporary.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _record(fit: TabularFit, rewards: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "versions": package_versions(),
        "method": fit.method,
        "settings": [[name, records.plain(value)] for name, value in fit.settings],
        "status": fit.status.name,
        "log_likelihood": records.plain(fit.log_likelihood),
        "held_out_log_likelihood": records.plain(fit.held_out_log_likelihood),
        "certificate": None
        if fit.certificate is None
        else {k: records.plain(v) for k, v in vars(fit.certificate).items()},
        "missing_mass": records.plain(fit.missing_mass),
        "extras": [[extra.name, records.plain(extra.value)] for extra in fit.extras],
        "seconds": records.plain(fit.seconds),
        "model": _model(fit.plans[0]),
        "demonstrators": [_kind_of(expert) for expert in fit.experts],
        "rewards": rewards,
    }


def _kind_of(expert: Expert) -> str:
    if expert.demos is not None:
        return "demos"
    if expert.statistics is not None:
        return "statistics"
    return "policy with every action" if expert.does_everything else "occupancy"


def package_versions() -> dict[str, str]:
    """What made this file."""
    packages = (jax, np, scipy, eqx)
    own = {"python": platform.python_version(), "irlax": __version__}
    return own | {package.__name__: package.__version__ for package in packages}


def _read(folder: Path) -> Run:
    record = records.read_json(present(folder, "fit.json"))
    if field(record, "format", str) != FORMAT:
        raise ValueError(
            f"Its format is {record['format']!r:.60}, but {FORMAT!r} is read here. A mixture is read by `irlax.load`; "
            f"else another version of irlax wrote it."
        )
    descriptions, kinds = field(record, "rewards", list), field(record, "demonstrators", list)
    if not kinds or len(descriptions) != len(kinds):
        raise ValueError(f"There are {len(descriptions)} rewards for {len(kinds)} demonstrators.")
    arrays = _arrays(folder, descriptions)
    rewards, experts = [], []
    for i, number in enumerate(_numbers(len(kinds))):
        mdp = stored_mdp(folder, number)
        experts.append(_expert(folder, number, mdp, kinds[i], arrays.get(f"occupancy{i}")))
        rewards.append(from_parts(descriptions[i], arrays, f"reward{i}").bind(mdp))
    fit = _fit(record, arrays, tuple(rewards), tuple(experts))
    versions = tuple((str(name), str(version)) for name, version in field(record, "versions", dict).items())
    asked = tuple(records.pairs(record, "asked")) if "asked" in record else ()
    return Run(fit, versions, asked)


def present(folder: Path, name: str) -> Path:
    """A file of the folder, or a ValueError that names it."""
    if not (folder / name).is_file():
        raise ValueError(f"{folder} holds no {name}, so it is not the whole folder of a fit.")
    return folder / name


def _arrays(folder: Path, descriptions: list[Any]) -> dict[str, np.ndarray]:
    known = [name for i, description in enumerate(descriptions) for name in array_names(description, f"reward{i}")]
    occupancies = [f"occupancy{i}" for i in range(len(descriptions))]
    return storage.load_arrays(present(folder, "arrays.npz"), (*_OWN_ARRAYS, *occupancies, *known), _KIND)


def stored_mdp(folder: Path, number: str) -> MDP:
    """The MDP of a fit's folder."""
    path = present(folder, f"mdp{number}.npz")
    mdp = load_mdp(path)
    storage.fits_in_memory(path, 8 * mdp.num_states * (mdp.horizon or 1))
    return mdp


def _expert(folder: Path, number: str, mdp: MDP, kind: Any, given: np.ndarray | None) -> Expert:
    if kind == "demos":
        return Expert.of(mdp, read_demos(present(folder, f"demos{number}.npz")), None, "mdp")
    if kind == "statistics":
        return Expert.of(mdp, DemoStatistics.load(present(folder, f"statistics{number}.npz")), None, "mdp")
    if kind not in ("occupancy", "policy with every action") or given is None:
        raise ValueError(f"The demonstrator is {kind!r:.60}, of which the folder holds nothing.")
    # One that was summed over time has no axis of it, whatever the horizon.
    lead = () if mdp.horizon is None or given.ndim == 2 else (mdp.horizon,)
    # Not checked as a user's occupancy would be: one that was solved for may be negative by a rounding error.
    joint = floats("occupancy", given, (*lead, *mdp.table_shape))
    return Expert(mdp, None, joint, 1.0, does_everything=kind != "occupancy")


def floats(name: str, array: np.ndarray, shape: tuple[int | None, ...], *, finite: bool = True) -> np.ndarray:
    """An array of floats as the fit should have it, or an error that names it."""
    if array.dtype.kind != "f":
        raise TypeError(f"`{name}` must hold floats, but has dtype {array.dtype}.")
    checks.has_shape(name, array, shape, "as the fit has it")
    if finite:
        checks.finite(name, array)
    return array.astype(np.float64)


def _fit(
    record: dict[str, Any],
    arrays: Mapping[str, np.ndarray],
    rewards: tuple[AbstractReward, ...],
    experts: tuple[Expert, ...],
) -> TabularFit:
    status, model = field(record, "status", str), field(record, "model", str)
    if status not in Status.__members__:
        raise ValueError(f"The status is {status!r:.60}, which is not known here.")
    size = {reward.num_parameters for reward in rewards}
    if len(size) > 1:
        raise ValueError("The rewards of several MDPs must share their parameters, but differ in how many they have.")
    certificate = field(record, "certificate", dict, type(None))
    loss, gradient = (arrays.get(name, np.zeros(0)) for name in ("loss", "gradient"))
    gap, samples, policy = (arrays.get(name) for name in ("feature_gap", "samples", "policy"))
    plans = tuple(_plan(model, expert.mdp, reward) for expert, reward in zip(experts, rewards, strict=True))
    return TabularFit(
        method=field(record, "method", str),
        settings=tuple(records.pairs(record, "settings")),
        rewards=rewards,
        plans=plans,
        experts=experts,
        status=Status[status],
        feature_gap=None if gap is None else floats("feature_gap", gap, (*size,)),
        certificate=None if certificate is None else _certificate(certificate),
        log_likelihood=records.real_or_none(record, "log_likelihood"),
        held_out_log_likelihood=records.real_or_none(record, "held_out_log_likelihood"),
        history=History(
            floats("loss", loss, (len(loss),), finite=False),
            floats("gradient", gradient, (len(loss),), finite=False),
        ),
        seconds=records.number(record, "seconds"),
        missing_mass=records.number(record, "missing_mass"),
        extras=tuple(Extra(name, value) for name, value in records.pairs(record, "extras")),
        samples=None if samples is None else floats("samples", samples, (None, *size)),
        given_policy=None if policy is None else np.array(checked_policy(experts[0].mdp, policy)),
    )


def _certificate(record: dict[str, Any]) -> Certificate:
    # Fits that were saved before there was the last of them do not name it.
    optional = {"below_maximum": None} | record
    names = ("duality_gap", "newton_decrement", "below_maximum")
    return Certificate(records.number(record, "gradient"), *(records.number_or_none(optional, name) for name in names))


def _model(plan: Plan) -> str:
    """The model of the decision maker that was planned with."""
    if isinstance(plan.backup, PathBackup):
        return "path"
    return "soft" if isinstance(plan.backup, SoftBackup) else "hard"


def _plan(model: str, mdp: MDP, reward: AbstractReward) -> Plan:
    if model not in ("soft", "path", "hard"):
        raise ValueError(f"The model is {model!r:.60}, which is not known here.")
    if model != "path":
        planner = soft_plan if model == "soft" else hard_plan
        return planner(mdp, reward.table(mdp))
    with scope():
        plain, by_transition = reward.unfold(mdp)(reward.parameters)
    return path_plan(mdp, plain.T if by_transition is None else reward.by_transition(mdp))
