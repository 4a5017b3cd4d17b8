"""The result of planning: values are stored, everything else is derived on demand."""

import functools
import math
from typing import Any, Literal, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.mdp import MDP
from irlax.planning.backup import AbstractBackup, SoftBackup
from irlax.planning.fixed_point import Method, fixed_point
from irlax.planning.small import small_backup
from irlax.precision import exact, is_traced, to_device, to_device_as
from irlax.tables import Summary
from irlax.typing import Array, Float, Int


class Plan(eqx.Module):
    """Values of the states, and the policy that goes with them.

    Arrays carry a leading axis T when the horizon is finite, and none when it is infinite. The values are the
    only large array kept, T·S (or, in a low-memory plan, those of every `stride`-th time, √T·S); everything else
    is recomputed when asked for.
    """

    backup: AbstractBackup
    kept: Float[Array, "*n S"]
    #: ‖value − V*‖∞ is at most this: certified for an infinite horizon; a finite one is exact up to rounding.
    error_bound: Float[Array, ""]
    #: Linear solves (Newton) or sweeps (value iteration) taken; T for a finite horizon.
    steps: Int[Array, ""]
    #: Values are kept for t = 0, stride, 2·stride, ...
    stride: int = eqx.field(static=True, default=1)

    @property
    def value(self) -> Float[Array, "*T S"]:
        """V_t(s)."""
        return self.kept if self.stride == 1 else _all_values(self)

    @property
    def first_value(self) -> Float[Array, " S"]:
        """V_0(s)."""
        return self.kept if self.mdp.horizon is None else self.kept[0]

    @property
    def mdp(self) -> MDP:
        """The MDP that was planned in."""
        return self.backup.mdp

    @property
    def q(self) -> Float[Array, "*T R A"]:
        """Q_t(s,a); −inf where the action does not exist."""
        return _derived(self, "q")

    @property
    def log_policy(self) -> Float[Array, "*T R A"]:
        """log π_t(a|s) = Q_t(s,a) − V_t(s)."""
        return _derived(self, "log_policy")

    @property
    def policy(self) -> Float[Array, "*T R A"]:
        """π_t(a|s)."""
        return _derived(self, "policy")

    def value_at(self, time: int = 0) -> Float[Array, " S"]:
        """V_t(s) at one time; without a horizon all times are alike."""
        _check_time(self, time)
        return self.first_value if time == 0 else self.value[time]

    def policy_at(self, time: int = 0) -> Float[Array, "R A"]:
        """π_t(a|s) at one time, without computing that of the others."""
        _check_time(self, time)
        if self.mdp.horizon is None:
            return _policy_before(self, self.value)
        last = time == self.mdp.horizon - 1
        return _policy_before(self, jnp.zeros_like(self.first_value) if last else self.value_at(time + 1))

    def summary(self) -> Summary:
        """The MDP, the values at the start and how accurate they are, as a table."""
        from irlax.planning.overview import plan_summary

        return plan_summary(self)

    def plot(self, *, time: int = 0, title: str = "", ax: Any = None) -> Any:
        """Values and policy at one time, as a matplotlib figure: of a gridworld, cells with arrows as long as likely.

        Where states have places it is a map of the values, and else a table of the policy's probabilities. With `ax` it
        is drawn on these axes, which are returned.
        """
        from irlax.planning.drawing import plan_picture

        return plan_picture(self, time=time, title=title, ax=ax)

    def __repr__(self) -> str:
        from irlax.planning.overview import plan_text

        return plan_text(self)

    def _repr_html_(self) -> str:
        from irlax.planning.overview import plan_html

        return plan_html(self)

    def next_value(self) -> Float[Array, "*T S"]:
        """V_{t+1} for each t: zero after the last decision."""
        if self.mdp.horizon is None:
            return self.value
        value = self.value
        # On the host where it can be: by JAX, that compiles three programs.
        arrays = np if isinstance(value, np.ndarray) else jnp
        return arrays.concatenate([value[1:], arrays.zeros_like(value[:1])])


