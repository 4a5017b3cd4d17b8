"""Environments that live outside JAX: policy and learning are jitted, the steps are the host's."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.rl.learner import AbstractLearner, Metrics, State, check_spaces
from irlax.rl.rollout import Choice, Exploration, Transition, begin_exploration, choose, choose_tree
from irlax.spaces import Box, Discrete
from irlax.typing import PRNGKeyArray


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


class Copies(NamedTuple):
    """Environments side by side: what is seen, which random actions are due, and whether an episode has just ended."""

    observation: Any
    exploration: Exploration
    ended: Any


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
        ended, exploration = np.ones(env.num_envs, bool), _no_explorations(env.actions, env.num_envs)
        self._copies = Copies(self._checked(env.reset(seed)), exploration, ended)
        self._earned = np.zeros(env.num_envs)
        #: Whether all of the running episode was the policy's doing.
        self._own = np.ones(env.num_envs, bool)

    def init(self, key: PRNGKeyArray) -> State:
        """A new agent, with the random experience that it wants first."""
        learner, env = self._learner, self._env
        agent_key, warmup_key, state_key = jr.split(key, 3)
        agent = learner.init_agent(env.observation_size, env.actions, key=agent_key)
        if learner.warmup_length:
            batch, _ = self.collect(None, learner.warmup_length, 0.0, warmup_key)
            agent = eqx.filter_jit(learner.add)(agent, batch)
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
        for time in range(length):
            observation = self._copies.observation
            # One call into JAX for each step: with small environments such calls are what takes the time.
            chosen, exploration = _choose(policy, (env.actions, share, env.horizon), self._copies, key, time)
            choice = jax.tree.map(np.asarray, chosen)
            after = env.step(choice.action)
            reward = np.asarray(after.reward, np.float32)
            ends = {name: np.asarray(getattr(after, name), bool) for name in ("terminated", "truncated")}
            self._refuse_nonfinite("rewards", reward)
            final = self._checked(after.final_observation)
            steps.append(Transition(observation, reward=reward, next_observation=final, **ends, **choice._asdict()))
            ended = ends["terminated"] | ends["truncated"]
            self._copies = Copies(self._checked(after.observation), exploration, ended)
            self._earned += reward
            self._own &= ~choice.explored if policy is not None else False
            returns += self._earned[ended & self._own].tolist()
            self._earned[ended] = 0.0
            self._own |= ended
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


# Plain `jit`: these arguments have no leaves but arrays and numbers, and `filter_jit` would look for others every time.
@jax.jit
def _choose(
    policy: Any, begun: tuple[Any, Any, Any], copies: Copies, key: PRNGKeyArray, time: Any
) -> tuple[Choice, Exploration]:
    """What to do in each copy. `begun` says how new episodes begin: the actions, the share that explores, how long."""

    def one(copy: Copies, key: PRNGKeyArray) -> tuple[Choice, Exploration]:
        begin_key, choice_key = jr.split(key)
        exploration = choose_tree(copy.ended, begin_exploration(*begun, begin_key), copy.exploration)
        return choose(policy, begun[0], copy.observation, exploration, choice_key)

    return jax.vmap(one)(copies, jr.split(jr.fold_in(key, time), len(copies.ended)))


def _no_explorations(actions: Discrete | Box, num: int) -> Exploration:
    """None in any of so many copies."""
    one = begin_exploration(actions, 0.0, 1, jr.key(0))
    return jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], num, axis=0), one)
