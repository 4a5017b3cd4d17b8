"""The result of planning: values are stored, everything else is derived on demand."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from irlax import checks
from irlax.mdp import MDP
from irlax.planning.backup import AbstractBackup
from irlax.planning.fixed_point import Method, fixed_point
from irlax.precision import exact
from irlax.typing import Array, Float, Int


class Plan(eqx.Module):
    """Values of the states, and the policy that goes with them.

    Arrays carry a leading axis T when the horizon is finite, and none when it is infinite. The values are the
    only large array kept, T·S; `q`, `log_policy` and `policy` are recomputed at T·S·A when asked for.
    """

    backup: AbstractBackup
    value: Float[Array, "*T S"]
    #: ‖value − V*‖∞ is at most this: certified for an infinite horizon; a finite one is exact up to rounding.
    error_bound: Float[Array, ""]
    #: Linear solves (Newton) or sweeps (value iteration) taken; T for a finite horizon.
    steps: Int[Array, ""]

    @property
    def mdp(self) -> MDP:
        """The MDP that was planned in."""
        return self.backup.mdp

    @property
    def q(self) -> Float[Array, "*T S A"]:
        """Q_t(s,a); −inf where the action does not exist."""
        return _derived(self, "q")

    @property
    def log_policy(self) -> Float[Array, "*T S A"]:
        """log π_t(a|s) = Q_t(s,a) − V_t(s)."""
        return _derived(self, "log_policy")

    @property
    def policy(self) -> Float[Array, "*T S A"]:
        """π_t(a|s)."""
        return _derived(self, "policy")

    def next_value(self) -> Float[Array, "*T S"]:
        """V_{t+1} for each t: zero after the last decision."""
        if self.mdp.horizon is None:
            return self.value
        return jnp.concatenate([self.value[1:], jnp.zeros_like(self.value[:1])])


def plan_with(backup: AbstractBackup, tol: float, method: Method) -> Plan:
    """Backward induction over a finite horizon, a certified fixed point over an infinite one."""
    if backup.mdp.horizon is None:
        solution = fixed_point(backup, tol, method)
        return Plan(backup, solution.value, solution.error_bound, solution.steps)
    value = backward_induction(backup)
    return Plan(backup, value, jnp.zeros((), value.dtype), jnp.asarray(backup.mdp.horizon))


@jax.jit
def backward_induction(backup: AbstractBackup) -> Float[Array, "T S"]:
    """V_t = T V_{t+1} for t = T−1..0, with V_T = 0."""

    def step(next_value, _):
        value = backup(next_value)
        return value, value

    after_the_end = jnp.zeros_like(backup.reward[0])
    return jax.lax.scan(step, after_the_end, length=backup.mdp.horizon, reverse=True)[1]


def action_major_policy(backup: AbstractBackup, next_value: Float[Array, " S"]) -> Float[Array, "A S"]:
    """π_t(a|s) as [A, S], given V_{t+1}."""
    return jnp.exp(backup.log_policy(backup.q(next_value)))


@exact
def _derived(plan: Plan, what: str) -> Float[Array, "*T S A"]:
    return _derive(plan, what)


@functools.partial(jax.jit, static_argnums=1)
def _derive(plan: Plan, what: str) -> Float[Array, "*T S A"]:
    def at(next_value: Any) -> Any:
        q = plan.backup.q(next_value)
        if what == "q":
            return q.T
        log_policy = plan.backup.log_policy(q)
        return log_policy.T if what == "log_policy" else jnp.exp(log_policy).T

    next_value = plan.next_value()
    return at(next_value) if plan.mdp.horizon is None else jax.vmap(at)(next_value)


def folded(mdp: MDP, reward: Any) -> Float[Array, "A S"]:
    """E[r(s,a,S') | s,a], action-major, from a reward over s, (s,a) or (s,a,s')."""
    reward = checked_reward(mdp, reward)
    if reward.ndim == 3:
        return mdp.dynamics.mean(mdp.dynamics.align(reward))
    return jnp.broadcast_to(reward if reward.ndim == 1 else reward.T, (mdp.num_actions, mdp.num_states))


def checked_reward(mdp: MDP, reward: Any) -> Float[Array, "..."]:
    """The reward as an array of shape [S], [S,A] or [S,A,S'], finite where it can be earned."""
    reward = checks.as_floats("reward", reward)
    full = (mdp.num_states, mdp.num_actions, mdp.num_states)
    shape = tuple(jnp.shape(reward))
    if shape not in (full[:1], full[:2], full):
        raise ValueError(
            f"`reward` must have shape (S,) = {full[:1]}, (S, A) = {full[:2]} or (S, A, S') = {full}, but has {shape}."
        )
    checks.finite("reward", reward)
    if mdp.terminal is not None:
        checks.nothing_after_the_end(reward, mdp.terminal, mdp.available)
    return jnp.asarray(reward)