def plan_with(
    backup: AbstractBackup,
    tol: float,
    method: Method,
    *,
    low_memory: bool = False,
    start: Float[Array, " S"] | None = None,
) -> Plan:
    """Backward induction over a finite horizon, a certified fixed point over an infinite one.

    With `low_memory` a finite horizon keeps about √T values of each state instead of T; a pass forward over time
    then computes them once more, a segment of √T at a time. `start` is a guess at the fixed point.
    """
    horizon = backup.mdp.horizon
    if horizon is None and backup.mdp.ends_at_goal:
        raise ValueError(
            "Episodes of this MDP end at goals of their own, so that it has a plan for each: use "
            "`goal_plan(mdp, reward, goals)`, or, without goals, build the MDP without `ends_at_goal`."
        )
    if horizon is None:
        solution = fixed_point(backup, tol, method, start=start)
        return Plan(backup, solution.value, solution.error_bound, solution.steps)
    stride = math.isqrt(horizon - 1) + 1 if low_memory else 1
    small = None if low_memory else small_backup(backup)
    value = backward_induction(backup, stride) if small is None else small[0].plan(small[1]).values[:-1]
    return Plan(backup, value, to_device(np.zeros((), value.dtype)), to_device(np.asarray(horizon)), stride)


@functools.partial(jax.jit, static_argnums=1)
def backward_induction(backup: AbstractBackup, stride: int = 1) -> Float[Array, "n S"]:
    """V_t = T V_{t+1} for t = T−1..0, with V_T = 0; kept are t = 0, stride, 2·stride, ..."""
    assert backup.mdp.horizon is not None

    def segment(end, start):
        value = values_in_segment(backup, start, stride, end)[0]
        return value, value

    starts = jnp.arange(0, backup.mdp.horizon, stride)
    return jax.lax.scan(segment, backup.final_value, starts, reverse=True)[1]


@jax.jit
def policies_backward(backup: SoftBackup) -> tuple[Float[Array, " S"], Float[Array, "T A R"]]:
    """V_0, and every π_t: T·A·S numbers, where there is room for them."""
    assert backup.mdp.horizon is not None
    return jax.lax.scan(
        lambda value, _: backup.choose(value), backup.final_value, length=backup.mdp.horizon, reverse=True
    )


def values_in_segment(
    backup: AbstractBackup, start: Int[Array, ""], stride: int, end_value: Float[Array, " S"]
) -> Float[Array, "stride S"]:
    """V_t for t = start..start+stride−1, given the value at the next; zero after the last decision."""
    if stride == 1:
        return backup(end_value)[None]

    def step(next_value, t):
        value = jnp.where(t < backup.mdp.horizon, backup(next_value), 0)
        return value, value

    return jax.lax.scan(step, end_value, start + jnp.arange(stride), reverse=True)[1]


@exact
def _all_values(plan: Plan) -> Float[Array, "T S"]:
    return _recomputed(plan)


@jax.jit
def _recomputed(plan: Plan) -> Float[Array, "T S"]:
    kept = jnp.asarray(plan.kept)
    ends = jnp.concatenate([kept[1:], jnp.zeros_like(kept[:1])])
    starts = jnp.arange(len(kept)) * plan.stride
    segment = functools.partial(values_in_segment, plan.backup)
    pieces = jax.lax.map(lambda at: segment(at[0], plan.stride, at[1]), (starts, ends))
    return pieces.reshape(-1, kept.shape[-1])[: plan.mdp.horizon]


def _check_time(plan: Plan, time: int) -> None:
    checks.count("time", time, 0)
    if plan.mdp.horizon is None and time:
        raise ValueError(f"Without a horizon all times are alike: leave `time` at 0, not {time}.")
    if plan.mdp.horizon is not None and time >= plan.mdp.horizon:
        raise ValueError(f"`time` must be below the horizon, {plan.mdp.horizon}, but is {time}: decisions begin at 0.")


@exact
def _policy_before(plan: Plan, next_value: Float[Array, " S"]) -> Float[Array, "R A"]:
    return _policy_of(plan.backup, next_value)


@jax.jit
def _policy_of(backup: AbstractBackup, next_value: Float[Array, " S"]) -> Float[Array, "R A"]:
    return action_major_policy(backup, next_value).T


def action_major_policy(backup: AbstractBackup, next_value: Float[Array, " S"]) -> Float[Array, "A R"]:
    """π_t(a|s) as [A, S], given V_{t+1}."""
    return jnp.exp(backup.log_policy(backup.q(next_value)))


