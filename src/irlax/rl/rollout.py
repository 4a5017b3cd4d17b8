"""Experience: many environments side by side, each begun anew when its episode ends.

**Exploration.** Some episodes may begin with random actions that are held for about twenty steps each, since
random actions that change at every step cancel out (a weak car gets nowhere). What is learned after them is
unchanged: the best stationary policy is the best from every state, whatever the distribution of first states.
The random steps are marked, so that on-policy learners leave them out.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from irlax.envs.environment import AbstractEnvironment
from irlax.rl.policies import AbstractPolicy
from irlax.spaces import Box, Discrete, uniform_action
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray, Scalar

#: The probability that a random action is held for another step.
HELD = 0.95


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
    #: log π(a|s) when the action was drawn, which a rounded action may not tell; of no meaning where it was random.
    log_prob: Float[Array, "..."]


class Choice(NamedTuple):
    """An action, and what `Transition` says of how it came about."""

    action: Any
    explored: Bool[Array, ""]
    log_prob: Float[Array, ""]


class Exploration(eqx.Module):
    """How many random steps one environment still takes, and the action that is held meanwhile."""

    left: Int[Array, ""]
    held: Any


class Episodes(eqx.Module):
    """Returns of the episodes that ended, those with random steps apart: their sum and number."""

    total: Float[Array, "..."]
    count: Float[Array, "..."]

    @property
    def mean(self) -> Float[Array, "..."]:
        """Their mean; NaN if none ended."""
        return jnp.where(self.count > 0, self.total / jnp.maximum(self.count, 1), jnp.nan)


class Tracker(eqx.Module):
    """What the running episode has earned, and whether all of it was the policy's doing."""

    earned: Float[Array, ""]
    own: Bool[Array, ""]


class Runner(eqx.Module):
    """One environment in the middle of an episode."""

    state: Any
    observation: Float[Array, " obs"]
    exploration: Exploration
    tracker: Tracker


def choose(
    policy: AbstractPolicy | None,
    actions: Discrete | Box,
    observation: Float[Array, " obs"],
    exploration: Exploration,
    key: PRNGKeyArray,
) -> tuple[Choice, Exploration]:
    """An action: the policy's, or a held random one while exploration lasts (always, without a policy)."""
    policy_key, uniform_key, hold_key = jr.split(key, 3)
    held = jnp.where(jr.uniform(hold_key) < HELD, exploration.held, uniform_action(actions, key=uniform_key))
    explored = exploration.left > 0
    action, log_prob = held, jnp.zeros((), jnp.float32)
    if policy is not None:
        drawn, log_prob = policy.sample_and_log_prob(observation, key=policy_key)
        action = jnp.where(explored, held, drawn)
    return Choice(action, explored, log_prob), Exploration(exploration.left - 1, held)


def begin_exploration(
    actions: Discrete | Box, share: Scalar, longest: int | Int[Array, ""], key: PRNGKeyArray
) -> Exploration:
    """For a new episode: with probability `share`, up to `longest` random steps."""
    share_key, length_key, action_key = jr.split(key, 3)
    length = jr.randint(length_key, (), 1, longest + 1)
    left = jnp.where(jr.uniform(share_key) < share, length, 0)
    return Exploration(left, uniform_action(actions, key=action_key))


def begin(env: AbstractEnvironment, share: float, key: PRNGKeyArray) -> Runner:
    """A new episode."""
    reset_key, explore_key = jr.split(key)
    state, observation = env.reset(reset_key)
    exploration = begin_exploration(env.actions, share, env.horizon, explore_key)
    return Runner(state, observation, exploration, begin_tracking(exploration))


def begin_tracking(exploration: Exploration) -> Tracker:
    """At the start of an episode."""
    return Tracker(jnp.zeros(exploration.left.shape, jnp.float32), exploration.left <= 0)


def advance(
    env: AbstractEnvironment, policy: AbstractPolicy | None, share: float, runner: Runner, key: PRNGKeyArray
) -> tuple[Runner, Transition, Episodes]:
    """One step of one environment, and a new episode where one ended."""
    choice_key, step_key, begin_key = jr.split(key, 3)
    choice, exploration = choose(policy, env.actions, runner.observation, runner.exploration, choice_key)
    after = env.step(step_key, runner.state, choice.action)
    transition = Transition(
        runner.observation,
        reward=after.reward,
        next_observation=after.observation,
        terminated=after.terminated,
        truncated=after.truncated,
        **choice._asdict(),
    )
    ended = after.terminated | after.truncated
    tracker = Tracker(runner.tracker.earned + after.reward, runner.tracker.own)
    counted = ended & tracker.own
    episodes = Episodes(jnp.where(counted, tracker.earned, 0.0), counted.astype(jnp.float32))
    on = Runner(after.state, after.observation, exploration, tracker)
    return choose_tree(ended, begin(env, share, begin_key), on), transition, episodes


def collect(
    env: AbstractEnvironment,
    policy: AbstractPolicy | None,
    runners: Runner,
    *,
    length: int,
    share: float = 0.0,
    key: PRNGKeyArray,
) -> tuple[Runner, Transition, Episodes]:
    """`length` steps of all environments: transitions [length, N, …] and the episodes that ended."""
    num = runners.observation.shape[0]

    def step(runners: Runner, step_key: PRNGKeyArray) -> tuple[Runner, tuple[Transition, Episodes]]:
        def one(runner: Runner, key: PRNGKeyArray) -> tuple[Runner, Transition, Episodes]:
            return advance(env, policy, share, runner, key)

        runners, transition, episodes = jax.vmap(one)(runners, jr.split(step_key, num))
        return runners, (transition, Episodes(episodes.total.sum(), episodes.count.sum()))

    runners, (batch, episodes) = jax.lax.scan(step, runners, jr.split(key, length))
    return runners, batch, Episodes(episodes.total.sum(), episodes.count.sum())


def spread_out(env: AbstractEnvironment, num: int, *, key: PRNGKeyArray) -> Runner:
    """Environments at random times of a random episode.

    Episodes of a fixed horizon that begin together end together, and a batch would see one time of day only.
    """
    begin_key, age_key, walk_key = jr.split(key, 3)
    runners = jax.vmap(lambda key: begin(env, 0.0, key))(jr.split(begin_key, num))
    ages = jr.randint(age_key, (num,), 0, env.horizon)

    def older(time: Any, runners: Runner) -> Runner:
        keys = jr.split(jr.fold_in(walk_key, time), num)
        walked, _, _ = jax.vmap(lambda runner, key: advance(env, None, 0.0, runner, key))(runners, keys)
        return jax.vmap(choose_tree)(time < ages, walked, runners)

    runners = jax.lax.fori_loop(0, env.horizon, older, runners)
    # What these first episodes earn is chance's doing.
    return eqx.tree_at(lambda runners: runners.tracker.own, runners, jnp.zeros(num, bool))


def choose_tree(condition: Bool[Array, ""], first: Any, second: Any) -> Any:
    """`first` where the condition holds, else `second`, leaf by leaf."""
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), first, second)
