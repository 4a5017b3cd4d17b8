"""What PPO and SAC have in common: an agent, environments side by side, and a step that advances both.

``state = learner.init(env, key=key)`` and ``state, metrics = learner.step(env, state, reward)`` are pure and may be
jitted. The reward is an argument, any callable pytree r(s, a, s'), so that new parameters of it compile nothing anew.
"""

import abc
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from irlax import checks
from irlax.envs.environment import AbstractEnvironment
from irlax.envs.experience import Runner, SamplingPolicy, Transition, UniformPolicy, collect_steps, init_runners
from irlax.iteration import Callback
from irlax.run_folder import RunLike, as_run_folder
from irlax.spaces import Box, Discrete
from irlax.typing import Array, Float, Int, PRNGKeyArray, Scalar

if TYPE_CHECKING:
    from irlax.rl.training import Training

#: Numbers to report, by name.
Metrics = dict[str, Float[Array, "..."]]


class State(eqx.Module):
    """An agent, which has a `policy` and a `value`, and the environments that it acts in."""

    agent: Any
    #: None where the environments are on the host.
    runners: Runner | None
    key: PRNGKeyArray
    #: Environment steps so far.
    steps: Int[Array, ""]

    @property
    def policy(self) -> Any:
        """The current policy."""
        return self.agent.policy


class AbstractLearner(eqx.Module):
    r"""A learner of the stationary policy that maximises the entropy-regularised return.

    $$\max_\pi \mathbb{E} \sum_t \gamma^t \bigl( r(s_t, a_t, s_{t+1}) - \alpha \log\pi(a_t|s_t) \bigr)$$

    The optimum is that of soft planning at temperature α. Truncated episodes are bootstrapped with the value of
    their last observation; terminated ones are not.
    """

    discount: eqx.AbstractVar[float]
    num_envs: eqx.AbstractVar[int]
    #: Steps of each environment between two rounds of learning.
    length: eqx.AbstractVar[int]
    #: The share of episodes that start with random actions.
    explore: eqx.AbstractVar[float]
    #: Whether `train` lowers the learning rate to zero over its rounds.
    anneal: eqx.AbstractVar[bool]
    #: How many steps `train` takes unless they are given.
    steps: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def warmup_length(self) -> int:
        """Random steps of each environment before the first round."""

    @abc.abstractmethod
    def init_agent(self, observation_size: int, actions: Discrete | Box, *, key: PRNGKeyArray) -> Any:
        """An agent before training."""

    @abc.abstractmethod
    def add(self, agent: Any, batch: Transition) -> Any:
        """The agent with random experience [time, environment] added to what it learns from later."""

    @abc.abstractmethod
    def learn(
        self, agent: Any, batch: Transition, reward: Callable[..., Any] | None, *, rate: Any, key: PRNGKeyArray
    ) -> tuple[Any, Metrics]:
        """The agent after learning from a batch [time, environment]; `rate` multiplies the learning rate."""

    @abc.abstractmethod
    def for_episodes(self, num: int, horizon: int) -> "AbstractLearner":
        """The same learner for rounds of `num` whole episodes."""

    @property
    def steps_per_round(self) -> int:
        """Environment steps that `step` takes."""
        return self.num_envs * self.length

    @property
    def warmup_steps(self) -> int:
        """Environment steps that `init` takes, with random actions."""
        return self.num_envs * self.warmup_length

    def first_policy(self, actions: Discrete | Box) -> SamplingPolicy | None:
        """Who takes random steps: with a share to explore None, whose actions are held for a while."""
        return None if self.explore else UniformPolicy(actions)

    def init(self, env: AbstractEnvironment, *, key: PRNGKeyArray) -> State:
        """A new agent, and environments at random times of their episodes."""
        check_spaces(env.observation_size, env.actions)
        agent_key, runners_key, warmup_key, state_key = jr.split(key, 4)
        agent = self.init_agent(env.observation_size, env.actions, key=agent_key)
        first = self.first_policy(env.actions)
        runners = init_runners(env, self.num_envs, first, key=runners_key)
        if self.warmup_length:
            runners, batch, _ = collect_steps(env, first, runners, length=self.warmup_length, key=warmup_key)
            agent = self.add(agent, batch)
        return State(agent, runners, state_key, jnp.asarray(self.warmup_steps, jnp.int32))

    def step(
        self,
        env: AbstractEnvironment,
        state: State,
        reward: Callable[..., Any] | None = None,
        *,
        rate: Scalar = 1.0,
    ) -> tuple[State, Metrics]:
        """Act for `length` steps in every environment, then learn, for `reward` or else the environment's own.

        `reward(observation, action, next_observation)` gives a number for one step. The metrics' "return" is the mean
        return, by the environment's own reward, of the episodes that ended in this step; NaN if there are none.
        """
        assert state.runners is not None
        collect_key, learn_key, next_key = jr.split(state.key, 3)
        runners, batch, finished = collect_steps(
            env, state.policy, state.runners, length=self.length, explore=self.explore, key=collect_key
        )
        agent, metrics = self.learn(state.agent, batch, reward, rate=rate, key=learn_key)
        metrics = {"return": finished.mean, "episodes": finished.count, **metrics}
        return State(agent, runners, next_key, state.steps + self.steps_per_round), metrics

    def train(
        self,
        env: Any,
        *,
        key: PRNGKeyArray,
        steps: int | None = None,
        seeds: int | None = None,
        reward: Callable[..., Any] | None = None,
        run: RunLike = None,
        callback: Callback | None = None,
        progress: bool | None = None,
    ) -> "Training":
        """Train for `steps` environment steps; `seeds` trains so many agents side by side, as one `vmap`.

        `env` is an `AbstractEnvironment`, or an object with numpy `reset(seed)` and `step(actions)` as
        `irlax.envs.host.HostEnvironment` says. In the folder `run` (see `irlax.RunFolder`) every round is logged, and
        checkpoints are written, from which a killed run is resumed; `policy.npz` is there at the end. `callback`
        receives every round as an `Iterate`, and may return True to stop. `progress` turns the progress bar on or off;
        by default it is shown on a terminal.
        """
        from irlax.rl.training import Options, train

        options = Options(steps, seeds, as_run_folder(run), callback, progress)
        return train(self, env, reward, options, key=key)


