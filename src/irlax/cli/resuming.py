"""What `irlax fit --resume` finds in the folder, and whether that is what is asked for now."""

import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from irlax.cli.inputs import Problem
from irlax.demos import Demonstrations
from irlax.estimators.tabular.apprenticeship import log_likelihood_of
from irlax.estimators.tabular.expert import Expert
from irlax.estimators.tabular.fit import TabularFit, total_log_likelihood
from irlax.estimators.tabular.fitting import matched
from irlax.estimators.tabular.storage import Run, load_run
from irlax.precision import scope
from irlax.rewards import AbstractReward

#: Settings that say how an optimum is looked for, not of what: a fit may be gone on with under others.
HOW = ("solver", "tol", "max_steps", "low_memory")
#: Settings that change nothing, or show in the start distribution, which is compared itself.
_BESIDE = ("progress", "start")
#: The name of the fact that a fit with l2 = "cv" has.
CHOSEN = "l2 by cross-validation"
_ADVICE = "Give another --out, or leave out --resume to begin anew."


class Earlier(NamedTuple):
    """The fit in the folder, and whether nothing is left to do."""

    fit: TabularFit
    finished: bool


def asked_of(estimator: Any, key: int) -> dict[str, Any]:
    """What a command asks for, as plain values: kept with the fit, to be compared when it is resumed."""
    fields = [field.name for field in dataclasses.fields(estimator) if field.name not in _BESIDE]
    asked = {name: _plain(getattr(estimator, name)) for name in fields}
    return asked | ({"key": key} if "key" in inspect.signature(estimator.fit).parameters else {})


def earlier(path: Path, estimator: Any, problem: Problem, asked: Mapping[str, Any]) -> Earlier:
    """The fit to go on from; a ValueError that names what differs, if it is a fit of something else."""
    if not path.exists():
        raise ValueError(f"There is no fit at {path} to go on from. Leave out --resume to begin one.")
    run = load_run(path)
    method = type(estimator).__name__
    if run.fit.method != method:
        raise ValueError(f"The fit at {path} differs: {_line('method', method, run.fit.method)}. {_ADVICE}")
    there = _settings_of(run)
    others = {name: _line(name, value, there[name]) for name, value in asked.items() if value != there.get(name, value)}
    what = [line for name, line in others.items() if name not in HOW]
    what += _other_problem(run.fit, estimator, problem)
    if what:
        raise ValueError(f"The fit at {path} differs: {'; '.join(what)}. {_ADVICE}")
    finished = run.fit.converged and not others
    if finished:
        print(f"irlax: the fit at {path} is finished already.", file=sys.stderr)
    elif others:
        print(
            f"irlax: going on from the fit at {path} with other settings: {'; '.join(others.values())}.",
            file=sys.stderr,
        )
    return Earlier(run.fit, finished)


def scored(fit: TabularFit, held_out: Demonstrations) -> TabularFit:
    """A finished fit with the score of these demonstrations, whichever it had before."""
    unseen = Expert.of(fit.mdp, held_out, None, "mdp")
    policy = fit.given_policy
    score = total_log_likelihood(fit.plan, unseen) if policy is None else log_likelihood_of(policy, unseen)
    return dataclasses.replace(fit, held_out_log_likelihood=score)


def _settings_of(run: Run) -> dict[str, Any]:
    """What was asked for when the fit was made; of one that was saved in Python, what its summary shows of that."""
    if run.asked:
        return dict(run.asked)
    chosen = any(extra.name == CHOSEN for extra in run.fit.extras)
    return dict(run.fit.settings) | ({"l2": "cv"} if chosen else {})


def _other_problem(fit: TabularFit, estimator: Any, problem: Problem) -> Iterator[str]:
    """What else the fit was made from than this problem."""
    with scope():
        (reward,), (expert,) = matched(problem.mdp, problem.reward, problem.demos, None, estimator.start)
    mdp, there = expert.mdp, fit.mdp
    if len(fit.experts) != 1:
        yield f"{len(fit.experts)} MDPs are in the folder"
    if float(mdp.discount) != float(there.discount):
        yield _line("discount", float(mdp.discount), float(there.discount))
    if mdp.horizon != there.horizon:
        yield _line("horizon", mdp.horizon, there.horizon)
    if not _same((mdp.dynamics, mdp.rows, mdp.mask), (there.dynamics, there.rows, there.mask)):
        yield "another MDP"
    if not _same(expert.demos, fit.experts[0].demos):
        yield "other demonstrations"
    elif not _same(mdp.initial, there.initial):
        yield "another start distribution"
    if not _same_reward(reward, fit.reward):
        yield "other features, or another kind of reward"


def _same_reward(one: AbstractReward, other: AbstractReward) -> bool:
    """Whether two rewards are alike but for their parameters' values."""
    alike = type(one) is type(other) and one.parameter_names() == other.parameter_names()
    return alike and _same(one.with_parameters(other.parameters), other)


def _same(one: Any, other: Any) -> bool:
    """Whether two trees hold the same arrays."""
    leaves, others = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(leaves) == len(others) and all(map(np.array_equal, leaves, others))


def _line(name: str, asked: Any, there: Any) -> str:
    return f"{name}: {asked!r} asked, {there!r} in the folder"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    # A solver or a prior.
    parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    shown = (f"{name}={part:.12g}" if isinstance(part, float) else f"{name}={part}" for name, part in parts.items())
    return f"{type(value).__name__}({', '.join(shown)})"
