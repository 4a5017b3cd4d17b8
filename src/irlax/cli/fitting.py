"""How `irlax fit` fits: an estimator from flags, a fit that survives an interruption, and its continuation."""

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
            f"--set takes NAME=VALUE, but knows no name {unknown[0]!r}. Settings of --method {method}: "
            f"{', '.join(known)}{more}."
        )
    fields |= {name: _parsed(value) for name, value in settings.items() if name in known}
    inside = {part.settings[name]: _parsed(value) for name, value in settings.items() if name not in known}
    if inside or part.chosen:
        fields[part.field] = part.build(**inside)
    return kind(**fields)


def named(settings: Sequence[str]) -> dict[str, str]:
    """The values of NAME=VALUE by their names."""
    wrong = [setting for setting in settings if "=" not in setting]
    if wrong:
        raise ValueError(f"--set takes NAME=VALUE, but got {wrong[0]!r}.")
    return {name: value for name, _, value in (setting.partition("=") for setting in settings)}


def of_environment(settings: dict[str, str]) -> dict[str, Any]:
    """The settings env.NAME by their names, taken out of the others."""
    names = [name for name in settings if name.startswith("env.")]
    return {name.removeprefix("env."): _parsed(settings.pop(name)) for name in names}


class _Part(NamedTuple):
    """An object inside an estimator: the field that it is in, and its settings by the names that --set has for them."""

    field: str
    name: str
    build: Callable[..., Any]
    settings: dict[str, str]
    #: Whether it is another than the estimator's own.
    chosen: bool = False


def _solver(fields: Mapping[str, Any]) -> _Part:
    name = fields.get("solver", "auto")
    kind = SOLVERS.get(name)
    settings = {} if kind is None else {field.name: field.name for field in dataclasses.fields(kind)}
    return _Part("solver", f"--solver {name}", kind or (lambda: None), settings)


def _learner(kind: Any, settings: Mapping[str, str]) -> _Part:
    """The learner of a dynamics-free estimator: its own, or another by name, at the temperature of its own."""
    (own,) = (field.default for field in dataclasses.fields(kind) if field.name == "learner")
    assert isinstance(own, rl.PPO | rl.SAC)
    learners = {"ppo": rl.PPO, "sac": rl.SAC}
    name = settings.get("learner", type(own).__name__).lower()
    if name not in learners:
        raise ValueError(f"--set learner must be ppo or sac, but is {settings['learner']!r}.")
    chosen = learners[name]
    begun = own if isinstance(own, chosen) else chosen(temperature=own.temperature)
    build = functools.partial(dataclasses.replace, begun)
    names = {f"learner.{field.name}": field.name for field in dataclasses.fields(chosen)}
    return _Part("learner", "its learner", build, names, chosen="learner" in settings)


def run(estimator: Any, problem: Problem, *, key: int, earlier: Any) -> Any:
    """Fit, from where an earlier fit of the same problem ended, if there is one."""
    reward = problem.reward if earlier is None else earlier.reward
    # A penalty that was chosen is not chosen again.
    chosen = None if earlier is None else earlier.cross_validation
    trial = estimator if chosen is None else dataclasses.replace(estimator, l2=chosen.l2)
    # Features of 1e200 overflow; what comes of it is judged by the result.
    with np.errstate(all="ignore"):
        fit = _fitted(trial, problem, reward, key=key)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves([reward.parameters for reward in fit.rewards])):
        raise ValueError("The fit broke down: its parameters are not finite. Are the features of a sensible size?")
    if fit.status is Status.INTERRUPTED:
        print(
            f"irlax: interrupted after step {fit.iterations}. The best iterate is kept; --resume goes on from it.",
            file=sys.stderr,
        )
    return fit if earlier is None else _joined(earlier, dataclasses.replace(fit, estimator=estimator))


def _joined(earlier: Any, fit: Any) -> Any:
    """The fit with the history and the seconds of the one that it went on from, whose last iterate was its first."""
    columns = {name: np.concatenate([earlier.history[name], fit.history[name][1:]]) for name in fit.history}
    seconds, chosen = earlier.seconds + fit.seconds, earlier.cross_validation
    return dataclasses.replace(fit, history=History(columns), seconds=seconds, cross_validation=chosen)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--l2 must be a number or cv, but is {text!r}.") from None


def _parsed(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    prior = re.fullmatch(r"(Normal|Laplace)\((.*)\)", text)
    if prior is not None:
        from irlax.estimators.tabular import priors

        return getattr(priors, prior[1])(*(_parsed(scale) for scale in prior[2].split(",") if scale))
    return _WORDS.get(text.lower(), text)


def _fitted(estimator: Any, problem: Problem, reward: AbstractReward, *, key: int) -> Any:
    """One call of `fit`, with those arguments that this estimator knows."""
    known = inspect.signature(estimator.fit).parameters
    options = {"held_out": problem.held_out, "key": jax.random.key(key)}
    if problem.held_out is not None and "held_out" not in known:
        raise ValueError(f"--held-out does not apply to {type(estimator).__name__}.")
    given = {name: value for name, value in options.items() if name in known}
    return estimator.fit(problem.mdp, reward, problem.demos, **given)
