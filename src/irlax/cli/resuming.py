"""What `irlax fit --resume` finds in the folder, and whether that is what is asked for now."""

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
from irlax.estimators.store import load
from irlax.estimators.tabular import TabularFit
from irlax.estimators.tabular.pairing import pair_up
from irlax.precision import scope
from irlax.rewards import AbstractReward

#: Settings that say how an optimum is looked for, not of what: a fit may be gone on with under others.
HOW = ("solver", "tol", "max_steps", "low_memory")
#: Settings that change nothing, or show in the start distribution, which is compared itself.
_BESIDE = ("progress", "start")
_ADVICE = "Give another --out, or leave out --resume to begin anew."


class Earlier(NamedTuple):
    """The fit in the folder, and whether nothing is left to do."""

    fit: TabularFit
    finished: bool


def earlier(path: Path, estimator: Any, problem: Problem, key: int) -> Earlier:
    """The fit to go on from; a ValueError that names what differs, if it is a fit of something else."""
    if not path.exists():
        raise ValueError(f"There is no fit at {path} to go on from. Leave out --resume to begin one.")
    fit = load(path)
    method = type(estimator).__name__
    if fit.method != method:
        raise ValueError(f"The fit at {path} differs: {_line('method', method, fit.method)}. {_ADVICE}")
    if not isinstance(fit, TabularFit):
        raise ValueError(f"A {method} fit cannot be gone on with. {_ADVICE}")
    others = dict(_other_settings(estimator, fit.estimator))
    what = [line for name, line in others.items() if name not in HOW]
    if fit.posterior is not None and not np.array_equal(fit.posterior.key, jr.key_data(jr.key(key))):
        what.append(f"another --key than {key}")
    what += _other_problem(fit, estimator, problem)
    if what:
        raise ValueError(f"The fit at {path} differs: {'; '.join(what)}. {_ADVICE}")
    finished = fit.converged and not others
    if finished:
        print(f"irlax: the fit at {path} is finished already.", file=sys.stderr)
    elif others:
        print(
            f"irlax: going on from the fit at {path} with other settings: {'; '.join(others.values())}.",
            file=sys.stderr,
        )
    return Earlier(fit, finished)


def scored(fit: TabularFit, held_out: Demonstrations) -> TabularFit:
    """A finished fit with the score of these demonstrations, whichever it had before."""
    total = fit.score(held_out) * float(held_out.weights @ held_out.lengths)
    return dataclasses.replace(fit, held_out_log_likelihood=total)


def _other_settings(asked: Any, there: Any) -> Iterator[tuple[str, str]]:
    """The settings in which two estimators of one class differ, each with a line about it."""
    for name in (field.name for field in dataclasses.fields(asked) if field.name not in _BESIDE):
        one, other = getattr(asked, name), getattr(there, name)
        if one != other:
            yield name, _line(name, one, other)


def _other_problem(fit: TabularFit, estimator: Any, problem: Problem) -> Iterator[str]:
    """What else the fit was made from than this problem."""
    with scope():
        (reward,), (expert,) = pair_up(problem.mdp, problem.reward, problem.demos, None, estimator.start)
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
