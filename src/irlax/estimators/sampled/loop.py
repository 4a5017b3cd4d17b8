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

from irlax.demos import Demonstrations
from irlax.envs.environment import AbstractEnvironment
from irlax.envs.experience import Runner, Transition, collect_episodes, collect_steps, init_runners
from irlax.envs.replayed import ReplayedRunner
from irlax.estimators.sampled.estimator import AbstractSampledIRL, Info, State
from irlax.estimators.sampled.sampled_fit import ImitationFit, SampledFit, finished
from irlax.estimators.sampled.steps import Steps
from irlax.estimators.sampled.validation import check_environment, validate
from irlax.iteration import AbstractResumable, History, Iterate, Session, Watch, from_arrays, to_arrays
from irlax.registry import to_parts
from irlax.rewards import AbstractObservedReward, ScaledObservedReward
from irlax.rewards.observed import has_end
from irlax.rl.learner import AbstractLearner
from irlax.rl.sac import SACAgent
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
    check_environment(env)
    estimator = estimator.for_problem(env)
    prepared, expert = validate(estimator, env, demos, init_reward, num)
    started = time.monotonic()
    # Networks are trained in single precision, whatever the user's flag says.
    with jax.enable_x64(False):
        fit_key, last_key = jr.split(key)
        keys = fit_key if num is None else jr.split(fit_key, num)
        task = _task(prepared, env, expert, init_reward, key=keys)
        rounds = FitRounds(
            prepared, task, identity_of(env), identity_of(init_reward), env.horizon, demos.has_actions, expert, keys
        )
        total = prepared.rounds.num * rounds.steps_per_round
        with Session(type(estimator).__name__, total=total, watch=watch) as session:
            after, status = session.run(rounds)
        seconds, history = time.monotonic() - started, History.of(session.history)
        ended = _Ended(after.acting.state, status, history, seconds)
        fits = _results(estimator, env, demos, ended, key=last_key)
    for done in fits:
        warn_unless_success(done.status)
    return fits


class AfterRound(NamedTuple):
    """The state after some rounds, the gaps of all of them, the numbers of the last, and the time that they took."""

    acting: "Acting"
    gaps: Float[np.ndarray, "rounds *fits"]
    numbers: dict[str, Any] | None
    timer: "Timer"


class Timer(NamedTuple):
    """Seconds until a moment of this process's clock, those before the fit was resumed among them."""

    seconds: float
    moment: float

    @classmethod
    def started(cls, seconds: float = 0.0) -> "Timer":
        """After so many seconds, now."""
        return cls(seconds, time.monotonic())

    def again(self) -> "Timer":
        """Now."""
        moment = time.monotonic()
        return Timer(self.seconds + moment - self.moment, moment)


class FitRounds(AbstractResumable[AfterRound]):
    """An estimator at work, round by round."""

    estimator: AbstractSampledIRL
    task: "_Task"
    environment: str | None
    init_reward: str | None
    horizon: int
    #: Whether the demonstrations have actions: else their likelihood is not known.
    has_actions: bool
    expert: Steps
    keys: Key[Array, "*num"]

    @property
    def steps_per_round(self) -> int:
        """Environment steps of each fit in a round."""
        return self.estimator.rounds.steps_for(self.horizon)

    def init(self) -> AfterRound:
        timer = Timer.started()
        return AfterRound(self.task.init(), np.zeros((0, *self.keys.shape)), None, timer)

    def step(self, state: AfterRound) -> AfterRound:
        number, timer = len(state.gaps), state.timer.again()
        rate = jnp.asarray(1 - self.estimator.rounds.done(number, timer.seconds), jnp.float32)
        after, info = self.task.step(state.acting, number, rate)
        numbers = _numbers(info, (number + 1) * self.steps_per_round)
        if not self.has_actions:
            numbers["log_likelihood"] = np.full(self.keys.shape, np.nan).tolist()
        return AfterRound(after, np.concatenate([state.gaps, np.asarray(numbers["gap"])[None]]), numbers, timer.again())

    def status(self, state: AfterRound) -> Status | None:
        if not len(state.gaps):
            return None
        if self.estimator.rounds.closed(state.gaps).all():
            return Status.CONVERGED
        done = self.estimator.rounds.done(len(state.gaps), state.timer.seconds)
        return Status.TRAINED if done == 1 else None

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
        runner = self.task.runner
        on_host = runner.snapshot() if runner is not None and len(state.gaps) else []
        sizes = np.asarray([len(on_host), state.timer.seconds])
        return [state.gaps, sizes, *on_host, *to_arrays(eqx.filter(state.acting, eqx.is_array))]

    def restore(self, arrays: list[np.ndarray]) -> AfterRound:
        # Not only its shapes: a state may hold what is no array, such as the settings of a reward.
        first, rest = eqx.partition(self.task.init(), eqx.is_array)
        gaps, (on_host, seconds) = arrays[:2]
        num = 2 + int(on_host)
        if self.task.runner is not None and len(gaps):
            self.task.runner.restore(arrays[2:num], len(gaps) - 1)
        acting = eqx.combine(from_arrays(arrays[num:], first), rest)
        return AfterRound(acting, gaps, None, Timer.started(float(seconds)))


