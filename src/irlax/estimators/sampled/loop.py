"""The rounds of all dynamics-free estimators, by the one driver: collect, improve the reward, improve the policy."""

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
from irlax.envs.experience import Transition, collect_episodes
from irlax.envs.gymnasium import GymnasiumEnvironment
from irlax.envs.host import HostRunner
from irlax.estimators.sampled.estimator import AbstractSampledIRL, Info, State, refuse_other_discount
from irlax.estimators.sampled.sampled_fit import ImitationFit, SampledFit, finished
from irlax.estimators.sampled.steps import Steps, steps_of_demos
from irlax.iteration import AbstractResumable, History, Iterate, Session, Watch, from_arrays, to_arrays
from irlax.registry import to_parts
from irlax.rewards import AbstractObservedReward
from irlax.run_folder import fingerprint, identity_of
from irlax.status import Status, warn_unless_success
from irlax.typing import Array, Float, Key, PRNGKeyArray


def fit(
    estimator: AbstractSampledIRL,
    env: Any,
    demos: Demonstrations,
    init_reward: AbstractObservedReward | None,
    watch: Watch,
    *,
    num: int | None,
    key: PRNGKeyArray,
) -> list[SampledFit | ImitationFit]:
    """See `AbstractSampledIRL.fit`; with `num`, so many fits side by side."""
    prepared, expert = validate(estimator, env, demos, init_reward, num)
    started = time.monotonic()
    # Networks are trained in single precision, whatever the user's flag says.
    with jax.enable_x64(False):
        fit_key, last_key = jr.split(key)
        keys = fit_key if num is None else jr.split(fit_key, num)
        task = _task(prepared, env, expert, init_reward, key=keys)
        rounds = FitRounds(prepared, task, identity_of(env), identity_of(init_reward), env.horizon, expert, keys)
        total = prepared.rounds.num * rounds.steps_per_round
        with Session(type(estimator).__name__, total=total, watch=watch) as session:
            after, status = session.run(rounds)
        seconds, history = time.monotonic() - started, History.of(session.history)
        ended = _Ended(after.state, status, history, seconds)
        fits = _results(estimator, env, demos, ended, key=last_key)
    for done in fits:
        warn_unless_success(done.status)
    return fits


def validate(
    estimator: AbstractSampledIRL, env: Any, demos: Any, init_reward: Any, num: int | None
) -> tuple[AbstractSampledIRL, Steps]:
    """Raise for arguments that do not fit; then the estimator with its learner for whole episodes, and the steps."""
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
    _check_reward(init_reward, estimator.discount)
    episodes = estimator.rounds.episodes_for(env.horizon)
    _check_copies(env, episodes, num)
    with jax.enable_x64(False):
        expert = steps_of_demos(demos, env.actions, estimator.discount)
        if estimator.whole_episodes:
            shape = (demos.num_episodes, env.horizon)
            expert = jax.tree.map(lambda array: array.reshape(*shape, *array.shape[1:]), expert)
    learner = estimator.learner.for_episodes(episodes, env.horizon)
    return dataclasses.replace(estimator, learner=learner), expert


def _check_reward(init_reward: Any, discount: float) -> None:
    if init_reward is not None and not isinstance(init_reward, AbstractObservedReward):
        raise TypeError(
            f"`init_reward` must be a reward of observations, such as the `learned` of an earlier fit, but is a "
            f"{type(init_reward).__name__}. A class of your own is one if it derives from "
            f"`irlax.rewards.AbstractObservedReward`."
        )
    refuse_other_discount(init_reward, discount)


def _check_copies(env: Any, episodes: int, num: int | None) -> None:
    if num is not None:
        checks.count("num", num)
    if isinstance(env, AbstractEnvironment):
        return
    if num is not None:
        raise ValueError("Fits side by side need an environment in JAX, which this is not. Fit one by one.")
    if env.num_envs != episodes:
        raise ValueError(
            f"A round takes {episodes} whole episodes, but the environment steps {env.num_envs} copies at a time. Say "
            f"`rounds=Rounds(episodes={env.num_envs})`, or `make(..., num_envs={episodes})`."
        )


