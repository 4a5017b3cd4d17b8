"""Ordinary (return-maximising) planning."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from irlax.mdp import MDP
from irlax.planning.backup import HardBackup
from irlax.planning.circles import refuse_circles, why_unbounded, without_free_circles
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
    go round in circles for nothing, it is at least 0. A circle that earns as much as it costs, or more, is an error:
    its total has no limit. Inside `jit` circles cannot be looked for: V is that of the policies that end, and +inf if
    that cannot be certified.
    """
    backup = HardBackup(mdp, folded(mdp, reward))
    if mdp.horizon is not None:
        return Plan(backup, _backward(backup), jnp.zeros((), backup.reward.dtype), jnp.asarray(mdp.horizon))
    if mdp.terminal is None or is_traced(backup):
        return _solved(backup, tol, method)
    smaller, place = without_free_circles(backup)
    try:
        plan = _solved(smaller, tol, method)
    except NoFixedPointError:
        raise ValueError(why_unbounded(smaller, place)) from None
    refuse_circles(smaller, place, np.asarray(plan.value))
    if smaller is backup:
        return plan
    assert isinstance(plan.backup, HardBackup)
    acting = HardBackup(mdp, backup.reward, plan.backup.slack)
    return Plan(acting, plan.value[place], plan.error_bound, plan.steps)


@jax.jit
def _backward(backup: HardBackup) -> Float[Array, "T S"]:
    """Backward induction on centred rewards, so that their level costs no digits."""
    centre, _ = _centre_and_unit(backup)
    periods = jnp.cumsum(backup.mdp.discount ** jnp.arange(backup.mdp.horizon, dtype=centre.dtype))[::-1]
    return backward_induction(_eased(backup, centre, 1.0)) + (centre * periods)[:, None]


def _solved(backup: HardBackup, tol: float, method: Method) -> Plan:
    centre, unit = _centre_and_unit(backup)
    eased = _eased(backup, centre, unit)
    return _restored(backup, eased, fixed_point(eased, tol, method, unit=unit), centre, unit)


@jax.jit
def _centre_and_unit(backup: HardBackup) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """What to subtract from rewards and what to divide them by, so that planning keeps its digits.

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
def _eased(backup: HardBackup, centre: Float[Array, ""], unit: Float[Array, ""] | float) -> HardBackup:
    return HardBackup(backup.mdp, (backup.reward - centre) / unit)


@jax.jit
def _restored(
    backup: HardBackup, eased: HardBackup, solution: Solution, centre: Float[Array, ""], unit: Float[Array, ""]
) -> Plan:
    """The plan with the rewards as they were."""
    value, mdp = solution.value, backup.mdp
    residual = eased(value) - value
    if mdp.terminal is None:
        level, apart = centre / (1 - mdp.discount), jnp.ptp(residual) / (1 - mdp.discount)
    else:
        level, apart = 0.0, 2 * solution.error_bound
    # Equally good actions can look as different as values can be off each other: `apart`. Near γ = 1 that is a worst
    # case which rounding never comes near, so it is limited.
    slack = jax.lax.stop_gradient(unit * jnp.minimum(apart, TIE * jnp.ptp(value)))
    restored = unit * value + level
    rounding = jnp.where(centre == 0, 0, jnp.finfo(value.dtype).eps * jnp.abs(restored).max())
    error_bound = unit * solution.error_bound + rounding
    return Plan(HardBackup(mdp, backup.reward, slack), restored, error_bound, solution.steps)
