"""Demonstrations and rollouts as the losses take them: weighted steps, or whole episodes."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.demos import Demonstrations
from irlax.envs.experience import Transition
from irlax.rewards import AbstractObservedReward
from irlax.rewards.observed import reward_after_end
from irlax.rl.policies import AbstractPolicy
from irlax.rl.replay import Buffer
from irlax.spaces import Discrete
from irlax.typing import Array, Bool, Float, Int, PRNGKeyArray


class Steps(NamedTuple):
    """Steps in rows [n], or episodes by time [..., T]; a step of weight k counts as k steps.

    Only the ratios of weights matter, so that they may be in any unit.
    """

    observation: Float[Array, "*n obs"]
    action: Any
    next_observation: Float[Array, "*n obs"]
    #: The weight of its episode, at every time.
    weight: Float[Array, "*n"]
    #: γᵗ.
    discount: Float[Array, "*n"]
    #: Whether the step was taken after the end of its episode, where only `after_end` is left of a reward; None if no
    #: step was.
    over: Bool[Array, "*n"] | None = None

    @property
    def discounted(self) -> "Steps":
        """The same steps with weights times γᵗ, and a discount of 1."""
        return self._replace(weight=self.weight * self.discount, discount=jnp.ones_like(self.discount))

    @property
    def rows(self) -> "Steps":
        """The same steps with all leading axes flattened to one."""
        axes = self.weight.ndim
        return jax.tree.map(lambda array: array.reshape(-1, *array.shape[axes:]), self)


def steps_of_demos(demos: Demonstrations, actions: Any, discount: float) -> Steps:
    """The steps [n] of demonstrations; weights are those of their episodes, relative to the largest.

    Actions that were not observed are zeros, at which no reward over states looks.
    """
    assert demos.observations is not None and demos.next_observations is not None
    kind = np.int32 if isinstance(actions, Discrete) else np.float32
    shape = () if isinstance(actions, Discrete) else np.shape(actions.low)
    acted = demos.actions if demos.has_actions else np.zeros((demos.num_steps, *shape))
    # Both relative, and before the conversion to single precision: the weights may have any size, and where all
    # demonstrations begin late, γᵗ would be rounded to zero throughout.
    share = demos.weights / demos.weights.max()
    elapsed = demos.times - demos.times.min()
    return Steps(
        jnp.asarray(demos.observations, jnp.float32),
        jnp.asarray(acted.astype(kind)),
        jnp.asarray(demos.next_observations, jnp.float32),
        jnp.asarray(share[demos.episode], jnp.float32),
        jnp.asarray(discount**elapsed, jnp.float32),
    )


def length_of_end(discount: float) -> float:
    """How many steps the time after an end counts for: Σ γᵗ of them, as for a value."""
    return 1 / (1 - discount)


def with_ends(steps: Steps, demos: Demonstrations, length: float) -> Steps:
    """The steps [n] of demonstrations, and one after each episode that terminated, which counts as `length` steps."""
    ends = demos.offsets[1:][demos.terminated] - 1
    added = jax.tree.map(lambda array: array[ends], steps)._replace(
        weight=length * steps.weight[ends], discount=jnp.ones(len(ends), jnp.float32)
    )
    both = jax.tree.map(lambda one, other: jnp.concatenate([one, other]), steps, added)
    return both._replace(over=jnp.arange(len(both.weight)) >= len(steps.weight))


def steps_of_rollout(rollout: Transition, discount: float) -> Steps:
    """Whole episodes [T, N] as [N, T], of weight 1."""
    by_episode = jax.tree.map(lambda array: jnp.swapaxes(array, 0, 1), rollout)
    time = jnp.arange(rollout.reward.shape[0])
    power = jnp.broadcast_to(discount**time, by_episode.reward.shape)
    return Steps(by_episode.observation, by_episode.action, by_episode.next_observation, jnp.ones_like(power), power)


def rewards_of(reward: AbstractObservedReward, steps: Steps) -> Float[Array, "*n"]:
    """The reward of each step."""
    rows = steps.rows
    rewards = jax.vmap(reward)(rows.observation, rows.action, rows.next_observation).reshape(steps.weight.shape)
    return rewards if steps.over is None else jnp.where(steps.over, reward_after_end(reward), rewards)


def log_policy_of(policy: AbstractPolicy, steps: Steps) -> Float[Array, "*n"]:
    """log π(a|s) of each step, as a constant for gradients; 0 after an end, where nothing is left to choose."""
    rows = steps.rows
    log_policy = jax.vmap(policy.log_prob)(rows.observation, rows.action).reshape(steps.weight.shape)
    log_policy = jax.lax.stop_gradient(log_policy)
    return log_policy if steps.over is None else jnp.where(steps.over, 0.0, log_policy)


def weighted_mean(numbers: Float[Array, "*n"], weight: Float[Array, "*n"]) -> Float[Array, ""]:
    """Σ w x / Σ w."""
    return (weight * numbers).sum() / weight.sum()


class Window(eqx.Module):
    """The newest steps of a replay buffer, all of the same weight.

    Where episodes end, an end counts as `end_length` steps after it, as in `with_ends`; 0 where episodes do not end.
    """

    buffer: Buffer
    size: Int[Array, ""]
    end_length: float = eqx.field(static=True)
    #: How many of the steps ended an episode.
    ends: Float[Array, ""]

    @classmethod
    def of(cls, buffer: Buffer, size: int, end_length: float) -> "Window":
        """The last `size` steps, or all if there are fewer."""
        available = jnp.minimum(size, buffer.filled)
        age = (buffer.position - 1 - jnp.arange(len(buffer.rows.reward))) % len(buffer.rows.reward)
        ends = (buffer.rows.terminated & (age < available)).sum().astype(jnp.float32)
        return cls(buffer, available, end_length, ends)

    def draw(self, size: int, *, key: PRNGKeyArray) -> Steps:
        """`size` steps at random and, where episodes end, one after an end with all the weight of such steps."""
        index = (self.buffer.position - 1 - jr.randint(key, (size,), 0, self.size)) % len(self.buffer.rows.reward)
        rows = jax.tree.map(lambda ring: ring[index], self.buffer.rows)
        ones = jnp.ones(size, jnp.float32)
        steps = Steps(rows.observation, rows.action, rows.next_observation, ones, ones)
        if not self.end_length:
            return steps
        after = size * self.ends * self.end_length / self.size
        last = jax.tree.map(lambda array: array[:1], steps)._replace(weight=after[None])
        both = jax.tree.map(lambda one, other: jnp.concatenate([one, other]), steps, last)
        return both._replace(over=jnp.arange(size + 1) == size)


def draw(rows: Steps | Window, size: int, *, key: PRNGKeyArray) -> Steps:
    """`size` rows drawn with replacement, in proportion to their weights; those drawn have weight 1."""
    if isinstance(rows, Window):
        return rows.draw(size, key=key)
    batch = jax.tree.map(lambda array: array[_draw_indices(rows.weight, size, key=key)], rows)
    return batch._replace(weight=jnp.ones(size, rows.weight.dtype))


def _draw_indices(weight: Float[Array, " n"], size: int, *, key: PRNGKeyArray) -> Int[Array, " size"]:
    cumulative = jnp.cumsum(weight)
    point = jr.uniform(key, (size,), cumulative.dtype) * cumulative[-1]
    return jnp.minimum(jnp.searchsorted(cumulative, point, side="right"), len(weight) - 1)


def draw_both(expert: Steps, policy: Steps | Window, size: int, *, key: PRNGKeyArray) -> tuple[Steps, Steps]:
    """A batch of `size` rows of the expert's, and one of the policy's."""
    expert_key, policy_key = jr.split(key)
    return draw(expert, size, key=expert_key), draw(policy, size, key=policy_key)


class Recent(eqx.Module):
    """The episodes of the last few rounds, with the policies that acted in them; the newest comes first."""

    #: [rounds, episodes, T, …]; before there were as many rounds, the rest has weight 0.
    steps: Steps
    #: Policies with a leading axis [rounds].
    policies: Any

    @classmethod
    def init(cls, rounds: int, like: Steps, policy: Any) -> "Recent":
        """Empty, for so many rounds of episodes and policies with the shapes of these."""
        steps = jax.tree.map(lambda array: jnp.zeros((rounds, *array.shape), array.dtype), like)
        arrays, rest = eqx.partition(policy, eqx.is_array)
        arrays = jax.tree.map(lambda array: jnp.broadcast_to(array, (rounds, *array.shape)), arrays)
        return cls(steps, eqx.combine(arrays, rest))

    def add(self, steps: Steps, policy: Any) -> "Recent":
        """With another round in place of the oldest."""

        def push(kept: Any, new: Any) -> Any:
            return jnp.concatenate([new[None], kept[:-1]]) if eqx.is_array(kept) else kept

        return Recent(jax.tree.map(push, self.steps, steps), jax.tree.map(push, self.policies, policy))


#: What the policy's steps are drawn from: whole episodes, or the newest steps of a replay.
Pool = Recent | Window


def step_pools(expert: Steps, recent: Pool, *, discounted: bool) -> tuple[Steps, Steps | Window]:
    """The rows of the expert and of recent policies; with `discounted`, γᵗ is part of their weights."""
    if isinstance(recent, Window):
        return expert.rows, recent
    pools = expert.rows, recent.steps.rows
    return (pools[0].discounted, pools[1].discounted) if discounted else pools