class AfterRound(NamedTuple):
    """The state after some rounds, the gaps of all of them, and the numbers of the last."""

    state: State
    gaps: Float[np.ndarray, "rounds *fits"]
    numbers: dict[str, Any] | None


class FitRounds(AbstractResumable[AfterRound]):
    """An estimator at work, round by round."""

    estimator: AbstractSampledIRL
    task: "_Task"
    environment: str | None
    init_reward: str | None
    horizon: int
    expert: Steps
    keys: Key[Array, "*num"]

    @property
    def steps_per_round(self) -> int:
        """Environment steps of each fit in a round."""
        return self.estimator.rounds.episodes_for(self.horizon) * self.horizon

    def init(self) -> AfterRound:
        return AfterRound(self.task.init(), np.zeros((0, *self.keys.shape)), None)

    def step(self, state: AfterRound) -> AfterRound:
        number = len(state.gaps)
        rate = jnp.asarray(1 - number / self.estimator.rounds.num, jnp.float32)
        after, info = self.task.step(state.state, number, rate)
        numbers = _numbers(info, (number + 1) * self.steps_per_round)
        return AfterRound(after, np.concatenate([state.gaps, np.asarray(numbers["gap"])[None]]), numbers)

    def status(self, state: AfterRound) -> Status | None:
        if len(state.gaps) and self.estimator.rounds.closed(state.gaps).all():
            return Status.CONVERGED
        return Status.TRAINED if len(state.gaps) == self.estimator.rounds.num else None

    def iterates(self, state: AfterRound) -> list[Iterate]:
        return [] if state.numbers is None else [Iterate(state.numbers["steps"], state.numbers)]

    def identity(self) -> dict[str, Any]:
        return {
            "estimator": to_parts(dataclasses.replace(self.estimator, progress=None)).record,
            "environment": self.environment,
            "init_reward": self.init_reward,
            "demonstrations": fingerprint(self.expert),
            "key": np.asarray(jr.key_data(self.keys)).tolist(),
        }

    def snapshot(self, state: AfterRound) -> list[np.ndarray]:
        return [state.gaps, *to_arrays(eqx.filter(state.state, eqx.is_array))]

    def restore(self, arrays: list[np.ndarray]) -> AfterRound:
        # Not only its shapes: a state may hold what is no array, such as the settings of a reward.
        first, rest = eqx.partition(self.task.init(), eqx.is_array)
        return AfterRound(eqx.combine(from_arrays(arrays[1:], first), rest), arrays[0], None)


class _Task(NamedTuple):
    """The first state, and the state after another round: in JAX, or with the environment on the host."""

    init: Callable[[], State]
    step: Callable[[State, int, Any], tuple[State, Info]]


def _task(
    estimator: AbstractSampledIRL, env: Any, expert: Steps, init_reward: Any, *, key: Key[Array, "*num"]
) -> _Task:
    """`key` is one key, or one for each of several fits side by side."""
    init_key, rounds_key, seed_key = _split(key, 3)

    def init() -> State:
        sizes = env.observation_size, env.horizon
        return _init(estimator, env.actions, sizes, expert, init_reward=init_reward, key=init_key)

    def step_in_jax(state: State, number: int, rate: Any) -> tuple[State, Info]:
        return _round(estimator, env, state, expert, rate=rate, key=_fold(rounds_key, number))

    if isinstance(env, AbstractEnvironment):
        return _Task(init, step_in_jax)
    runner = HostRunner(env, seed=int(jr.randint(seed_key, (), 0, 2**31 - 1)))

    def step_on_host(state: State, number: int, rate: Any) -> tuple[State, Info]:
        collect_key, step_key = jr.split(_fold(rounds_key, number))
        rollout, _ = runner.collect_steps(state.policy, env.horizon, estimator.rounds.explore, key=collect_key)
        return _step(estimator, state, expert, rollout, rate=rate, key=step_key)

    return _Task(init, step_on_host)


