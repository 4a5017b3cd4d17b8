"""The rollout engine for environments outside JAX: actions are chosen in JAX, steps are taken on the host.

To learn while environments step, start to collect with the policy of now, learn from what was collected before, and
take the result when it is needed:

    collecting = runner.start_collecting(policy, length, explore, key=key)
    ...                                                  # learn
    batch, returns = collecting.result()

What is collected is the same as by `collect_steps`; it is the policy that is older by what was learned meanwhile. With
environments in worker processes (`make(..., workers="auto")`) both sides have cores of their own.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax import checks
from irlax.envs.experience import (
    Choice,
    Exploration,
    SamplingPolicy,
    Transition,
    choose,
    choose_tree,
    init_exploration,
)
from irlax.spaces import Box, Discrete
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray


@runtime_checkable
class HostEnvironment(Protocol):
    """`num_envs` environments that step together, in numpy, and restart by themselves where an episode ended."""

    @property
    def num_envs(self) -> int:
        """How many environments there are."""
        ...

    @property
    def horizon(self) -> int:
        """The longest episode."""
        ...

    @property
    def observation_size(self) -> int:
        """Length of an observation vector."""
        ...

    @property
    def actions(self) -> Discrete | Box:
        """The action space."""
        ...

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
    """All environments: their observations, the random actions that are due, and whether an episode has just ended."""

    observation: Float[Array, "num obs"]
    exploration: Exploration
    ended: Bool[Array, " num"]


class HostRunner:
    """Host environments in the middle of their episodes. It is mutable, as these environments are."""

    def __init__(self, env: HostEnvironment, *, seed: int) -> None:
        self._env = env
        exploration = _no_exploration(env.actions, env.num_envs)
        self._copies = Copies(self._checked(env.reset(seed)), exploration, np.ones(env.num_envs, bool))
        self._totals = np.zeros(env.num_envs)
        #: Whether all actions of the current episode are the policy's own.
        self._own = np.ones(env.num_envs, bool)
        self._background = ThreadPoolExecutor(1, thread_name_prefix="irlax-collecting")

    def collect_steps(
        self, policy: SamplingPolicy | None, length: int, explore: float, *, key: PRNGKeyArray
    ) -> tuple[Transition, list[float]]:
        """`length` steps of all environments, as transitions [length, N], and the returns of episodes that ended."""
        steps, returns = [], []
        for time in range(length):
            step = self._advance(policy, explore, time, key=key)
            ended = step.terminated | step.truncated
            self._totals += step.reward
            self._own &= ~step.explored if policy is not None else False
            returns += self._totals[ended & self._own].tolist()
            self._totals[ended] = 0.0
            self._own |= ended
            steps.append(step._replace(reward=np.asarray(step.reward, np.float32)))
        return jax.tree.map(lambda *rows: jnp.asarray(np.stack(rows)), *steps), returns

    def start_collecting(
        self, policy: SamplingPolicy | None, length: int, explore: float, *, key: PRNGKeyArray
    ) -> Future[tuple[Transition, list[float]]]:
        """`collect_steps` in the background; `.result()` of what is returned waits for it, and raises its errors.

        One after the other: a second call begins when the first has ended. Take the result before the runner is used
        otherwise.
        """
        # This setting holds in one thread only.
        double_precision = jax.config.read("jax_enable_x64")

        def collect() -> tuple[Transition, list[float]]:
            with jax.enable_x64(double_precision):
                return self.collect_steps(policy, length, explore, key=key)

        return self._background.submit(collect)

    def collect_episodes(
        self, policy: SamplingPolicy, quota: Int[np.ndarray, " num"], *, key: PRNGKeyArray
    ) -> Transition:
        """Steps [time, N] until each environment has finished so many episodes, which start at time 0."""
        steps, finished, time = [], np.zeros(self._env.num_envs, int), 0
        while (finished < quota).any():
            steps.append(self._advance(policy, 0.0, time, key=key))
            finished += steps[-1].terminated | steps[-1].truncated
            time += 1
        return jax.tree.map(lambda *rows: np.stack(rows), *steps)

    @property
    def numbers(self) -> list[np.ndarray]:
        """All that a runner knows beside the environments themselves."""
        return [np.asarray(leaf) for leaf in jax.tree.leaves((self._copies, self._totals, self._own))]

    @numbers.setter
    def numbers(self, numbers: list[np.ndarray]) -> None:
        structure = jax.tree.structure((self._copies, self._totals, self._own))
        self._copies, self._totals, self._own = jax.tree.unflatten(structure, [number.copy() for number in numbers])

    def _advance(self, policy: SamplingPolicy | None, explore: float, time: int, *, key: PRNGKeyArray) -> Transition:
        """One step of all environments, as transitions [N] in numpy."""
        observation, start = self._copies.observation, (self._env.actions, explore, self._env.horizon)
        # One call into JAX for each step: with small environments these calls take most of the time. The time is an
        # array, since `filter_jit` would compile anew for every number.
        chosen, exploration = _choosing(policy)(policy, start, self._copies, np.asarray(time), key=key)
        choice = jax.tree.map(np.asarray, chosen)
        after = self._env.step(choice.action)
        reward = np.asarray(after.reward)
        if not np.isfinite(reward).all():
            raise ValueError(_not_finite("reward", reward))
        final = self._checked(after.final_observation)
        ends = {name: np.asarray(getattr(after, name), bool) for name in ("terminated", "truncated")}
        self._copies = Copies(self._checked(after.observation), exploration, ends["terminated"] | ends["truncated"])
        return Transition(observation, reward=reward, next_observation=final, **ends, **choice._asdict())

    def _checked(self, observation: Any) -> Float[np.ndarray, "num obs"]:
        observation = np.asarray(observation, np.float32)
        wanted = (self._env.num_envs, self._env.observation_size)
        if observation.shape != wanted:
            raise ValueError(f"Observations must have shape {wanted}, but the environment gave {observation.shape}.")
        if not np.isfinite(observation).all():
            raise ValueError(_not_finite("observation", observation))
        return observation


def _not_finite(name: str, numbers: np.ndarray) -> str:
    return (
        f"The environment gave a {name} that is NaN or infinite, in copies {checks.places(~np.isfinite(numbers))}. "
        f"Nothing is learned from it, and the last checkpoint remains. Check its dynamics, and that actions are finite."
    )


def _choose_all(
    policy: Any, start: tuple[Any, Any, Any], copies: Copies, time: Any, *, key: PRNGKeyArray
) -> tuple[Choice, Exploration]:
    """An action for each copy. `start` are the arguments of `init_exploration` for new episodes."""

    def one(copy: Copies, key: PRNGKeyArray) -> tuple[Choice, Exploration]:
        init_key, choice_key = jr.split(key)
        exploration = choose_tree(copy.ended, init_exploration(*start, key=init_key), copy.exploration)
        return choose(policy, start[0], copy.observation, exploration, key=choice_key)

    return jax.vmap(one)(copies, jr.split(jr.fold_in(key, time), len(copies.ended)))


_choose_by_arrays, _choose_by_anything = jax.jit(_choose_all), eqx.filter_jit(_choose_all)


def _choosing(policy: Any) -> Any:
    """`_choose_all`, compiled: by plain `jit` if the policy has no leaves but arrays, since that has less overhead."""
    arrays = all(isinstance(leaf, (jax.Array, np.ndarray)) for leaf in jax.tree.leaves(policy))
    return _choose_by_arrays if arrays else _choose_by_anything


def _no_exploration(actions: Discrete | Box, num: int) -> Exploration:
    one = init_exploration(actions, 0.0, 1, key=jr.key(0))
    return jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], num, axis=0), one)
