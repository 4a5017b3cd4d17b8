"""How `irlax fit` fits where the dynamics are not known: in an environment that has a name."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax.random as jr

from irlax import envs
from irlax.demos import Demonstrations, read_demos
from irlax.envs.absorbing import refuse_variable_length
from irlax.estimators.sampled import BehaviouralCloning, SampledFit

#: In place of a file: the demonstrations that ship with the package.
EXPERT = "expert"


class Task(NamedTuple):
    """An environment by its name, and demonstrations in it."""

    name: str
    env: Any
    demos: Demonstrations


def made(name: str, num_envs: int, options: Mapping[str, Any] | None = None) -> Any:
    """An environment; those of Gymnasium with as many copies as are to step at once."""
    copies = {"num_envs": num_envs} if name.startswith("gymnasium:") else {}
    try:
        return envs.make(name, **copies, **(options or {}))
    except TypeError as error:
        if options:
            raise ValueError(f"--set env.NAME=VALUE is not what {name} takes: {error}") from None
        raise


def read(name: str, demos: Path, estimator: Any, options: Mapping[str, Any], names: Mapping[str, Any]) -> Task:
    """Make the environment and read the demonstrations, before anything is learned."""
    if Path(name).suffix == ".npz" or Path(name).exists():
        raise ValueError(
            f"{type(estimator).__name__} learns by acting in an environment, such as cartpole or gymnasium:ID, but got "
            f"the file {name}. For an MDP in a file say --method mce."
        )
    env = made(name, 1, options)
    if name.startswith("gymnasium:") and not isinstance(estimator, BehaviouralCloning):
        env = made(name, estimator.rounds.episodes_for(env.horizon), options)
    if str(demos) == EXPERT:
        seen = envs.expert_demos(name, **{key: value for key, value in options.items() if key == "after_end"})
    else:
        seen = read_demos(demos, **names)
    envs.check_demos(env, seen)
    if not isinstance(estimator, BehaviouralCloning):
        _check_length(name, env, seen)
    return Task(name, env, seen)


def run(estimator: Any, task: Task, *, key: int) -> SampledFit:
    """Fit; when interrupted, the fit so far, marked unfinished. KeyboardInterrupt if there is none yet."""
    fit = estimator.fit(task.env, task.demos, key=jr.key(key))
    return dataclasses.replace(fit, environment=task.name)


def refuse(given: Mapping[str, Any], method: str) -> None:
    """Flags that mean something only where the dynamics are known."""
    advice = {
        "features": "It learns a network of observations.",
        "feature_names": "It learns a network of observations.",
        "reward": "Say --set reward.over=s, sa or sas for what its reward may depend on.",
        "held_out": "Evaluate its policy in the environment instead.",
        "resume": "It begins anew.",
    }
    for name, value in given.items():
        if value:
            raise ValueError(f"--{name.replace('_', '-')} does not apply to --method {method}. {advice[name]}")


def _check_length(name: str, env: Any, demos: Demonstrations) -> None:
    """The library's own check, with the cure that the command line has."""
    if not env.fixed_horizon and name.startswith("gymnasium:"):
        raise ValueError(
            f"Episodes of {name} may end before its horizon of {env.horizon} steps, which would bias what is learned. "
            f"Say --set env.after_end=absorbing or --set env.after_end=fixed-horizon; demonstrations go on alike."
        )
    refuse_variable_length(env, demos)
