"""The fit of `irlax fit` in an MDP: an estimator from options, and a fit that may continue a previous one."""

import dataclasses
import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from irlax import rl
from irlax.cli.inputs import Problem
from irlax.cli.methods import estimator_class
from irlax.estimators.tabular.solvers import SOLVERS
from irlax.iteration import History
from irlax.rewards import AbstractReward
from irlax.status import Status

_WORDS = {"true": True, "false": False, "none": None}


def estimator_of(method: str, options: Mapping[str, Any], settings: Mapping[str, str]) -> Any:
    """The estimator with the given options and settings, its own and those of its solver or learner."""
    kind = estimator_class(method)
    known = [field.name for field in dataclasses.fields(kind)]
    fields = dict(options)
    for name in fields:
        if name not in known:
            raise ValueError(f"--{name} does not apply to --method {method}, whose settings are {', '.join(known)}.")
    if "l2" in fields and fields["l2"] != "cv":
        fields["l2"] = _number(fields["l2"])
    part = _learner(kind, settings) if "learner" in known else _solver(fields)
    unknown = [name for name in settings if name not in (*known, *part.settings)]
    if unknown:
        more = f", and of {part.name}: {', '.join(part.settings)}" if part.settings else ""
        raise ValueError(
            f"--set takes NAME=VALUE, but {unknown[0]!r} is not a setting. Settings of --method {method}: "
            f"{', '.join(known)}{more}."
        )
    fields |= {name: _parse_value(value) for name, value in settings.items() if name in known}
    of_part = {part.settings[name]: _parse_value(value) for name, value in settings.items() if name not in known}
    if of_part or part.replaced:
        fields[part.field] = part.build(**of_part)
    return kind(**fields)


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """The values of NAME=VALUE by their names."""
    wrong = [setting for setting in settings if "=" not in setting]
    if wrong:
        raise ValueError(f"--set takes NAME=VALUE, but got {wrong[0]!r}.")
    return {name: value for name, _, value in (setting.partition("=") for setting in settings)}


def take_env_settings(settings: dict[str, str]) -> dict[str, Any]:
    """The settings env.NAME by their names, which are removed from `settings`."""
    names = [name for name in settings if name.startswith("env.")]
    return {name.removeprefix("env."): _parse_value(settings.pop(name)) for name in names}


class _Part(NamedTuple):
    """A part of an estimator, such as its learner: its field, and its settings by their names in --set."""

    field: str
    name: str
    build: Callable[..., Any]
    settings: dict[str, str]
    #: Whether it replaces the estimator's default part.
    replaced: bool = False


def _solver(fields: Mapping[str, Any]) -> _Part:
    name = fields.get("solver", "auto")
    kind = SOLVERS.get(name)
    settings = {} if kind is None else {field.name: field.name for field in dataclasses.fields(kind)}
    return _Part("solver", f"--solver {name}", kind or (lambda: None), settings)


def _learner(kind: Any, settings: Mapping[str, str]) -> _Part:
    """The learner of a dynamics-free estimator: the default, or another by name, at the temperature of the default."""
    (default,) = (field.default for field in dataclasses.fields(kind) if field.name == "learner")
    assert isinstance(default, rl.PPO | rl.SAC)
    learners = {"ppo": rl.PPO, "sac": rl.SAC}
    name = settings.get("learner", type(default).__name__).lower()
    if name not in learners:
        raise ValueError(f"--set learner must be ppo or sac, but is {settings['learner']!r}.")
    cls = learners[name]
    base = default if isinstance(default, cls) else cls(temperature=default.temperature)
    build = functools.partial(dataclasses.replace, base)
    names = {f"learner.{field.name}": field.name for field in dataclasses.fields(cls)}
    return _Part("learner", "its learner", build, names, replaced="learner" in settings)


def run(estimator: Any, problem: Problem, *, key: int, previous: Any) -> Any:
    """The fit of a problem, which starts where the previous fit of the same problem ended, if there is one."""
    reward = problem.reward if previous is None else previous.reward
    # A penalty that cross-validation chose before is kept.
    chosen = None if previous is None else previous.cross_validation
    trial = estimator if chosen is None else dataclasses.replace(estimator, l2=chosen.l2)
    # Very large features overflow; the result is validated below instead.
    with np.errstate(all="ignore"):
        fit = _call_fit(trial, problem, reward, key=key)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves([reward.parameters for reward in fit.rewards])):
        raise ValueError("The fit failed: its parameters are not finite. Are the features very large?")
    if fit.status is Status.INTERRUPTED:
        print(
            f"irlax: interrupted after step {fit.iterations}. The best iterate is written; --resume continues from it.",
            file=sys.stderr,
        )
    return fit if previous is None else _joined(previous, dataclasses.replace(fit, estimator=estimator))


def _joined(previous: Any, fit: Any) -> Any:
    """The fit with the history and the seconds of the previous fit added, whose last iterate was its first."""
    columns = {name: np.concatenate([previous.history[name], fit.history[name][1:]]) for name in fit.history}
    seconds, chosen = previous.seconds + fit.seconds, previous.cross_validation
    return dataclasses.replace(fit, history=History(columns), seconds=seconds, cross_validation=chosen)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--l2 must be a number or cv, but is {text!r}.") from None


def _parse_value(text: str) -> Any:
    """The value of a setting: a number, a prior, true, false, none, or text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    prior = re.fullmatch(r"(Normal|Laplace)\((.*)\)", text)
    if prior is not None:
        from irlax.estimators.tabular import priors

        return getattr(priors, prior[1])(*(_parse_value(scale) for scale in prior[2].split(",") if scale))
    return _WORDS.get(text.lower(), text)


def _call_fit(estimator: Any, problem: Problem, reward: AbstractReward, *, key: int) -> Any:
    """Call `fit` with those arguments that this estimator takes."""
    known = inspect.signature(estimator.fit).parameters
    options = {"held_out": problem.held_out, "key": jax.random.key(key)}
    if problem.held_out is not None and "held_out" not in known:
        raise ValueError(f"--held-out does not apply to {type(estimator).__name__}.")
    given = {name: value for name, value in options.items() if name in known}
    return estimator.fit(problem.mdp, reward, problem.demos, **given)
