"""Demonstrations and rollouts as the losses see them: steps with weights, or whole episodes."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from irlax.demos import Demonstrations
from irlax.envs.environment import Discrete
from irlax.rl.rollout import Transition
from irlax.typing import Array, Float, Int, PRNGKeyArray


class Steps(NamedTuple):
    """Steps in rows, or episodes by time [..., T]; a step counts as often as its `weight` says.

    Only how weights compare with one another matters, so they may be in any unit.
    """

    observation: Float[Array, "*n obs"]
    action: Any
    next_observation: Float[Array, "*n obs"]
    #: That of its episode, whatever the time.
    weight: Float[Array, "*n"]
    #: γᵗ.
    discount: Float[Array, "*n"]

    @property
    def discounted(self) -> "Steps":
        """With γᵗ in the weights, and no discount left to apply."""
        return self._replace(weight=self.weight * self.discount, discount=jnp.ones_like(self.discount))

    @property
    def rows(self) -> "Steps":
        """One after the other, whatever they were before."""
        axes = self.weight.ndim
        return jax.tree.map(lambda array: array.reshape(-1, *array.shape[axes:]), self)


def of_demos(demos: Demonstrations, actions: Any, discount: float) -> Steps:
    """Rows of demonstrations, with the weights of their episodes as shares of the largest."""
    assert demos.observations is not None and demos.next_observations is not None
    kind = np.int32 if isinstance(actions, Discrete) else np.float32
    # Both relative, and before they become single precision: weights of any size are allowed there, and where all
    # demonstrations begin late, γᵗ would be zero throughout.
    share = demos.weights / demos.weights.max()
    elapsed = demos.times - demos.times.min()
    return Steps(
        jnp.asarray(demos.observations, jnp.float32),
        jnp.asarray(demos.actions.astype(kind)),
        jnp.asarray(demos.next_observations, jnp.float32),
        jnp.asarray(share[demos.episode], jnp.float32),
        jnp.asarray(discount**elapsed, jnp.float32),
    )


def of_rollout(rollout: Transition, discount: float) -> Steps:
    """Whole episodes [T, N] as [N, T], of weight 1."""
    by_episode = jax.tree.map(lambda array: jnp.swapaxes(array, 0, 1), rollout)
    time = jnp.arange(rollout.reward.shape[0])
    power = jnp.broadcast_to(discount**time, by_episode.reward.shape)
    return Steps(by_episode.observation, by_episode.action, by_episode.next_observation, jnp.ones_like(power), power)


def draw(rows: Steps, shape: tuple[int, ...], *, key: PRNGKeyArray) -> Steps:
    """Rows at random, by their weights; what is drawn weighs 1."""
    drawn = jax.tree.map(lambda array: array[_indices(rows.weight, shape, key)], rows)
    return drawn._replace(weight=jnp.ones(shape, rows.weight.dtype))


def _indices(weight: Float[Array, " n"], shape: tuple[int, ...], key: PRNGKeyArray) -> Int[Array, "..."]:
    cumulative = jnp.cumsum(weight)
    point = jr.uniform(key, shape, cumulative.dtype) * cumulative[-1]
    return jnp.minimum(jnp.searchsorted(cumulative, point, side="right"), len(weight) - 1)


def pools(expert: Steps, recent: "Recent", *, discounted: bool) -> tuple[Steps, Steps]:
    """The steps of the expert and of recent policies, each as much as its episode, and γᵗ of that if `discounted`."""
    theirs, ours = expert.rows, recent.steps.rows
    return (theirs.discounted, ours.discounted) if discounted else (theirs, ours)


def drawn(expert: Steps, ours: Steps, size: int, *, key: PRNGKeyArray) -> tuple[Steps, Steps]:
    """So many rows of each."""
    expert_key, policy_key = jr.split(key)
    return draw(expert, (size,), key=expert_key), draw(ours, (size,), key=policy_key)


def mean(numbers: Float[Array, "*n"], weight: Float[Array, "*n"]) -> Float[Array, ""]:
    """The weighted mean."""
    return (weight * numbers).sum() / weight.sum()


class Recent(eqx.Module):
    """The episodes of the last few rounds, with the policies that acted in them; the newest comes first."""

    #: [rounds, episodes, T, …]; rounds that are yet to come have weight 0.
    steps: Steps
    #: Policies with a leading axis.
    policies: Any

    @classmethod
    def empty(cls, rounds: int, like: Steps, policy: Any) -> "Recent":
        """Room for so many rounds of episodes and policies such as these."""
        steps = jax.tree.map(lambda array: jnp.zeros((rounds, *array.shape), array.dtype), like)
        arrays, rest = eqx.partition(policy, eqx.is_array)
        arrays = jax.tree.map(lambda array: jnp.broadcast_to(array, (rounds, *array.shape)), arrays)
        return cls(steps, eqx.combine(arrays, rest))

    def add(self, steps: Steps, policy: Any) -> "Recent":
        """With another round in place of the oldest."""

        def push(kept: Any, new: Any) -> Any:
            return jnp.concatenate([new[None], kept[:-1]]) if eqx.is_array(kept) else kept

        return Recent(jax.tree.map(push, self.steps, steps), jax.tree.map(push, self.policies, policy))