@exact
def _derived(plan: Plan, what: str) -> Float[Array, "*T R A"]:
    tables = _small_tables(plan, "q" if what == "q" else "log_policy")
    if tables is None:
        return _derive(plan, what)
    derived = np.swapaxes(np.exp(tables) if what == "policy" else tables, 1, 2)
    return derived[0] if plan.mdp.horizon is None else derived


def small_log_policies(plan: Plan) -> Float[np.ndarray, "T A S"] | None:
    """log π_t(a|s) of a soft plan in a small MDP, computed on the host; T is 1 on an endless horizon."""
    return _small_tables(plan, "log_policy")


def _small_tables(plan: Plan, what: Literal["log_policy", "q"]) -> Float[np.ndarray, "T A S"] | None:
    small = small_backup(plan.backup)
    if small is None or is_traced(plan):
        return None
    mdp, reward = small
    of_values, value = getattr(mdp, what), np.asarray(plan.value)
    if plan.mdp.horizon is None:
        return of_values(reward, value)[None]
    after = np.concatenate([value[1:], np.zeros_like(value[:1])])
    return np.stack([of_values(reward, values) for values in after])


@functools.partial(jax.jit, static_argnums=1)
def _derive(plan: Plan, what: str) -> Float[Array, "*T R A"]:
    def at(next_value: Any) -> Any:
        q = plan.backup.q(next_value)
        if what == "q":
            return q.T
        log_policy = plan.backup.log_policy(q)
        return log_policy.T if what == "log_policy" else jnp.exp(log_policy).T

    next_value = plan.next_value()
    return at(next_value) if plan.mdp.horizon is None else jax.vmap(at)(next_value)


@runtime_checkable
class RewardFunction(Protocol):
    """A reward that is an object, as those of `irlax.rewards` are: it can be given wherever an array can."""

    def expected(self, mdp: MDP) -> Float[Array, "R A"]:
        """E[r(s,a,S') | s,a]."""
        ...

    def as_array(self, mdp: MDP) -> Float[Array, "..."]:
        """The reward over (s,a), or over (s,a,s') where it depends on s'."""
        ...


def reward_array(mdp: MDP, reward: Any) -> Any:
    """The array of a reward that is an object; any other reward as it is."""
    return reward.as_array(mdp) if isinstance(reward, RewardFunction) else reward


def folded(mdp: MDP, reward: Any) -> Float[Array, "A R"]:
    """E[r(s,a,S') | s,a], action-major, from a reward over s, (s,a) or (s,a,s')."""
    # A reward over (s,a,s') that is an object need not be written out as an array.
    reward = checked_reward(mdp, reward.expected(mdp) if isinstance(reward, RewardFunction) else reward)
    if reward.ndim == 3:
        return mdp.dynamics.mean(mdp.align(reward))
    if reward.ndim == 1 and not mdp.rows.one_per_state:
        reward = mdp.rows.repeat(jnp.asarray(reward))
    # On the host where it can be: by JAX, on its first use, that takes time to compile.
    if isinstance(reward, np.ndarray):
        return to_device_as(mdp.initial, np.broadcast_to(reward.T, mdp.table_shape[::-1]))
    return jnp.broadcast_to(reward.T, mdp.table_shape[::-1])


def checked_reward(mdp: MDP, reward: Any) -> Float[Array, "..."]:
    """The reward as an array of shape [S], [S,A] or [S,A,S'], finite where it can be earned."""
    reward = checks.as_floats("reward", reward_array(mdp, reward))
    full = (mdp.num_states, mdp.num_actions, mdp.num_states)
    shape = tuple(jnp.shape(reward))
    if shape not in (full[:1], mdp.table_shape, full):
        raise ValueError(
            f"`reward` must have shape (S,) = {full[:1]}, (S, A) = {mdp.table_shape} or (S, A, S') = {full}, but has "
            f"{shape}."
        )
    checks.finite("reward", reward)
    if mdp.terminal is not None:
        checks.zero_reward_when_absorbed(reward, mdp.terminal, mdp.available)
    return mdp.as_narrow(reward)
