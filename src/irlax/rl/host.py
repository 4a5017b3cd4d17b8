"""Environments that live outside JAX: policy and learning are jitted, the steps are the host's."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.envs.base import Box, Discrete
from irlax.rl.learner import AbstractLearner, Metrics, State, check_spaces
from irlax.rl.rollout import Exploration, Transition, begin_exploration, choose
from irlax.typing import Array, PRNGKeyArray


@runtime_checkable
class HostEnvironment(Protocol):
    """`num_envs` environments that step together, in numpy, and begin anew by themselves where an episode ended."""

    num_envs: int
    horizon: int
    observation_size: int
    actions: Discrete | Box

    def reset(self, seed: int) -> np.ndarray:
        """First observations [N, obs]."""
        ...

    def step(self, actions: np.ndarray) -> Any:
        """What follows: `observation`, `final_observation`, `reward`, `terminated` and `truncated`, [N, …] each.

        `final_observation` is what the action led to. `observation`, to act on next, is the same but where an episode
        ended: there it is the first of a new one.
        """
        ...


class HostRunner:
    """The host's side of training. It changes as it goes, as the environment itself does."""

    def __init__(self, learner: AbstractLearner, env: HostEnvironment, *, seed: int) -> None:
        check_spaces(env.observation_size, env.actions)
        if env.num_envs != learner.num_envs:
            raise ValueError(
                f"The environment steps {env.num_envs} copies at a time, but the learner wants "
                f"num_envs={learner.num_envs}. Make the two alike."
            )
        self._env, self._learner = env, learner
        self._observation = self._checked(env.reset(seed))
        self._earned = np.zeros(env.num_envs)
        self._own = np.zeros(env.num_envs, bool)
        self._exploration: Any = None

    def init(self, key: PRNGKeyArray) -> State:
        """A new agent, with the random experience that it wants first."""
        learner, env = self._learner, self._env
        agent_key, warmup_key, state_key = jr.split(key, 3)
        agent = learner.begin(env.observation_size, env.actions, key=agent_key)
        if learner.warmup_length:
            batch, _ = self.collect(None, learner.warmup_length, 0.0, warmup_key)
            agent = eqx.filter_jit(learner.remember)(agent, batch)
        return State(agent, None, state_key, jnp.asarray(learner.warmup_steps, jnp.int32))

    def step(self, state: State, reward: Callable[..., Any] | None, rate: Any) -> tuple[State, Metrics]:
        """Act on the host, learn in JAX."""
        learner = self._learner
        collect_key, learn_key, next_key = jr.split(state.key, 3)
        batch, returns = self.collect(state.policy, learner.length, learner.explore, collect_key)
        agent, metrics = _learn(learner, state.agent, batch, reward, rate=rate, key=learn_key)
        mean = np.mean(returns) if returns else np.nan
        metrics = {"return": jnp.asarray(mean), "episodes": jnp.asarray(float(len(returns))), **metrics}
        return State(agent, None, next_key, state.steps + learner.steps_a_round), metrics

    def collect(self, policy: Any, length: int, share: float, key: PRNGKeyArray) -> tuple[Transition, list[float]]:
        """`length` steps of all copies [length, N], a `share` of episodes begun at random; and returns at the ends."""
        env, steps, returns = self._env, [], []
        for step_key in jr.split(key, length):
            choice_key, begin_key = jr.split(step_key)
            if self._exploration is None:
                self._exploration = _explorations(env.actions, env.num_envs, share, env.horizon, begin_key)
            action, exploration, explored = _choose(
                policy, env.actions, self._observation, self._exploration, choice_key
            )
            after = env.step(np.asarray(action))
            reward = np.asarray(after.reward, np.float32)
            ends = [np.asarray(flag, bool) for flag in (after.terminated, after.truncated)]
            self._refuse_nonfinite("rewards", reward)
            steps.append(
                Transition(
                    self._observation,
                    np.asarray(action),
                    reward,
                    self._checked(after.final_observation),
                    terminated=ends[0],
                    truncated=ends[1],
                    explored=np.asarray(explored),
                )
            )
            ended = ends[0] | ends[1]
            self._observation = self._checked(after.observation)
            fresh = _explorations(env.actions, env.num_envs, share, env.horizon, begin_key)
            self._exploration = jax.tree.map(
                lambda new, old, ended=ended: np.where(_like(ended, new), new, old), fresh, exploration
            )
            self._earned += reward
            returns += self._earned[ended & self._own].tolist()
            self._earned[ended] = 0.0
            began_alone = np.asarray(fresh.left) <= 0 if policy is not None else np.zeros_like(ended)
            self._own = np.where(ended, began_alone, self._own)
        return jax.tree.map(lambda *rows: jnp.asarray(np.stack(rows)), *steps), returns

    def _checked(self, observation: Any) -> np.ndarray:
        observation = np.asarray(observation, np.float32)
        wanted = (self._env.num_envs, self._env.observation_size)
        if observation.shape != wanted:
            raise ValueError(f"Observations must have shape {wanted}, but the environment gave {observation.shape}.")
        self._refuse_nonfinite("observations", observation)
        return observation

    def _refuse_nonfinite(self, what: str, numbers: np.ndarray) -> None:
        if not np.isfinite(numbers).all():
            raise ValueError(
                f"The environment gave {what} that are NaN or infinite. Nothing is learned from them; the last "
                f"checkpoint stands."
            )


@eqx.filter_jit
def _learn(
    learner: AbstractLearner, agent: Any, batch: Transition, reward: Any, *, rate: Any, key: PRNGKeyArray
) -> tuple[Any, Metrics]:
    return learner.learn(agent, batch, reward, rate=rate, key=key)


@eqx.filter_jit
def _choose(
    policy: Any, actions: Any, observations: Array, explorations: Exploration, key: PRNGKeyArray
) -> tuple[Any, Exploration, Array]:
    keys = jr.split(key, len(observations))
    return jax.vmap(lambda seen, exploration, key: choose(policy, actions, seen, exploration, key))(
        observations, explorations, keys
    )


@eqx.filter_jit
def _explorations(actions: Any, num: int, share: float, longest: int, key: PRNGKeyArray) -> Exploration:
    return jax.vmap(lambda key: begin_exploration(actions, share, longest, key))(jr.split(key, num))


def _like(flags: np.ndarray, array: Any) -> np.ndarray:
    """Flags with as many axes as `array` has."""
    return flags.reshape(flags.shape + (1,) * (np.ndim(array) - 1))
