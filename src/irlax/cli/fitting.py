"""How `irlax fit` fits: an estimator from flags, a fit that survives an interruption, and its continuation."""

import dataclasses
import inspect
import re
import sys
import typing
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
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
    """The estimator with the given options and settings: its own, those of its parts (dotted) and of its solver."""
    kind = estimator_class(method)
    known = [field.name for field in dataclasses.fields(kind)]
    parts = _parts(kind, settings)
    dotted = {f"{field}.{name}": (field, name) for field, part in parts.items() for name in _names(part)}
    fields, inside = dict(options), {}
    for name in options:
        # --tol is that of the part that has one, where the estimator itself has none.
        places = [place for place in dotted.values() if place[1] == name]
        if name not in known and len(places) == 1:
            inside[places[0]] = fields.pop(name)
        elif name not in known:
            raise ValueError(f"--{name} does not apply to --method {method}, whose settings are {', '.join(known)}.")
    if "l2" in fields and fields["l2"] != "cv":
        fields["l2"] = _number(fields["l2"])
    solver = _Solver("auto", None) if parts else _Solver.of(fields)
    own = [name for name in known if name not in parts or name == "learner"]
    unknown = [name for name in settings if name not in (*own, *dotted, *solver.settings)]
    if unknown:
        more = f", and of --solver {solver.name}: {', '.join(solver.settings)}" if solver.settings else ""
        raise ValueError(
            f"--set takes NAME=VALUE, but knows no name {unknown[0]!r}. Settings of --method {method}: "
            f"{', '.join([*own, *dotted])}{more}."
        )
    fields |= {name: _parsed(value) for name, value in settings.items() if name in known and name not in parts}
    inside |= {dotted[name]: _parsed(value) for name, value in settings.items() if name in dotted}
    for field, part in parts.items():
        changes = {name: value for (where, name), value in inside.items() if where == field}
        if changes or field in settings:
            fields[field] = dataclasses.replace(part, **changes)
    of_solver = {name: _parsed(value) for name, value in settings.items() if name in solver.settings}
    if of_solver and solver.kind is not None:
        fields["solver"] = solver.kind(**of_solver)
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


class _Solver(NamedTuple):
    """The solver of an estimator where the dynamics are known; its settings have no dots."""

    name: str
    kind: Any

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "_Solver":
        name = fields.get("solver", "auto")
        return cls(name, SOLVERS.get(name))

    @property
    def settings(self) -> list[str]:
        return [] if self.kind is None else _names(self.kind)


def _names(part: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(part)]


def _parts(kind: Any, settings: Mapping[str, str]) -> dict[str, Any]:
    """The sub-objects that an estimator's fields hold by default, by field; `--set learner=NAME` chooses another."""
    parts = {}
    for field in dataclasses.fields(kind):
        part = field.default
        if part is None:
            # A sub-object that is there only if one of its settings is given, such as a potential.
            kinds = [
                some for some in typing.get_args(typing.get_type_hints(kind)[field.name]) if isinstance(some, type)
            ]
            part = next((some() for some in kinds if issubclass(some, eqx.Module)), None)
        if isinstance(part, eqx.Module):
            parts[field.name] = part
    if "learner" in parts:
        parts["learner"] = _learner(parts["learner"], settings)
    return parts


def _learner(own: Any, settings: Mapping[str, str]) -> Any:
    """The learner of a dynamics-free estimator: its own, or another by name, at the temperature of its own."""
    learners = {"ppo": rl.PPO, "sac": rl.SAC}
    name = settings.get("learner", type(own).__name__).lower()
    if name not in learners:
        raise ValueError(f"--set learner must be ppo or sac, but is {settings['learner']!r}.")
    return own if isinstance(own, learners[name]) else learners[name](temperature=own.temperature)


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
        from irlax.estimators.tabular import bayesian

        return getattr(bayesian, prior[1])(*(_parsed(scale) for scale in prior[2].split(",") if scale))
    return _WORDS.get(text.lower(), text)


def _fitted(estimator: Any, problem: Problem, reward: AbstractReward, *, key: int) -> Any:
    """One call of `fit`, with those arguments that this estimator knows."""
    known = inspect.signature(estimator.fit).parameters
    options = {"held_out": problem.held_out, "key": jax.random.key(key)}
    if problem.held_out is not None and "held_out" not in known:
        raise ValueError(f"--held-out does not apply to {type(estimator).__name__}.")
    given = {name: value for name, value in options.items() if name in known}
    return estimator.fit(problem.mdp, reward, problem.demos, **given)
