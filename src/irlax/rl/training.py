"""Training a learner, by the one driver of iterations: progress, a log, and checkpoints to resume from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.envs.environment import AbstractEnvironment
from irlax.envs.experience import Transition
from irlax.envs.host import HostEnvironment, HostRunner
from irlax.envs.replayed import ReplayedRunner
from irlax.iteration import AbstractResumable, Callback, History, Iterate, Session, Watch, from_arrays, to_arrays
from irlax.registry import to_parts
from irlax.rl.learner import AbstractLearner, Metrics, State, check_spaces, rounds_for
from irlax.rl.policy_file import POLICY_FILE, save_policy
from irlax.run_folder import RunFolder, identity_of
from irlax.status import Status, warn_unless_success
from irlax.typing import Float, Int, PRNGKeyArray


class Options(NamedTuple):
    """The arguments of `train` that do not change what is learned."""

    steps: int | None
    seeds: int | None
    run: RunFolder | None
    callback: Callback | None
    progress: bool | None


class Training(eqx.Module):
    """The result of training. With `seeds`, policies and values have a leading axis, and curves a second one."""

    state: State
    #: Environment steps of each agent after each round.
    steps: Int[np.ndarray, " rounds"]
    #: The mean return of the episodes that ended in each round, NaN where none did.
    returns: Float[np.ndarray, "rounds *seeds"]
    losses: Float[np.ndarray, "rounds *seeds"]
    #: TRAINED, or INTERRUPTED.
    status: Status = eqx.field(static=True, default=Status.TRAINED)

    @property
    def policy(self) -> Any:
        """The policy at the end: `policy(observation, key=key)`."""
        return self.state.policy

    @property
    def value(self) -> Any:
        """Its soft value: `value(observation)`."""
        return self.state.agent.value

    @property
    def final_return(self) -> Float[np.ndarray, "*seeds"]:
        """The mean return over the last tenth of the rounds."""
        return _mean_of_known(self.returns[-max(1, len(self.returns) // 10) :])

    @property
    def best_policy(self) -> Any:
        """The policy, or that of the seed with the highest final return."""
        if self.returns.ndim == 1:
            return self.policy
        best = int(np.argmax(np.nan_to_num(self.final_return, nan=-np.inf)))
        return jax.tree.map(lambda leaf: leaf[best], self.policy)


def train(
    learner: AbstractLearner,
    env: Any,
    reward: Callable[..., Any] | None,
    options: Options,
    *,
    key: PRNGKeyArray,
) -> Training:
    """See `AbstractLearner.train`."""
    rounds = rounds_for(learner, _checked_steps(learner, env, options))
    # Networks are trained in single precision, whatever the user's flag says.
    with jax.enable_x64(False):
        task = _task(learner, env, reward, options.seeds, key=key)
        training = TrainingRounds(learner, task, identity_of(env), identity_of(reward), options.seeds, rounds, key)
        watch = Watch(options.progress, options.callback, options.run)
        with Session("Training", total=rounds * learner.steps_per_round, watch=watch) as session:
            trained, status = session.run(training)
        result = _result(trained.state, History.of(session.history), status)
        if options.run is not None:
            best = float(np.nanmax(result.final_return)) if np.isfinite(result.final_return).any() else None
            about = {"learner": type(learner).__name__, "environment": type(env).__name__, "final_return": best}
            save_policy(Path(options.run.path) / POLICY_FILE, result.best_policy, **about)
    warn_unless_success(status)
    return result


class Trained(NamedTuple):
    """The state of a learner after some rounds, and the numbers of the last of them."""

    state: State
    round: int
    numbers: dict[str, Any] | None


class TrainingRounds(AbstractResumable[Trained]):
    """A learner in training, round by round."""

    learner: AbstractLearner
    task: "_Task"
    environment: str | None
    reward: str | None
    seeds: int | None
    num: int
    key: PRNGKeyArray

    def init(self) -> Trained:
        return Trained(self.task.init(), 0, None)

    def step(self, state: Trained) -> Trained:
        rate = 1 - state.round / self.num if self.learner.anneal else 1.0
        after, metrics = self.task.step(state.state, state.round, jnp.asarray(rate, jnp.float32))
        return Trained(after, state.round + 1, _numbers(after, metrics))

    def status(self, state: Trained) -> Status | None:
        return Status.TRAINED if state.round == self.num else None

    def iterates(self, state: Trained) -> list[Iterate]:
        return [] if state.numbers is None else [Iterate(state.numbers["steps"], state.numbers)]

    def identity(self) -> dict[str, Any]:
        return {
            "learner": to_parts(self.learner).record,
            "environment": self.environment,
            "reward": self.reward,
            "key": np.asarray(jr.key_data(self.key)).tolist(),
            "seeds": self.seeds,
            "rounds": self.num,
        }

    def snapshot(self, state: Trained) -> list[np.ndarray]:
        runner = self.task.runner
        on_host = runner.snapshot() if runner is not None and state.round else []
        return [np.asarray(state.round), np.asarray(len(on_host)), *on_host, *to_arrays(state.state)]

    def restore(self, arrays: list[np.ndarray]) -> Trained:
        done, num = int(arrays[0]), 2 + int(arrays[1])
        # On the host an agent is made by steps that are random: its shapes cannot be found without taking them.
        like = self.task.init() if self.task.runner is not None else eqx.filter_eval_shape(self.task.init)
        if self.task.runner is not None and done:
            self.task.runner.restore(arrays[2:num], done - 1)
        return Trained(from_arrays(arrays[num:], like), done, None)


def _checked_steps(learner: AbstractLearner, env: Any, options: Options) -> int:
    steps = learner.steps if options.steps is None else checks.count("steps", options.steps)
    if options.seeds is not None:
        checks.count("seeds", options.seeds)
    if isinstance(env, AbstractEnvironment):
        return steps
    if not isinstance(env, HostEnvironment):
        raise TypeError(
            f"`env` must be an environment of irlax or of the host (irlax.envs.host.HostEnvironment), but is a "
            f"{type(env).__name__}. Make one with irlax.envs.make."
        )
    if options.seeds is not None:
        raise ValueError("`seeds` trains side by side inside JAX, which this environment cannot do. Train one by one.")
    if env.num_envs != learner.num_envs:
        raise ValueError(
            f"The environment steps {env.num_envs} copies at a time, but the learner has num_envs={learner.num_envs}. "
            f"Make the two equal."
        )
    return steps


class _Task(NamedTuple):
    """What is trained: the first state, and the state after another round, in which the given state is used up."""

    init: Callable[[], State]
    step: Callable[[State, int, Any], tuple[State, Metrics]]
    #: The environments on the host, which are no part of a state.
    runner: ReplayedRunner | None = None


def _task(learner: AbstractLearner, env: Any, reward: Any, seeds: int | None, *, key: PRNGKeyArray) -> _Task:
    """In JAX, or with the environment on the host."""
    if isinstance(env, AbstractEnvironment):
        keys = key if seeds is None else jr.split(key, seeds)
        return _Task(
            lambda: _init(learner, env, keys), lambda state, number, rate: _step((learner, env, reward, rate), state)
        )
    check_spaces(env.observation_size, env.actions)
    init_key, seed_key = jr.split(key)
    seed = int(jr.randint(seed_key, (), 0, 2**31 - 1))
    runner = ReplayedRunner(env, learner.length, key=seed_key)

    def init() -> State:
        agent_key, warmup_key, state_key = jr.split(init_key, 3)
        agent = _init_agent(learner, env.observation_size, env.actions, key=agent_key)
        if learner.warmup_length:
            first, steps = learner.first_policy(env.actions), learner.warmup_length
            batch, _ = HostRunner(env, seed=seed).collect_steps(first, steps, 0.0, key=warmup_key)
            agent = eqx.filter_jit(learner.add)(agent, batch)
        return State(agent, None, state_key, jnp.asarray(learner.warmup_steps, jnp.int32))

    def step(state: State, number: int, rate: Any) -> tuple[State, Metrics]:
        collect_key, learn_key, next_key = jr.split(state.key, 3)
        batch, returns = runner.collect(state.policy, learner.length, learner.explore, number=number, key=collect_key)
        agent, metrics = _learn((learner, batch, reward, rate, learn_key), state.agent)
        mean = np.mean(returns) if returns else np.nan
        metrics = {"return": jnp.asarray(mean), "episodes": jnp.asarray(float(len(returns))), **metrics}
        return State(agent, None, next_key, state.steps + learner.steps_per_round), metrics

    return _Task(init, step, runner)


@eqx.filter_jit
def _init(learner: AbstractLearner, env: AbstractEnvironment, keys: Any) -> State:
    if keys.ndim == 0:
        return learner.init(env, key=keys)
    return jax.vmap(lambda key: learner.init(env, key=key))(keys)


# The state is donated to the result, so that a replay buffer is not copied at every step.
@eqx.filter_jit(donate="all-except-first")
def _step(fixed: tuple[AbstractLearner, AbstractEnvironment, Any, Any], state: State) -> tuple[State, Metrics]:
    learner, env, reward, rate = fixed

    def one(state: State) -> tuple[State, Metrics]:
        state, metrics = learner.step(env, state, reward, rate=rate)
        assert state.runners is not None
        metrics["finite"] = jnp.isfinite(state.runners.observation).all()
        return state, metrics

    return one(state) if state.key.ndim == 0 else jax.vmap(one)(state)


# Compiled, so that no two of its arrays share memory: the agent is donated later.
@eqx.filter_jit
def _init_agent(learner: AbstractLearner, observation_size: int, actions: Any, *, key: PRNGKeyArray) -> Any:
    return learner.init_agent(observation_size, actions, key=key)


@eqx.filter_jit(donate="all-except-first")
def _learn(fixed: tuple[AbstractLearner, Transition, Any, Any, PRNGKeyArray], agent: Any) -> tuple[Any, Metrics]:
    learner, batch, reward, rate, key = fixed
    return learner.learn(agent, batch, reward, rate=rate, key=key)


def _numbers(state: State, metrics: Metrics) -> dict[str, Any]:
    """The numbers of a round, or lists of them with seeds; a FloatingPointError if they are not finite."""
    numbers = jax.device_get(metrics)
    finite = np.all(numbers.pop("finite", True))
    line = {"steps": int(np.max(state.steps))} | {name: np.asarray(number).tolist() for name, number in numbers.items()}
    if not finite or not np.isfinite(line["loss"]).all():
        what = "The loss" if finite else "An observation of the environment"
        raise FloatingPointError(
            f"{what} is NaN or infinite after {line['steps']} steps. Training stops; the last checkpoint remains. "
            f"Check the environment's rewards and observations, or lower the learning rate."
        )
    return line


def _mean_of_known(numbers: np.ndarray) -> np.ndarray:
    """The mean along the first axis of the numbers that are not NaN."""
    known = ~np.isnan(numbers)
    total, count = np.where(known, numbers, 0.0).sum(axis=0), known.sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _result(state: State, history: History, status: Status) -> Training:
    return Training(state, history["steps"].astype(np.int64), history["return"], history["loss"], status)
