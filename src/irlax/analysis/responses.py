"""∂log π/∂θ: how a policy answers to the parameters of the reward, time step by time step."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.mdp import MDP
from irlax.planning.chain import Chain
from irlax.planning.plan import Plan, action_major_policy
from irlax.planning.small import SmallPlan
from irlax.rewards import AbstractReward
from irlax.rewards.small import SmallFeatures, small_features
from irlax.typing import Array, Float


class Responses(NamedTuple):
    """∂log π/∂θ of an MDP and a plan."""

    #: ∂E[r(s,a,S')]/∂θ.
    by_parameter: Float[np.ndarray, "A R K"]
    #: [R, A, K] of each time step, from the last to the first.
    backwards: Callable[[], Iterator[Float[np.ndarray, "R A K"]]]


def responses_of(mdp: MDP, plan: Plan, reward: AbstractReward) -> Responses:
    """How the policy of a plan answers to each parameter of a reward that is bound to the MDP."""
    folded = reward.fold(mdp)
    small = small_features(mdp, folded, reward.num_parameters)
    if small is not None:
        return Responses(small.features, lambda: _small_responses(small, plan))
    by_parameter = _jacobian(folded, reward.parameters)
    return Responses(np.asarray(by_parameter), lambda: _large_responses(mdp, plan, by_parameter))


def _small_responses(small: SmallFeatures, plan: Plan) -> Iterator[Float[np.ndarray, "R A K"]]:
    log_policies = np.swapaxes(np.asarray(plan.log_policy), -1, -2).reshape(small.mdp.periods, *small.known.shape)
    tangents = SmallPlan(small.mdp, np.asarray(plan.value), log_policies, 0.0, 0).tangents(small.features)
    for log_policy, tangent in zip(log_policies[::-1], tangents[::-1], strict=True):
        yield np.swapaxes(tangent - np.einsum("as,ask->sk", np.exp(log_policy), tangent), 0, 1)


def _large_responses(mdp: MDP, plan: Plan, by_parameter: Float[Array, "A R K"]) -> Iterator[Float[np.ndarray, "R A K"]]:
    """One time step is in memory at once: T·S·A·K numbers would be too many."""
    values, policies = plan.value, (None if mdp.horizon is None else plan.next_value())
    after_the_end = np.zeros((mdp.num_states, by_parameter.shape[-1]), by_parameter.dtype)
    slope = _stationary_slope(mdp, plan, by_parameter) if policies is None else after_the_end
    for t in reversed(range(1 if mdp.horizon is None else mdp.horizon)):
        next_value = values if policies is None else policies[t]
        value_slope, response = _response(mdp, plan, next_value, slope, by_parameter)
        yield np.asarray(response)
        if mdp.horizon is not None:
            slope = value_slope


@eqx.filter_jit
def _jacobian(folded: Any, parameters: Any) -> Float[Array, "A R K"]:
    """∂E[r(s,a,S')]/∂θ."""
    tree = jax.jacfwd(folded)(parameters)
    leaves = [jnp.asarray(leaf).reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(tree)]
    return jnp.concatenate(leaves, axis=-1)


@jax.jit
def _response(
    mdp: MDP,
    plan: Plan,
    next_value: Float[Array, " S"],
    next_slope: Float[Array, "S K"],
    by_parameter: Float[Array, "A R K"],
) -> tuple[Float[Array, "S K"], Float[Array, "R A K"]]:
    """∂V_t and ∂log π_t(a|s) = ∂Q_t − ∂V_t, given ∂V_{t+1}."""
    policy = action_major_policy(plan.backup, next_value)
    ahead = jax.vmap(mdp.dynamics.backward, in_axes=-1, out_axes=-1)(next_slope)
    q_slope = by_parameter + mdp.discount * ahead
    value_slope = mdp.rows.sum((policy[..., None] * q_slope).sum(axis=0))
    return value_slope, jnp.swapaxes(q_slope - mdp.rows.repeat(value_slope), 0, 1)


@jax.jit
def _stationary_slope(mdp: MDP, plan: Plan, by_parameter: Float[Array, "A R K"]) -> Float[Array, "S K"]:
    """∂V, the value of the reward ∂r under π."""
    policy = action_major_policy(plan.backup, jnp.asarray(plan.value))
    chain = Chain(policy, mdp.dynamics, mdp.discount, mdp.terminal, mdp.rows)
    gain = mdp.rows.sum((policy[..., None] * by_parameter).sum(axis=0))
    return jax.vmap(chain.solve_values, in_axes=-1, out_axes=-1)(gain)