def _split(key: Key[Array, "*num"], num: int) -> Any:
    return jr.split(key, num) if key.ndim == 0 else jnp.swapaxes(jax.vmap(lambda key: jr.split(key, num))(key), 0, 1)


def _fold(key: Key[Array, "*num"], number: int) -> Key[Array, "*num"]:
    return jr.fold_in(key, number) if key.ndim == 0 else jax.vmap(lambda key: jr.fold_in(key, number))(key)


@eqx.filter_jit
def _init(
    estimator: AbstractSampledIRL, actions: Any, sizes: tuple[int, int], expert: Steps, *, init_reward: Any, key: Any
) -> State:
    def one(key: PRNGKeyArray) -> State:
        return estimator.init(sizes[0], actions, sizes[1], expert, init_reward=init_reward, key=key)

    return one(key) if key.ndim == 0 else eqx.filter_vmap(one)(key)


@eqx.filter_jit
def _round(
    estimator: AbstractSampledIRL, env: AbstractEnvironment, state: State, expert: Steps, *, rate: Any, key: Any
) -> tuple[State, Info]:
    def one(state: State, key: PRNGKeyArray) -> tuple[State, Info]:
        collect_key, step_key = jr.split(key)
        num, explore = estimator.rounds.episodes_for(env.horizon), estimator.rounds.explore
        rollout = collect_episodes(env, state.policy, num, explore=explore, key=collect_key)
        return estimator.step(state, expert, rollout, rate=rate, key=step_key)

    return one(state, key) if key.ndim == 0 else eqx.filter_vmap(one)(state, key)


@eqx.filter_jit
def _step(
    estimator: AbstractSampledIRL, state: State, expert: Steps, rollout: Transition, *, rate: Any, key: PRNGKeyArray
) -> tuple[State, Info]:
    return estimator.step(state, expert, rollout, rate=rate, key=key)


def _numbers(info: Info, steps: int) -> dict[str, Any]:
    """The numbers of a round, or lists of them for fits side by side; a FloatingPointError if losses are not finite."""
    numbers = {name: np.asarray(number, np.float64).tolist() for name, number in jax.device_get(info).items()}
    if not np.isfinite([numbers["reward_loss"], numbers["loss"]]).all():
        raise FloatingPointError(
            f"A loss is NaN or infinite after {steps} steps. Check the demonstrations and the environment, or lower "
            f"`learning_rate`."
        )
    return {"steps": steps} | numbers


class _Ended(NamedTuple):
    """Where fits ended, one or several side by side."""

    state: State
    status: Status
    history: History
    seconds: float


def _results(
    estimator: AbstractSampledIRL, env: Any, demos: Demonstrations, ended: _Ended, *, key: PRNGKeyArray
) -> list[SampledFit | ImitationFit]:
    """The last iterate of each fit."""
    many = ended.state.rounds.ndim == 1
    closed = np.atleast_1d(estimator.rounds.closed(ended.history["gap"]))
    fits = []
    for k in range(len(closed)):
        one = jax.tree.map(lambda leaf, k=k: leaf[k] if many and eqx.is_array(leaf) else leaf, ended.state)
        columns = {name: ended.history[name] for name in ended.history}
        own = {name: column[:, k] if column.ndim == 2 else column for name, column in columns.items()}
        unfinished = Status.INTERRUPTED if ended.status is Status.INTERRUPTED else Status.TRAINED
        fits.append(
            finished(
                estimator,
                env,
                demos,
                policy=one.policy,
                learned=one.reward if estimator.learns_reward else None,
                status=Status.CONVERGED if closed[k] else unfinished,
                history=History(own),
                seconds=ended.seconds / len(closed),
                key=jr.fold_in(key, k),
            )
        )
    return fits
