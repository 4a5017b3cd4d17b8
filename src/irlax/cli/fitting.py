"""The fit of `irlax fit` in an MDP: an estimator from options, and a fit that may continue a previous one."""

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
    settings, defaults = _defaults(kind, method, settings)
    parts = _parts(kind, defaults, settings)
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
    solver = _Solver.of(fields) if "solver" in known else _Solver("none", None)
    # A part as a whole is a learner by its name, or written out, such as a prior.
    whole = {name: value for name, value in settings.items() if isinstance(_parse_value(value), eqx.Module)}
    own = [name for name in known if name not in parts or name == "learner" or name in whole]
    unknown = [name for name in settings if name not in (*own, *dotted, *solver.settings)]
    if unknown:
        more = f", and of --solver {solver.name}: {', '.join(solver.settings)}" if solver.settings else ""
        raise ValueError(
            f"--set takes NAME=VALUE, but {unknown[0]!r} is not a setting. Settings of --method {method}: "
            f"{', '.join([*own, *dotted])}{more}."
        )
    fields |= {name: _parse_value(value) for name, value in settings.items() if name in own and name != "learner"}
    inside |= {dotted[name]: _parse_value(value) for name, value in settings.items() if name in dotted}
    for field, part in parts.items():
        changes = {name: value for (where, name), value in inside.items() if where == field}
        if changes or (field == "learner" and field in settings):
            fields[field] = dataclasses.replace(fields.get(field, part), **changes)
    of_solver = {name: _parse_value(value) for name, value in settings.items() if name not in (*known, *dotted)}
    if of_solver and solver.kind is not None:
        fields["solver"] = solver.kind(**of_solver)
    return kind(**defaults | fields)


def _defaults(kind: Any, method: str, settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Any]]:
    """The settings but for `recipe`, and the fields of the recipe that it names, by default of none."""
    rest = {name: value for name, value in settings.items() if name != "recipe"}
    if "recipe" not in settings:
        return rest, {}
    if settings["recipe"] != "control" or not hasattr(kind, "for_control"):
        raise ValueError(
            f"--set recipe must be control, of --method sampled-mce, airl or gail, but is {settings['recipe']!r} of "
            f"--method {method}."
        )
    recipe = kind.for_control()
    return rest, {field.name: getattr(recipe, field.name) for field in dataclasses.fields(kind)}


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


def _parts(kind: Any, defaults: Mapping[str, Any], settings: Mapping[str, str]) -> dict[str, Any]:
    """The sub-objects that an estimator's fields hold by default, by field; `--set learner=NAME` chooses another."""
    parts = {}
    for field in dataclasses.fields(kind):
        part = defaults.get(field.name, field.default)
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
    """The learner of a dynamics-free estimator: the default, or another by name, at the temperature of the default."""
    from irlax import rl

    learners = {"ppo": rl.PPO, "sac": rl.SAC}
    name = settings.get("learner", type(own).__name__).lower()
    if name not in learners:
        raise ValueError(f"--set learner must be ppo or sac, but is {settings['learner']!r}.")
    return own if isinstance(own, learners[name]) else learners[name](temperature=own.temperature)


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
    given: dict[str, Any] = {"key": jax.random.key(key)} if "key" in known else {}
    if "held_out" in known:
        given["held_out"] = problem.held_out
    elif problem.held_out is not None:
        raise ValueError(f"--held-out does not apply to {type(estimator).__name__}.")
    return estimator.fit(problem.mdp, reward, problem.demos, **given)
