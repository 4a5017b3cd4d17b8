"""The previous fit of `irlax fit --resume`, and whether it is a fit of the same problem."""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.random as jr
import numpy as np

from irlax.cli.inputs import Problem
from irlax.demos import Demonstrations
from irlax.estimators.goals.goal_fit import GoalFit
from irlax.estimators.store import load
from irlax.estimators.tabular import TabularFit
from irlax.estimators.tabular.pairing import pair_up
from irlax.precision import scope
from irlax.rewards import AbstractReward

#: Settings of the search, not of the problem: a fit may be continued with other ones.
SEARCH_SETTINGS = ("solver", "tol", "max_steps", "low_memory")
#: Settings that are not compared: they have no effect, or the start distribution is compared instead.
_NOT_COMPARED = ("progress", "start")
_ADVICE = "Give another --out, or leave out --resume to start a new fit."


class PreviousFit(NamedTuple):
    """The fit in the folder, and whether it has converged with the same settings."""

    fit: TabularFit | GoalFit
    finished: bool

    def scored(self, held_out: Demonstrations) -> Any:
        """The fit with the log likelihood of these held-out demonstrations."""
        total = self.fit.score(held_out) * float(held_out.weights @ held_out.lengths)
        return dataclasses.replace(self.fit, held_out_log_likelihood=total)


def previous_fit(path: Path, estimator: Any, problem: Problem, key: int) -> PreviousFit:
    """The fit to continue; a ValueError that names the differences if it is a fit of another problem."""
    if not path.exists():
        raise ValueError(f"There is no fit at {path} to continue. Leave out --resume to start one.")
    fit = load(path)
    method = type(estimator).__name__
    if fit.method != method:
        raise ValueError(f"The fit at {path} differs: {_line('method', method, fit.method)}. {_ADVICE}")
    if not isinstance(fit, (TabularFit, GoalFit)):
        raise ValueError(f"A {method} fit cannot be continued. {_ADVICE}")
    others = dict(_other_settings(estimator, fit.estimator))
    differences = [line for name, line in others.items() if name not in SEARCH_SETTINGS]
    posterior = fit.posterior if isinstance(fit, TabularFit) else None
    if posterior is not None and not np.array_equal(posterior.key, jr.key_data(jr.key(key))):
        differences.append(f"another --key than {key}")
    differences += _other_problem(fit, estimator, problem)
    if differences:
        raise ValueError(f"The fit at {path} differs: {'; '.join(differences)}. {_ADVICE}")
    finished = fit.converged and not others
    if finished:
        print(f"irlax: the fit at {path} is already finished.", file=sys.stderr)
    elif others:
        print(
            f"irlax: continuing the fit at {path} with other settings: {'; '.join(others.values())}.",
            file=sys.stderr,
        )
    return PreviousFit(fit, finished)


def _other_settings(new: Any, old: Any) -> Iterator[tuple[str, str]]:
    """The names of settings in which two estimators of one class differ, each with a text for messages."""
    for name in (field.name for field in dataclasses.fields(new) if field.name not in _NOT_COMPARED):
        one, other = getattr(new, name), getattr(old, name)
        if one != other:
            yield name, _line(name, one, other)


def _other_problem(fit: TabularFit | GoalFit, estimator: Any, problem: Problem) -> Iterator[str]:
    """The differences between the problem of the fit and this one, as texts for messages."""
    if (problem.demos.goals is None) == isinstance(fit, GoalFit):
        yield f"the demonstrations in the folder have {'' if isinstance(fit, GoalFit) else 'no '}goals"
        return
    if isinstance(fit, GoalFit):
        reward, mdp, demos, observed = problem.reward, problem.mdp, problem.demos, fit.demos
    else:
        with scope():
            (reward,), (expert,) = pair_up(problem.mdp, problem.reward, problem.demos, None, estimator.start)
        mdp, demos, observed = expert.mdp, expert.demos, fit.experts[0].demos
    old = fit.mdp
    if isinstance(fit, TabularFit) and len(fit.experts) != 1:
        yield f"{len(fit.experts)} MDPs are in the folder"
    if float(mdp.discount) != float(old.discount):
        yield _line("discount", float(mdp.discount), float(old.discount))
    if mdp.horizon != old.horizon:
        yield _line("horizon", mdp.horizon, old.horizon)
    if not _same((mdp.dynamics, mdp.rows, mdp.mask), (old.dynamics, old.rows, old.mask)):
        yield "another MDP"
    if not _same(demos, observed):
        yield "other demonstrations"
    elif not _same(mdp.initial, old.initial):
        yield "another start distribution"
    if not _same_reward(reward, fit.reward):
        yield "other features, or another kind of reward"


def _same_reward(one: AbstractReward, other: AbstractReward) -> bool:
    """Whether two rewards are equal but for the values of their parameters."""
    same_kind = type(one) is type(other) and one.parameter_names() == other.parameter_names()
    return same_kind and _same(one.with_parameters(other.parameters), other)


def _same(one: Any, other: Any) -> bool:
    """Whether two trees hold the same arrays."""
    leaves, others = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(leaves) == len(others) and all(map(np.array_equal, leaves, others))


def _line(name: str, new: Any, old: Any) -> str:
    return f"{name}: {new!r} requested, {old!r} in the folder"
