"""The rollout engine: many environments side by side, each restarted when its episode ends.

Learners, dynamics-free estimators, `evaluate` and `collect` all act by it: in JAX here, and with environments of the
host in `irlax.envs.host`, which shares how actions are chosen.

**Exploration.** A share of episodes may start with random actions that are held for about twenty steps each: random
actions that change at every step cancel out (an underpowered car would stay where it is). The optimal stationary policy
is optimal from every state, so that another distribution of first states does not change it. The random steps are
marked, so that on-policy learners leave them out. Actions that are held also throw a robot on its back, where SAC
has learned to stay: without a share to explore, all random actions are drawn anew (`UniformPolicy`).
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from irlax.envs.environment import AbstractEnvironment
from irlax.spaces import Box, Discrete, uniform_action
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray, Scalar

#: The probability that a random action is held for another step.
HOLD_PROBABILITY = 0.95


@runtime_checkable
class SamplingPolicy(Protocol):
    """A policy as the engine takes it; those of `irlax.rl` are such."""

    def sample_and_log_prob(
        self, observation: Float[Array, " obs"], *, key: PRNGKeyArray
    ) -> tuple[Any, Float[Array, ""]]:
        """An action and log π(a|s)."""
        ...


class UniformPolicy(eqx.Module):
    """Draws every action anew, uniformly."""

    actions: Discrete | Box

    def sample_and_log_prob(
        self, observation: Float[Array, " obs"], *, key: PRNGKeyArray
    ) -> tuple[Any, Float[Array, ""]]:
        """An action; its density is nowhere used."""
        return uniform_action(self.actions, key=key), jnp.zeros((), jnp.float32)


class Transition(NamedTuple):
    """A step. `next_observation` is the true one also where the episode ended, not the first of the next episode."""

    observation: Float[Array, "... obs"]
    action: Any
    reward: Float[Array, "..."]
    next_observation: Float[Array, "... obs"]
    terminated: Bool[Array, "..."]
    truncated: Bool[Array, "..."]
    #: Whether the action was random and not the policy's.
    explored: Bool[Array, "..."]
    #: log π(a|s) as the action was drawn, before it was rounded to floats; without meaning where it was random.
    log_prob: Float[Array, "..."]


class Choice(NamedTuple):
    """An action, with the fields of `Transition` that belong to it."""

    action: Any
    explored: Bool[Array, ""]
    log_prob: Float[Array, ""]


class Exploration(eqx.Module):
    """How many random steps one environment still takes, and the action that is held meanwhile."""

    left: Int[Array, "*n"]
    held: Any


class RunningReturn(eqx.Module):
    """The sum of rewards of the current episode, and whether all of its actions are the policy's own."""

    total: Float[Array, "*n"]
    own: Bool[Array, "*n"]


class FinishedReturns(eqx.Module):
    """The sum of the returns of the episodes that ended, but for those with random actions, and their number."""

    total: Float[Array, "..."]
    count: Float[Array, "..."]

    @property
    def mean(self) -> Float[Array, "..."]:
        """Their mean; NaN if none ended."""
        return jnp.where(self.count > 0, self.total / jnp.maximum(self.count, 1), jnp.nan)


class Runner(eqx.Module):
    """One environment in the middle of an episode; several have a leading axis."""

    state: Any
    observation: Float[Array, "*n obs"]
    #: None where every action is the policy's.
    exploration: Exploration | None
    running: RunningReturn


def choose(
    policy: SamplingPolicy | None,
    actions: Discrete | Box,
    observation: Float[Array, " obs"],
    exploration: Exploration,
    *,
    key: PRNGKeyArray,
) -> tuple[Choice, Exploration]:
    """An action: the policy's, or the held random one while exploration lasts (always, without a policy)."""
    policy_key, uniform_key, hold_key = jr.split(key, 3)
    another = uniform_action(actions, key=uniform_key)
    held = jnp.where(jr.uniform(hold_key) < HOLD_PROBABILITY, exploration.held, another)
    explored = exploration.left > 0
    action, log_prob = held, jnp.zeros((), jnp.float32)
    if policy is not None:
        drawn, log_prob = policy.sample_and_log_prob(observation, key=policy_key)
        action = jnp.where(explored, held, drawn)
    return Choice(action, explored, log_prob), Exploration(exploration.left - 1, held)


def choose_own(
    policy: SamplingPolicy | None, actions: Discrete | Box, observation: Float[Array, " obs"], *, key: PRNGKeyArray
) -> Choice:
    """What `choose` gives where nothing is left to explore: the policy's own action."""
    assert policy is not None
    policy_key, uniform_key, _ = jr.split(key, 3)
    action, log_prob = policy.sample_and_log_prob(observation, key=policy_key)
    # Of the type of a random action, which itself is not computed, nor are its random numbers compiled.
    action = jnp.where(False, uniform_action(actions, key=uniform_key), action)
    return Choice(action, jnp.zeros((), bool), log_prob)


def init_exploration(
    actions: Discrete | Box, explore: Scalar, longest: int | Int[Array, ""], *, key: PRNGKeyArray
) -> Exploration:
    """For a new episode: with probability `explore`, up to `longest` random steps."""
    share_key, length_key, action_key = jr.split(key, 3)
    length = jr.randint(length_key, (), 1, longest + 1)
    left = jnp.where(jr.uniform(share_key) < explore, length, 0)
    return Exploration(left, uniform_action(actions, key=action_key))