class _Task(NamedTuple):
    """The first state, and the state after another round: in JAX, or with the environment on the host."""

    init: Callable[[], "Acting"]
    step: Callable[["Acting", int, Any], tuple["Acting", Info]]
    #: The environments on the host, which are no part of a state.
    runner: ReplayedRunner | None = None


class Acting(NamedTuple):
    """An estimator's state, and the environments in the middle of their episodes where rounds go on in them."""

    state: State
    #: Of environments in JAX, with `rounds.steps`.
    runners: Runner | None


def _task(
    estimator: AbstractSampledIRL, env: Any, expert: Steps, init_reward: Any, *, key: Key[Array, "*num"]
) -> _Task:
    """`key` is one key, or one for each of several fits side by side."""
    init_key, rounds_key, seed_key = _split(key, 3)
    # Numbers of the host, which the first state copies: a state is donated to the next one.
    actions, start = jax.tree.map(np.asarray, (env.actions, eqx.filter(init_reward, eqx.is_array)))
    start = eqx.combine(start, init_reward)

    def init() -> Acting:
        sizes = env.observation_size, env.horizon
        state = _init(estimator, actions, sizes, expert, init_reward=start, key=init_key)
        in_jax = isinstance(env, AbstractEnvironment) and estimator.rounds.steps is not None
        return Acting(state, _init_runners(env, estimator.learner, key=init_key) if in_jax else None)

    def step_in_jax(acting: Acting, number: int, rate: Any) -> tuple[Acting, Info]:
        return _round((estimator, env, expert, rate, _fold(rounds_key, number)), acting)

    if isinstance(env, AbstractEnvironment):
        return _Task(init, step_in_jax)
    runner = ReplayedRunner(env, estimator.learner.length, key=seed_key)

    def step_on_host(acting: Acting, number: int, rate: Any) -> tuple[Acting, Info]:
        collect_key, step_key = jr.split(_fold(rounds_key, number))
        length, explore = estimator.learner.length, estimator.rounds.explore
        rollout, returns = runner.collect(acting.state.policy, length, explore, number=number, key=collect_key)
        state, info = _step((estimator, expert, rollout, rate, step_key), acting.state)
        if estimator.rounds.steps is not None:
            info = {"return": jnp.asarray(np.mean(returns) if returns else np.nan), **info}
        return Acting(state, None), info

    return _Task(init, step_on_host, runner)


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
def _init_runners(env: AbstractEnvironment, learner: AbstractLearner, *, key: Any) -> Runner:
    def one(key: PRNGKeyArray) -> Runner:
        return init_runners(env, learner.num_envs, learner.first_policy(env.actions), key=jr.fold_in(key, 1))

    return one(key) if key.ndim == 0 else jax.vmap(one)(key)


# States are donated to the next ones, so that a replay buffer is not copied in every round.
@eqx.filter_jit(donate="all-except-first")
def _round(
    fixed: tuple[AbstractSampledIRL, AbstractEnvironment, Steps, Any, Any], acting: Acting
) -> tuple[Acting, Info]:
    estimator, env, expert, rate, key = fixed

    def one(acting: Acting, key: PRNGKeyArray) -> tuple[Acting, Info]:
        collect_key, step_key = jr.split(key)
        (state, runners), learner, explore = acting, estimator.learner, estimator.rounds.explore
        if runners is None:
            num = estimator.rounds.episodes_for(env.horizon)
            rollout = collect_episodes(env, state.policy, num, explore=explore, key=collect_key)
            state, info = estimator.step(state, expert, rollout, rate=rate, key=step_key)
            return Acting(state, None), info
        runners, rollout, finished = collect_steps(
            env, state.policy, runners, length=learner.length, explore=explore, key=collect_key
        )
        state, info = estimator.step(state, expert, rollout, rate=rate, key=step_key)
        return Acting(state, runners), {"return": finished.mean, **info}

    return one(acting, key) if key.ndim == 0 else eqx.filter_vmap(one)(acting, key)


@eqx.filter_jit(donate="all-except-first")
def _step(fixed: tuple[AbstractSampledIRL, Steps, Transition, Any, PRNGKeyArray], state: State) -> tuple[State, Info]:
    estimator, expert, rollout, rate, key = fixed
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


def _at_temperature_one(state: State) -> AbstractObservedReward:
    r"""The reward for which the policy is soft-optimal at temperature 1.

    The learner maximises the sum of $r + \alpha H - \lambda\bar H$ until the end and of $\bar r$ after it. Divided by
    α, and with $\lambda\bar H / \alpha$ more at every step, those after the end included, that is the sum of
    $r/\alpha + H$ until the end and of $(\bar r + \lambda\bar H) / \alpha$ after it.
    """
    if not isinstance(state.agent, SACAgent):
        return state.reward
    temperature, price = float(state.agent.temperature), float(state.agent.learned.price)
    if np.isclose(temperature, 1) and not price:
        return state.reward
    more_after_end = price / temperature if has_end(state.reward) else 0.0
    return ScaledObservedReward(state.reward.over, state.reward, 1 / temperature, more_after_end)


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
                learned=_at_temperature_one(one) if estimator.learns_reward else None,
                status=Status.CONVERGED if closed[k] else unfinished,
                history=History(own),
                seconds=ended.seconds / len(closed),
                key=jr.fold_in(key, k),
            )
        )
    return fits
