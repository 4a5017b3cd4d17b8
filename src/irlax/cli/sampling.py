"""The fit of `irlax fit` in an environment, whose dynamics are not known."""

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax.random as jr

from irlax import envs
from irlax.demos import Demonstrations, read_demos
from irlax.envs.absorbing import refuse_variable_length
from irlax.estimators.sampled import BehaviouralCloning
from irlax.estimators.store import is_run, load
from irlax.run_folder import CHECKPOINT, RunFolder

#: The word that stands for the demonstrations that come with the package, in place of a file.
EXPERT = "expert"


class Task(NamedTuple):
    """An environment by its name, and demonstrations in it."""

    name: str
    env: Any
    demos: Demonstrations


def make_env(name: str, num_envs: int, options: Mapping[str, Any] | None = None) -> Any:
    """The environment of a name; one of Gymnasium has `num_envs` copies that step together."""
    copies = {"num_envs": num_envs} if name.startswith("gymnasium:") else {}
    try:
        return envs.make(name, **copies | dict(options or {}))
    except TypeError as error:
        if options:
            raise ValueError(f"{name} does not take one of the settings --set env.NAME=VALUE: {error}") from None
        raise


def read(name: str, demos: Path, estimator: Any, options: Mapping[str, Any], names: Mapping[str, Any]) -> Task:
    """Make the environment and read the demonstrations, before anything is learned."""
    if Path(name).suffix == ".npz" or Path(name).exists():
        raise ValueError(
            f"{type(estimator).__name__} learns by acting in an environment, such as cartpole or gymnasium:ID, but got "
            f"the file {name}. For an MDP in a file use --method mce."
        )
    env = make_env(name, 1, options)
    acting = not isinstance(estimator, BehaviouralCloning)
    going_on = acting and estimator.for_problem(env).rounds.steps is not None
    if name.startswith("gymnasium:") and acting and not going_on:
        env = make_env(name, estimator.rounds.episodes_for(env.horizon), options)
    if str(demos) == EXPERT:
        observed = envs.expert_demos(name, **{key: value for key, value in options.items() if key == "after_end"})
    else:
        observed = read_demos(demos, **names)
    envs.check_demos(env, observed)
    if acting and not going_on:
        _check_length(name, env, observed)
    return Task(name, env, observed)


def run(estimator: Any, task: Task, folder: RunFolder, *, key: int) -> Any:
    """The fit, or when interrupted the fit so far, marked unfinished. KeyboardInterrupt if there is none yet.

    The folder holds its log and checkpoints meanwhile. To resume a fit that is finished is to read it.
    """
    out = Path(folder.path)
    if folder.resume and not (out / CHECKPOINT).exists():
        if not is_run(out):
            raise ValueError(f"There is no fit at {out} to resume. Leave out --resume to start one.")
        print(f"irlax: the fit at {out} is finished already.", file=sys.stderr)
        return load(out)
    if isinstance(estimator, BehaviouralCloning):
        # It takes seconds, and writes no checkpoints.
        fit = estimator.fit(task.env, task.demos, key=jr.key(key))
    else:
        if not folder.resume:
            (out / CHECKPOINT).unlink(missing_ok=True)
        fit = estimator.fit(task.env, task.demos, key=jr.key(key), run=folder)
    return dataclasses.replace(fit, environment=task.name)


def refuse(given: Mapping[str, Any], method: str) -> None:
    """Raise a ValueError for options that apply only if the dynamics are known."""
    advice = {
        "features": "Its reward is a network of observations.",
        "feature_names": "Its reward is a network of observations.",
        "reward": "Use --set reward.over=s, ss, sa or sas for what its reward may depend on.",
        "held_out": "Evaluate its policy in the environment instead.",
    }
    for name, value in given.items():
        if value:
            raise ValueError(f"--{name.replace('_', '-')} does not apply to --method {method}. {advice[name]}")


def _check_length(name: str, env: Any, demos: Demonstrations) -> None:
    """Check the lengths of episodes; the advice names the options of the command line."""
    if not env.fixed_horizon and name.startswith("gymnasium:"):
        raise ValueError(
            f"Episodes of {name} may end before its horizon of {env.horizon} steps, which would bias what is learned. "
            f"Use --set env.after_end=absorbing or --set env.after_end=fixed-horizon, which also extend demonstrations."
        )
    refuse_variable_length(env, demos)
