"""How `irlax fit` fits: an estimator from flags, a fit that survives an interruption, and its continuation."""

import dataclasses
import importlib
import inspect
import re
import sys
import time
import typing
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import rl
from irlax.cli.inputs import Problem
from irlax.cli.interrupts import Interrupt
from irlax.cli.resuming import CHOSEN
from irlax.estimators.status import Status
from irlax.estimators.tabular.cross_validation import chosen_l2
from irlax.estimators.tabular.fit import Extra, History, TabularFit
from irlax.estimators.tabular.fitting import matched
from irlax.estimators.tabular.mce import MCEIRL
from irlax.estimators.tabular.problem import Flattening
from irlax.estimators.tabular.solvers import SOLVERS, Iterate, Newton
from irlax.precision import scope
from irlax.rewards import AbstractReward

#: The module and the class of each method.
METHODS = {
    "mce": ("tabular.mce", "MCEIRL"),
    "maxent": ("tabular.maxent", "MaxEntIRL"),
    "apprenticeship": ("tabular.apprenticeship", "ApprenticeshipIRL"),
    "bayesian": ("tabular.bayesian", "BayesianIRL"),
    "two-step": ("tabular.two_step", "TwoStepIRL"),
    "airl": ("sampled.airl", "AIRL"),
    "sampled-mce": ("sampled.mce_sampled", "SampledMCEIRL"),
    "gcl": ("sampled.gcl", "GCL"),
    "gan-gcl": ("sampled.gan_gcl", "GANGCL"),
    "gail": ("sampled.gail", "GAIL"),
    "cloning": ("sampled.cloning", "BehaviouralCloning"),
}
#: Those that act in an environment, because they do not know its dynamics.
ACTING = tuple(name for name, (module, _) in METHODS.items() if module.startswith("sampled."))
_WORDS = {"true": True, "false": False, "none": None}


def estimator_of(method: str, options: Mapping[str, Any], settings: Mapping[str, str]) -> Any:
    """The estimator with the given options and settings: its own, those of its parts (dotted) and of its solver."""
    module, name = METHODS[method]
    kind = getattr(importlib.import_module(f"irlax.estimators.{module}"), name)
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
    solver = _Solver.of(fields) if "solver" in known else _Solver("none", None)
    # A part as a whole is a learner by its name, or written out, such as a prior.
    whole = {name: value for name, value in settings.items() if isinstance(_parsed(value), eqx.Module)}
    own = [name for name in known if name not in parts or name == "learner" or name in whole]
    unknown = [name for name in settings if name not in (*own, *dotted, *solver.settings)]
    if unknown:
        more = f", and of --solver {solver.name}: {', '.join(solver.settings)}" if solver.settings else ""
        raise ValueError(
            f"--set takes NAME=VALUE, but knows no name {unknown[0]!r}. Settings of --method {method}: "
            f"{', '.join([*own, *dotted])}{more}."
        )
    fields |= {name: _parsed(value) for name, value in settings.items() if name in own and name != "learner"}
    inside |= {dotted[name]: _parsed(value) for name, value in settings.items() if name in dotted}
    for field, part in parts.items():
        changes = {name: value for (where, name), value in inside.items() if where == field}
        if changes or (field == "learner" and field in settings):
            fields[field] = dataclasses.replace(fields.get(field, part), **changes)
    of_solver = {name: _parsed(value) for name, value in settings.items() if name not in (*known, *dotted)}
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


def run(estimator: Any, problem: Problem, interrupt: Interrupt, *, key: int, earlier: TabularFit | None) -> TabularFit:
    """Fit; when interrupted, the best iterate so far, marked unfinished. KeyboardInterrupt if there is none yet."""
    began = time.perf_counter()
    reward = problem.reward if earlier is None else earlier.reward
    estimator, extras = _with_l2(estimator, problem, earlier)
    best = Best(interrupt)
    try:
        # Features of 1e200 overflow; what comes of it is judged by the result.
        with np.errstate(all="ignore"):
            fit = _fitted(estimator, problem, reward, key=key, callback=best)
        history = fit.history
    except KeyboardInterrupt:
        fit, history = _interrupted(estimator, problem, reward, best), best.history
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(fit.reward.parameters)):
        raise ValueError("The fit broke down: its parameters are not finite. Are the features of a sensible size?")
    seconds = time.perf_counter() - began
    if earlier is not None:
        # The first iterate is where the earlier fit ended.
        seconds += earlier.seconds
        loss, gradient = (
            np.concatenate([getattr(earlier.history, name), getattr(history, name)[1:]])
            for name in ("loss", "gradient")
        )
        history = History(loss, gradient)
    return dataclasses.replace(fit, history=history, seconds=seconds, extras=(*extras, *fit.extras))


