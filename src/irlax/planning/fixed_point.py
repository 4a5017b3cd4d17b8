"""The stationary value V = T V of a problem without a horizon: solved, certified, and differentiated implicitly.

Two methods. *Value iteration* applies T until the span of the last change certifies the result; it costs
about log(tol)/log(γ) sweeps. *Newton's method* is soft policy iteration, V ← V + (I − γP_π)⁻¹(TV − V): one
linear solve a step, and a handful of steps at any γ, because T is convex and monotone.

The certificate for γ < 1 is MacQueen's (1966): T is monotone and T(V + c) = TV + γc, so V* lies within
TV + γ/(1−γ)·[min(TV − V), max(TV − V)]. At γ = 1 it is an interval [V − εw, V + εw] that T maps into itself,
with w the expected number of steps to the end: inside it a fixed point exists.
"""

import functools
import math
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax import checks
from irlax.planning.backup import AbstractBackup, HardBackup
from irlax.planning.chain import DENSE_LIMIT, KRYLOV_TOLERANCE, Chain
from irlax.planning.small import MAX_NEWTON_STEPS, ROUNDING, small_backup
from irlax.precision import is_traced, to_host
from irlax.typing import Array, Float, Int, Scalar
from irlax.user_warnings import warn_user

Method = Literal["auto", "newton", "value-iteration"]
METHODS = ("auto", "newton", "value-iteration")

MAX_SWEEPS = 1_000_000
#: Relative residual of the linear solve of a Newton step on large problems, in units of 1 − γ, because smooth residuals
#: are magnified by up to 1/(1 − γ): a higher accuracy would be lost with the next step.
INEXACT = 0.1
#: Sweeps of value iteration in place of a Newton step that did not help.
FALLBACK_SWEEPS = 50
#: Only with residuals this small, relative to the values, is the longest way to the end computed for a certificate.
NEARLY_SOLVED = 1e-6


class Settings(NamedTuple):
    """How to solve: all static."""

    tol: float
    method: Method


class Solution(eqx.Module):
    """A certified fixed point: ‖value − V*‖∞ ≤ error_bound."""

    value: Float[Array, " S"]
    error_bound: Float[Array, ""]
    #: Newton steps (linear solves, or fifty sweeps in place of one), or sweeps of value iteration.
    steps: Int[Array, ""]


class NoFixedPointError(ValueError):
    """At γ = 1 the values grow without bound."""


def fixed_point(
    backup: AbstractBackup,
    tol: float,
    method: Method,
    *,
    start: Float[Array, " S"] | None = None,
    unit: Scalar = 1.0,
) -> Solution:
    """Solve V = T V to ‖V − V*‖∞ ≤ tol·max(1, ‖V‖∞), or to the rounding floor where that is higher.

    `start` is a guess, such as the solution of a similar problem. At γ < 1 any guess leads to the solution; at γ = 1
    one whose greedy policy never ends would not, so `start` is not used. `unit` is what a reward of 1 stands for, where
    the caller has scaled rewards: warnings are in the user's units.
    """
    checks.one_of("method", method, METHODS)
    settings = Settings(checks.positive("tol", tol), _chosen_method(backup, tol, method))
    usable = start is not None and backup.mdp.terminal is None
    small = None if method == "value-iteration" else small_backup(backup)
    if small is None:
        solution = Solution(*_solve(settings, backup, start if usable else None))
    else:
        mdp, reward = small
        plan = mdp.plan(reward, None if start is None else np.asarray(start), tol)
        solution = Solution(plan.values[0], np.asarray(plan.error_bound), np.asarray(plan.steps))
    if not is_traced(solution):
        _warn(solution, backup, settings, float(unit))
    return solution


def _chosen_method(backup: AbstractBackup, tol: float, method: Method) -> Method:
    """Newton, unless so few sweeps are needed that they cost less than its linear solves."""
    discount = backup.mdp.discount
    if method != "auto":
        if method == "value-iteration" and backup.mdp.terminal is not None:
            raise ValueError("`method='value-iteration'` has no error bound at discount = 1. Use 'newton' or 'auto'.")
        return method
    if backup.mdp.terminal is not None or is_traced(discount):
        return "newton"
    sweeps = np.log(tol * max(1 - discount, 1e-300)) / np.log(discount) if 0 < discount < 1 else 1
    if backup.mdp.num_states > DENSE_LIMIT:
        return "value-iteration" if sweeps <= 150 else "newton"
    # A dense factorisation against sweeps over what is stored: they break even at about S³/6 stored entries.
    stored = math.prod(backup.mdp.dynamics.aligned_shape)
    return "value-iteration" if sweeps <= max(100, backup.mdp.num_states**3 / (6 * stored)) else "newton"


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solve(settings: Settings, backup: AbstractBackup, guess: Float[Array, " S"] | None) -> tuple:
    solution = _solved(settings, backup, guess)
    return solution.value, solution.error_bound, solution.steps


