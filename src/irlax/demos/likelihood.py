"""How likely demonstrations are under a plan."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from irlax.demos.demonstrations import Demonstrations
from irlax.demos.sizes import padded, rounded_up
from irlax.mdp import MDP
from irlax.planning.occupancy import refuse_other_problem
from irlax.planning.plan import Plan, small_log_policies
from irlax.precision import exact, is_traced
from irlax.typing import Array, Float, Int


@exact
def log_likelihood(mdp: MDP, plan: Plan, demos: Demonstrations, *, discounted: bool = True) -> Float[Array, ""]:
    r"""The causal log likelihood of the observed choices, mean over episodes.

    $$\frac{1}{N}\sum_i \sum_t \gamma^t \log \pi_t(a_{it} | s_{it})$$

    With `discounted=False` every observed choice counts once, though the agent still plans with γ.
    """
    by_episode = _by_episode(mdp, plan, demos, discounted)
    weights = jnp.asarray(demos.weights)
    return (weights * by_episode).sum() / weights.sum()


@exact
def trajectory_log_likelihood(mdp: MDP, plan: Plan, demos: Demonstrations) -> Float[Array, " N"]:
    r"""The log of the Primer's discounted likelihood of each whole episode, with the probabilities of starts and moves.

    $$\log p_{\theta,\gamma}(\tau) = \log I(s_0) + \sum_t \log P(s_{t+1}|s_t,a_t) + \sum_t \gamma^t \log\pi_t(a_t|s_t)$$

    Moves whose next state, and starts whose first state, were not observed do not enter. Primer, Definition 3.1.
    """
    choices = _by_episode(mdp, plan, demos, discounted=True)
    rows, after = demos.moves()
    cells = mdp.rows.cells(demos.tabular_states[rows], demos.actions[rows])
    moves = jnp.log(mdp.dynamics.probability(*cells, after))
    transitions = jnp.zeros(demos.num_episodes).at[demos.episode[rows]].add(moves)
    # An episode that is observed from a later time on does not show where it started.
    starts = jnp.log(jnp.asarray(mdp.initial)[demos.start_states])
    return jnp.where(demos.times[demos.offsets[:-1]] == 0, starts, 0) + transitions + choices


def log_policy_by_time(plan: Plan, states: Int[Any, "T M"], actions: Int[Any, "T M"]) -> Float[Array, "T M"]:
    """log π_t(a|s) of choices given by their cells, row t of those at time t; one row if the horizon is infinite."""
    log_policies = small_log_policies(plan)
    if log_policies is not None:
        return log_policies[np.arange(len(log_policies))[:, None], np.asarray(actions), np.asarray(states)]
    if plan.mdp.horizon is None:
        return _choose(plan, plan.value, states, actions)
    return _by_time(plan, jnp.asarray(states, jnp.int32), jnp.asarray(actions, jnp.int32))


def log_policy_of_choices(plan: Plan, demos: Demonstrations) -> Float[Array, " n"]:
    """log π_t(a|s) of each observed choice, one time step at a time, so that T·S·A is never built."""
    cells = plan.mdp.rows.cells(demos.tabular_states, demos.actions)
    log_policies = small_log_policies(plan)
    if log_policies is not None:
        times = 0 if plan.mdp.horizon is None else demos.times
        return log_policies[times, np.asarray(cells[1]), np.asarray(cells[0])]
    if plan.mdp.horizon is None:
        found, rows = _choose(plan, plan.value, *padded(*cells)), slice(demos.num_steps)
    else:
        # An episode has at most one choice at each time, so rows fit a grid [T, N]; empty places point at row 0.
        grid = np.zeros((plan.mdp.horizon, rounded_up(demos.num_episodes)), np.int64)
        grid[demos.times, demos.episode] = np.arange(demos.num_steps)
        states, actions = (array[grid] for array in cells)
        found, rows = _by_time(plan, states, actions), (demos.times, demos.episode)
    # Selected on the host where it can be: by JAX, this would be compiled for each number of rows.
    return found[rows] if is_traced(found) else np.asarray(found)[rows]


@jax.jit
def _by_time(plan: Plan, states: Int[Array, "T N"], actions: Int[Array, "T N"]) -> Float[Array, "T N"]:
    return jax.lax.map(lambda at: _choose(plan, *at), (plan.next_value(), states, actions))


@jax.jit
def _choose(
    plan: Plan, next_value: Float[Array, " S"], states: Int[Any, "*n"], actions: Int[Any, "*n"]
) -> Float[Array, "*n"]:
    return plan.backup.log_policy(plan.backup.q(next_value))[actions, states]


def _by_episode(mdp: MDP, plan: Plan, demos: Demonstrations, discounted: bool) -> Float[Array, " N"]:
    demos.check(mdp)
    refuse_other_problem(mdp, plan)
    choices = log_policy_of_choices(plan, demos)
    if isinstance(choices, np.ndarray) and not is_traced(mdp):
        # By JAX a program would be compiled for every number of rows.
        share = np.ones(demos.num_steps) if demos.row_weights is None else demos.row_weights
        share = share * float(mdp.discount) ** demos.times if discounted else share
        return np.bincount(demos.episode, share * choices, demos.num_episodes)
    weight = mdp.discount ** jnp.asarray(demos.times, float) if discounted else 1.0
    if demos.row_weights is not None:
        weight = weight * jnp.asarray(demos.row_weights)
    return jnp.zeros(demos.num_episodes).at[demos.episode].add(weight * choices)
