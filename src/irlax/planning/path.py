"""The (non-causal) Maximum Entropy model of Ziebart et al. (2008), and the transitions that it assumes.

It weights each path by its probability times exp(return). Where transitions are random this credits the
agent with choosing their outcome: it seeks risk (Primer, 3.3). Two distributions go with it: `occupancy` of its
plan is that of its policy under the true transitions, `believed_occupancy` that under those which the model assumes.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from irlax.mdp import MDP, AbstractDynamics
from irlax.planning.backup import PathBackup
from irlax.planning.chain import Chain
from irlax.planning.fixed_point import Method
from irlax.planning.occupancy import refuse_other_problem
from irlax.planning.plan import Plan, action_major_policy, checked_reward, folded, plan_with
from irlax.planning.soft import TOLERANCE
from irlax.precision import exact
from irlax.typing import Array, Float


@exact
def path_plan(mdp: MDP, reward: Any, *, tol: float = TOLERANCE, method: Method = "auto") -> Plan:
    r"""The Maximum Entropy model: the causal recursion with a risk-seeking backup.

    $$Q_t(s,a) = \log\textstyle\sum_{s'} P(s'|s,a)\,e^{r(s,a,s') + \gamma V_{t+1}(s')}, \quad
      V_t(s) = \log\textstyle\sum_a e^{Q_t(s,a)}, \quad V_T = 0$$

    At γ = 1 the paths from s have probability ∝ Π P · exp(return), with norm exp V_0(s); at γ < 1 no
    such law exists, and this is the recursion that the Primer's discounted likelihood suggests. With
    deterministic dynamics it equals `soft_plan`. The arguments are those of `soft_plan`.
    """
    reward = checked_reward(mdp, reward)
    if reward.ndim < 3:
        return plan_with(PathBackup(mdp, folded(mdp, reward)), tol, method)
    zero = jnp.zeros(mdp.table_shape[::-1], reward.dtype)
    return plan_with(PathBackup(mdp, zero, mdp.align(reward)), tol, method)


@exact
def believed_occupancy(mdp: MDP, plan: Plan, *, tilt_start: bool = False) -> Float[Array, "*T R A"]:
    r"""Discounted state–action marginals under the transitions that the model assumes.

    For the path model these are $\hat P_t(s'|s,a) \propto P(s'|s,a)\,e^{r + \gamma V_{t+1}(s')}$; for the
    others the true ones, so that this equals `occupancy`. Start states are distributed as `mdp.initial`
    says. With `tilt_start` they too are weighted, by exp V_0(s), which is the law of whole paths
    (start included) in proportion to probability times exp(return).
    """
    refuse_other_problem(mdp, plan)
    return _believed(mdp, plan, tilt_start)


@functools.partial(jax.jit, static_argnums=2)
def _believed(mdp: MDP, plan: Plan, tilt_start: bool) -> Float[Array, "*T R A"]:
    if tilt_start:
        tilted = jax.nn.softmax(jnp.log(jnp.asarray(mdp.initial)) + plan.first_value)
        mdp = eqx.tree_at(lambda mdp: mdp.initial, mdp, tilted)
    if mdp.horizon is None:
        return believed_visits(mdp, plan).T
    step = functools.partial(_step, mdp, plan)
    return jax.lax.scan(lambda mass, v: step(mass, v)[:2], jnp.asarray(mdp.initial), plan.next_value())[1].swapaxes(
        1, 2
    )


def believed_visits(mdp: MDP, plan: Plan) -> Float[Array, "A R"]:
    """Believed occupancy summed over time, action-major."""
    return _summed(mdp, plan, lambda joint, _: joint)


def believed_transitions(mdp: MDP, plan: Plan) -> Float[Array, "..."]:
    """Believed discounted visits to each transition, aligned."""
    return _summed(mdp, plan, lambda joint, believed: believed.for_all_next(joint) * believed.transitions().probs)


def _summed(
    mdp: MDP, plan: Plan, gather: Callable[[Float[Array, "A R"], AbstractDynamics], Float[Array, "..."]]
) -> Float[Array, "..."]:
    initial = jnp.asarray(mdp.initial)
    if mdp.horizon is None:
        believed = plan.backup.believed_dynamics(plan.value)
        policy = action_major_policy(plan.backup, plan.value)
        chain = Chain(policy, believed, mdp.discount, mdp.terminal, mdp.rows)
        return gather(chain.occupancy(initial), believed)

    def step(carry, next_value):
        mass, total = carry
        mass, joint, believed = _step(mdp, plan, mass, next_value)
        return (mass, total + gather(joint, believed)), None

    total = jax.eval_shape(lambda: gather(*_step(mdp, plan, initial, initial)[1:]))
    start = (initial, jnp.zeros(total.shape, total.dtype))
    return jax.lax.scan(step, start, plan.next_value())[0][1]


def _step(
    mdp: MDP, plan: Plan, mass: Float[Array, " S"], next_value: Float[Array, " S"]
) -> tuple[Float[Array, " S"], Float[Array, "A R"], AbstractDynamics]:
    joint = mdp.rows.repeat(mass) * action_major_policy(plan.backup, next_value)
    believed = plan.backup.believed_dynamics(next_value)
    return mdp.discount * believed.forward(joint), joint, believed
