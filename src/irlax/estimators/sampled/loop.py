"""The one loop of all dynamics-free estimators: collect, improve the reward, improve the policy."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.demos import Demonstrations
from irlax.envs.absorbing import refuse_variable_length
from irlax.envs.checking import check_demos
from irlax.envs.environment import AbstractEnvironment
from irlax.envs.gymnasium import GymnasiumEnvironment
from irlax.estimators.sampled.estimator import AbstractSampledIRL, Info, State, refuse_other_discount
from irlax.estimators.sampled.sampled_fit import SampledFit, finished
from irlax.estimators.sampled.steps import Steps, of_demos
from irlax.progress import progress_bar
from irlax.rl.host import HostRunner
from irlax.rl.rollout import Transition, begin, collect
from irlax.status import Status, warn_unless_success
from irlax.typing import Array, Key, PRNGKeyArray

#: How far a single round may be from even, in units of what the mean may be, for a fit to stop.
SWING = 10


class Options(NamedTuple):
    """The arguments of `fit` that do not change what is learned."""

    callback: Callable[[dict[str, Any]], Any] | None
    shown: bool | None


def fit(
    estimator: AbstractSampledIRL,
    env: Any,
    demos: Demonstrations,
    reward: Any,
    options: Options,
    *,
    num: int | None,
    key: PRNGKeyArray,
) -> list[SampledFit]:
    """See `AbstractSampledIRL.fit`; with `num`, so many fits side by side."""
    estimator, expert = at_the_door(estimator, env, demos, reward, num)
    began = time.monotonic()
    # Networks are trained in single precision, whatever the user's flag says.
    with jax.enable_x64(False):
        fit_key, last_key = jr.split(key)
        drive = _driver(estimator, env, expert, reward, key=fit_key if num is None else jr.split(fit_key, num))
        state, lines, stopped = drive.begin(), [], False
        steps = estimator.episodes_for(env.horizon) * env.horizon
        with progress_bar(type(estimator).__name__, estimator.rounds * steps, shown=options.shown) as bar:
            for number in range(estimator.rounds):
                state, info = drive.advance(state, number, jnp.asarray(1 - number / estimator.rounds, jnp.float32))
                lines.append(_line(info, (number + 1) * steps))
                # Only True: what callbacks return otherwise, such as the length of what they wrote, means nothing.
                stopped = options.callback is not None and options.callback(dict(lines[-1])) is True
                bar.update((number + 1) * steps, _note(lines[-1], (number + 1) * steps / (time.monotonic() - began)))
                if stopped or _closed(estimator, lines).all():
                    break
        course = _Course(lines, time.monotonic() - began, stopped)
        fits = _results(estimator, env, demos, state, course, key=last_key)
    for done in fits:
        warn_unless_success(done.status)
    return fits


def at_the_door(
    estimator: AbstractSampledIRL, env: Any, demos: Any, reward: Any, num: int | None
) -> tuple[AbstractSampledIRL, Steps]:
    """Everything that can be wrong with the arguments; then the demonstrations as arrays, and the learner for them."""
    if not isinstance(env, (AbstractEnvironment, GymnasiumEnvironment)):
        raise TypeError(
            f"`env` must be an environment, but is a {type(env).__name__}. Make one with `envs.make(name)`, or of an "
            f"MDP with `envs.Tabular(mdp, reward, horizon=...)`."
        )
    check_demos(env, demos)
    refuse_variable_length(env, demos)
    if demos.next_observations is None:
        raise ValueError("These demonstrations lack `next_observations`, which rewards of steps are learned from.")
    if estimator.whole_episodes and (demos.lengths != env.horizon).any():
        raise ValueError(
            f"{type(estimator).__name__} compares whole episodes, of {env.horizon} steps in this environment, but "
            f"episodes {checks.places(demos.lengths != env.horizon)} are shorter. AIRL takes any steps."
        )
    refuse_other_discount(reward, estimator.discount)
    if num is not None:
        checks.count("num", num)
        if not isinstance(env, AbstractEnvironment):
            raise ValueError("Fits side by side need an environment in JAX, which this is not. Fit one by one.")
    episodes = estimator.episodes_for(env.horizon)
    if not isinstance(env, AbstractEnvironment) and env.num_envs != episodes:
        raise ValueError(
            f"A round takes {episodes} whole episodes, but the environment steps {env.num_envs} copies at a time. Say "
            f"`episodes={env.num_envs}`, or `make(..., num_envs={episodes})`."
        )
    with jax.enable_x64(False):
        expert = of_demos(demos, env.actions, estimator.discount)
        if estimator.whole_episodes:
            shape = (demos.num_episodes, env.horizon)
            expert = jax.tree.map(lambda array: array.reshape(*shape, *array.shape[1:]), expert)
    learner = estimator.learner.for_episodes(episodes, env.horizon)
    return dataclasses.replace(estimator, learner=learner), expert


class _Driver(NamedTuple):
    """How to begin and how to advance, wherever the environment lives."""

    begin: Callable[[], State]
    advance: Callable[[State, int, Any], tuple[State, Info]]


def _driver(estimator: AbstractSampledIRL, env: Any, expert: Steps, reward: Any, *, key: Key[Array, "*num"]) -> _Driver:
    """`key` is one key, or one for each of several fits side by side."""
    begin_key, rounds_key, seed_key = _split(key, 3)

    def begin() -> State:
        return _init(estimator, env.actions, (env.observation_size, env.horizon), expert, reward=reward, key=begin_key)

    def key_of(number: int) -> Key[Array, "*num"]:
        return _fold(rounds_key, number)

    if isinstance(env, AbstractEnvironment):
        return _Driver(
            begin,
            lambda state, number, rate: _round(estimator, env, state, expert, rate=rate, key=key_of(number)),
        )
    runner = HostRunner(estimator.learner, env, seed=int(jr.randint(seed_key, (), 0, 2**31 - 1)))

    def advance(state: State, number: int, rate: Any) -> tuple[State, Info]:
        collect_key, step_key = jr.split(key_of(number))
        rollout, _ = runner.collect(state.policy, env.horizon, estimator.explore, collect_key)
        return _step(estimator, state, expert, rollout, rate=rate, key=step_key)

    return _Driver(begin, advance)


def _split(key: Key[Array, "*num"], num: int) -> Any:
    return jr.split(key, num) if key.ndim == 0 else jnp.swapaxes(jax.vmap(lambda key: jr.split(key, num))(key), 0, 1)


def _fold(key: Key[Array, "*num"], number: int) -> Key[Array, "*num"]:
    return jr.fold_in(key, number) if key.ndim == 0 else jax.vmap(lambda key: jr.fold_in(key, number))(key)


@eqx.filter_jit
def _init(
    estimator: AbstractSampledIRL, actions: Any, sizes: tuple[int, int], expert: Steps, *, reward: Any, key: Any
) -> State:
    def one(key: PRNGKeyArray) -> State:
        return estimator.init(sizes[0], actions, sizes[1], expert, reward=reward, key=key)

    return one(key) if key.ndim == 0 else eqx.filter_vmap(one)(key)


def whole_episodes(
    env: AbstractEnvironment, policy: Any, num: int, *, explore: float = 0.0, key: PRNGKeyArray
) -> Transition:
    """Episodes [T, num] from their start to the horizon; a share of them, `explore`, begins with random actions."""
    begin_key, collect_key = jr.split(key)
    runners = jax.vmap(lambda key: begin(env, explore, key))(jr.split(begin_key, num))
    return collect(env, policy, runners, length=env.horizon, key=collect_key)[1]


@eqx.filter_jit
def _round(
    estimator: AbstractSampledIRL, env: AbstractEnvironment, state: State, expert: Steps, *, rate: Any, key: Any
) -> tuple[State, Info]:
    def advance(state: State, key: PRNGKeyArray) -> tuple[State, Info]:
        collect_key, step_key = jr.split(key)
        num, explore = estimator.episodes_for(env.horizon), estimator.explore
        rollout = whole_episodes(env, state.policy, num, explore=explore, key=collect_key)
        return estimator.step(state, expert, rollout, rate=rate, key=step_key)

    return advance(state, key) if key.ndim == 0 else eqx.filter_vmap(advance)(state, key)


@eqx.filter_jit
def _step(
    estimator: AbstractSampledIRL, state: State, expert: Steps, rollout: Transition, *, rate: Any, key: PRNGKeyArray
) -> tuple[State, Info]:
    return estimator.step(state, expert, rollout, rate=rate, key=key)


def _line(info: Info, steps: int) -> dict[str, Any]:
    """One line of the history: plain numbers, or lists of them for fits side by side."""
    numbers = {name: np.asarray(number, np.float64).tolist() for name, number in jax.device_get(info).items()}
    if not np.isfinite([numbers["reward_loss"], numbers["loss"]]).all():
        raise FloatingPointError(
            f"A loss is NaN or infinite after {steps} steps. Look at the demonstrations and the environment, or lower "
            f"`learning_rate`."
        )
    return {"steps": steps} | numbers


def _note(line: dict[str, Any], speed: float) -> str:
    gap, returned = np.mean(line["gap"]), np.mean(line["return"])
    share = f", effective share {np.mean(line['effective_share']):.2f}" if "effective_share" in line else ""
    return f"{speed:,.0f} steps/s, return {returned:.1f}, gap {gap:.2f}{share}"


def _closed(estimator: AbstractSampledIRL, lines: list[dict[str, Any]]) -> np.ndarray:
    """Whether expert and policy have earned the same of late, for each fit."""
    gaps = np.array([line["gap"] for line in lines[-estimator.patience :]])
    enough = len(gaps) == estimator.patience
    # A game that swings from side to side is even on average, too.
    steady = np.abs(gaps).max(axis=0) < SWING * estimator.tol
    return np.atleast_1d(enough & steady & (np.abs(gaps.mean(axis=0)) < estimator.tol))


def _results(
    estimator: AbstractSampledIRL,
    env: Any,
    demos: Demonstrations,
    state: State,
    course: "_Course",
    *,
    key: PRNGKeyArray,
) -> list[SampledFit]:
    """The last iterate of each fit."""
    many = state.rounds.ndim == 1
    closed = _closed(estimator, course.lines)
    fits = []
    for k in range(len(closed)):
        one = jax.tree.map(lambda leaf, k=k: leaf[k] if many and eqx.is_array(leaf) else leaf, state)
        fits.append(
            finished(
                estimator,
                env,
                demos,
                policy=one.policy,
                learned=one.reward if estimator.learns_reward else None,
                status=Status.CONVERGED if closed[k] else Status.INTERRUPTED if course.stopped else Status.TRAINED,
                history=course.of(k),
                seconds=course.seconds / len(closed),
                key=jr.fold_in(key, k),
            )
        )
    return fits


class _Course(NamedTuple):
    """The lines of all rounds, how long they took, and whether somebody stopped them."""

    lines: list[dict[str, Any]]
    seconds: float
    stopped: bool

    def of(self, k: int) -> dict[str, np.ndarray]:
        """The history of one fit."""
        columns = {name: np.array([line[name] for line in self.lines], np.float64) for name in self.lines[0]}
        return {name: column[:, k] if column.ndim == 2 else column for name, column in columns.items()}
