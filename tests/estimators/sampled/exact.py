"""Exact expectations in the place of samples: every step, or every path, with its probability as its weight."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import irlax as ix
from irlax.estimators.sampled.losses import airl_logits, classification_loss, matching_loss
from irlax.estimators.sampled.steps import Steps
from irlax.rewards import AbstractObservedReward
from tests.oracles import Problem, discounted_return, full_reward, paths


class Table(AbstractObservedReward):
    """A reward [S] or [S, A] of one-hot observations: what estimators learn, in double precision."""

    table: Any
    over: str = eqx.field(static=True, default="sa")

    def __call__(self, observation, action, next_observation):
        here = observation @ self.table
        return here if self.table.ndim == 1 else here[action]


def plain(mdp):
    """The MDP as plain arrays."""
    transitions = np.stack([matrix.toarray() for matrix in mdp.dynamics.to_scipy()], axis=1)
    return Problem(transitions, np.asarray(mdp.initial), mdp.discount, mdp.horizon, np.asarray(mdp.available))


def all_paths(problem):
    """Every path that can happen, as rows, and its probability but for the agent's choices."""
    once = np.ones((problem.horizon, problem.num_states, problem.num_actions))
    found = list(paths(problem, once))
    return np.array([path for path, _ in found]), np.array([chance for _, chance in found])


def log_chance_of_choices(rows, log_policy):
    """Σ log π_t(a_t|s_t) of each path, for log π[T, S, A]."""
    times = np.arange(len(log_policy))
    return np.asarray(log_policy)[times, rows[:, :-1:2], rows[:, 1::2]].sum(axis=1)


def returns(problem, rows, reward):
    """Σ γᵗ r of each path."""
    table = full_reward(problem, reward).tolist()
    return np.array([discounted_return(tuple(path), table, problem.discount) for path in rows.tolist()])


def visits_of(problem, rows, chance):
    """Σ_t γᵗ P(S_t = s, A_t = a), [S, A], of paths with such probabilities."""
    count = np.zeros((problem.num_states, problem.num_actions))
    for t in range(problem.horizon):
        np.add.at(count, (rows[:, 2 * t], rows[:, 2 * t + 1]), problem.discount**t * chance)
    return count


def episodes_of(problem, rows, chance):
    """Paths as whole episodes [n, T], the way estimators see them: weighted by probability, and γᵗ."""
    one_hot = np.eye(problem.num_states)
    weight = np.repeat(chance[:, None], problem.horizon, axis=1)
    power = np.broadcast_to(problem.discount ** np.arange(problem.horizon), weight.shape)
    seen = one_hot[rows[:, :-1:2]], rows[:, 1::2].astype(np.int32), one_hot[rows[:, 2::2]], weight, power
    return Steps(*[jnp.asarray(array) for array in seen])


def airl_loss(f, log_policy, expert, ours, transitions):
    """The discriminator's loss for f[S, A, S'], of occupancies [S, A]."""
    logits = airl_logits(f, jnp.broadcast_to(log_policy[..., None], f.shape))
    return classification_loss(logits, logits, expert[..., None] * transitions, ours[..., None] * transitions)


def shaped_loss(parts, log_policy, expert, ours, dynamics):
    """The same for f = g(s) + γh(s') − h(s), of tables g and h; `dynamics` are transitions and γ."""
    (g, h), (transitions, discount) = parts, dynamics
    f = g[:, None, None] + discount * h - h[:, None, None]
    return airl_loss(jnp.broadcast_to(f, transitions.shape), log_policy, expert, ours, transitions)


def table_loss(f, log_policy, expert, ours, dynamics):
    """The same for a table f[S, A]."""
    transitions, _ = dynamics
    return airl_loss(jnp.broadcast_to(f[..., None], transitions.shape), log_policy, expert, ours, transitions)


def moment_loss(reward, log_policy, expert, ours, dynamics):
    """The loss of MCE from samples for a reward over states."""
    everywhere = jnp.broadcast_to(reward[:, None], expert.shape)
    return matching_loss(everywhere, everywhere, expert, ours)


@eqx.filter_jit
def alternated(loss, reward_of, mdp, expert, start, *, rate, num):
    """Gradient steps on the reward, each against the soft-optimal policy of the moment: (parts, last gradient)."""

    transitions = jnp.swapaxes(jax.vmap(mdp.dynamics.expect)(jnp.eye(mdp.num_states)), 0, 2).swapaxes(0, 1)

    def slope(parts):
        plan = ix.soft_plan(mdp, reward_of(parts))
        ours = ix.visits(mdp, plan)
        return jax.grad(loss)(parts, plan.log_policy, expert, ours, (transitions, mdp.discount))

    def descend(parts, _):
        return jax.tree.map(lambda part, change: part - rate * change, parts, slope(parts)), None

    parts, _ = jax.lax.scan(descend, start, length=num)
    return parts, slope(parts)


def largest(tree):
    """The largest absolute number of all arrays."""
    return max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(tree))


def variation(one, other):
    """Total variation between policies, in each state."""
    return 0.5 * np.abs(np.asarray(one) - np.asarray(other)).sum(axis=-1)