def init_runner(env: AbstractEnvironment, explore: float | None, *, key: PRNGKeyArray) -> Runner:
    """An environment at the start of an episode; with None for `explore`, for a policy that always acts itself."""
    reset_key, explore_key = jr.split(key)
    state, observation = env.reset(key=reset_key)
    if explore is None:
        return Runner(state, observation, None, RunningReturn(jnp.zeros((), jnp.float32), jnp.ones((), bool)))
    exploration = init_exploration(env.actions, explore, env.horizon, key=explore_key)
    return Runner(state, observation, exploration, RunningReturn(jnp.zeros((), jnp.float32), exploration.left <= 0))


def advance(
    env: AbstractEnvironment,
    policy: SamplingPolicy | None,
    runner: Runner,
    *,
    explore: float,
    restart: bool,
    key: PRNGKeyArray,
) -> tuple[Runner, Transition, FinishedReturns]:
    """One step of one environment; with `restart`, a new episode where one ended."""
    choice_key, step_key, init_key = jr.split(key, 3)
    if runner.exploration is None:
        choice, exploration = choose_own(policy, env.actions, runner.observation, key=choice_key), None
    else:
        choice, exploration = choose(policy, env.actions, runner.observation, runner.exploration, key=choice_key)
    after = env.step(runner.state, choice.action, key=step_key)
    transition = Transition(
        runner.observation,
        reward=after.reward,
        next_observation=after.observation,
        terminated=after.terminated,
        truncated=after.truncated,
        **choice._asdict(),
    )
    ended = after.terminated | after.truncated
    total = runner.running.total + jnp.asarray(after.reward, jnp.float32)
    counted = ended & runner.running.own
    finished = FinishedReturns(jnp.where(counted, total, 0.0), counted.astype(jnp.float32))
    moved = Runner(after.state, after.observation, exploration, RunningReturn(total, runner.running.own))
    if restart:
        moved = choose_tree(ended, init_runner(env, explore, key=init_key), moved)
    return moved, transition, finished


def collect_steps(
    env: AbstractEnvironment,
    policy: SamplingPolicy | None,
    runners: Runner,
    *,
    length: int,
    explore: float = 0.0,
    restart: bool = True,
    key: PRNGKeyArray,
) -> tuple[Runner, Transition, FinishedReturns]:
    """`length` steps of all environments: transitions [length, N, …] and the returns of episodes that ended."""
    num = runners.observation.shape[0]

    def step(runners: Runner, step_key: PRNGKeyArray) -> tuple[Runner, tuple[Transition, FinishedReturns]]:
        def one(runner: Runner, key: PRNGKeyArray) -> tuple[Runner, Transition, FinishedReturns]:
            return advance(env, policy, runner, explore=explore, restart=restart, key=key)

        runners, transition, finished = jax.vmap(one)(runners, jr.split(step_key, num))
        return runners, (transition, FinishedReturns(finished.total.sum(), finished.count.sum()))

    runners, (batch, finished) = jax.lax.scan(step, runners, jr.split(key, length))
    return runners, batch, FinishedReturns(finished.total.sum(), finished.count.sum())


def collect_episodes(
    env: AbstractEnvironment, policy: SamplingPolicy, num: int, *, explore: float = 0.0, key: PRNGKeyArray
) -> Transition:
    """`num` episodes [horizon, num] from their start; what follows the end of an episode is to be ignored."""
    init_key, collect_key = jr.split(key)
    share = explore if explore > 0 else None
    runners = jax.vmap(lambda key: init_runner(env, share, key=key))(jr.split(init_key, num))
    return collect_steps(env, policy, runners, length=env.horizon, restart=False, key=collect_key)[1]


def init_runners(
    env: AbstractEnvironment, num: int, policy: SamplingPolicy | None = None, *, key: PRNGKeyArray
) -> Runner:
    """Environments at random times of an episode of `policy`, or of random actions that are held.

    Episodes of a fixed horizon that start together end together, and a batch would contain one time of them only.
    """
    init_key, age_key, walk_key = jr.split(key, 3)
    runners = jax.vmap(lambda key: init_runner(env, 0.0, key=key))(jr.split(init_key, num))
    ages = jr.randint(age_key, (num,), 0, env.horizon)

    def step(time: Any, runners: Runner) -> Runner:
        def one(runner: Runner, key: PRNGKeyArray) -> Runner:
            return advance(env, policy, runner, explore=0.0, restart=True, key=key)[0]

        moved = jax.vmap(one)(runners, jr.split(jr.fold_in(walk_key, time), num))
        return jax.vmap(choose_tree)(time < ages, moved, runners)

    runners = jax.lax.fori_loop(0, env.horizon, step, runners)
    # The returns of these episodes are not the policy's.
    return eqx.tree_at(lambda runners: runners.running.own, runners, jnp.zeros(num, bool))


def choose_tree(condition: Bool[Array, ""], first: Any, second: Any) -> Any:
    """`first` where the condition holds, else `second`, leaf by leaf."""
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), first, second)
