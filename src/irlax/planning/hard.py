"""Ordinary (return-maximising) planning."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from irlax.mdp import MDP
from irlax.planning.backup import HardBackup
from irlax.planning.cycles import merge_free_cycles, refuse_cycles, unbounded_message
from irlax.planning.fixed_point import Method, NoFixedPointError, Solution, fixed_point
from irlax.planning.plan import Plan, backward_induction, folded
from irlax.planning.soft import TOLERANCE
from irlax.precision import exact, is_traced
from irlax.typing import Array, Float

#: On infinite horizons, actions this close to the best, relative to the range of values, may count as equally good.
TIE = 1e-9


@exact
def hard_plan(mdp: MDP, reward: Any, *, tol: float = TOLERANCE, method: Method = "auto") -> Plan:
    r"""The policy that maximises return: V_t(s) = max_a Q_t(s,a).

    Actions that are equally good, as far as values are known, share the policy equally. The arguments are those of
    `soft_plan`; on an infinite horizon "newton" is Howard's policy iteration.

    At γ = 1 with no horizon, V is the largest total reward of all policies, also of those that never end: where one can
    stay in a cycle of zero reward, it is at least 0. A cycle that earns as much as it costs, or more, is an error: its
    total has no limit. Inside `jit` cycles cannot be searched for: V is that of the policies that end, and +inf if that
    cannot be certified.
    """
    backup = HardBackup(mdp, folded(mdp, reward))
    if mdp.horizon is not None:
        return Plan(backup, _backward(backup), jnp.zeros((), backup.reward.dtype), jnp.asarray(mdp.horizon))
    if mdp.terminal is None or is_traced(backup):
        return _solved(backup, tol, method)
    smaller, new_state = merge_free_cycles(backup)
    try:
        plan = _solved(smaller, tol, method)
    except NoFixedPointError:
        raise ValueError(unbounded_message(smaller, new_state)) from None
    refuse_cycles(smaller, new_state, np.asarray(plan.value))
    if smaller is backup:
        return plan
    assert isinstance(plan.backup, HardBackup)
    with_slack = HardBackup(mdp, backup.reward, plan.backup.slack)
    return Plan(with_slack, plan.value[new_state], plan.error_bound, plan.steps)


@jax.jit
def _backward(backup: HardBackup) -> Float[Array, "T S"]:
    """Backward induction on centred rewards, so that a large common level costs no precision."""
    centre, _ = _centre_and_unit(backup)
    periods = jnp.cumsum(backup.mdp.discount ** jnp.arange(backup.mdp.horizon, dtype=centre.dtype))[::-1]
    return backward_induction(_rescaled(backup, centre, 1.0)) + (centre * periods)[:, None]


def _solved(backup: HardBackup, tol: float, method: Method) -> Plan:
    centre, unit = _centre_and_unit(backup)
    rescaled = _rescaled(backup, centre, unit)
    return _restored(backup, rescaled, fixed_point(rescaled, tol, method, unit=unit), centre, unit)


@jax.jit
def _centre_and_unit(backup: HardBackup) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """What to subtract from rewards and what to divide them by, so that planning loses no precision.

    The middle of the rewards is subtracted if they all lie far to one side of zero: then values are smaller without it.
    Small rewards are divided by a power of two, because values below 1 are solved for to an absolute error.
    """
    reward = jax.lax.stop_gradient(backup.reward)
    exists = True if backup.mdp.mask is None else backup.mdp.mask
    low, high = jnp.where(exists, reward, jnp.inf).min(), jnp.where(exists, reward, -jnp.inf).max()
    # Without a discount or a horizon there is no level: what is earned after the end is 0.
    far = (jnp.abs(low + high) > 2 * (high - low)) & (backup.mdp.terminal is None)
    centre = jnp.where(far, (low + high) / 2, 0)
    largest = jnp.maximum(high - centre, centre - low)
    return centre, jnp.ldexp(jnp.ones_like(low), jnp.minimum(jnp.frexp(largest)[1], 0))


@jax.jit
def _rescaled(backup: HardBackup, centre: Float[Array, ""], unit: Float[Array, ""] | float) -> HardBackup:
    return HardBackup(backup.mdp, (backup.reward - centre) / unit)


@jax.jit
def _restored(
    backup: HardBackup, rescaled: HardBackup, solution: Solution, centre: Float[Array, ""], unit: Float[Array, ""]
) -> Plan:
    """The plan with the rewards as they were."""
    value, mdp = solution.value, backup.mdp
    residual = rescaled(value) - value
    if mdp.terminal is None:
        level, apart = centre / (1 - mdp.discount), jnp.ptp(residual) / (1 - mdp.discount)
    else:
        level, apart = 0.0, 2 * solution.error_bound
    # Computed values of equally good actions can differ by `apart`, the width of the error bound. Near γ = 1 that is a
    # worst case far above what rounding does, so it is limited.
    slack = jax.lax.stop_gradient(unit * jnp.minimum(apart, TIE * jnp.ptp(value)))
    restored = unit * value + level
    rounding = jnp.where(centre == 0, 0, jnp.finfo(value.dtype).eps * jnp.abs(restored).max())
    error_bound = unit * solution.error_bound + rounding
    return Plan(HardBackup(mdp, backup.reward, slack), restored, error_bound, solution.steps)