class Best:
    """Listens to a solver, remembers the best iterate and the way to it, and ends the fit when that was asked for."""

    def __init__(self, interrupt: Interrupt) -> None:
        self.iterate: Iterate | None = None
        self._seen: list[tuple[float, float]] = []
        self._interrupt = interrupt

    def __call__(self, iterate: Iterate) -> None:
        """Take note of an iterate."""
        self._seen.append((iterate.loss, iterate.gradient))
        if np.isfinite(iterate.loss) and (self.iterate is None or iterate.loss < self.iterate.loss):
            self.iterate = iterate
            self._interrupt.kept = True
        if self._interrupt.asked:
            raise KeyboardInterrupt

    @property
    def history(self) -> History:
        """The objective and the size of its gradient at all iterates."""
        loss, gradient = np.array(self._seen, float).reshape(-1, 2).T
        return History(loss, gradient)


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


def _with_l2(estimator: Any, problem: Problem, earlier: TabularFit | None) -> tuple[Any, tuple[Extra, ...]]:
    """The estimator with its penalty chosen, where that was asked for; an interrupted fit has it chosen already."""
    if getattr(estimator, "l2", None) != "cv":
        return estimator, ()
    extras = () if earlier is None else earlier.extras
    if not any(extra.name == CHOSEN for extra in extras):
        with scope():
            parts = matched(problem.mdp, problem.reward, problem.demos, None, estimator.start)
        best, score = chosen_l2(estimator, *parts)
        extras = (Extra(CHOSEN, best), Extra("held-out log likelihood a choice", score))
    (l2,) = (extra.value for extra in extras if extra.name == CHOSEN)
    return dataclasses.replace(estimator, l2=l2), extras


def _fitted(estimator: Any, problem: Problem, reward: AbstractReward, *, key: int, callback: Any) -> TabularFit:
    """One call of `fit`, with those arguments that this estimator knows."""
    known = inspect.signature(estimator.fit).parameters
    options = {"held_out": problem.held_out, "callback": callback, "key": jax.random.key(key)}
    if problem.held_out is not None and "held_out" not in known:
        raise ValueError(f"--held-out does not apply to {type(estimator).__name__}.")
    return estimator.fit(
        problem.mdp, reward, problem.demos, **{name: value for name, value in options.items() if name in known}
    )


def _interrupted(estimator: Any, problem: Problem, reward: AbstractReward, best: Best) -> TabularFit:
    """The fit of the best iterate: no step is taken from it."""
    if best.iterate is None:
        raise KeyboardInterrupt
    print(
        f"irlax: interrupted after step {best.iterate.step}. The best iterate is kept; --resume goes on from it.",
        file=sys.stderr,
    )
    with scope():
        tree = Flattening.of(reward.parameters).unflatten(jnp.asarray(best.iterate.parameters))
        here = reward.with_parameters(jax.tree.map(np.asarray, tree))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = _fitted(_standing(estimator), problem, here, key=0, callback=None)
    settings = fit.settings if fit.method == type(estimator).__name__ else ()
    return dataclasses.replace(fit, method=type(estimator).__name__, settings=settings, status=Status.INTERRUPTED)


def _standing(estimator: Any) -> Any:
    """The estimator without its steps; for one that samples, the one whose optimum it samples around."""
    names = [field.name for field in dataclasses.fields(estimator)]
    if "solver" in names:
        return dataclasses.replace(estimator, solver=Newton(max_steps=0))
    if "max_steps" in names:
        return dataclasses.replace(estimator, max_steps=0)
    return MCEIRL(objective=estimator.likelihood, solver=Newton(max_steps=0), start=estimator.start)