def check_spaces(observation_size: Any, actions: Any) -> None:
    """Observations are vectors; actions are one of finitely many, or lie in a bounded box."""
    checks.count("observation_size", observation_size)
    if not isinstance(actions, (Discrete, Box)):
        raise TypeError(f"Actions must be Discrete or a Box, but this environment has {type(actions).__name__}.")
    if isinstance(actions, Discrete):
        checks.count("actions.num", actions.num)
        return
    checks.finite("actions.low", actions.low)
    checks.finite("actions.high", actions.high)


def check_settings(learner: Any) -> None:
    """What all learners require of their fields."""
    checks.discount(learner.discount)
    for name in ("num_envs", "length", "steps", "width"):
        checks.count(name, getattr(learner, name))
    checks.count("depth", learner.depth, 0)
    checks.positive("learning_rate", learner.learning_rate)
    checks.one_of("activation", learner.activation, ("tanh", "relu"))
    if not 0 <= checks.positive("explore", learner.explore, zero=True) <= 1:
        raise ValueError(f"`explore` must lie in [0, 1], but is {learner.explore}.")


def flat(batch: Any) -> Any:
    """[time, environment, …] as rows."""
    return jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), batch)


def rewards_of_rows(rows: Transition, reward: Callable[..., Any] | None) -> Float[Array, "..."]:
    """The rewards of rows: by `reward`, or the environment's own if it is None."""
    if reward is None:
        return rows.reward
    return jax.vmap(reward)(rows.observation, rows.action, rows.next_observation)


def rounds_for(learner: AbstractLearner, steps: int) -> int:
    """How many rounds make up so many environment steps, the random ones at the start included."""
    return max(1, math.ceil((steps - learner.warmup_steps) / learner.steps_per_round))