@_solve.defjvp
def _implicit(settings: Settings, primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    r"""dV = (I − γP_π)⁻¹ ∂T, the implicit function theorem; derivatives of any order follow from it."""
    (backup, guess), (backup_dot, _) = primals, tangents
    value, error_bound, steps = _solve(settings, backup, guess)
    _, change = jax.jvp(lambda backup: backup(value), (backup,), (backup_dot,))
    value_dot = chain_at(backup, value).solve_values(change)
    no_change = np.zeros(jnp.shape(steps), jax.dtypes.float0)
    return (value, error_bound, steps), (value_dot, jnp.zeros_like(error_bound), no_change)


def chain_at(backup: AbstractBackup, value: Float[Array, " S"]) -> Chain:
    """The chain whose discounted matrix is the derivative of the backup at `value`."""
    policy = jnp.exp(backup.log_policy(backup.q(value)))
    mdp = backup.mdp
    return Chain(policy, backup.believed_dynamics(value), mdp.discount, mdp.terminal, mdp.rows)


@functools.partial(jax.jit, static_argnums=0)
def _solved(settings: Settings, backup: AbstractBackup, guess: Float[Array, " S"] | None) -> Solution:
    start = backup.final_value if backup.mdp.terminal is None else _proper_start(backup)
    if guess is not None:
        start = jnp.where(jnp.isfinite(guess).all(), guess, start)
    certify = _certified if backup.mdp.terminal is None else _certified_undiscounted
    newton = settings.method == "newton"
    limit = MAX_NEWTON_STEPS if newton else MAX_SWEEPS

    class State(NamedTuple):
        value: Array
        candidate: Array
        bound: Array
        floor: Array
        bound_before: Array
        residual: Array
        steps: Array
        #: The policy at `value`, where the certificate solves a large system with it. Computed once more for the next
        #: step it would differ by rounding, and the factors that are kept would not be found.
        policy: Array | None

    large, undiscounted = backup.mdp.num_states > DENSE_LIMIT, backup.mdp.terminal is not None

    def assess(value, bound_before, steps):
        after = backup(value)
        chain = chain_at(backup, value)
        policy = chain.policy if large and undiscounted else None
        return State(value, *certify(backup, value, after, chain), bound_before, after - value, steps, policy)

    def unfinished(state):
        scale = jnp.maximum(1, jnp.abs(state.candidate).max())
        done = state.bound <= jnp.maximum(settings.tol * scale, 2 * state.floor)
        if newton:
            # Convergence is quadratic: one more step gives the precision that differences of values need at γ → 1.
            done &= state.bound > state.bound_before / 4
        return ~done & (state.steps < limit) & jnp.isfinite(state.residual).all()

    def swept(state, sweeps):
        value = jax.lax.fori_loop(0, sweeps, lambda _, value: backup(value), state.value)
        return assess(value, state.bound, state.steps + 1)

    def advance(state):
        if not newton:
            return assess(state.value + state.residual, state.bound, state.steps + 1)
        chain = chain_at(backup, state.value)
        if not large:
            return assess(state.value + chain.solve_values(state.residual), state.bound, state.steps + 1)
        if state.policy is not None:
            chain = eqx.tree_at(lambda chain: chain.policy, chain, state.policy)
        tol = KRYLOV_TOLERANCE if undiscounted else INEXACT * (1 - backup.mdp.discount)
        move = chain.solve_values(state.residual, tol)
        # An iterative solve can break down; sweeps cannot.
        left = jnp.linalg.norm(move - chain.backward(move) - state.residual)
        solved = left <= 0.5 * jnp.linalg.norm(state.residual)
        return jax.lax.cond(
            solved,
            lambda: assess(state.value + move, state.bound, state.steps + 1),
            lambda: swept(state, FALLBACK_SWEEPS),
        )

    end = jax.lax.while_loop(unfinished, advance, assess(start, jnp.full_like(start[0], jnp.inf), jnp.asarray(0)))
    broken = ~jnp.isfinite(end.bound)
    return Solution(jnp.where(broken, jnp.inf, end.candidate), jnp.where(broken, jnp.inf, end.bound), end.steps)


def _proper_start(backup: AbstractBackup) -> Float[Array, " S"]:
    """The value of the uniform policy, which is proper; the greedy policy for V = 0 may never end."""
    mdp, rows = backup.mdp, backup.mdp.rows
    gain = backup.q(backup.final_value)
    exists = jnp.isfinite(gain)
    uniform = exists.astype(gain.dtype) / rows.repeat(rows.sum(exists.sum(axis=0)))
    mean = rows.sum((uniform * jnp.where(exists, gain, 0)).sum(axis=0))
    chain = Chain(uniform, mdp.dynamics, mdp.discount, mdp.terminal, rows)
    return chain.solve_values(mean if mdp.terminal is None else jnp.where(mdp.terminal, 0, mean))


def _certified(
    backup: AbstractBackup, value: Float[Array, " S"], after: Float[Array, " S"], _: Chain
) -> tuple[Float[Array, " S"], Float[Array, ""], Float[Array, ""]]:
    """The middle of MacQueen's interval, half its width with what rounding can have added, and that part alone."""
    discount = backup.mdp.discount
    low, high = (after - value).min(), (after - value).max()
    reach = discount / (1 - discount)
    rounding = ROUNDING * jnp.finfo(value.dtype).eps * jnp.abs(value).max() / (1 - discount)
    return after + reach * (low + high) / 2, reach * (high - low) / 2 + rounding, rounding


def _certified_undiscounted(
    backup: AbstractBackup, value: Float[Array, " S"], after: Float[Array, " S"], chain: Chain
) -> tuple[Float[Array, " S"], Float[Array, ""], Float[Array, ""]]:
    """`value` and ε·max(w), if T maps [value − εw, value + εw] into itself, else an infinite bound.

    From below this holds by convexity as soon as |TV − V| ≤ ε; from above it is checked.
    """
    steps_to_end = chain.solve_values(jnp.ones_like(value))
    scale = jnp.maximum(1, jnp.abs(value).max())
    rounding = ROUNDING * jnp.finfo(value.dtype).eps * scale
    epsilon = 2 * jnp.abs(after - value).max() + 2 * rounding

    def is_inside(steps_to_end):
        above = value + epsilon * steps_to_end
        return (backup(above) <= above).all() & (steps_to_end >= 1 - 1e-6).all()

    if isinstance(backup, HardBackup):
        # Of equally good ways to the end w must count the longest; that of the shared policy is their mean.
        worthwhile = ~is_inside(steps_to_end) & (epsilon <= NEARLY_SOLVED * scale)
        longest_way = functools.partial(_longest_way, backup, value, epsilon)
        steps_to_end = jax.lax.cond(worthwhile, longest_way, lambda steps: steps, steps_to_end)
    longest = steps_to_end.max()
    # An interval wider than the values certifies nothing: a cycle that does not lose is like a very long way.
    certified = is_inside(steps_to_end) & (epsilon * longest <= scale)
    return value, jnp.where(certified, epsilon * longest, jnp.inf), 2 * rounding * longest


def _longest_way(
    backup: HardBackup, value: Float[Array, " S"], epsilon: Float[Array, ""], steps_to_end: Float[Array, " S"]
) -> Float[Array, " S"]:
    """The most steps to the end that any choice among the best actions can take, by policy iteration from a guess."""
    close = HardBackup(backup.mdp, backup.reward, 4 * epsilon * steps_to_end.max())
    among_best = jnp.isfinite(close.log_policy(close.q(value)))
    mdp = eqx.tree_at(lambda mdp: mdp.mask, backup.mdp, among_best, is_leaf=lambda node: node is None)
    steps = HardBackup(mdp, jnp.ones_like(backup.reward))

    def longer(state):
        _, now, tried = state
        return now, now + chain_at(steps, now).solve_values(steps(now) - now), tried + 1

    def unfinished(state):
        before, now, tried = state
        return jnp.isfinite(now).all() & (now > before * (1 + 1e-9)).any() & (tried < MAX_NEWTON_STEPS)

    # As a problem of its own it counts from the end, which is worth 0; here the end counts as one step.
    now = steps_to_end - 1
    return 1 + jax.lax.while_loop(unfinished, longer, (jnp.full_like(now, -1), now, jnp.asarray(0)))[1]


def _warn(solution: Solution, backup: AbstractBackup, settings: Settings, unit: float) -> None:
    bound, steps = float(solution.error_bound), int(solution.steps)
    if not np.isfinite(bound):
        if backup.mdp.terminal is None:
            raise ValueError("The value has no finite solution: rewards this large overflow. Rescale them.")
        raise NoFixedPointError(
            "The soft fixed point does not exist: at discount = 1 the reward and the entropy of some cycle "
            "outweigh the way to the end, so values grow without bound "
            f"(no solution that float64 can certify after {steps} Newton steps). Lower the rewards, give a horizon, or "
            "discount."
        )
    wanted = settings.tol * max(1.0, float(abs(to_host(solution.value)).max()))
    if bound > wanted:
        warn_user(
            f"Values are certified to ±{bound * unit:.2g} only, not to the ±{wanted * unit:.2g} asked for: that is the "
            f"rounding floor of so long-lived a problem, or the limit of {steps} steps."
        )
