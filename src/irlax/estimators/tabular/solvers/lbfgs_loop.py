"""Limited-memory BFGS (Nocedal 1980) as one compiled loop, so that small problems are not slowed by the host.

A chunk of iterations runs on the device and returns its history. `advance` is a pure function, so that `vmap` can map
it over a batch of problems.

Not Optax's `lbfgs`, because its line search minimises a function of x alone: it cannot hand the values of one
evaluation to the next as a warm start. On an infinite horizon (100 states, γ = .95, 100 parameters) both take the same
number of iterations, 67 and 68 to a gradient of 1e-8, but Optax takes twice the time.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from irlax.typing import Array, Bool, Float, Int, Scalar

#: The most evaluations in one line search; each halves or doubles the step.
MAX_TRIALS = 40
#: The constants of the weak Wolfe conditions: sufficient decrease, and curvature.
DECREASE, CURVATURE = 1e-4, 0.9

#: (x, warm_start) ↦ ((loss, warm_start), gradient), where the warm start of one evaluation speeds up the next.
Loss = Callable[[Float[Array, " K"], Any], tuple[tuple[Float[Array, ""], Any], Float[Array, " K"]]]


class State(eqx.Module):
    """The current point, and the last steps with the changes of the gradient along them, the newest in row −1."""

    x: Float[Array, " K"]
    loss: Float[Array, ""]
    gradient: Float[Array, " K"]
    #: −H⁻¹∇ with the approximate Hessian of these pairs: the direction of the next line search.
    quasi_newton_step: Float[Array, " K"]
    steps: Float[Array, "pairs K"]
    changes: Float[Array, "pairs K"]
    #: The number of accepted points, the start included.
    count: Int[Array, ""]
    #: Whether the last line search failed.
    stalled: Bool[Array, ""]
    #: The warm start of the next evaluation.
    warm_start: Any

    @classmethod
    def at(cls, x: Float[Array, " K"], pairs: int, warm_start: Any) -> "State":
        """The state before x is evaluated; the first step evaluates it, so that the loss is compiled only once."""
        # By NumPy, since the first use of each operation on a device compiles it. With the dtypes that the loop
        # returns, or the loop would be compiled again for its own result.
        no_pairs, zeros = np.zeros((pairs, len(x)), x.dtype), np.zeros(len(x), x.dtype)
        infinite, count = np.asarray(np.inf, x.dtype), np.zeros((), int)
        return cls(x, infinite, zeros, zeros, no_pairs, no_pairs, count, np.asarray(False), warm_start)


class Chunk(NamedTuple):
    """The state after some iterations, and the point, loss and gradient of each."""

    state: State
    parameters: Float[Array, "length K"]
    losses: Float[Array, " length"]
    gradients: Float[Array, "length K"]


def advance(
    value_and_gradient: Loss,
    size: Callable[[Float[Array, " K"]], Float[Array, ""]],
    state: State,
    *,
    limit: Int[Array, ""] | int,
    tol: Scalar,
    length: int,
    rounding: float,
) -> Chunk:
    """At most `limit` iterations (the first `length` are recorded), until the gradient's `size` is within `tol`.

    Differences of the loss below its share `rounding` are rounding errors.
    """
    first = state.count

    def unfinished(chunk):
        state = chunk.state
        converged = (state.count > 0) & (size(state.gradient) <= tol)
        return (state.count - first < limit) & ~state.stalled & ~converged

    def iterate(chunk):
        state = _take_step(value_and_gradient, chunk.state, rounding)
        row = jnp.where(state.stalled, length, state.count - 1 - first)

        def record(rows, entry):
            return rows.at[row].set(entry, mode="drop")

        return Chunk(
            state,
            record(chunk.parameters, state.x),
            record(chunk.losses, state.loss),
            record(chunk.gradients, state.gradient),
        )

    empty = jnp.zeros((length, len(state.x)), state.x.dtype)
    return jax.lax.while_loop(unfinished, iterate, Chunk(state, empty, jnp.zeros(length, state.x.dtype), empty))


def _take_step(value_and_gradient: Loss, state: State, rounding: float) -> State:
    """The state after one line search."""
    # A direction that does not descend comes from a bad approximation: take the gradient instead.
    descends = state.quasi_newton_step @ state.gradient < 0
    direction = jnp.where(descends, state.quasi_newton_step, -state.gradient)
    first = jnp.where(state.count <= 1, 1 / jnp.maximum(1, jnp.linalg.norm(state.gradient)), 1.0)
    end = _line_search(value_and_gradient, state, direction, first, rounding)
    found = end.found
    x, loss, gradient = (
        jnp.where(found, new, old)
        for new, old in ((end.x, state.x), (end.loss, state.loss), (end.gradient, state.gradient))
    )
    step, change = x - state.x, gradient - state.gradient
    curved = found & (state.count > 0) & (step @ change > 1e-10 * jnp.linalg.norm(step) * jnp.linalg.norm(change))

    def appended(rows, row):
        return jnp.where(curved, jnp.concatenate([rows[1:], row[None]]), rows)

    steps, changes = appended(state.steps, step), appended(state.changes, change)
    next_step = -_inverse_hessian_times(steps, changes, gradient)
    return State(x, loss, gradient, next_step, steps, changes, state.count + found, ~found, end.warm_start)


def _inverse_hessian_times(
    steps: Float[Array, "pairs K"], changes: Float[Array, "pairs K"], vector: Float[Array, " K"]
) -> Float[Array, " K"]:
    """H⁻¹v by the two-loop recursion; rows that are not yet filled are zero and have no effect."""
    products = (steps * changes).sum(axis=1)
    inverse = jnp.where(products > 0, 1 / jnp.where(products > 0, products, 1), 0)
    pairs = len(inverse)

    def newest_first(i, carry):
        vector, weights = carry
        row = pairs - 1 - i
        weight = inverse[row] * (steps[row] @ vector)
        return vector - weight * changes[row], weights.at[row].set(weight)

    vector, weights = jax.lax.fori_loop(0, pairs, newest_first, (vector, jnp.zeros_like(inverse)))
    latest = (changes[-1] ** 2).sum()
    vector = vector * jnp.where(latest > 0, products[-1] / jnp.where(latest > 0, latest, 1), 1)

    def oldest_first(row, vector):
        return vector + steps[row] * (weights[row] - inverse[row] * (changes[row] @ vector))

    return jax.lax.fori_loop(0, pairs, oldest_first, vector)


class _Trial(NamedTuple):
    """A point on the line, and the interval that contains an acceptable one."""

    length: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]
    x: Float[Array, " K"]
    loss: Float[Array, ""]
    gradient: Float[Array, " K"]
    warm_start: Any
    attempts: Int[Array, ""]
    found: Bool[Array, ""]


def _line_search(
    value_and_gradient: Loss, state: State, direction: Float[Array, " K"], first: Float[Array, ""], rounding: float
) -> _Trial:
    """A step that satisfies the weak Wolfe conditions, by bisection and doubling (Lewis and Overton 2013).

    Where the decrease is below the rounding of the loss, the slope decides (Hager and Zhang 2005).
    """
    slope = state.gradient @ direction
    at_start = state.count == 0
    resolution = rounding * jnp.maximum(1, jnp.abs(state.loss))

    def unfinished(trial):
        return ~trial.found & (trial.attempts < MAX_TRIALS)

    def attempt(trial):
        x = state.x + trial.length * direction
        (loss, warm_start), gradient = value_and_gradient(x, trial.warm_start)
        new_slope = gradient @ direction
        falls = loss <= state.loss + DECREASE * trial.length * slope
        falls_by_slope = (loss <= state.loss + resolution) & (new_slope <= (2 * DECREASE - 1) * slope)
        # At the start there is nothing to compare with, and the direction is zero.
        low_enough = (falls | falls_by_slope | at_start) & jnp.isfinite(loss) & jnp.isfinite(gradient).all()
        flat_enough = (new_slope >= CURVATURE * slope) | at_start
        low = jnp.where(low_enough, trial.length, trial.low)
        high = jnp.where(low_enough, trial.high, trial.length)
        length = jnp.where(jnp.isfinite(high), (low + high) / 2, 2 * low)
        return _Trial(length, low, high, x, loss, gradient, warm_start, trial.attempts + 1, low_enough & flat_enough)

    low, high = jnp.zeros_like(first), jnp.full_like(first, jnp.inf)
    start = _Trial(
        first,
        low,
        high,
        state.x,
        state.loss,
        state.gradient,
        state.warm_start,
        jnp.zeros((), int),
        jnp.asarray(False),
    )
    return jax.lax.while_loop(unfinished, attempt, start)
